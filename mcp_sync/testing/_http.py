"""The fake server behind an HTTP endpoint, from the standard library's parts."""

from __future__ import annotations

import socket
import socketserver
import ssl
import struct
import threading
import uuid
from http.server import HTTPServer
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional

from .._concurrency.deadline import Deadline
from .._concurrency.threads import join_all, spawn
from ._disconnects import Disconnects
from ._event_log import EventLog
from ._exchange import Connection
from ._http_answers import Answering
from ._pump import Pump

if TYPE_CHECKING:
    from ._faults import FaultPlan
    from ._server import FakeServer

_GRACE = 5.0


class HTTPRequest(NamedTuple):
    """A request that reached the endpoint; the names of ``headers`` are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class HTTPReply(NamedTuple):
    """A canned answer."""

    status: int
    headers: dict[str, str] = {}
    body: bytes = b""


Intercept = Callable[[HTTPRequest], Optional[HTTPReply]]


class HTTPSession(NamedTuple):
    """A session of the handshake era.

    Attributes:
        id: Its ``Mcp-Session-Id``, empty where there are none.
        connection: Its state.
        standing: What goes to the GET stream.
        streams: The other streams that can be taken up again, by the names in their event ids.
    """

    id: str
    connection: Connection
    standing: EventLog
    streams: dict[str, EventLog]


class HTTPEndpoint:
    """A `FakeServer` that listens for HTTP or WebSocket; leave it with ``with`` or `close`.

    Attributes:
        server: The fake server behind it.
        url: Where it listens.
        pumps: The clients of the HTTP+SSE transport, by the ids of their streams.
        intercept: Called with each `HTTPRequest` before anything else; an `HTTPReply` that it returns is the
            whole answer. May be set at any time.
        faults: What is to go wrong. May be set at any time.
        closing: Set by `close`.
    """

    def __init__(
        self,
        server: FakeServer,
        handler: type[Answering],
        address: tuple[str, int],
        path: str,
        *,
        intercept: Optional[Intercept],
        faults: Optional[FaultPlan],
        ssl_context: Optional[ssl.SSLContext],
        answers: str = "json",
        sessions: bool = True,
        get_stream: bool = True,
        event_ids: bool = False,
        check_headers: bool = True,
    ) -> None:
        self.server = server
        self.path = path
        self.answers = answers
        self.issues_sessions = sessions
        self.get_stream = get_stream
        self.event_ids = event_ids
        self.check_headers = check_headers
        self.intercept = intercept
        self.faults = faults
        self.closing = threading.Event()
        self.disconnects = Disconnects()
        # Guards the lists below; nothing runs and nothing waits under it.
        self._lock = threading.Lock()
        self._requests: list[HTTPRequest] = []
        self._sessions: dict[str, HTTPSession] = {}
        self._shared: Optional[HTTPSession] = None
        self.pumps: dict[str, Pump] = {}
        self._listener = _Listener(self, handler, address, ssl_context)
        scheme = "http" if ssl_context is None else "https"
        self.url = f"{scheme}://{address[0]}:{self._listener.server_address[1]}{path}"
        self._thread = spawn("fake-server", "accept", self._listener.serve_forever, 0.02)

    def __enter__(self) -> HTTPEndpoint:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    @property
    def requests(self) -> list[HTTPRequest]:
        """Every HTTP request that arrived so far."""
        with self._lock:
            return list(self._requests)

    def record(self, request: HTTPRequest) -> None:
        """Note a request."""
        with self._lock:
            self._requests.append(request)

    @property
    def sessions(self) -> tuple[str, ...]:
        """The ids of the sessions that are open."""
        with self._lock:
            return tuple(self._sessions)

    def open_session(self) -> HTTPSession:
        """Begin a session; without ids there is one for all."""
        if not self.issues_sessions:
            return self._shared_session()
        session = self._new_session(uuid.uuid4().hex)
        with self._lock:
            self._sessions[session.id] = session
        return session

    def _new_session(self, session_id: str) -> HTTPSession:
        session = HTTPSession(session_id, self.server.connect(), EventLog("get"), {})
        session.connection.send = session.standing.append
        return session

    def _shared_session(self) -> HTTPSession:
        made = self._new_session("")
        with self._lock:
            if self._shared is None:
                self._shared = made
            shared = self._shared
        if shared is not made:
            self.server.disconnect(made.connection)
        return shared

    def session(self, session_id: Optional[str]) -> Optional[HTTPSession]:
        """Return the session of this id, ``None`` if there is none."""
        if not self.issues_sessions:
            return self._shared_session()
        with self._lock:
            return self._sessions.get(session_id or "")

    def close_session(self, session: HTTPSession) -> None:
        """End a session: its id is unknown from now on."""
        with self._lock:
            self._sessions.pop(session.id, None)
        self._end(session)

    def _end(self, session: HTTPSession) -> None:
        self.server.disconnect(session.connection)
        for log in (session.standing, *session.streams.values()):
            log.finish()

    def expire_sessions(self) -> None:
        """End all sessions, as a server does that starts anew."""
        with self._lock:
            ended = list(self._sessions.values())
            self._sessions.clear()
        for session in ended:
            self._end(session)

    def drop_connections(self) -> None:
        """Break every TCP connection that is open now; streams break off in the middle."""
        self._listener.drop_connections()

    def reset_connection(self, connection: socket.socket) -> None:
        """Have a connection closed by a reset, as soon as nobody serves it any more."""
        self._listener.reset_connection(connection)

    def close(self) -> None:
        """Stop listening, end everything in flight and wait for the threads."""
        self.closing.set()
        self._listener.shutdown()
        self._listener.server_close()
        self.expire_sessions()
        with self._lock:
            shared, self._shared = self._shared, None
        if shared is not None:
            self._end(shared)
        self._listener.drop_connections()
        join_all([*self._listener.threads, self._thread], Deadline(_GRACE))
        self.disconnects.close()


class _Listener(HTTPServer):
    """Runs a handler in a thread of its own for each connection."""

    allow_reuse_address = True
    request_queue_size = 128

    def __init__(
        self,
        endpoint: HTTPEndpoint,
        handler: type[Answering],
        address: tuple[str, int],
        context: Optional[ssl.SSLContext],
    ) -> None:
        self.endpoint = endpoint
        self.threads: set[threading.Thread] = set()
        self._context = context
        self._open: set[socket.socket] = set()
        self._resets: set[socket.socket] = set()
        super().__init__(address, handler)

    def server_bind(self) -> None:
        # HTTPServer's own would ask the name service for the name of this host, which can take seconds.
        socketserver.TCPServer.server_bind(self)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        self.threads = {thread for thread in self.threads if thread.is_alive()}
        self.threads.add(spawn("fake-server", "http", self._serve, request, client_address))

    def _serve(self, request: socket.socket, client_address: Any) -> None:
        try:
            if self._context is not None:
                request = self._encrypted(request, self._context)
            self.finish_request(request, client_address)
        except OSError:
            pass  # the client hung up, which is its right
        finally:
            self._open.discard(request)
            self.shutdown_request(request)

    def _encrypted(self, request: socket.socket, context: ssl.SSLContext) -> socket.socket:
        # The socket is exchanged before the handshake, so that `drop_connections` can end that too.
        wrapped = context.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
        self._open.discard(request)
        self._open.add(wrapped)
        try:
            wrapped.do_handshake()
        except BaseException:
            self._open.discard(wrapped)
            wrapped.close()
            raise
        return wrapped

    def reset_connection(self, request: socket.socket) -> None:
        self._resets.add(request)
        request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        # It wakes who reads here; the client does not notice.
        request.shutdown(socket.SHUT_RD)

    def shutdown_request(self, request: Any) -> None:
        if request in self._resets:
            self._resets.discard(request)
            self.close_request(request)
        else:
            super().shutdown_request(request)

    def drop_connections(self) -> None:
        for request in list(self._open):
            try:
                request.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # closed already
