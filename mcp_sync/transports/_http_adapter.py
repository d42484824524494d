"""The requests adapter of the fast path: requests' meaning without its repeated work.

Any authorization hook works with it: it takes a `requests.PreparedRequest` and returns a
`requests.Response`, and ``response.connection.send(request, **kwargs)`` repeats a request. A pool is looked
up once for each URL, headers and body leave in one write, and connections are kept as many as were needed.
"""

from __future__ import annotations

import http.client
import queue
import socket
import ssl
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple, Optional, Union, cast
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from requests.utils import select_proxy
from urllib3.connection import CertificateError  # type: ignore[attr-defined]
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import HTTPError
from urllib3.util.proxy import connection_requires_http_tunnel
from urllib3.util.ssl_ import create_urllib3_context, resolve_cert_reqs

from ._http_connection import BoundedConnection, PlainConnection, TLSConnection
from ._http_exchange import Exchange
from ._http_response import Answer, Headers
from ._http_socket import NothingSent
from ._http_target import DEFAULT_PORTS

_ROUTES_KEPT = 32


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

    def qsize(self) -> int:
        """Return how many there are."""
        return len(self._items)


class _BoundedPool(HTTPConnectionPool):
    """Hands out connections that are bound to an exchange."""

    QueueCls = cast(Any, IdleConnections)

    def acquire(self, exchange: Exchange, tunnel: bool, fresh: bool = False) -> BoundedConnection:
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

    def _open(self, exchange: Exchange, tunnel: bool) -> BoundedConnection:
        conn = cast(Any, self._new_conn())
        conn.pool = self
        try:
            conn.open(exchange, lambda: self._connect(conn, tunnel))
        except BaseException:
            conn.close()
            raise
        return cast(BoundedConnection, conn)

    def _connect(self, conn: Any, tunnel: bool) -> None:
        if tunnel:
            self._prepare_proxy(conn)
        self._validate_conn(conn)
        if conn.sock is None:
            conn.connect()

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


class PlainPool(_BoundedPool):
    """For http."""

    ConnectionCls = cast(Any, PlainConnection)


class TLSPool(_BoundedPool, HTTPSConnectionPool):
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


_POOL_CLASSES: dict[str, Any] = {"http": PlainPool, "https": TLSPool}


def _pool_classes(proxy: str) -> dict[str, Any]:
    if not proxy.lower().startswith("socks"):
        return _POOL_CLASSES
    from ._http_socks import POOL_CLASSES

    return POOL_CLASSES


class _Route(NamedTuple):
    """How requests for a URL travel."""

    pool: _BoundedPool
    tunnel: bool
    start: str
    host: str
    proxy_headers: tuple[tuple[str, str], ...]


