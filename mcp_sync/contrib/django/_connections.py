"""On which database connection the token store works.

What a token store writes must stay, whatever becomes of the request: a refresh token that was used is worth
nothing, and a rollback (``ATOMIC_REQUESTS``) would bring just that one back. So within a transaction a thread
with a connection of its own does the work. In a ``TestCase``, whose rows no other connection can see, and
outside of transactions, the caller's connection does.
"""

from __future__ import annotations

import atexit
import threading
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, Callable, TypeVar

from django.db import OperationalError, connections

from ..._concurrency import fork
from ...auth._errand import errand_here
from ...errors import AuthError
from . import conf

T = TypeVar("T")

_PATIENCE = 10.0  # how long one operation may take, in seconds
_CONNECTION_AGE = 60
_SQLITE_PATIENCE = 1.0
_LOCKED = (
    "a transaction, probably that of this request, keeps the token store from being written: SQLite locks "
    "its whole file; use its WAL mode, or name another database by MCP_SYNC['DATABASE']"
)
_THREADS = 2


def is_test_case() -> bool:
    """Whether this thread's connection is in the transaction that ends a test."""
    blocks = getattr(connections[conf.get("DATABASE")], "atomic_blocks", None) or [None]
    return bool(getattr(blocks[0], "_from_testcase", False))


def run(operation: Callable[[], T]) -> T:
    """Do something with the database that stays, and return what it returns.

    Raises:
        AuthError: It takes too long, or on SQLite the transaction of this request is in the way.
    """
    connection = connections[conf.get("DATABASE")]
    is_open = connection.connection is not None
    in_transaction = connection.in_atomic_block or (is_open and not connection.autocommit)
    try:
        if in_transaction and not is_test_case():
            return _helpers.run(operation)
        return _inline(operation, connection, is_open)
    except OperationalError as error:
        if connection.vendor == "sqlite" and "locked" in str(error):
            raise AuthError(_LOCKED) from error
        raise


def _inline(operation: Callable[[], T], connection: Any, was_open: bool) -> T:
    try:
        return operation()
    finally:
        # Threads of the client end without anybody closing what they have opened.
        if not was_open and threading.current_thread().name.startswith("mcp_sync-"):
            connection.close()


class _Helpers:
    """A few threads, each with a database connection, made when they are needed."""

    def __init__(self) -> None:
        self._renew()
        fork.watch(self)

    def _renew(self) -> None:
        self._pool: Any = None
        self._opened: list[Any] = []
        # Guards `_pool`. Nothing happens under it.
        self._lock = threading.Lock()

    def after_fork_in_child(self) -> None:
        """Have threads and connections of its own; those of the parent stay as they are."""
        self._renew()

    def run(self, operation: Callable[[], T]) -> T:
        """Have a thread do it."""
        errand = errand_here()
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(_THREADS, "mcp_sync-django")
            future = self._pool.submit(self._do, operation)
        try:
            return future.result(errand.within(_PATIENCE).remaining())  # type: ignore[no-any-return]
        except FutureTimeout:
            if future.cancel() or not future.done():
                raise AuthError("the database of the token store takes too long") from None
            return future.result()  # type: ignore[no-any-return]

    def _do(self, operation: Callable[[], T]) -> T:
        connection = connections[conf.get("DATABASE")]
        if connection not in self._opened:
            # Kept for a while, also where the connections of requests are not.
            changes: dict[str, Any] = {"CONN_MAX_AGE": _CONNECTION_AGE}
            if connection.vendor == "sqlite":
                # Mostly it is the transaction of this very request that locks the database.
                options = connection.settings_dict["OPTIONS"]
                changes["OPTIONS"] = {**options, "timeout": min(options.get("timeout", 5), _SQLITE_PATIENCE)}
            connection.settings_dict = {**connection.settings_dict, **changes}
            connection.inc_thread_sharing()
            self._opened.append(connection)
        connection.close_if_unusable_or_obsolete()
        return operation()

    def close(self) -> None:
        """End the threads, and close their connections."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=True)
        while self._opened:
            self._opened.pop().close()


_helpers = _Helpers()
close = _helpers.close
atexit.register(close)
