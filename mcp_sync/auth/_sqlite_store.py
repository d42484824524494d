"""The store for many users on one machine: a SQLite database."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any, Callable, Optional, TypeVar, Union

from .._concurrency import fork
from .._concurrency.deadline import Deadline
from ..errors import AuthError, UsageError
from ._errand import errand_here
from ._locks import FolderLocks, file_name
from ._private_files import check_file, make_file
from ._records import Key
from ._settings import as_path
from ._store import Stored, new_version

T = TypeVar("T")

# How long one look or change waits for those of others, in seconds, and how long in one go; each takes
# milliseconds.
_PATIENCE = 10.0
_SLICE = 0.05
_TABLE = """
CREATE TABLE IF NOT EXISTS mcp_sync_store (
    kind TEXT, issuer TEXT, resource TEXT, principal TEXT, client TEXT,
    version TEXT NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (kind, issuer, resource, principal, client)
) WITHOUT ROWID
"""
_WHERE = "WHERE kind = ? AND issuer = ? AND resource = ? AND principal = ? AND client = ?"


class SQLiteStore:
    """Keeps records in a table of a SQLite database.

    The database may hold other tables too. Its file is for its owner only. For threads, processes and forked
    children of one machine: each look and each change has a connection of its own. Beside the file there is a
    folder, named like it with ``-locks`` at the end, whose files are there while a lock is held.

    Args:
        path: The file. It is made when it is needed, and so is its folder; ``~`` is the home directory.

    Raises:
        AuthError: From every method: the database cannot be read or written. The message names it, and
            nothing is lost.
    """

    def __init__(self, path: Union[str, os.PathLike[str]]) -> None:
        place = as_path("path", path)
        if os.fspath(path) in ("", ":memory:"):
            raise UsageError("SQLiteStore needs a file; MemoryStore keeps records in memory")
        self._path = place
        self._locks = FolderLocks(Path(f"{self._path}-locks"))

    def __repr__(self) -> str:
        return f"SQLiteStore({str(self._path)!r})"

    def get(self, key: Key) -> Optional[Stored]:
        """See `Store.get`."""
        row = self._connected(lambda database: _row(database, key)) if check_file(self._path) else None
        if row is None:
            return None
        value = _decoded(row[0])
        if value is None:
            raise AuthError(f"the token store has a damaged record of the kind {key.kind}: {self._path}")
        return Stored(value, str(row[1]))

    def put(self, key: Key, value: Optional[Mapping[str, Any]], expected: Optional[str]) -> bool:
        """See `Store.put`."""
        text = None if value is None else json.dumps(value)
        make_file(self._path)
        # SQLite lets those who wait for others go in no order, and some of many never.
        with self._locks.writing("write.lock", _PATIENCE):
            return self._connected(lambda database: _exchange(database, key, text, expected))

    def lock(self, key: Key, deadline: Deadline) -> AbstractContextManager[None]:
        """See `Store.lock`."""
        return self._locks.hold(f"{file_name(key)}.lock", deadline)

    def _connected(self, use: Callable[[_Database], T]) -> T:
        try:
            # A child that is forked in the middle of it would inherit locks inside the library.
            with fork.no_fork(), closing(_Database(self._path)) as database:
                return use(database)
        except sqlite3.Error as error:
            raise AuthError(f"the token store cannot be used: {error}: {self._path}") from error


class _Database:
    """A connection that waits for those of others, as long as somebody waits for it."""

    def __init__(self, path: Path) -> None:
        self._errand = errand_here()
        self._deadline = self._errand.within(_PATIENCE)
        # With its journal as it is, by default not the write-ahead log. With that readers never wait for
        # writers; but on a full disk or in a read-only folder nothing can be read, and over a network nothing
        # works.
        self._connection = sqlite3.connect(str(path), timeout=_SLICE, isolation_level=None)
        try:
            self.run("PRAGMA secure_delete = ON")
        except BaseException:
            self.close()
            raise

    def run(self, statement: str, values: Sequence[str] = ()) -> sqlite3.Cursor:
        """Execute a statement.

        Raises:
            sqlite3.Error: It cannot be executed, or others keep the database locked.
            CallTimeout, ConnectionLost: Nobody waits for it any more.
        """
        while True:
            try:
                return self._connection.execute(statement, values)
            except sqlite3.OperationalError as error:
                if not str(error).startswith("database is locked"):
                    raise
                self._errand.check(self._errand.deadline, "the wait for the database of the token store")
                if self._deadline.expired:
                    raise

    def roll_back(self) -> None:
        """End a transaction, unless it has ended."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """End it."""
        self._connection.close()


def _row(database: _Database, key: Key) -> Any:
    try:
        return database.run(f"SELECT value, version FROM mcp_sync_store {_WHERE}", _texts(key)).fetchone()
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            return None
        raise


def _exchange(database: _Database, key: Key, text: Optional[str], expected: Optional[str]) -> bool:
    """Replace a record, unless it has another version than is expected. Ends its transaction in any case."""
    database.run("BEGIN IMMEDIATE")
    try:
        database.run(_TABLE)
        row = _row(database, key)
        if (row[1] if row is not None else None) != expected:
            return False
        if text is None:
            database.run(f"DELETE FROM mcp_sync_store {_WHERE}", _texts(key))
        else:
            row = (*_texts(key), new_version(), text)
            database.run("REPLACE INTO mcp_sync_store VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        database.run("COMMIT")
        return True
    finally:
        database.roll_back()


def _texts(key: Key) -> list[str]:
    # SQLite does not take every string, but every string of ASCII.
    return [json.dumps(part)[1:-1] for part in key]


def _decoded(text: Any) -> Optional[dict[str, Any]]:
    # An error would carry the text along, so none leaves this place.
    try:
        value = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
