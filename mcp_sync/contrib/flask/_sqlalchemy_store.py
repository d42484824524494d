"""The token store on SQLAlchemy, for all processes and machines that share a database."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Callable, Optional, TypeVar, Union

import sqlalchemy as sa

from ..._concurrency.deadline import Deadline
from ...auth import Key, Stored
from ...auth._locks import FolderLocks, ThreadLocks, wait_until_taken
from ...auth._store import new_version
from ...config import ConfigError
from ...errors import AuthError, UsageError
from ._stores import key_digest

T = TypeVar("T")

_PASSING = ("pending", "input")  # the kinds of records that are of use for some time only
_MOST_LOOKED_AT = 1000
_FIRST_LOOK, _LAST_LOOK = 0.005, 0.1


class SQLAlchemyTokenStore:
    """Keeps grants in a table of your database. `MCP` encrypts them.

    Each look and each change has a connection and a transaction of its own, so what was written stays when
    the session of the request is rolled back: a refresh token counts once. A change replaces one version and
    no other. The lock is an advisory one on PostgreSQL, MySQL and MariaDB, on a connection that the
    pool gives away for it, and a locked file beside the database on SQLite; on other databases it holds for
    the threads of a process.

    Args:
        bind: An engine, a session factory that is bound to one, or a function that returns an engine, as
            ``lambda: db.engine`` with Flask-SQLAlchemy.
        metadata: That of your tables, if migrations shall find this one.
        table: The name of the table.
    """

    def __init__(
        self,
        bind: Union[sa.Engine, Callable[[], Any], Any],
        *,
        metadata: Optional[sa.MetaData] = None,
        table: str = "mcp_sync_records",
    ) -> None:
        if not isinstance(bind, sa.Engine) and not callable(bind):
            raise UsageError("SQLAlchemyTokenStore needs an engine, or a function that returns one")
        self._bind = bind
        self._threads = ThreadLocks()
        self.table = sa.Table(
            table,
            sa.MetaData() if metadata is None else metadata,
            sa.Column("key", sa.String(64), primary_key=True),
            sa.Column("kind", sa.String(20), nullable=False),
            sa.Column("principal", sa.String(255), nullable=False),
            sa.Column("version", sa.String(32), nullable=False),
            sa.Column("value", sa.JSON, nullable=False),
            # MySQL's plain floats know the time to minutes.
            sa.Column("updated", sa.Float(53), nullable=False, index=True),
        )
        columns = self.table.c
        # Made once: each request looks up two records, together.
        is_asked = columns.key.in_(sa.bindparam("names", expanding=True))
        self._look = sa.select(columns.key, columns.value, columns.version).where(is_asked)

    def __repr__(self) -> str:
        return f"SQLAlchemyTokenStore({self.table.name!r})"

    @property
    def engine(self) -> sa.Engine:
        """The engine."""
        if isinstance(self._bind, sa.Engine):
            return self._bind
        found = self._bind()
        if isinstance(found, sa.Engine):
            return found
        # It may be the session of the request (a scoped_session), which is not ours to close.
        engine = found.get_bind()
        return engine if isinstance(engine, sa.Engine) else engine.engine

    def create_table(self) -> None:
        """Create the table, unless it is there.

        Raises:
            AuthError: The database cannot be used.
        """
        with self._edge():
            self.table.create(self.engine, checkfirst=True)

    def check(self) -> None:
        """See that the table is there, with all its columns.

        Raises:
            ConfigError: It is not, or the database cannot be used.
        """
        name = self.table.name
        try:
            there = {str(each["name"]) for each in sa.inspect(self.engine).get_columns(name)}
        except sa.exc.NoSuchTableError:
            there = set()
        except Exception as error:
            told = str(error).partition("\n")[0]
            raise ConfigError(f"the database cannot be used: {type(error).__name__}: {told}") from None
        if not there:
            raise ConfigError(f"there is no table {name!r}: run flask mcp create-table, or your migrations")
        missing = [column.name for column in self.table.columns if column.name not in there]
        if missing:
            what = f"the columns {', '.join(missing)}" if len(missing) > 1 else f"the column {missing[0]}"
            raise ConfigError(
                f"the table {name!r} lacks {what}: have your migrations add that, or give the store another "
                "name by table="
            )

    def unreadable(self, can_read: Callable[[Any], bool]) -> int:
        """Return how many of the newest 1000 records cannot be read.

        Args:
            can_read: Whether what is kept of a record can be.
        """
        columns = self.table.c
        query = sa.select(columns.value).order_by(columns.updated.desc()).limit(_MOST_LOOKED_AT)
        with self._edge(), self.engine.connect() as connection:
            return sum(not can_read(value) for (value,) in connection.execute(query))

    @contextmanager
    def _edge(self) -> Iterator[None]:
        """Say what to do about errors of the database, whose text may hold a password."""
        try:
            yield
        except sa.exc.SQLAlchemyError as error:
            kind, name = type(error).__name__, self.table.name
            raise AuthError(
                f"the token store cannot use its table {name!r} ({kind}); flask mcp check says why"
            ) from error

    def prune(self, seconds: float) -> int:
        """Delete what nobody has come back to for so long; return how many records.

        That is logins and questions, and what was found out about servers for visitors who have no grant.
        """
        columns = self.table.c
        # MySQL deletes from no table that it reads from, unless it has read it before.
        granted = sa.select(columns.principal).where(columns.kind == "grant").subquery()
        is_idle = sa.and_(columns.kind == "server", columns.principal.not_in(sa.select(granted.c.principal)))
        is_over = sa.or_(columns.kind.in_(_PASSING), is_idle)
        is_old = sa.and_(is_over, columns.updated < time.time() - seconds)
        with self._edge(), self.engine.begin() as connection:
            return int(connection.execute(self.table.delete().where(is_old)).rowcount)

    def get(self, key: Key) -> Optional[Stored]:
        """See `mcp_sync.auth.Store`."""
        return self.get_many([key]).get(key)

    def get_many(self, keys: Sequence[Key]) -> dict[Key, Stored]:
        """Return what is kept under some keys, by one query."""
        names = {key_digest(key): key for key in keys}
        with self._edge():
            try:
                rows = self._rows(list(names))
            except sa.exc.DBAPIError as error:
                if not error.connection_invalidated:
                    raise
                # The database was restarted, say, and by now the pool has dropped all connections of before.
                rows = self._rows(list(names))
        return {names[name]: Stored(dict(value), version) for name, value, version in rows}

    def _rows(self, names: list[str]) -> Sequence[Any]:
        with self._looking() as connection:
            return connection.execute(self._look, {"names": names}).all()

    @contextmanager
    def _looking(self) -> Iterator[sa.Connection]:
        engine = self.engine
        with engine.connect() as connection:
            if engine.dialect.name == "postgresql":
                # No transaction, which would have to be ended: a way to the database and back. With MySQL it
                # would be one way more.
                connection.execution_options(isolation_level="AUTOCOMMIT")
            yield connection

    def put(self, key: Key, value: Optional[Mapping[str, Any]], expected: Optional[str]) -> bool:
        """See `mcp_sync.auth.Store`."""
        name, columns = key_digest(key), self.table.c
        held = sa.and_(columns.key == name, columns.version == expected)
        with self._edge():
            if value is None:
                if expected is None:
                    return self.get(key) is None
                return self._change(self.table.delete().where(held)) == 1
            row = {"value": dict(value), "version": new_version(), "updated": time.time()}
            if expected is not None:
                return self._change(self.table.update().where(held).values(**row)) == 1
            about = {"key": name, "kind": key.kind, "principal": key.principal[:255]}
            try:
                self._change(self.table.insert().values(**row, **about))
            except sa.exc.IntegrityError:
                return False
            return True

    def _change(self, statement: Any) -> int:
        """Return how many rows it has changed, of those that were there."""
        with self.engine.begin() as connection:
            return int(connection.execute(statement).rowcount)

    @contextmanager
    def lock(self, key: Key, deadline: Deadline) -> Iterator[None]:
        """See `mcp_sync.auth.Store`."""
        name, engine = key_digest(key), self.engine
        with ExitStack() as stack:
            stack.enter_context(self._threads.hold(name, deadline))
            database = engine.url.database or ""
            if engine.dialect.name == "sqlite" and database and ":memory:" not in database:
                folder = FolderLocks(Path(f"{database}-mcp-locks"))
                stack.enter_context(folder.hold(f"{name}.lock", deadline))
            elif engine.dialect.name in _LOCKS:
                with self._edge():
                    stack.enter_context(_locked(engine, name, deadline))
            yield


# Such names are those of the whole server, and at most 64 characters long with MySQL.
_BY_NAME = "SELECT GET_LOCK(SHA2(CONCAT_WS('/', DATABASE(), :text), 256), 0)"
# On PostgreSQL it belongs to a transaction: there may be a pooler on the way, for which that is what has a
# session.
_LOCKS = {
    "postgresql": "SELECT pg_try_advisory_xact_lock(:number)",
    "mysql": _BY_NAME,
    "mariadb": _BY_NAME,
}


@contextmanager
def _locked(engine: sa.Engine, name: str, deadline: Deadline) -> Iterator[None]:
    """Hold a lock of the database, which ends with its connection, however that ends."""
    values = {"number": int(name[:15], 16)} if engine.dialect.name == "postgresql" else {"text": name}
    take = sa.text(_LOCKS[engine.dialect.name]).bindparams(**values)
    connection = engine.connect()
    driver: Any = None
    try:
        if engine.dialect.name == "postgresql":
            # An engine may commit each statement, and the lock would end with it.
            connection.execution_options(isolation_level="READ COMMITTED")
        # Threads that held a connection each, and waited for another one, would find the pool empty.
        connection.detach()
        driver = connection.connection.dbapi_connection
        wait_until_taken(lambda: _is_taken(connection, take), deadline, _FIRST_LOOK, _LAST_LOOK)
        yield
    finally:
        try:
            connection.close()
        except sa.exc.SQLAlchemyError:
            # It is lost, and the lock with it. What is none of the pool's, nobody else closes.
            with suppress(Exception):
                driver.close()


def _is_taken(connection: sa.Connection, take: Any) -> bool:
    """Take a lock if it is free, in a transaction that is left open."""
    found = bool(connection.execute(take).scalar())
    if not found:
        connection.rollback()
    return found
