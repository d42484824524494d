"""The pools of our connections: urllib3's, with a queue that drops nothing.

A pool knows how to make a connection, with its proxy and its TLS settings. What is ours is that it hands
connections out to an `Exchange`, and takes them back.
"""

from __future__ import annotations

import queue
import ssl
from collections import deque
from typing import Any, Optional, Union, cast

from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.util.ssl_ import create_urllib3_context, resolve_cert_reqs

from ..exchange import Exchange
from .connection import BoundedConnection, PlainConnection, TLSConnection

Tunnel = Union[bool, tuple[str, int]]
"""Whether a proxy has to pass everything on; for a server without TLS its host and port."""


class IdleConnections:
    """The queue of a pool: last in, first out, without lock and bound.

    It grows to as many connections as callers needed at a time, and drops none.
    """

    def __init__(self, maxsize: int = 0) -> None:
        self._items: deque[Any] = deque()

    def get(self, block: bool = True, timeout: Optional[float] = None) -> Any:
        """Take the connection that was used last.

        Raises:
            queue.Empty: There is none. It never blocks.
        """
        try:
            return self._items.pop()
        except IndexError:
            raise queue.Empty from None

    def put(self, item: Any, block: bool = True, timeout: Optional[float] = None) -> None:
        """Keep a connection. The placeholders of urllib3 are left out."""
        if item is not None:
            self._items.append(item)

    def close_oldest_stale(self) -> None:
        """Close the connection that was not used for longest, if its server has closed it.

        Since the last in is the first out, nothing else would ever look at it. Whoever calls this holds no
        connection, so that nobody misses the one that is looked at.
        """
        try:
            conn = self._items.popleft()
        except IndexError:
            return
        try:
            if not conn.is_stale():
                self._items.appendleft(conn)
                return
        except BaseException:
            conn.close()
            raise
        conn.close()


class BoundedPool(HTTPConnectionPool):
    """Hands out connections that are bound to an exchange."""

    QueueCls = cast(Any, IdleConnections)

    def acquire(self, exchange: Exchange, tunnel: Tunnel, fresh: bool = False) -> BoundedConnection:
        """Return a connected connection, bound to the exchange."""
        while not fresh:
            try:
                conn = self._idle().get()
            except queue.Empty:
                break
            conn.pool = self
            try:
                if conn.reuse(exchange):
                    return cast(BoundedConnection, conn)
            except BaseException:
                conn.close()
                raise
            conn.close()
        return self._open(exchange, tunnel)

    def _idle(self) -> IdleConnections:
        if self.pool is None:
            raise ConnectionError("the pool is closed")
        return cast(IdleConnections, self.pool)

    def _open(self, exchange: Exchange, tunnel: Tunnel) -> BoundedConnection:
        conn = cast(Any, self._new_conn())
        conn.pool = self
        try:
            conn.open(exchange, lambda: self._connect(conn, tunnel))
        except BaseException:
            conn.close()
            raise
        return cast(BoundedConnection, conn)

    def _connect(self, conn: Any, tunnel: Tunnel) -> None:
        if tunnel is True:
            self._prepare_proxy(conn)
        self._validate_conn(conn)
        if conn.sock is None:
            conn.connect()
        if isinstance(tunnel, tuple):
            conn.dig(*tunnel, self.proxy_headers)

    def _put_conn(self, conn: Any) -> None:
        """Take a connection back, or close it where it cannot be used any more."""
        idle = self.pool
        if conn is None:
            return
        if not conn.give_back() or idle is None:
            conn.close()
            return
        # urllib3 keeps the queue alive until the pool is collected; it must not lead back to the pool.
        conn.pool = None
        idle.put(conn)
        cast(IdleConnections, idle).close_oldest_stale()
        if self.pool is None:  # Closed meanwhile, maybe before the connection was in.
            _close_all(cast(Any, idle))

    def close_idle(self) -> None:
        """Close the connections that nobody uses."""
        if self.pool is not None:
            _close_all(cast(Any, self.pool))


def _close_all(idle: IdleConnections) -> None:
    while True:
        try:
            idle.get().close()
        except queue.Empty:
            return


class PlainPool(BoundedPool):
    """For http."""

    ConnectionCls = cast(Any, PlainConnection)


class TLSPool(BoundedPool, HTTPSConnectionPool):
    """For https. Its connections share one TLS context, since reading the certificates takes long."""

    ConnectionCls = cast(Any, TLSConnection)
    _context: Optional[ssl.SSLContext] = None

    def _new_conn(self) -> Any:
        conn: Any = super()._new_conn()
        if self.proxy is None or self.proxy.scheme != "https":
            if self._context is None:
                self._context = _tls_context(conn)
            conn.ssl_context = self._context
            conn.ca_certs = conn.ca_cert_dir = conn.cert_file = conn.key_file = None
        return conn


def _tls_context(conn: Any) -> ssl.SSLContext:
    context = create_urllib3_context(cert_reqs=resolve_cert_reqs(conn.cert_reqs))
    if conn.ca_certs or conn.ca_cert_dir:
        context.load_verify_locations(conn.ca_certs, conn.ca_cert_dir)
    if conn.cert_file:
        context.load_cert_chain(conn.cert_file, conn.key_file)
    return context


POOL_CLASSES: dict[str, Any] = {"http": PlainPool, "https": TLSPool}
