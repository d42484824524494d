"""What a client has done so far, in numbers: ``client.stats``."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Optional

if TYPE_CHECKING:
    from .cache import CacheStats


class Stats(NamedTuple):
    """The counters of one client at one moment. They never go back, but for ``in_flight``.

    Attributes:
        calls: Calls that have ended, whatever came of them. Answers from the cache do not count.
        errors: How many of them failed, by the name of the exception.
        retries: Requests that were sent again.
        connections: How often it connected; more than one where it was opened anew.
        notifications: Notifications of the server.
        dropped: Those of them that were dropped because the callbacks were too slow.
        in_flight: Requests that wait for their answer now.
        cache: What the response cache has done, ``None`` without one.
    """

    calls: int
    errors: Mapping[str, int]
    retries: int
    connections: int
    notifications: int
    dropped: int
    in_flight: int
    cache: Optional[CacheStats]


class Counters:
    """Counts. Safe for any number of threads."""

    def __init__(self) -> None:
        self.calls = 0
        self.retries = 0
        self.connections = 0
        self.notifications = 0
        self._errors: dict[str, int] = {}
        # Guards all of them. Re-entrant: a signal handler may make a call.
        self._lock = threading.RLock()

    def call(self) -> None:
        """Count a call that came to its end."""
        with self._lock:
            self.calls += 1

    def failure(self, error: BaseException) -> None:
        """Count a call that failed."""
        kind = type(error).__name__
        with self._lock:
            self.calls += 1
            self._errors[kind] = self._errors.get(kind, 0) + 1

    def retry(self) -> None:
        """Count a request that is sent again."""
        with self._lock:
            self.retries += 1

    def connection(self) -> None:
        """Count a connection."""
        with self._lock:
            self.connections += 1

    def notification(self) -> None:
        """Count a notification of the server."""
        with self._lock:
            self.notifications += 1

    def after_fork_in_child(self) -> None:
        """Replace a lock that another thread may have held."""
        self._lock = threading.RLock()

    def stats(self, dropped: int, in_flight: int, cache: Optional[CacheStats]) -> Stats:
        """Return them, with what is counted elsewhere."""
        with self._lock:
            errors = MappingProxyType(dict(self._errors))
            return Stats(
                self.calls,
                errors,
                self.retries,
                self.connections,
                self.notifications,
                dropped,
                in_flight,
                cache,
            )
