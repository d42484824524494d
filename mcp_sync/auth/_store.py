"""Where grants and registrations are kept."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Optional, Protocol

from .._concurrency import fork
from .._concurrency.deadline import Deadline
from ._locks import ThreadLocks
from ._records import Key


class Stored(NamedTuple):
    """What a store holds under a key.

    Attributes:
        value: The record, JSON-safe.
        version: Changes with every change of the value.
    """

    value: dict[str, Any]
    version: str

    def __repr__(self) -> str:
        # The value holds secrets.
        return f"Stored(version={self.version!r})"


class Store(Protocol):
    """Keeps records. Safe for any number of threads, and as far as it says so for processes.

    Its methods are called on the threads of the callers, and on those that see a refresh through.

    What is kept of a user stays until they log out; of those who never come back, an application may remove
    records by ``Key.principal``. Logins that nobody has finished are over after an hour, and go when the same
    user begins another one.

    Raises:
        AuthError: From every method: the store cannot be read or written. Nothing is lost then.
    """

    def get(self, key: Key) -> Optional[Stored]:
        """Return what is kept under a key. The value is not to be changed."""

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
    """Keeps records in this process, until it ends.

    A forked child starts with a copy of them. From then on neither process knows what the other one does, so
    a refresh token that may be used only once works for one of them: processes that share a user's grant need
    another store.
    """

    def __init__(self) -> None:
        self._locks = ThreadLocks()
        self._values: dict[Key, Stored] = {}
        self._renew()
        fork.watch(self)

    def _renew(self) -> None:
        # Makes comparing and setting one step. Nothing else happens under it.
        self._guard = threading.RLock()

    def after_fork_in_child(self) -> None:
        """Replace what a thread of the parent may have locked."""
        self._renew()

    def get(self, key: Key) -> Optional[Stored]:
        """See `Store.get`."""
        return self._values.get(key)

    def put(self, key: Key, value: Optional[Mapping[str, Any]], expected: Optional[str]) -> bool:
        """See `Store.put`."""
        new = None if value is None else Stored(json.loads(json.dumps(value)), new_version())
        with self._guard:
            held = self._values.get(key)
            if (held.version if held is not None else None) != expected:
                return False
            if new is None:
                self._values.pop(key, None)
            else:
                self._values[key] = new
            return True

    def lock(self, key: Key, deadline: Deadline) -> AbstractContextManager[None]:
        """See `Store.lock`."""
        return self._locks.hold(key, deadline)


def new_version() -> str:
    """Return a version that no other value has, in any process."""
    return secrets.token_hex(8)
