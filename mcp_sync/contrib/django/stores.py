"""The token store on models: for all users, threads, processes and machines that share a database."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime, timezone
from typing import Any, Optional, TypeVar

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db import IntegrityError, connections, transaction
from django.utils import timezone as django_timezone
from django.views.decorators.debug import sensitive_variables

from ..._concurrency.deadline import Deadline
from ...auth._errand import errand_here
from ...auth._locks import ThreadLocks
from ...auth._records import Key
from ...auth._store import Stored, new_version
from ...errors import AuthError, CallTimeout
from . import _connections, conf, crypto, models, signals
from ._database_lock import database_lock
from ._unwritten import Draft, Unwritten, unwritten_of
from .authorization import USER

logger = logging.getLogger("mcp_sync.django")
T = TypeVar("T")
_Columns = Mapping[str, Any]

_MODELS: dict[str, Any] = {
    "grant": models.Grant,
    "client": models.ClientRegistration,
    "pending": models.PendingFlow,
}
_CHANGE_PATIENCE = 10.0  # for others who change the same row, in seconds
# For SQLite's lock on its file, in seconds: a transaction of milliseconds is waited for, and no other.
_WRITE_PATIENCE = 0.1
_threads = ThreadLocks()
UNREADABLE_HINT = (
    "if a key was replaced, put the old one behind it in ENCRYPTION_KEYS (or in SECRET_KEY_FALLBACKS, where "
    "there are none), and run manage.py mcp_rotate before it goes"
)
# What was said to be unreadable, by hashes of key and version: each request may come by it.
_unreadable: set[int] = set()
_MOST_UNREADABLE = 10_000


class ModelTokenStore:
    """Keeps what belongs to one server of the settings in the models of this application.

    A change replaces one version and no other (compare and swap), whatever the database. The lock is one of
    the database, with SQLite a locked file beside it. What was written stays also where the request's
    transaction is rolled back: see `_connections`; and where a transaction locks SQLite: see `_unwritten`.

    Args:
        alias: The server.

    Raises:
        AuthError: The user is gone, or the database takes too long.
    """

    def __init__(self, alias: str) -> None:
        self.alias = alias

    def __repr__(self) -> str:
        return f"ModelTokenStore({self.alias!r})"

    def get(self, key: Key) -> Optional[Stored]:
        """See `mcp_sync.auth.Store`."""
        return self.get_many([key]).get(key)

    def get_many(self, keys: Sequence[Key]) -> dict[Key, Stored]:
        """Return what is kept under some keys, by one query."""
        names = {digest(self.alias, key): key for key in keys}
        unwritten = unwritten_here()
        # First these: meanwhile one may become a row, and a row does not become one of these.
        drafts = {name: unwritten.get(name) for name in names} if unwritten is not None else {}
        rows = _connections.run(lambda: _read(names), self.alias, reads=True)
        found = {}
        for name, key in names.items():
            data, version = rows.get(name, (None, None))
            draft = drafts.get(name)
            if unwritten is not None and draft is not None:
                with suppress(AuthError, CallTimeout):  # Another time, then.
                    settle(unwritten, name, 0.0)
                if draft.replaces == version:
                    data, version = draft.data, draft.version
            if data is not None and version is not None:
                found[key] = _stored(data, version, name, key)
        return found

    @sensitive_variables()
    def put(self, key: Key, value: Optional[Mapping[str, Any]], expected: Optional[str]) -> bool:
        """See `mcp_sync.auth.Store`."""
        name = digest(self.alias, key)
        before = self.get(key) if key.kind == "grant" and expected is not None and value is not None else None
        row = None if value is None else _row(key, value, name, new_version())
        unwritten = unwritten_here()
        if unwritten is None:
            is_done = _connections.run(lambda: _write(self.alias, key, name, expected, row), self.alias)
        else:
            is_done = self._put(unwritten, key, name, expected, row)
        # What is there already is written once more before a refresh, to see that it can be written.
        if is_done and key.kind == "grant" and (before is None or before.value != value):
            self._tell(key, value, expected)
        return is_done

    @sensitive_variables()
    def _put(
        self, unwritten: Unwritten, key: Key, name: str, expected: Optional[str], row: Optional[_Columns]
    ) -> bool:
        """Do what `put` is for with SQLite: in a file, if the database cannot be written."""
        with unwritten.changing(name, errand_here().within(_CHANGE_PATIENCE)):
            draft = unwritten.get(name)
            rows = _connections.run(lambda: _read({name: key}), self.alias, reads=True)
            version = current = rows[name][1] if name in rows else None
            if draft is not None and draft.replaces == version:
                current = None if draft.data is None else draft.version
            if current != expected:
                return False
            try:
                patience = _WRITE_PATIENCE if draft is None else 0.0
                is_done = _connections.run(
                    lambda: _write(self.alias, key, name, version, row), self.alias, patience=patience
                )
            except _connections.StoreLocked:
                new, data = (new_version(), None) if row is None else (row["version"], row["data"])
                unwritten.put(name, Draft(self.alias, key, version, new, data))
                return True
            if draft is not None:
                unwritten.remove(name)
            return is_done

    def _tell(self, key: Key, value: Any, expected: Optional[str]) -> None:
        created = signals.grant_created if expected is None else signals.grant_refreshed
        signal = signals.grant_revoked if value is None else created
        user_id = user_of(key.principal)
        signals.send(signal, type(self), alias=self.alias, principal=key.principal, user_id=user_id)

    @contextmanager
    def lock(self, key: Key, deadline: Deadline) -> Iterator[None]:
        """See `mcp_sync.auth.Store`."""
        database = conf.get("DATABASE")
        name = digest(self.alias, key)
        with ExitStack() as stack:
            stack.enter_context(_threads.hold((database, name), deadline))
            unwritten = unwritten_here()
            if unwritten is not None:
                stack.enter_context(unwritten.locked(name, deadline))
            elif connections[database].features.has_select_for_update and not _connections.is_test_case():
                stack.enter_context(database_lock(database, name, deadline))
            yield


def unwritten_here() -> Optional[Unwritten]:
    """Return what stands beside the database, ``None`` if nothing does, and in a test case."""
    connection = connections[conf.get("DATABASE")]
    return None if _connections.is_test_case() else unwritten_of(connection)


@sensitive_variables()
def settle(unwritten: Unwritten, name: str, patience: Optional[float]) -> None:
    """Write a record into its row if that can be done, and drop it if its row was changed or is gone.

    Args:
        unwritten: Where it is.
        name: The name of its row.
        patience: How long to wait for a lock of SQLite, in seconds; by default as the settings say.

    Raises:
        AuthError, CallTimeout: It stays where it is; `StoreLocked` if the database is locked.
    """
    if _connections.is_in_transaction():
        return  # It may be this that keeps it from being written.
    deadline = Deadline(_CHANGE_PATIENCE if patience is None else _WRITE_PATIENCE)
    with unwritten.changing(name, deadline):
        draft = unwritten.get(name)
        if draft is not None:
            row = _row_of(draft, name)
            about = (draft.alias, draft.key, name, draft.replaces, row)
            with suppress(_UserIsGone):
                _connections.run(lambda: _write(*about), draft.alias, patience=patience)
        unwritten.remove(name)


def settle_all() -> None:
    """Write into their rows what is not there yet.

    Raises:
        AuthError, CallTimeout: As from `settle`.
    """
    unwritten = unwritten_here()
    if unwritten is not None and not _connections.look():
        for name in unwritten.names():
            settle(unwritten, name, None)


@sensitive_variables()
def _row_of(draft: Draft, name: str) -> Optional[_Columns]:
    if draft.data is None:
        return None
    value = _stored(draft.data, draft.version, name, draft.key).value
    return {**columns(draft.key, value), "version": draft.version, "data": draft.data}


def digest(alias: str, key: Key) -> str:
    """Return the name of a row."""
    return hashlib.sha256(json.dumps([alias, *key]).encode()).hexdigest()


def user_of(principal: str) -> Any:
    """Return the primary key of the user that a principal is, ``None`` if it is none."""
    if not principal.startswith(USER):
        return None
    try:
        return get_user_model()._meta.pk.to_python(principal[len(USER) :])
    except ValidationError:
        return None


def columns(key: Key, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return what may be seen of a record."""
    found: dict[str, Any] = {
        "kind": key.kind,
        "issuer": key.issuer[:500],
        "principal": key.principal or str(value.get("principal", "")),
        "updated": django_timezone.now(),
    }
    found["user_id"] = user_of(found["principal"])
    if key.kind == "pending" and not found["principal"]:
        # It is marked as used: whose it was stays where it is.
        del found["principal"], found["user_id"]
    if key.kind == "grant":
        found["resource"] = key.resource[:500]
        found["scopes"] = str(value.get("scope") or value.get("requested") or "")
    if key.kind in ("grant", "client"):
        found["expires_at"] = _time(value.get("expires_at"))
    if key.kind == "pending" and key.resource:
        found["used"] = "used" in value
    return found


