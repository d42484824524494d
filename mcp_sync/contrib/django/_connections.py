"""On which database connection the token store works.

What a token store writes must stay, whatever becomes of the request: a refresh token that was used is worth
nothing, and a rollback (``ATOMIC_REQUESTS``) would bring just that one back. So within a transaction a thread
with a connection of its own does the work. In a ``TestCase``, whose rows no other connection can see, and
outside of transactions, the caller's connection does.

Nobody but Django closes the connections of requests, and then nobody those of the threads of this package:
they do it themselves when they end.
"""

from __future__ import annotations

import atexit
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, Callable, Optional, TypeVar

from django.db import DatabaseError, OperationalError, connections, transaction

from ..._concurrency import fork, threads
from ..._concurrency.deadline import Deadline
from ..._concurrency.workers import Workers
from ...auth._errand import errand_here
from ...errors import AuthError
from . import conf

T = TypeVar("T")

_PATIENCE = 10.0  # how long one operation may take, in seconds
# How long a thread keeps its connection that has nothing to do, and how old it may get, in seconds.
_CONNECTION_AGE = 60
# How long who is in a transaction waits for a lock: mostly it is that very transaction which has it.
_LOCK_PATIENCE = 1.0
_READ_PATIENCE = 0.1  # likewise, where what is wanted can be had in the transaction itself
_LOCKED = "a transaction, probably that of this request, keeps the token store from being used"
_CONNECT_BEFORE = "connect the user before, or lock less"
_ADVICE = {
    "sqlite": "SQLite locks its whole file; use its WAL mode, or a database that locks rows",
    "postgresql": f"it has locked the row of the user; {_CONNECT_BEFORE}",
    "mysql": f"it has changed or locked the row of the user; {_CONNECT_BEFORE}",
}
# How a connection is asked how long it waits for a lock, and told; how many of its units make a second; and
# the fewest of them.
_WAITS = {
    "sqlite": ("PRAGMA busy_timeout", "PRAGMA busy_timeout = {}", 1000, 0),
    "mysql": ("SELECT @@innodb_lock_wait_timeout", "SET innodb_lock_wait_timeout = {}", 1, 1),
}
_SQLITE_TIMEOUT = 5.0  # how long SQLite waits for a lock where the settings say nothing, in seconds
_LOCK_TIMEOUTS = {"postgresql": "55P03", "mysql": 1205}  # what drivers call it when that time is over
_THREADS = 2
_WAITING = 1000  # operations
_CLOSE_SECONDS = 5.0

# Whether it was in a transaction of its own that whoever works in this context has looked last. The thread
# that refreshes a token has a copy of the context of who waits for it.
_is_in_transaction: ContextVar[bool] = ContextVar("mcp_sync_is_in_transaction", default=False)


class StoreLocked(AuthError):
    """The transaction of a request keeps the token store from being used. Nothing was used up.

    Attributes:
        alias: The server whose grant it is.
    """

    alias = ""


class StoreSlow(AuthError):
    """The database of the token store has not done what was asked of it in time."""

    def __init__(self, message: str) -> None:
        super().__init__(message, transient=True)


def is_of_database(error: BaseException) -> bool:
    """Whether an error says that the database of the token store cannot be used, or not in time."""
    return isinstance(error, StoreSlow) or (
        isinstance(error, AuthError) and isinstance(error.__cause__, DatabaseError)
    )


def is_test_case() -> bool:
    """Whether this thread's connection is in the transaction that ends a test."""
    blocks = getattr(connections[conf.get("DATABASE")], "atomic_blocks", None) or [None]
    return bool(getattr(blocks[0], "_from_testcase", False))


