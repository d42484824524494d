"""The token store on models: for all users, threads, processes and machines that share a database."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Callable, Optional, TypeVar

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db import IntegrityError, connections, transaction
from django.utils import timezone as django_timezone
from django.views.decorators.debug import sensitive_variables

from ..._concurrency.deadline import Deadline
from ...auth._locks import FolderLocks, ThreadLocks
from ...auth._records import Key
from ...auth._store import Stored, new_version
from ...errors import AuthError
from . import _connections, conf, crypto, models, signals
from ._row_lock import row_lock

T = TypeVar("T")

USER = "user:"  # what the principals of users begin with
_MODELS: dict[str, Any] = {
    "grant": models.Grant,
    "client": models.ClientRegistration,
    "pending": models.PendingFlow,
}
_threads = ThreadLocks()


class ModelTokenStore:
    """Keeps what belongs to one server of the settings in the models of this application.

    A change replaces one version and no other (compare and swap), whatever the database. The lock is a locked
    row, on SQLite a locked file beside the database. What was written stays also where the request's
    transaction is rolled back: see `_connections`.

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
        rows = self._run(lambda: _read(names))
        return {names[name]: _stored(row, name) for name, row in rows.items()}

    def _run(self, operation: Callable[[], T]) -> T:
        return _connections.run(operation, self.alias)

    @sensitive_variables()
    def put(self, key: Key, value: Optional[Mapping[str, Any]], expected: Optional[str]) -> bool:
        """See `mcp_sync.auth.Store`."""
        name = digest(self.alias, key)
        before = self.get(key) if key.kind == "grant" and expected is not None and value is not None else None
        if value is None:
            is_done = self._run(lambda: _delete(_rows(key), name, expected))
        else:
            row = {
                **columns(key, value),
                "version": new_version(),
                "data": crypto.sealer().seal(dict(value), name),
            }
            if expected is None:
                is_done = self._run(lambda: _insert(_rows(key), name, self.alias, row))
            else:
                changed = _rows(key).filter(key=name, version=expected)
                is_done = bool(self._run(lambda: changed.update(**row)))
        # What is there already is written once more before a refresh, to see that it can be written.
        if is_done and key.kind == "grant" and (before is None or before.value != value):
            self._tell(key, value, expected)
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
            connection = connections[database]
            if not _connections.is_test_case():
                if connection.vendor == "sqlite":
                    folder = _lock_folder(connection)
                    if folder is not None:
                        stack.enter_context(FolderLocks(folder).hold(f"{name}.lock", deadline))
                elif connection.features.has_select_for_update:
                    stack.enter_context(row_lock(database, name, deadline))
            yield


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
        return datetime.fromtimestamp(seconds, timezone.utc)
    except (TypeError, ValueError, OverflowError, OSError):
        return None


def _model(key: Key) -> Any:
    return _MODELS.get(key.kind, models.ServerMetadata)


def _rows(key: Key) -> Any:
    return _model(key).objects.all()


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
def _stored(row: tuple[str, str], name: str) -> Stored:
    value = crypto.sealer().unseal(row[0], name)
    # What no key can read counts as a record without anything in it, which may be replaced.
    return Stored(value if isinstance(value, dict) else {}, row[1])


def _insert(rows: Any, name: str, alias: str, row: Mapping[str, Any]) -> bool:
    try:
        with transaction.atomic(using=rows.db):
            rows.create(key=name, alias=alias, **row)
        return True
    except IntegrityError:
        if rows.filter(key=name).exists():
            return False
    raise AuthError("the user whose grant this would be is gone")


def _delete(rows: Any, name: str, expected: Optional[str]) -> bool:
    if expected is None:
        return not rows.filter(key=name).exists()
    return bool(rows.filter(key=name, version=expected).delete()[0])


def _lock_folder(connection: Any) -> Optional[Path]:
    path = str(connection.settings_dict["NAME"])
    is_file = ":memory:" not in path and "mode=memory" not in path and not path.startswith("file:")
    return Path(f"{path}-mcp-locks") if is_file else None
