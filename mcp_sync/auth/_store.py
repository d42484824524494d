"""Where grants and registrations are kept."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple, Optional, Protocol

from .._concurrency.deadline import Deadline
from ..errors import CallTimeout
from ._records import Key


class Stored(NamedTuple):
    """What a store holds under a key.

    Attributes:
        value: The record, JSON-safe.
        version: Changes with every change of the value.
    """

    value: dict[str, Any]
    version: str


class Store(Protocol):
    """Keeps records. Safe for any number of threads, and as far as it says so for processes.

    Raises:
        AuthError: From every method: the store cannot be read or written. Nothing is lost then.
    """

    def get(self, key: Key) -> Optional[Stored]:
        """Return what is kept under a key."""

    def put(self, key: Key, value: Optional[Mapping[str, Any]], expected: Optional[str]) -> bool:
        """Replace what is kept, unless somebody else was faster.

        Args:
            value: The new value, ``None`` to remove it.
            expected: The version that is replaced, ``None`` if there must be none.

        Returns:
            ``False`` if there is another version by now; nothing is changed then.
        """

    def lock(self, key: Key, deadline: Deadline) -> AbstractContextManager[None]:
        """Hold a key against all other threads and processes that use this store. Not re-entrant.

        Raises:
            CallTimeout: Somebody else held it until the deadline.
        """


class MemoryStore:
    """Keeps records in this process, until it ends."""

    def __init__(self) -> None:
        # Guards both tables. Nothing happens under it.
        self._guard = threading.Lock()
        self._values: dict[Key, Stored] = {}
        self._count = 0
        self._locks: dict[Key, threading.Lock] = {}

    def get(self, key: Key) -> Optional[Stored]:
        """See `Store.get`."""
        with self._guard:
            return self._values.get(key)

    def put(self, key: Key, value: Optional[Mapping[str, Any]], expected: Optional[str]) -> bool:
        """See `Store.put`."""
        with self._guard:
            held = self._values.get(key)
            if (held.version if held is not None else None) != expected:
                return False
            if value is None:
                self._values.pop(key, None)
            else:
                self._count += 1
                self._values[key] = Stored(dict(value), str(self._count))
            return True

    @contextmanager
    def lock(self, key: Key, deadline: Deadline) -> Iterator[None]:
        """See `Store.lock`."""
        with self._guard:
            lock = self._locks.setdefault(key, threading.Lock())
        left = deadline.remaining()
        if not lock.acquire(timeout=-1 if left is None else left):
            raise CallTimeout("somebody else held the lock of the token store for too long")
        try:
            yield
        finally:
            lock.release()