def run(
    operation: Callable[[], T], alias: str, *, patience: Optional[float] = None, reads: bool = False
) -> T:
    """Do something with the database that stays, and return what it returns.

    Args:
        operation: What.
        alias: For which server.
        patience: How long to wait for a lock, in seconds; by default as the settings say.
        reads: Whether it only reads, for which SQLite alone has locks.

    Raises:
        StoreLocked: A transaction is in the way.
        AuthError: It takes too long, or cannot be done.
    """
    connection = connections[conf.get("DATABASE")]
    try:
        if threading.current_thread().name.startswith("mcp_sync-"):
            make_own(connection)
            return _within(_short(patience) if is_in_transaction() else patience, reads, operation)
        if not look():
            return _within(patience, reads, operation)
        try:
            short = _READ_PATIENCE if reads else _short(patience)
            return _helpers.run(lambda: _within(short, reads, operation))
        except OperationalError as error:
            if not reads or not _is_locked(connection, error) or connection.needs_rollback:
                raise
            error.with_traceback(None)  # See below.
        # Somebody is about to commit, and waits for this transaction to end: nothing else can be read then.
        return operation()
    except DatabaseError as error:
        # A frame of Django's knows its own error, and that keeps alive whatever the frames hold.
        error.with_traceback(None)
        if isinstance(error, OperationalError) and _is_locked(connection, error):
            raise _locked_for(alias, connection.vendor) from error
        raise unusable(error) from error


def unusable(error: DatabaseError) -> AuthError:
    """Return what to say about an error of the database: the text of a driver may hold a password."""
    return AuthError(
        f"the token store cannot use the database {conf.get('DATABASE')!r}: {type(error).__name__}; "
        "if its tables are not there, run manage.py migrate"
    )


def _locked_for(alias: str, vendor: str) -> StoreLocked:
    error = StoreLocked(f"{_LOCKED}: {_ADVICE[vendor]}")
    error.alias = alias
    return error


def _is_locked(connection: Any, error: OperationalError) -> bool:
    if connection.vendor == "sqlite":
        return "locked" in str(error)
    # psycopg 3, and its predecessor; the drivers of MySQL.
    told = [getattr(error.__cause__, name, None) for name in ("sqlstate", "pgcode")] + [*error.args[:1]]
    return _LOCK_TIMEOUTS.get(connection.vendor, error) in told


def _short(patience: Optional[float]) -> float:
    return _LOCK_PATIENCE if patience is None else min(patience, _LOCK_PATIENCE)


def _within(patience: Optional[float], reads: bool, operation: Callable[[], T]) -> T:
    """Do something on the connection of this thread, which waits so long for a lock."""
    connection = connections[conf.get("DATABASE")]
    if patience is None or (reads and connection.vendor != "sqlite"):
        return operation()
    if connection.vendor == "postgresql":
        return _within_postgresql(connection, patience, operation)
    if connection.vendor == "sqlite" and connection.connection is None:
        _connect_sqlite(connection, patience)
    if connection.vendor in _WAITS:
        return _within_setting(connection, patience, operation)
    return operation()


def _within_setting(connection: Any, patience: float, operation: Callable[[], T]) -> T:
    ask, tell, units, least = _WAITS[connection.vendor]
    with connection.cursor() as cursor:
        cursor.execute(ask)
        usual = cursor.fetchone()[0]
        cursor.execute(tell.format(min(max(int(patience * units), least), usual)))
    try:
        return operation()
    finally:
        with suppress(DatabaseError), connection.cursor() as cursor:
            cursor.execute(tell.format(usual))


def _connect_sqlite(connection: Any, patience: float) -> None:
    """Connect, and wait so long for a lock: recent versions read the file for whatever Django asks then."""
    settings = connection.settings_dict
    options = settings["OPTIONS"]
    usual = options.get("timeout", _SQLITE_TIMEOUT)
    usual_factory = options.get("factory", connection.Database.Connection)
    made: list[Any] = []

    def factory(*args: Any, **keywords: Any) -> Any:
        made.append(usual_factory(*args, **keywords))
        return made[-1]

    short = {**options, "timeout": min(patience, usual), "factory": factory}
    connection.settings_dict = {**settings, "OPTIONS": short}
    try:
        connection.ensure_connection()
    except BaseException:
        connection.close()
        for each in made:  # Django knows none that it has not finished.
            each.close()
        raise
    finally:
        connection.settings_dict = settings
    with connection.cursor() as cursor:
        cursor.execute(f"PRAGMA busy_timeout = {int(usual * 1000)}")


