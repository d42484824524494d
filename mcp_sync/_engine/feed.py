"""The events of one subscription on their way from the thread that reads to the one that consumes."""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import Any, Callable, Optional

from .._concurrency.bell import Bell
from .._concurrency.deadline import Deadline
from .._protocol.subscription import Event, Interest, Resync

logger = logging.getLogger("mcp_sync.session")

CLOSED, GRACEFUL, FAILED = "closed", "graceful", "failed"
_FOREVER = Deadline(None)


class Feed:
    """A bounded queue of events, which has a beginning and an end. Safe for any number of threads.

    Args:
        limit: How many events may wait.

    Attributes:
        honoured: What the server agreed to tell; ``None`` until it has.
        ended: How it ended: `CLOSED` by this side, `GRACEFUL` by the server, or `FAILED`; ``None`` before.
        error: Why it failed.
        on_news: Called, on whatever thread, when there is something to consume.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._events: deque[Event] = deque()
        # Guards `_events`, and the change of `honoured`, `ended` and `error`. Nobody waits under it, and no
        # I/O. Re-entrant: a signal handler may close.
        self._lock = threading.RLock()
        self._news = Bell()
        self._room = Bell()
        self._has_overflowed = False
        self.honoured: Optional[Interest] = None
        self.ended: Optional[str] = None
        self.error: Optional[BaseException] = None
        self.on_news: Optional[Callable[[], Any]] = None

    # --- from the server ---------------------------------------------------------------------------------

    def offer(self, event: Event, waits: bool) -> None:
        """Add an event; after the end it is dropped.

        Args:
            event: The event.
            waits: Whether the thread may wait for room, because nobody else needs it. Otherwise a full queue
                is made smaller: an event that waits already is not repeated, and if that is not enough, one
                `Resync` stands for all.
        """
        while not self._added(event, waits):
            self._room.wait(lambda: len(self._events) < self._limit or self.ended is not None, _FOREVER)
        self._tell()

    def _added(self, event: Event, waits: bool) -> bool:
        with self._lock:
            if self.ended is not None or self._repeats_resync(event):
                return True
            if len(self._events) >= self._limit:
                if waits:
                    return False
                self._shrink(event)
            else:
                self._events.append(event)
            return True

    def _repeats_resync(self, event: Event) -> bool:
        return bool(self._events) and isinstance(event, Resync) and self._events[-1] == event

    def _shrink(self, event: Event) -> None:
        different = deque(dict.fromkeys((*self._events, event)))
        if len(different) > self._limit:
            different = deque([Resync()])
            if not self._has_overflowed:
                logger.warning("The events of a subscription are not consumed in time: Resync replaces them")
            self._has_overflowed = True
        self._events = different

    def acknowledge(self, honoured: Interest) -> None:
        """Note what the server agreed to tell."""
        with self._lock:
            self.honoured = honoured
        self._news.ring()

    def end(self, how: str, error: Optional[BaseException] = None) -> None:
        """End it; only the first time counts. What waits is still consumed, unless this side closed it."""
        with self._lock:
            if self.ended is None:
                if how == CLOSED and self.on_news is None:
                    self._events.clear()
                self.error = error
                self.ended = how
        # Also the second time: a signal handler may have interrupted the first.
        self._room.ring()
        self._tell()

    def _tell(self) -> None:
        self._news.ring()
        if self.on_news is not None:
            self.on_news()

    # --- to the consumer ---------------------------------------------------------------------------------

    def wait_until_acknowledged(self, deadline: Deadline) -> bool:
        """Wait for the acknowledgement, or for the end; return whether one of them has come."""
        return self._news.wait(lambda: self.honoured is not None or self.ended is not None, deadline)

    def take(self, deadline: Deadline) -> Optional[Event]:
        """Return the next event; ``None`` at the end, or if none has come by the deadline."""
        while True:
            with self._lock:
                event = self._events.popleft() if self._events else None
                is_over = self.ended is not None
            if event is not None:
                self._room.ring()
                return event
            if is_over or not self._news.wait(self._has_news, deadline):
                return None

    def _has_news(self) -> bool:
        return bool(self._events) or self.ended is not None

    def drop(self) -> None:
        """Forget what waits."""
        with self._lock:
            self._events.clear()
        self._room.ring()

    def after_fork_in_child(self, error: BaseException) -> None:
        """End it in a forked child, where nobody will fill it."""
        self._lock = threading.RLock()
        self._news, self._room = Bell(), Bell()
        self._events = deque()
        if self.ended is None:
            self.ended, self.error = FAILED, error
