"""A stream of messages that can be followed, and taken up again where it broke off."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Optional

from ._rpc import Message


class EventLog:
    """The messages of one event stream, in order. Any thread may append, one at a time follows.

    Args:
        name: Goes into the event ids, which are ``<name>_<number>``.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        # Guards everything below; the follower waits on it.
        self.changed = threading.Condition()
        self.messages: list[Message] = []
        self.finished = False
        self.delivered = 0
        self.follower: Optional[Follower] = None

    def append(self, message: Message) -> str:
        """Add a message and return its event id."""
        with self.changed:
            self.messages.append(message)
            self.changed.notify_all()
            return f"{self.name}_{len(self.messages)}"

    def finish(self) -> None:
        """Note that nothing more will come."""
        with self.changed:
            self.finished = True
            self.changed.notify_all()

    def follow(self, start: Optional[int] = None) -> Follower:
        """Begin to follow; whoever did so before ends.

        Args:
            start: How many messages to leave out, default: those that were delivered already.
        """
        with self.changed:
            self.follower = Follower(self, self.delivered if start is None else start)
            self.changed.notify_all()
            return self.follower


class Follower:
    """Yields event ids and messages; waits for more until the log is finished or somebody else follows."""

    def __init__(self, log: EventLog, position: int) -> None:
        self._log = log
        self._position = position

    def __iter__(self) -> Iterator[tuple[str, Message]]:
        log = self._log
        while True:
            with log.changed:
                while self._waits():
                    log.changed.wait()
                if log.follower is not self or self._position >= len(log.messages):
                    return
                message = log.messages[self._position]
                self._position += 1
                log.delivered = max(log.delivered, self._position)
            yield f"{log.name}_{self._position}", message

    def _waits(self) -> bool:
        log = self._log
        return self._position >= len(log.messages) and not log.finished and log.follower is self

    def release(self) -> None:
        """End this follower; what comes later waits for the next one."""
        with self._log.changed:
            if self._log.follower is self:
                self._log.follower = None
                self._log.changed.notify_all()
