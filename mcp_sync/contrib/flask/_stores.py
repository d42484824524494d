"""Where an application keeps grants and what waits: always encrypted, unless in memory alone."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Callable, Optional

from ..._concurrency.deadline import Deadline
from ...auth import Key, MemoryStore, Stored
from ...auth._locks import ThreadLocks
from ...auth._store import new_version
from ...config import ConfigError
from ...errors import AuthError
from .._sealing import SealedStore, Sealer

logger = logging.getLogger("mcp_sync.flask")

Loader = Callable[[str], Optional[str]]
Saver = Callable[[str, Optional[str], Optional[str]], Optional[bool]]


class HookStore:
    """A store on two functions of the application.

    Args:
        load: ``load(key)`` returns the text that is kept under a key, or ``None``.
        save: ``save(key, text, old)`` replaces the text ``old`` by ``text`` (``None``: there is none), and
            returns ``False`` if another one was there.
    """

    def __init__(self, load: Loader, save: Saver) -> None:
        self._load = load
        self._save = save
        self._locks = ThreadLocks()

    def __repr__(self) -> str:
        return "<HookStore>"

    def get(self, key: Key) -> Optional[Stored]:
        """See `mcp_sync.auth.Store`."""
        kept = self._loaded(key_digest(key))
        return None if kept is None else _read(kept)

    def put(self, key: Key, value: Optional[Mapping[str, Any]], expected: Optional[str]) -> bool:
        """See `mcp_sync.auth.Store`."""
        name = key_digest(key)
        old = self._loaded(name)
        if (None if old is None else _read(old).version) != expected:
            return False
        new = None if value is None else json.dumps([new_version(), dict(value)])
        try:
            return self._save(name, new, old) is not False
        except Exception as error:
            raise AuthError(f"the function of mcp.token_saver failed: {type(error).__name__}") from error

    def _loaded(self, name: str) -> Optional[str]:
        try:
            found = self._load(name)
        except Exception as error:
            raise AuthError(f"the function of mcp.token_loader failed: {type(error).__name__}") from error
        if found is not None and not isinstance(found, str):
            kind = type(found).__name__
            raise AuthError(f"the function of mcp.token_loader must return a str or None, not a {kind}")
        return found

    @contextmanager
    def lock(self, key: Key, deadline: Deadline) -> Iterator[None]:
        """See `mcp_sync.auth.Store`. Holds for the threads of this process."""
        with self._locks.hold(key, deadline):
            yield


def _read(text: str) -> Stored:
    try:
        version, value = json.loads(text)
        return Stored(dict(value), str(version))
    except (ValueError, TypeError):
        return Stored({}, hashlib.sha256(text.encode()).hexdigest())


def key_digest(key: Key) -> str:
    """Return the name of a record: it tells nothing of what it is for."""
    return hashlib.sha256(json.dumps(list(key)).encode()).hexdigest()


def choose_store(given: Any, load: Optional[Loader], save: Optional[Saver], sealer: Sealer) -> Any:
    """Return the store of an application.

    Raises:
        ConfigError: ``MCP_TOKEN_STORE`` is none.
    """
    if given == "session":
        raise ConfigError(
            "MCP_TOKEN_STORE = 'session': tokens do not go into the session, whose cookie its user can read; "
            "use a SQLAlchemyTokenStore, or mcp.token_loader and mcp.token_saver"
        )
    if given is None and (load is not None or save is not None):
        if load is None or save is None:
            raise ConfigError("mcp.token_loader and mcp.token_saver belong together: set both")
        return SealedStore(HookStore(load, save), sealer, _tell)
    if given is None or given == "memory":
        return MemoryStore()
    if isinstance(given, MemoryStore):
        return given
    if not all(callable(getattr(given, name, None)) for name in ("get", "put", "lock")):
        raise ConfigError(f"MCP_TOKEN_STORE must be 'memory' or a store, not {type(given).__name__}")
    return SealedStore(given, sealer, _tell)


def _tell(key: Key) -> None:
    whose = f" of {key.principal}" if key.principal.startswith("user:") else ""
    logger.warning(
        "A record %r%s cannot be decrypted, and counts as not there. If a secret was replaced, put the old "
        "one behind it, in MCP_ENCRYPTION_KEYS or SECRET_KEY_FALLBACKS",
        key.kind,
        whose,
    )