def _time(seconds: Any) -> Optional[datetime]:
    try:
        # Without USE_TZ, most databases take no time with a zone; Django's own `now` is local then, too.
        return datetime.fromtimestamp(seconds, timezone.utc if settings.USE_TZ else None)
    except (TypeError, ValueError, OverflowError, OSError):
        return None


def _model(key: Key) -> Any:
    return _MODELS.get(key.kind, models.ServerMetadata)


def _read(keys: Mapping[str, Key]) -> dict[str, tuple[str, str]]:
    """Return data and version of rows by their names. Each request does this: so it is written out."""
    connection = connections[conf.get("DATABASE")]
    quoted = connection.ops.quote_name
    columns = ", ".join(map(quoted, ("key", "data", "version")))
    parts = (
        f"SELECT {columns} FROM {quoted(_model(key)._meta.db_table)} WHERE {quoted('key')} = %s"
        for key in keys.values()
    )
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(parts), list(keys))
        return {name: (data, version) for name, data, version in cursor.fetchall()}


@sensitive_variables()
def _stored(data: str, version: str, name: str, key: Key) -> Stored:
    value = crypto.sealer().unseal(data, name)
    if isinstance(value, dict):
        return Stored(value, version)
    _tell_unreadable(key, version)
    # It counts as a record without anything in it, which may be replaced.
    return Stored({}, version)


