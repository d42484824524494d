"""A WSGI application in the same process as a server of Streamable HTTP, without any socket (PEP 3333)."""

from __future__ import annotations

import http.client
import io
import sys
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Callable, Optional
from urllib.parse import unquote_to_bytes, urlsplit

import requests
from requests.adapters import BaseAdapter

from .._arguments import check_no_class
from .._protocol.headers import checked_headers
from .._protocol.urls import DEFAULT_PORTS, origin, public_url
from ..errors import UsageError
from ._base import Channel, Settings
from ._http.channel import HTTPChannel
from ._http.target import StreamableHTTP, check_url

WSGIApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


@dataclass(frozen=True, repr=False)
class WSGITarget:
    """A WSGI application (Django, Flask, ...) that serves MCP, called in this process; mostly for its tests.

    It speaks Streamable HTTP as over a socket, with headers, sessions, cookies and event streams, on every
    revision. The application runs on the thread that makes the call, and what it raises, the call raises. Two
    things run on a thread of the client: what opens the connection (with ``mode="2026-07-28"`` nothing has to
    be sent for that), and an event stream that the application opens for ``GET``. A test whose database is
    bound to its thread pins that mode.

    Nothing can interrupt the application: a timeout or a cancelled call ends when it gives its next piece of
    the answer. An event stream that the client leaves is ended by ``close()`` of its iterable, as PEP 3333
    asks.

    Args:
        app: The application.
        url: Where it believes to be; the path is that of its MCP endpoint. Tokens want ``https://``.
        headers: Headers of every request.
        auth: Any authorization of requests. Its own requests, for tokens say, go over the network.
        session_id: Take up this session of the server (revisions up to 2025-11-25).

    Raises:
        UsageError: Something of it cannot work.

    Example:
        >>> with Client(WSGITarget(app, "http://testserver/mcp")) as client:
        ...     client.call_tool("add", {"a": 1, "b": 2})
    """

    app: WSGIApp
    url: str = "http://testserver/mcp"
    headers: Optional[Mapping[str, str]] = None
    auth: Any = None
    session_id: Optional[str] = None

    def __post_init__(self) -> None:
        if not callable(self.app):
            raise UsageError(f"WSGITarget needs a WSGI application, not {type(self.app).__name__}")
        check_url(self.url, ("http", "https"))
        check_no_class("auth", self.auth)
        object.__setattr__(self, "headers", checked_headers(self.headers))

    def __hash__(self) -> int:
        return hash((id(self.app), self.url))

    def __repr__(self) -> str:
        return f"WSGITarget({type(self.app).__name__}, {public_url(self.url)!r})"

    def identity(self) -> Hashable:
        """Return application, origin and path. It keeps the application, so that no other gets its place."""
        return ("wsgi", _Same(self.app), origin(self.url), urlsplit(self.url).path or "/")

    def channel(self, settings: Settings, shared: Any = None) -> Channel:
        """Make a new channel, with cookies of its own."""
        session = requests.Session()
        session.trust_env = False
        session.headers.clear()
        session.headers.update({"User-Agent": "mcp-sync", "Accept-Encoding": "identity"})
        for scheme in ("http://", "https://"):
            session.mount(scheme, WSGIAdapter(self.app))
        target = StreamableHTTP(
            self.url, headers=self.headers, auth=self.auth, session=session, session_id=self.session_id
        )
        return HTTPChannel(target, settings)


class _Same:
    """Equal only where the object is the same one."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other._value is self._value

    def __hash__(self) -> int:
        return id(self._value)


class WSGIAdapter(BaseAdapter):
    """Sends the requests of a ``requests.Session`` to a WSGI application.

    Args:
        app: The application.
    """

    def __init__(self, app: WSGIApp) -> None:
        super().__init__()
        self._app = app

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        """Call the application, up to the first piece of its answer."""
        answer = _Answer(self._app, environ_of(request))
        response = requests.Response()
        response.status_code, response.reason = answer.status, answer.reason
        response.headers.update(answer.headers)
        response.encoding = requests.utils.get_encoding_from_headers(response.headers)
        response.url, response.request = request.url or "", request
        setattr(response, "connection", self)  # noqa: B010  (the stubs want another class)
        response.raw = answer
        requests.cookies.extract_cookies_to_jar(response.cookies, request, answer)  # type: ignore[no-untyped-call]
        return response

    def close(self) -> None:
        """Do nothing: there is no connection."""


class _Answer:
    """What an application answers, in the place of urllib3's response.

    Args:
        app: The application.
        environ: The request.
    """

    def __init__(self, app: WSGIApp, environ: dict[str, Any]) -> None:
        self.status, self.reason = 0, ""
        self.headers: Any = requests.structures.CaseInsensitiveDict()
        # Where the cookies are looked for, by their names in http.client's response.
        self._original_response: Any = self
        self.msg = http.client.HTTPMessage()
        self._written: list[bytes] = []
        self._body = app(environ, self._start)
        try:
            self._pieces = iter(self._body)
            # An application may call start_response as late as with its first piece.
            self._first = next(self._pieces, b"")
            if not self.status:
                raise RuntimeError("the WSGI application did not call start_response")
        except BaseException:
            self.close()
            raise

    def _start(
        self, status: str, headers: list[tuple[str, str]], exc_info: Any = None
    ) -> Callable[[bytes], None]:
        if self.status and exc_info is None:
            raise AssertionError("start_response was called twice")
        code, _, self.reason = status.partition(" ")
        self.status = int(code)
        self.headers.clear()
        self.msg = http.client.HTTPMessage()
        for name, value in headers:
            self.msg[name] = value
            known = self.headers.get(name)
            self.headers[name] = value if known is None else f"{known}, {value}"
        return self._written.append

    def isclosed(self) -> bool:
        """Whether it is at its end: what cookies are taken from is not read."""
        return False

    def stream(self, size: int = 0, decode_content: bool = True) -> Iterator[bytes]:
        """Give the pieces of the body as they come; an empty one would mean the end to whoever reads."""
        yield from filter(None, (*self._written, self._first))
        yield from filter(None, self._pieces)

    def close(self) -> None:
        """Have the application end the answer."""
        close = getattr(self._body, "close", None)
        if close is not None:
            close()

    release_conn = close


def environ_of(request: requests.PreparedRequest) -> dict[str, Any]:
    """Say what WSGI calls a request (PEP 3333, "environ Variables")."""
    parts = urlsplit(request.url or "")
    body = request.body if isinstance(request.body, bytes) else (request.body or "").encode()
    environ: dict[str, Any] = {
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(parts.path or "/").decode("iso-8859-1"),
        "QUERY_STRING": parts.query,
        "SERVER_NAME": parts.hostname or "",
        "SERVER_PORT": str(parts.port or DEFAULT_PORTS[parts.scheme]),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "HTTP_HOST": parts.netloc.rpartition("@")[2],
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": parts.scheme,
        "wsgi.input": io.BytesIO(body),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for name, value in request.headers.items():
        key = str(name).upper().replace("-", "_")
        text = value.decode("iso-8859-1") if isinstance(value, bytes) else str(value)
        environ[key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"] = text
    return environ
