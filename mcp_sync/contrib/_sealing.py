"""Encryption of what an application keeps, with keys that can be replaced."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Callable, Optional, Union

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from .._concurrency.deadline import Deadline
from ..auth import Key, Store, Stored
from ..auth._store_edge import StoreEdge
from ..errors import MCPError

Secret = Union[str, bytes]

SEALED = "sealed"  # where a record has what was encrypted
_MOST_TOLD = 1000
_MOST_OPENED = 512
_LONGEST_KEPT = 16_384  # bytes


class Sealer:
    """Encrypts JSON values. The first of its secrets encrypts, all of them decrypt.

    Args:
        secrets: Those of the application, the newest first, of any length.
        purpose: What keeps these keys apart from others that are made of the same secrets.
    """

    def __init__(self, secrets: Sequence[Secret], purpose: str) -> None:
        known = [secret.encode() if isinstance(secret, str) else bytes(secret) for secret in secrets]
        self._fernet = MultiFernet(
            [Fernet(base64.urlsafe_b64encode(_derived(secret, purpose))) for secret in known]
        )
        # A user asks many times with the same token, which is in memory then anyway.
        self._kept = lru_cache(maxsize=_MOST_OPENED)(self._fernet.decrypt)
        self.envelope_key = _derived(known[0], f"{purpose} envelope")

    def __repr__(self) -> str:
        return "<Sealer>"

    def _opened(self, sealed: bytes) -> bytes:
        # Results of tools may be long, and are seldom read twice.
        return (self._kept if len(sealed) <= _LONGEST_KEPT else self._fernet.decrypt)(sealed)

    def seal(self, value: Any, about: str) -> str:
        """Return a value encrypted, bound to what it is about: elsewhere it is worth nothing."""
        return self._fernet.encrypt(json.dumps([about, value]).encode()).decode()

    def unseal(self, text: Any, about: str) -> Optional[Any]:
        """Return what `seal` was given, ``None`` if no key fits or it belongs elsewhere."""
        if not isinstance(text, str):
            return None
        try:
            found, value = json.loads(self._opened(text.encode()))
        except (InvalidToken, ValueError):
            return None
        return value if found == about else None

    def can_read(self, text: Any) -> bool:
        """Whether one of the secrets decrypts it."""
        try:
            self._fernet.decrypt(text.encode())
        except (InvalidToken, AttributeError):
            return False
        return True

    def reseal(self, text: str) -> Optional[str]:
        """Return the same value encrypted with the first secret, ``None`` if no key fits."""
        try:
            return self._fernet.rotate(text.encode()).decode()
        except InvalidToken:
            return None


class SealedStore:
    """A store whose values are encrypted.

    Args:
        store: Where they are kept.
        sealer: What encrypts them.
        unreadable: Is told the keys of records that no secret decrypts, each at least once.
    """

    def __init__(
        self, store: Store, sealer: Sealer, unreadable: Callable[[Key], None] = lambda key: None
    ) -> None:
        self._store = store
        # Its errors are to name that store, and not this one, which nobody has chosen.
        self._edge = StoreEdge(store)
        self._sealer = sealer
        self._unreadable = unreadable
        # Single operations only, so it needs no lock.
        self._told: set[Key] = set()

    def __repr__(self) -> str:
        return f"SealedStore({self._store!r})"

    def get(self, key: Key) -> Optional[Stored]:
        """See `mcp_sync.auth.Store`."""
        stored = self._edge.get(key)
        return None if stored is None else self._opened(key, stored)

    def get_many(self, keys: Sequence[Key]) -> dict[Key, Stored]:
        """Return what is kept under some keys, with one look if the store has a ``get_many``, too."""
        get_many = getattr(self._store, "get_many", None)
        if get_many is not None:
            try:
                many = get_many(keys)
            except MCPError:
                raise
            except Exception as error:
                raise self._edge._failed(error) from error
            return {key: self._opened(key, stored) for key, stored in many.items()}
        found = {key: self.get(key) for key in keys}
        return {key: stored for key, stored in found.items() if stored is not None}

    def _opened(self, key: Key, stored: Stored) -> Stored:
        value = self._sealer.unseal(stored.value.get(SEALED), _about(key))
        if isinstance(value, dict):
            return Stored(value, stored.version)
        if key not in self._told:
            if len(self._told) >= _MOST_TOLD:
                self._told.clear()
            self._told.add(key)
            self._unreadable(key)
        # It counts as a record without anything in it, which may be replaced.
        return Stored({}, stored.version)

    def put(self, key: Key, value: Optional[Mapping[str, Any]], expected: Optional[str]) -> bool:
        """See `mcp_sync.auth.Store`."""
        sealed = None if value is None else {SEALED: self._sealer.seal(dict(value), _about(key))}
        return self._edge.put(key, sealed, expected)

    @contextmanager
    def lock(self, key: Key, deadline: Deadline) -> Iterator[None]:
        """See `mcp_sync.auth.Store`."""
        with self._edge.lock(key, deadline):
            yield


def _derived(secret: bytes, purpose: str) -> bytes:
    return hmac.new(secret, f"mcp_sync {purpose}".encode(), hashlib.sha256).digest()


def _about(key: Key) -> str:
    return json.dumps(list(key))