def _tell_unreadable(key: Key, version: str) -> None:
    """Warn of a record that no key decrypts, once for each version of it in this process."""
    mark = hash((key, version))
    if mark in _unreadable:
        return
    if len(_unreadable) >= _MOST_UNREADABLE:
        _unreadable.clear()
    _unreadable.add(mark)
    logger.warning(
        "The %s record of %s for %s cannot be decrypted, and counts as not there; %s",
        *(key.kind, key.principal or "all users", key.issuer or key.resource, UNREADABLE_HINT),
    )


@sensitive_variables()
def _row(key: Key, value: Mapping[str, Any], name: str, version: str) -> dict[str, Any]:
    return {**columns(key, value), "version": version, "data": crypto.sealer().seal(dict(value), name)}


class _UserIsGone(AuthError):
    """There is nobody any more whose grant it would be."""


def _write(alias: str, key: Key, name: str, version: Optional[str], row: Optional[_Columns]) -> bool:
    """Replace the row with a version, or what is not there; return whether it was so."""
    rows = _model(key).objects.all()
    if version is not None:
        rows = rows.filter(key=name, version=version)
        return bool(rows.delete()[0] if row is None else rows.update(**row))
    if row is None:
        return not rows.filter(key=name).exists()
    try:
        with transaction.atomic(using=rows.db):
            rows.create(key=name, alias=alias, **row)
        return True
    except IntegrityError:
        if rows.filter(key=name).exists():
            return False
    raise _UserIsGone("the user whose grant this would be is gone")
