"""Where answers of servers are kept that may be used again: `MemoryCache`, and what another store has to do.

A client keeps answers when it is told to: ``Client(..., cache=CacheOptions())``. A store only has to keep
bytes for a while. Django's cache does::

    class DjangoStore:
        def __init__(self, cache):
            self.cache = cache

        def get_many(self, keys):
            return self.cache.get_many(keys)

        def put(self, key, value, seconds):
            self.cache.set(key, value, seconds)

        def delete(self, key):
            self.cache.delete(key)

    CacheOptions(store=DjangoStore(django.core.cache.cache), secret=settings.SECRET_KEY)

and Redis does::

    class RedisStore:
        def __init__(self, redis):
            self.redis = redis

        def get_many(self, keys):
            return dict(zip(keys, self.redis.mget(keys)))

        def put(self, key, value, seconds):
            self.redis.set(key, value, ex=seconds)

        def delete(self, key):
            self.redis.delete(key)

    CacheOptions(store=RedisStore(redis.Redis(socket_timeout=1)), secret=SECRET)

What is kept there is JSON: whoever can write to the store can make up what servers say, but can run nothing.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ._concurrency import fork
from .errors import UsageError
from .options import CacheOptions

__all__ = ["CacheOptions", "CacheStats", "CacheStore", "MemoryCache"]


class CacheStore(Protocol):
    """What keeps bytes under keys, for any number of threads, and perhaps for other processes.

    Keys are up to 80 letters, digits and ``-``. A store may forget anything at any time. What a method raises
    is logged, and the answer counts as not kept. A store that may hang needs a timeout of its own, and few
    retries: a call waits for it.

    An answer counts only together with the marks, kept likewise, of what it belongs to. A notification
    deletes the mark: that is what makes it count for all processes that share a store.
    """

    def get_many(self, keys: Sequence[str]) -> Mapping[str, Any]:
        """Return the values that there are; a key without one is missing, or has ``None``."""

    def put(self, key: str, value: bytes, seconds: int) -> None:
        """Keep a value in place of another one, for ``seconds``."""

    def delete(self, key: str) -> None:
        """Forget a value, if it is there."""


class CacheStats(NamedTuple):
    """What the cache of one client has done so far.

    Attributes:
        hits: Answers that were kept, or that another thread was fetching already.
        misses: Answers that had to be fetched.
        refreshes: Those that were fetched because of ``cache="refresh"``.
        stale: Old answers that were given because the server could not be reached.
        stores: Answers that were kept.
    """

    hits: int = 0
    misses: int = 0
    refreshes: int = 0
    stale: int = 0
    stores: int = 0


class _Kept(NamedTuple):
    value: Any
    size: int
    ends: float


class MemoryCache:
    """Keeps answers in this process; the one that was not used for the longest time goes first.

    Any number of clients may share one. Threads may, too; a forked child goes on with a copy.

    Args:
        max_entries: How many values it keeps. (An answer has two or three.)
        max_bytes: How long they may be in all, as JSON. As objects they take a few times as much memory.

    Raises:
        UsageError: A bound is no whole number of at least 1.
    """

    def __init__(self, max_entries: int = 1000, max_bytes: int = 16 * 1024 * 1024) -> None:
        for name, value in (("max_entries", max_entries), ("max_bytes", max_bytes)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise UsageError(f"{name} must be a whole number of at least 1, not {value!r}")
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        # Guards `_kept`. Re-entrant: a signal handler may look something up on a thread that is just in here.
        self._lock = threading.RLock()
        fork.watch(self)

    def get_many(self, keys: Sequence[str]) -> dict[str, Any]:
        """See `CacheStore`."""
        found = {}
        now = time.monotonic()
        with self._lock:
            for key in keys:
                kept = self._kept.get(key)
                if kept is not None and now < kept.ends:
                    self._kept.move_to_end(key)
                    found[key] = kept.value
        return found

    def put(self, key: str, value: bytes, seconds: int) -> None:
        """See `CacheStore`."""
        self.keep(key, value, len(value), seconds)

    def keep(self, key: str, value: Any, size: int, seconds: float) -> None:
        """Keep any object, which counts as ``size`` bytes. What is too large by itself is not kept."""
        kept = _Kept(value, size, time.monotonic() + seconds)
        with self._lock:
            self._kept.pop(key, None)
            if size > self._max_bytes:
                return
            self._kept[key] = kept
            # Counted anew each time: an exception of a signal handler could leave a running total wrong.
            total = sum(each.size for each in self._kept.values())
            while len(self._kept) > self._max_entries or total > self._max_bytes:
                total -= self._kept.popitem(last=False)[1].size

    def delete(self, key: str) -> None:
        """See `CacheStore`."""
        with self._lock:
            self._kept.pop(key, None)

    def __len__(self) -> int:
        return len(self._kept)

    def __repr__(self) -> str:
        return f"<MemoryCache with {len(self)} entries>"

    def after_fork_in_child(self) -> None:
        """Take a lock of its own: the thread that held the parent's does not exist here."""
        self._lock = threading.RLock()
