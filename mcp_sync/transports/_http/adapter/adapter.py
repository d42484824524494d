"""The requests adapter of the fast path: requests' meaning without its repeated work.

Any authorization hook works with it: it takes a `requests.PreparedRequest` and returns a
`requests.Response`, and ``response.connection.send(request, **kwargs)`` repeats a request. A pool is looked
up once for each URL, headers and body leave in one write, and connections are kept as many as were needed.
"""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Mapping
from typing import Any, NamedTuple, Optional, Union, cast
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from requests.utils import select_proxy
from urllib3.connection import CertificateError  # type: ignore[attr-defined]
from urllib3.exceptions import HTTPError
from urllib3.util.proxy import connection_requires_http_tunnel

from ...._concurrency.fork import no_fork
from ...._protocol.urls import DEFAULT_PORTS, public_url
from ..exchange import Exchange
from .pool import POOL_CLASSES, BoundedPool, Tunnel
from .response import Answer, Headers
from .timed_socket import NothingSent

_ROUTES_KEPT = 32


def _pool_classes(proxy: str) -> dict[str, Any]:
    if not proxy.lower().startswith("socks"):
        return POOL_CLASSES
    with no_fork():
        from .socks import SOCKS_POOL_CLASSES

    return SOCKS_POOL_CLASSES


class _Route(NamedTuple):
    """How requests for a URL travel."""

    pool: BoundedPool
    tunnel: Tunnel
    start: str
    host: str
    proxy_headers: tuple[tuple[str, str], ...]
    proxy: str


class BoundedAdapter(HTTPAdapter):
    """Sends requests within the bounds of an `Exchange`, which is passed in the place of ``timeout``.

    Safe for any number of threads. Nothing is repeated by itself, except that a kept connection which the
    server has closed is replaced before anything is sent.

    Args:
        upgrading: Whether its requests change to another protocol: then a proxy has to pass everything on.
    """

    def __init__(self, upgrading: bool = False) -> None:
        self._upgrading = upgrading
        self._routes: dict[tuple[Any, ...], _Route] = {}
        # Those beside the first one who use this, and will close it. Single operations only: no lock.
        self._others: list[None] = []
        super().__init__(max_retries=0)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Make the manager of our pools."""
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = cast(Any, POOL_CLASSES)

    def proxy_manager_for(self, proxy: str, **proxy_kwargs: Any) -> Any:
        """Return the manager of our pools that lead through a proxy."""
        try:
            manager = super().proxy_manager_for(proxy, **proxy_kwargs)
        except requests.exceptions.InvalidSchema:
            raise
        except ValueError as error:  # What urllib3 says of a version of SOCKS that it does not know.
            raise requests.exceptions.InvalidProxyURL("unknown scheme") from error
        # Each time: the thread that made the manager may not have come so far yet.
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
            route = self._route(request, verify, cert, proxies)
            exchange.proxy = route.proxy
            answer = self._send(request, exchange, route)
        except (OSError, http.client.HTTPException, HTTPError, CertificateError) as error:
            fault = _translated(error, exchange, request)
            try:
                if fault is error:
                    raise
                raise fault from error
            finally:
                del fault  # A frame that knows its own error is a circle, and keeps connections alive.
        if not stream:
            answer.content  # noqa: B018
        return answer

    def _send(self, request: requests.PreparedRequest, exchange: Exchange, route: _Route) -> Answer:
        # Reports of errors show what frames hold, and this holds the credentials: a view tells nothing.
        data = memoryview(_serialized(request, route))
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
        return self._routes.setdefault(key, route)

    def _find_route(self, request: requests.PreparedRequest, verify: Any, cert: Any, proxies: Any) -> _Route:
        if hasattr(self, "get_connection_with_tls_context"):
            pool: Any = self.get_connection_with_tls_context(request, verify, proxies=proxies, cert=cert)
        else:  # requests before 2.32
            pool = self.get_connection(request.url or "", proxies)
        # By the scheme of the pool: a proxy may be reached by https where the server is not.
        self.cert_verify(pool, pool.scheme, verify, cert)  # type: ignore[no-untyped-call]
        proxy = pool.proxy
        where = self.request_url(request, proxies)
        scheme = urlsplit(request.url or "").scheme
        tunnel: Tunnel = bool(proxy) and connection_requires_http_tunnel(proxy, pool.proxy_config, scheme)
        if proxy is not None and not tunnel and self._upgrading:
            tunnel, where = _host_and_port(request.url or ""), request.path_url
        forwards = proxy is not None and not tunnel
        return _Route(
            pool=pool,
            tunnel=tunnel,
            start=f"{where} HTTP/1.1",
            host=_host(request.url or ""),
            proxy_headers=tuple((pool.proxy_headers or {}).items()) if forwards else (),
            proxy=public_url(select_proxy(request.url or "", proxies) or ""),
        )

    def share(self) -> BoundedAdapter:
        """Have `close` wait for one more who closes it."""
        self._others.append(None)
        return self

    def close(self) -> None:
        """Close all idle connections, once the last one wants it; those in use close when they come back."""
        try:
            self._others.pop()
            return
        except IndexError:
            pass
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


def _host_and_port(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or DEFAULT_PORTS[parts.scheme]


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
