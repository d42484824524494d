"""A lock of the database: it holds for all processes of all machines.

It is a locked row, with MySQL a lock by name: whoever looks at a locked row may have to wait there. It has a
connection and a transaction of its own, so that it ends with its holder, however that ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

from django.db import DatabaseError, IntegrityError, OperationalError, connections

from ..._concurrency.deadline import Deadline
from ...auth._locks import wait_until_taken
from ._connections import make_own, unusable

_FIRST_LOOK = 0.005
_LAST_LOOK = 0.1  # how long a look at a locked row may have to wait, in seconds
_TABLE = "mcp_sync_storelock"
# Such names are those of the whole server, and at most 64 characters long with MySQL.
_TAKE_BY_NAME = "SELECT GET_LOCK(SHA2(CONCAT_WS('/', DATABASE(), %s), 256), 0)"


@contextmanager
def database_lock(database: str, key: str, deadline: Deadline) -> Iterator[None]:
    """Hold the lock of a key.

    Raises:
        CallTimeout: Somebody else held it until the deadline.
        AuthError: The database cannot be used.
    """
    with closing(connections.create_connection(database)) as connection:
        is_by_name = connection.vendor == "mysql"
        take = _taken_by_name if is_by_name else _taken
        try:
            make_own(connection)
            wait_until_taken(lambda: take(connection, key), deadline, _FIRST_LOOK, _LAST_LOOK)
        except DatabaseError as error:
            raise unusable(error) from error.with_traceback(None)  # See `_connections.run`.
        try:
            yield
        finally:
            with suppress(Exception):  # The connection is lost: so is the lock.
                if not is_by_name:
                    _execute(connection, f"DELETE FROM {_TABLE} WHERE {_name(connection)} = %s", key)
                    connection.commit()


def _taken_by_name(connection: Any, key: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(_TAKE_BY_NAME, [key])
        return bool(cursor.fetchone()[0])


def _taken(connection: Any, key: str) -> bool:
    """Lock the row if it is free, in a transaction that is left open."""
    name = _name(connection)
    connection.set_autocommit(True)
    with suppress(IntegrityError):
        _execute(connection, f"INSERT INTO {_TABLE} ({name}) VALUES (%s)", key)
    connection.set_autocommit(False)
    nowait = "NOWAIT" if connection.features.has_select_for_update_nowait else ""
    try:
        found = _execute(connection, f"SELECT 1 FROM {_TABLE} WHERE {name} = %s FOR UPDATE {nowait}", key)
    except OperationalError:
        found = False
    if not found:
        connection.rollback()
    return found


def _execute(connection: Any, statement: str, key: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(statement, [key])
        return bool(cursor.description and cursor.fetchone())


def _name(connection: Any) -> str:
    return str(connection.ops.quote_name("key"))
