"""Where an application keeps grants and what waits: always encrypted, unless in memory alone."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Callable, Optional

from ..._concurrency.deadline import Deadline
from ...auth import Key, MemoryStore, Stored
from ...auth._locks import ThreadLocks, wait_until_taken
from ...auth._store import new_version
from ...auth._vault import PENDING_LIFE
from ...config import ConfigError
from ...errors import AuthError
from .._sealing import SealedStore, Sealer

logger = logging.getLogger("mcp_sync.flask")

# Some megabytes of each kind. A login takes two records, so the hundred visitors of a second have more than
# a minute for it.
_MOST_PASSING = {"pending": 20_000, "server": 5_000, "input": 5_000}
# Whoever holds a lock among processes is done within half of this, or has died.
_LOCK_SECONDS = 60.0
_FIRST_LOOK, _LAST_LOOK = 0.005, 0.1
_now = time.time

Loader = Callable[[str], Optional[str]]
Saver = Callable[[str, Optional[str], Optional[str]], Optional[bool]]


class PassingMemoryStore(MemoryStore):
    """Grants in memory, and a bounded number of records of those who have none.

    Each visitor without a cookie is somebody new, and never comes back. What is kept for a login, a question,
    or of a server for somebody without a grant goes when its time is over, and the longest unused first when
    there is too much of it. Grants stay, and what leads to them.

    Args:
        input_life: Seconds for which a question is kept.
    """

    def __init__(self, input_life: float) -> None:
        super().__init__()
        self._lives = {"pending": PENDING_LIFE, "server": PENDING_LIFE, "input": input_life}
        # When each record was last used, by its kind, the longest unused first. Guarded like the values.
        self._used: dict[str, OrderedDict[Key, float]] = {kind: OrderedDict() for kind in self._lives}
        # By principal.
        self._grants: dict[str, set[Key]] = {}

    def get(self, key: Key) -> Optional[Stored]:
        """See `mcp_sync.auth.Store`."""
        used = self._used.get(key.kind)
        if used is not None and key in used:
            with self._guard:
                if used.pop(key, None) is not None:
                    used[key] = _now()
        return super().get(key)

    def put(self, key: Key, value: Optional[Mapping[str, Any]], expected: Optional[str]) -> bool:
        """See `mcp_sync.auth.Store`."""
        if not super().put(key, value, expected):
            return False
        with self._guard:
            if key.kind == "grant":
                self._note_grant(key, value is not None)
            elif key.kind in self._used:
                self._note(key, value is not None)
                self._drop(key.kind)
        return True

    def _note(self, key: Key, is_there: bool) -> None:
        used = self._used[key.kind]
        used.pop(key, None)
        if is_there and not (key.kind == "server" and key.principal in self._grants):
            used[key] = _now()

    def _note_grant(self, key: Key, is_there: bool) -> None:
        before = key.principal in self._grants
        grants = self._grants.setdefault(key.principal, set())
        (grants.add if is_there else grants.discard)(key)
        if not grants:
            del self._grants[key.principal]
        if before == bool(grants):
            return
        for each in self._values:
            if each.kind == "server" and each.principal == key.principal:
                self._note(each, True)

    def _drop(self, kind: str) -> None:
        """Drop what is over, and what is too much."""
        used, since = self._used[kind], _now() - self._lives[kind]
        while used:
            key, at = next(iter(used.items()))
            if at > since and len(used) <= _MOST_PASSING[kind]:
                return
            del used[key]
            self._values.pop(key, None)


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
        return self._saved(name, None if value is None else json.dumps([new_version(), dict(value)]), old)

    def _saved(self, name: str, new: Optional[str], old: Optional[str]) -> bool:
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
        """See `mcp_sync.auth.Store`. Among processes it is a text of its own, which counts for a minute."""
        name = key_digest(key._replace(kind=f"{key.kind} lock"))
        with self._locks.hold(key, deadline):
            mine = ""

            def is_taken() -> bool:
                nonlocal mine
                there = self._loaded(name)
                if there is not None and _ends_at(there) > _now():
                    return False
                mine = json.dumps([new_version(), _now() + _LOCK_SECONDS])
                # A function that replaces any text says nothing of a lost race.
                return self._saved(name, mine, there) and self._loaded(name) == mine

            wait_until_taken(is_taken, deadline, _FIRST_LOOK, _LAST_LOOK)
            try:
                yield
            finally:
                try:
                    self._saved(name, None, mine)
                except AuthError as error:
                    logger.warning("A lock counts for another minute at most: %s", error)


def _ends_at(text: str) -> float:
    try:
        return float(json.loads(text)[1])
    except (ValueError, TypeError, IndexError, KeyError):
        return 0.0


def _read(text: str) -> Stored:
    try:
        version, value = json.loads(text)
        return Stored(dict(value), str(version))
    except (ValueError, TypeError):
        return Stored({}, hashlib.sha256(text.encode()).hexdigest())


def key_digest(key: Key) -> str:
    """Return the name of a record: it tells nothing of what it is for."""
    return hashlib.sha256(json.dumps(list(key)).encode()).hexdigest()


def choose_store(
    given: Any, load: Optional[Loader], save: Optional[Saver], sealer: Sealer, input_life: float
) -> Any:
    """Return the store of an application.

    Args:
        given: ``MCP_TOKEN_STORE``.
        load: The function of ``mcp.token_loader``.
        save: That of ``mcp.token_saver``.
        sealer: What encrypts.
        input_life: ``MCP_INPUT_LIFE``.

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
        return PassingMemoryStore(input_life)
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