def _within_postgresql(connection: Any, patience: float, operation: Callable[[], T]) -> T:
    with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
        # Not for the session: where there is a pooler, others go on with that.
        cursor.execute(f"SET LOCAL lock_timeout = {max(int(patience * 1000), 1)}")
        # So that the operation itself finds out whether the user is there.
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        return operation()


def is_in_transaction() -> bool:
    """Whether whoever works in this context was in a transaction of its own when it looked last."""
    return _is_in_transaction.get()


def look() -> bool:
    """Find out, and note for this context, whether this thread is in a transaction that others may undo."""
    connection = connections[conf.get("DATABASE")]
    in_transaction = connection.in_atomic_block or (
        connection.connection is not None and not connection.autocommit
    )
    found = bool(in_transaction and not is_test_case())
    _is_in_transaction.set(found)
    return found


def make_own(connection: Any) -> None:
    """Have a connection be one of this package's own.

    It is kept for a while, also where those of requests are not, and replaced when it is broken, as after a
    restart of the database. And it comes from no pool: the requests that wait for what it is needed for may
    have all connections of that.
    """
    connection.close_if_unusable_or_obsolete()
    if connection.connection is None:
        options = {**connection.settings_dict["OPTIONS"]}
        options.pop("pool", None)
        connection.settings_dict = {
            **connection.settings_dict,
            "OPTIONS": options,
            "CONN_MAX_AGE": _CONNECTION_AGE,
            "CONN_HEALTH_CHECKS": True,
        }


def close_own() -> None:
    """Close the connections of this thread."""
    connections.close_all()


def watch_threads() -> None:
    """Have the threads of this package close their connections when they end."""
    if close_own not in threads.at_end:
        threads.at_end.append(close_own)


class _Helpers:
    """A few threads, each with a database connection, which are there while they are needed."""

    def __init__(self) -> None:
        self._renew()
        fork.watch(self)

    def _renew(self) -> None:
        self._workers: Optional[Workers] = None
        # Guards `_workers`. Nothing happens under it.
        self._lock = threading.Lock()

    def after_fork_in_child(self) -> None:
        """Have threads of its own; those of the parent stay as they are."""
        self._renew()

    def run(self, operation: Callable[[], T]) -> T:
        """Have a thread do it."""
        left = errand_here().within(_PATIENCE)
        future: Future[T] = Future()
        with self._lock:
            if self._workers is None:
                self._workers = Workers("django", "store", _THREADS, _WAITING, _CONNECTION_AGE)
            is_coming = self._workers.submit(_do, operation, future)
        if not is_coming:
            raise StoreSlow("no thread can be had that reads the token store")
        try:
            return future.result(left.remaining())
        except FutureTimeout:
            if future.cancel() or not future.done():
                raise StoreSlow("the database of the token store takes too long") from None
            return future.result()
        finally:
            del future  # A frame that knows its own error is a circle, and keeps connections alive.

    def close(self) -> None:
        """End the threads, which close their connections."""
        with self._lock:
            workers, self._workers = self._workers, None
        if workers is not None:
            workers.close(Deadline(_CLOSE_SECONDS), finish=True)


def _do(operation: Callable[[], T], future: Future[T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        make_own(connections[conf.get("DATABASE")])
        future.set_result(operation())
    except BaseException as error:
        future.set_exception(error)
    finally:
        del future, operation  # As above.


_helpers = _Helpers()
close = _helpers.close
atexit.register(close)