class BoundedAdapter(HTTPAdapter):
    """Sends requests within the bounds of an `Exchange`, which is passed in the place of ``timeout``.

    Safe for any number of threads. Nothing is repeated by itself, except that a kept connection which the
    server has closed is replaced before anything is sent.
    """

    def __init__(self) -> None:
        self._routes: dict[tuple[Any, ...], _Route] = {}
        super().__init__(max_retries=0)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Make the manager of our pools."""
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = cast(Any, _POOL_CLASSES)

    def proxy_manager_for(self, proxy: str, **proxy_kwargs: Any) -> Any:
        """Return the manager of our pools that lead through a proxy."""
        is_new = proxy not in self.proxy_manager
        manager = super().proxy_manager_for(proxy, **proxy_kwargs)
        if is_new:
            manager.pool_classes_by_scheme = _pool_classes(proxy)
        return manager

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: Union[bool, str] = True,
        cert: Any = None,
        proxies: Optional[Mapping[str, str]] = None,
    ) -> requests.Response:
        """Send a request and read the head of the response.

        Args:
            timeout: An `Exchange`, or what requests takes.

        Raises:
            requests.RequestException: It failed.
        """
        exchange = Exchange.of(timeout)
        exchange.sent = False
        try:
            answer = self._send(request, exchange, self._route(request, verify, cert, proxies))
        except (OSError, http.client.HTTPException, HTTPError, CertificateError) as error:
            fault = _translated(error, exchange, request)
            if fault is error:
                raise
            raise fault from error
        if not stream:
            answer.content  # noqa: B018
        return answer

    def _send(self, request: requests.PreparedRequest, exchange: Exchange, route: _Route) -> Answer:
        data = _serialized(request, route)
        conn = route.pool.acquire(exchange, route.tunnel)
        try:
            try:
                conn.transmit(data)
            except NothingSent:
                conn.close()
                exchange.unmark_sent()
                conn = route.pool.acquire(exchange, route.tunnel, fresh=True)
                conn.transmit(data)
            answer = Answer(conn.receive(request.method), request, conn)
        except BaseException:
            conn.close()
            raise
        answer.connection = self
        return answer

    def _route(self, request: requests.PreparedRequest, verify: Any, cert: Any, proxies: Any) -> _Route:
        proxy = select_proxy(request.url or "", proxies) if proxies else None
        key = (request.url, proxy, verify, cert)
        try:
            return self._routes[key]
        except KeyError:
            pass
        route = self._find_route(request, verify, cert, proxies)
        if len(self._routes) >= _ROUTES_KEPT:
            self._routes.clear()
        self._routes[key] = route
        return route

    def _find_route(self, request: requests.PreparedRequest, verify: Any, cert: Any, proxies: Any) -> _Route:
        if hasattr(self, "get_connection_with_tls_context"):
            pool: Any = self.get_connection_with_tls_context(request, verify, proxies=proxies, cert=cert)
        else:  # requests before 2.32
            pool = self.get_connection(request.url or "", proxies)
        self.cert_verify(pool, request.url, verify, cert)  # type: ignore[no-untyped-call]
        proxy = pool.proxy
        tunnel = bool(proxy) and connection_requires_http_tunnel(proxy, pool.proxy_config, pool.scheme)
        forwards = proxy is not None and not tunnel
        return _Route(
            pool=pool,
            tunnel=tunnel,
            start=f"{self.request_url(request, proxies)} HTTP/1.1",
            host=_host(request.url or ""),
            proxy_headers=tuple((pool.proxy_headers or {}).items()) if forwards else (),
        )

    def close(self) -> None:
        """Close all idle connections; those in use are closed when they come back."""
        pools = [route.pool for route in list(self._routes.values())]
        self._routes.clear()
        for pool in pools:
            pool.close()
        super().close()

    def abandon(self) -> None:
        """In a forked child: close the inherited sockets of idle connections, without a byte to the peer.

        The managers are left alone: their locks may be held by threads that do not exist here.
        """
        for route in list(self._routes.values()):
            route.pool.close_idle()


def _host(url: str) -> str:
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    has_default_port = parts.port in (None, DEFAULT_PORTS.get(parts.scheme))
    return host.rpartition(":")[0] if has_default_port and parts.port is not None else host


def _serialized(request: requests.PreparedRequest, route: _Route) -> bytes:
    headers, body = request.headers, _body(request.body)
    if "transfer-encoding" in headers:  # A hook's own request with a body that it generates.
        headers = headers.copy()
        del headers["transfer-encoding"]
        headers["Content-Length"] = str(len(body))
    pairs = headers.pairs() if isinstance(headers, Headers) else headers.items()
    lines = [f"{request.method} {route.start}"]
    if "host" not in headers:
        lines.append(f"Host: {route.host}")
    lines += [
        f"{name}: {value if type(value) is str else _text(value)}"
        for name, value in (*pairs, *route.proxy_headers)
    ]
    count = len(lines) + 1
    lines += ("", "")
    head = "\r\n".join(lines)
    if head.count("\n") != count or head.count("\r") != count:
        raise requests.exceptions.InvalidHeader("a header holds a line end")
    return head.encode("iso-8859-1") + body


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("iso-8859-1")
    if isinstance(value, str):
        return value
    raise requests.exceptions.InvalidHeader(f"the value of a header is a {type(value).__name__}")


def _body(body: Any) -> bytes:
    if isinstance(body, bytes):
        return body
    if body is None:
        return b""
    return body.encode() if isinstance(body, str) else b"".join(body)


def _translated(
    error: Exception, exchange: Exchange, request: requests.PreparedRequest
) -> requests.RequestException:
    if isinstance(error, requests.RequestException):
        return error
    if isinstance(error, (ssl.SSLError, CertificateError)) or "SSL" in type(error).__name__:
        return requests.exceptions.SSLError(error, request=request)
    if isinstance(error, socket.timeout):
        kind = requests.ReadTimeout if exchange.sent else requests.ConnectTimeout
        return kind(error, request=request)
    return requests.ConnectionError(error, request=request)
