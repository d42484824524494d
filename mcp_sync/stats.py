"""What a client has done so far, in numbers: ``client.stats``."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Mapping
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


class _Errors(Mapping[str, int]):
    """A snapshot that cannot be changed, and is shown as a dict is."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self._counts = dict(counts)

    def __getitem__(self, name: str) -> int:
        return self._counts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._counts)

    def __len__(self) -> int:
        return len(self._counts)

    def __repr__(self) -> str:
        return repr(self._counts)


class _Count:
    """A number that any thread raises in a single step, without a lock.

    Attributes:
        add: Raises it by one.
    """

    def __init__(self) -> None:
        self.add = itertools.count().__next__
        self._looks = 0
        # Guards `_looks`. Re-entrant: a signal handler may look.
        self._lock = threading.RLock()

    def value(self) -> int:
        """Return it."""
        with self._lock:
            # There is no other way to look than to raise it: so that is taken off.
            looks, self._looks = self._looks, self._looks + 1
            return self.add() - looks

    def after_fork_in_child(self) -> None:
        """Replace a lock that another thread may have held."""
        self._lock = threading.RLock()


class Counters:
    """Counts, for next to nothing. Safe for any number of threads.

    Attributes:
        call: Counts a call that came to its end.
        retry: Counts a request that is sent again.
        connection: Counts a connection.
        notification: Counts a notification of the server.
    """

    def __init__(self) -> None:
        self._counts = [_Count() for _ in range(4)]
        self.call, self.retry, self.connection, self.notification = (each.add for each in self._counts)
        self._errors: dict[str, int] = {}
        # Guards `_errors`. Re-entrant: a signal handler may make a call.
        self._lock = threading.RLock()

    def failure(self, error: BaseException) -> None:
        """Count a call that failed."""
        kind = type(error).__name__
        with self._lock:
            self._errors[kind] = self._errors.get(kind, 0) + 1
        self.call()

    def after_fork_in_child(self) -> None:
        """Replace locks that another thread may have held."""
        self._lock = threading.RLock()
        for count in self._counts:
            count.after_fork_in_child()

    def stats(self, dropped: int, in_flight: int, cache: Optional[CacheStats]) -> Stats:
        """Return them, with what is counted elsewhere."""
        calls, retries, connections, notifications = (each.value() for each in self._counts)
        with self._lock:
            errors = _Errors(self._errors)
        return Stats(calls, errors, retries, connections, notifications, dropped, in_flight, cache)
