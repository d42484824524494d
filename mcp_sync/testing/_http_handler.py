"""What the HTTP endpoint does with one request."""

from __future__ import annotations

import json
import logging
import threading
import uuid
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, Callable, Optional, cast

from . import _http_rules as rules
from ._event_log import EventLog
from ._exchange import Connection, Exchange
from ._rpc import INVALID_REQUEST, PARSE_ERROR, Message, RpcError, encode, error_response

if TYPE_CHECKING:
    from ._http import HTTPEndpoint, HTTPRequest, HTTPSession

logger = logging.getLogger("mcp_sync.testing")

_JSON = "application/json"
_EVENTS = "text/event-stream"
_SESSION_NOT_FOUND = -32001


class Handler(BaseHTTPRequestHandler):
    """Serves the requests of one TCP connection, one after the other."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    @property
    def endpoint(self) -> HTTPEndpoint:
        """The endpoint that this connection belongs to."""
        return cast("HTTPEndpoint", cast("Any", self.server).endpoint)

    def do_POST(self) -> None:
        """Take a message of the client."""
        request = self._admitted()
        if request is None:
            return
        if not rules.accepts(request.headers, _JSON, _EVENTS):
            self.refuse(406, INVALID_REQUEST, f"The client must accept {_JSON} and {_EVENTS}")
        elif request.headers.get("content-type", "").split(";")[0].strip() != _JSON:
            self.refuse(415, INVALID_REQUEST, f"The content type must be {_JSON}")
        else:
            try:
                message = json.loads(request.body)
            except ValueError as error:
                self.refuse(400, PARSE_ERROR, f"Parse error: {error}")
                return
            if rules.belongs_to_modern(self.endpoint.server, message, request.headers):
                self._post_modern(message, request.headers)
            else:
                self._post_handshake(message, request.headers)

    def do_GET(self) -> None:
        """Open the standalone stream, or take up one that broke off."""
        request = self._admitted()
        if request is None:
            return
        if not self.endpoint.get_stream or not self.endpoint.server.handshake_versions:
            self.reply(405, {"Allow": "POST"})
        elif not rules.accepts(request.headers, _EVENTS):
            self.refuse(406, INVALID_REQUEST, f"The client must accept {_EVENTS}")
        else:
            session = self._session(request.headers)
            if session is not None:
                self._follow(session, request.headers.get("last-event-id"))

    def do_DELETE(self) -> None:
        """End a session."""
        request = self._admitted()
        if request is None:
            return
        if not self.endpoint.issues_sessions or not self.endpoint.server.handshake_versions:
            self.reply(405, {"Allow": "POST"})
            return
        session = self._session(request.headers)
        if session is not None:
            self.endpoint.close_session(session)
            self.reply(200)

    def _admitted(self) -> Optional[HTTPRequest]:
        from ._http import HTTPRequest

        headers = {name.lower(): ", ".join(self.headers.get_all(name, [])) for name in self.headers}
        body = self.rfile.read(int(headers.get("content-length", 0)))
        request = HTTPRequest(self.command, self.path, headers, body)
        self.endpoint.record(request)
        canned = self.endpoint.intercept(request) if self.endpoint.intercept is not None else None
        if canned is not None:
            self.reply(canned.status, canned.headers, canned.body)
        elif self.path.split("?")[0] != self.endpoint.path:
            self.reply(404)
        elif not rules.origin_is_local(headers):
            self.refuse(403, INVALID_REQUEST, "This origin is not allowed")
        else:
            return request
        return None

    # --- revisions without a handshake ---------------------------------------------------------------------

    def _post_modern(self, message: Any, headers: rules.Headers) -> None:
        stream = _Stream(self, {})
        accepted = Connection(self.endpoint.server).accept(message, stream.send)
        if not isinstance(accepted, Exchange):
            self._acknowledge(message, accepted)
            return
        try:
            if self.endpoint.check_headers:
                rules.check_headers(self.endpoint.server, message, headers)
        except RpcError as error:
            self.reply_json(400, error_response(message["id"], error.code, error.message, error.data))
            return
        stream.on_broken = accepted.cancel
        with self.endpoint.disconnects.watch(self.connection, accepted.cancel):
            reply = accepted.run()
        stream.finish(reply, 200 if reply is None else rules.status_of(reply))

    def _acknowledge(self, message: Any, refusal: Optional[Message]) -> None:
        if refusal is not None:
            self.reply_json(400, refusal)
        elif "method" not in message and not self.endpoint.server.handshake_versions:
            self.refuse(400, INVALID_REQUEST, "A client has no responses to send")
        else:
            self.reply(202)

    # --- revisions with a handshake ------------------------------------------------------------------------

    def _post_handshake(self, message: Any, headers: rules.Headers) -> None:
        begins = isinstance(message, dict) and message.get("method") == "initialize"
        session = self.endpoint.open_session() if begins else self._session(headers)
        if session is None:
            return
        stream = _Stream(self, {"Mcp-Session-Id": session.id} if session.id else {})
        stream.logs = session.streams if self.endpoint.event_ids else None
        accepted = session.connection.accept(message, stream.send)
        if not isinstance(accepted, Exchange):
            self._acknowledge(message, accepted)
            return
        reply = accepted.run()
        if begins and not session.connection.version:
            self.endpoint.close_session(session)
            stream.headers = {}
        stream.finish(reply, 200)

    def _session(self, headers: rules.Headers) -> Optional[HTTPSession]:
        """Find the session of a request; without one the request is refused."""
        server = self.endpoint.server
        version = headers.get("mcp-protocol-version")
        session_id = headers.get("mcp-session-id")
        session = self.endpoint.session(session_id)
        if version is not None and version not in server.handshake_versions:
            self.refuse(400, INVALID_REQUEST, f"Unsupported protocol version: {version}")
        elif session is not None:
            if not session.id and not session.connection.version:
                session.connection.version = version or server.handshake_versions[-1]
            return session
        elif session_id is None:
            self.refuse(400, INVALID_REQUEST, "Mcp-Session-Id is missing")
        else:
            self.refuse(404, _SESSION_NOT_FOUND, "Session not found")
        return None

    def _follow(self, session: HTTPSession, last_event_id: Optional[str]) -> None:
        log, start = session.standing, None
        if last_event_id is not None:
            name, _, number = last_event_id.rpartition("_")
            log = log if name == log.name else session.streams.get(name, EventLog(""))
            if not log.name or not number.isdigit():
                self.refuse(400, INVALID_REQUEST, f"Unknown event id: {last_event_id}")
                return
            start = int(number)
        follower = log.follow(start)
        stream = _Stream(self, {})
        stream.begin()
        stream.on_broken = follower.release
        with self.endpoint.disconnects.watch(self.connection, follower.release):
            for event_id, message in follower:
                stream.write(message, event_id if self.endpoint.event_ids else None)
        stream.end()

    # --- answers -------------------------------------------------------------------------------------------

    def refuse(self, status: int, code: int, message: str) -> None:
        """Answer with a JSON-RPC error that belongs to no request."""
        self.reply_json(status, error_response(None, code, message))

    def reply_json(self, status: int, message: Message, headers: Optional[Mapping[str, str]] = None) -> None:
        """Answer with one JSON document."""
        self.reply(status, {"Content-Type": _JSON, **(headers or {})}, encode(message))

    def reply(self, status: int, headers: Optional[Mapping[str, str]] = None, body: bytes = b"") -> None:
        """Answer with a whole body, head and body in one write."""
        fields = dict(headers or {})
        if status not in (204, 304):
            fields.setdefault("Content-Length", str(len(body)))
        self.wfile.write(self.head(status, fields) + body)

    def head(self, status: int, fields: Mapping[str, str]) -> bytes:
        """Return the head of a response."""
        phrase = HTTPStatus(status).phrase if status in HTTPStatus.__members__.values() else ""
        lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in fields.items())]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    def log_message(self, format: str, *args: Any) -> None:
        """Log quietly."""
        logger.debug(format, *args)


class _Stream:
    """The answer to one request: a JSON document, or an event stream as soon as something else is sent.

    Attributes:
        headers: Go with the answer.
        logs: Where to note what an event stream carries, so that it can be taken up; ``None``: nowhere.
        on_broken: Called when the client hung up.
    """

    def __init__(self, handler: Handler, headers: Mapping[str, str]) -> None:
        self._handler = handler
        self.headers = headers
        self.logs: Optional[dict[str, EventLog]] = None
        self.on_broken: Callable[[], None] = lambda: None
        self._begun = False
        self._broken = False
        self._log: Optional[EventLog] = None
        # Keeps events apart, so it is held while one is written; nothing else happens under it.
        self._lock = threading.Lock()

    def send(self, message: Message) -> None:
        """Send one message as an event."""
        self.begin()
        self.write(message, None if self._log is None else self._log.append(message))

    def begin(self) -> None:
        """Send the head of an event stream, if that has not been done yet."""
        fields = {
            "Content-Type": _EVENTS,
            "Cache-Control": "no-cache, no-transform",
            "X-Accel-Buffering": "no",
            "Transfer-Encoding": "chunked",
            **self.headers,
        }
        with self._lock:
            begun, self._begun = self._begun, True
            if not begun:
                self._write(self._handler.head(200, fields))
            if not begun and self.logs is not None:
                self._log = EventLog(uuid.uuid4().hex[:8])
                self.logs[self._log.name] = self._log
                self._write(_chunk(f"id: {self._log.name}_0\ndata: \n\n".encode()))

    def write(self, message: Message, event_id: Optional[str]) -> None:
        """Write one event."""
        head = b"event: message\n" if event_id is None else f"event: message\nid: {event_id}\n".encode()
        event = _chunk(head + b"data: " + encode(message) + b"\n\n")
        with self._lock:
            self._write(event)

    def finish(self, reply: Optional[Message], status: int) -> None:
        """Send the response, or end without one."""
        if (
            not self._begun
            and reply is not None
            and (status != 200 or self._handler.endpoint.answers == "json")
        ):
            self._handler.reply_json(status, reply, self.headers)
            return
        self.begin()
        if reply is not None:
            self.send(reply)
        self.end()

    def end(self) -> None:
        """End the event stream."""
        if self._log is not None:
            self._log.finish()
        with self._lock:
            self._write(b"0\r\n\r\n")

    def _write(self, data: bytes) -> None:
        if self._broken:
            return
        try:
            self._handler.wfile.write(data)
        except OSError:
            self._broken = True
            self._handler.close_connection = True
            self.on_broken()


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)
