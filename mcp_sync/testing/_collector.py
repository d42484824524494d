"""Keeps what a server sends unasked."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from typing import Any, Callable, Union

Kind = Union[str, type, Callable[[Any], Any]]

_PREFIX = "notifications/"


class NotificationCollector:
    """A ``message_handler`` that keeps every notification, server request and fault that it gets.

    ::

        seen = NotificationCollector()
        with Client(url, message_handler=seen) as client:
            client.call_tool("import", {"file": "a.csv"})
            seen.wait_for("tools/list_changed")
        assert [message.params.data for message in seen.of("message")] == ["imported"]

    A kind is a method (``"notifications/message"``, or ``"message"`` for short), a class of
    `mcp_sync.types` or of an exception, or a function that says of a message whether it is one.

    Any number of threads may use it, and several clients share it.

    Args:
        limit: How many messages it keeps; then the oldest go.

    Attributes:
        dropped: How many have gone.

    Raises:
        ValueError: ``limit`` is not at least 1.
    """

    def __init__(self, limit: int = 10_000) -> None:
        if limit < 1:
            raise ValueError(f"limit must be at least 1, not {limit}")
        self.dropped = 0
        # Guards the messages; who waits for one waits on it. No function of a user runs under it.
        self._arrived = threading.Condition()
        self._messages: deque[Any] = deque(maxlen=limit)
        self._total = 0

    def __call__(self, message: Any) -> None:
        """Take a message."""
        with self._arrived:
            self.dropped += len(self._messages) == self._messages.maxlen
            self._messages.append(message)
            self._total += 1
            self._arrived.notify_all()

    def __repr__(self) -> str:
        return f"<NotificationCollector with {len(self)} messages>"

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.messages)

    @property
    def messages(self) -> list[Any]:
        """All that it keeps, in the order in which it came."""
        with self._arrived:
            return list(self._messages)

    def of(self, kind: Kind) -> list[Any]:
        """Return the messages of a kind.

        Raises:
            TypeError: This is no kind.
        """
        matches = _matcher(kind)
        return [message for message in self.messages if matches(message)]

    def wait_for(self, kind: Kind, count: int = 1, timeout: float = 10.0) -> Any:
        """Wait until ``count`` messages of a kind are there, and return the last of these.

        What came before counts as well; `clear` forgets it.

        Args:
            kind: Which.
            count: How many.
            timeout: Seconds.

        Raises:
            TimeoutError: They did not come in time. The message says what came.
            TypeError: This is no kind.
        """
        matches = _matcher(kind)
        ends = time.monotonic() + timeout
        messages: list[Any] = []
        found: list[Any] = []
        arrived = -1
        while True:
            with self._arrived:
                while self._total == arrived:
                    if not self._arrived.wait(max(ends - time.monotonic(), 0.0)):
                        raise TimeoutError(_missing(kind, count, len(found), timeout, messages))
                messages, arrived = list(self._messages), self._total
            found = [message for message in messages if matches(message)]
            if len(found) >= count:
                return found[count - 1]

    def clear(self) -> None:
        """Forget what came so far."""
        with self._arrived:
            self._messages.clear()


def _matcher(kind: Kind) -> Callable[[Any], Any]:
    if isinstance(kind, type):
        return lambda message: isinstance(message, kind)
    if isinstance(kind, str):
        methods = (kind, _PREFIX + kind)
        return lambda message: getattr(message, "method", None) in methods
    if callable(kind):
        return kind
    raise TypeError(f"a kind is a method, a class or a function, not {kind!r}")


def _missing(kind: Kind, count: int, found: int, timeout: float, messages: list[Any]) -> str:
    came = Counter(str(getattr(message, "method", type(message).__name__)) for message in messages)
    seen = ", ".join(f"{number} of {name}" for name, number in sorted(came.items())) or "nothing at all"
    return f"{found} of {count} messages of kind {kind!r} came within {timeout:g} s; what came: {seen}"
