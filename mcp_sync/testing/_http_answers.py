"""How the HTTP endpoints of the fake server admit requests and write answers."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, Callable, Optional, cast

from . import _http_rules as rules
from ._event_log import EventLog
from ._http_faults import StruckFile
from ._rpc import INVALID_REQUEST, Message, encode, error_response

if TYPE_CHECKING:
    from ._faults import Fault
    from ._http import HTTPEndpoint, HTTPRequest

logger = logging.getLogger("mcp_sync.testing")

JSON_TYPE = "application/json"
EVENTS_TYPE = "text/event-stream"


class Answering(BaseHTTPRequestHandler):
    """Serves the requests of one TCP connection, one after the other."""

    protocol_version = "HTTP/1.1"
    # What goes wrong with the current request.
    fault: Optional[Fault] = None
    disable_nagle_algorithm = True

    @property
    def endpoint(self) -> HTTPEndpoint:
        """The endpoint that this connection belongs to."""
        return cast("HTTPEndpoint", cast("Any", self.server).endpoint)

    def admitted(self, path: str) -> Optional[HTTPRequest]:
        """Read and record the request; refuse it, and return ``None``, if it is not for ``path``."""
        from ._http import HTTPRequest

        self.fault = None
        if isinstance(self.wfile, StruckFile):
            self.wfile = self.wfile.plain
        # The space around a value is no part of it (RFC 9110, 5.5); the parser leaves what comes after it.
        headers = {name.lower(): ", ".join(self.headers.get_all(name, [])).strip() for name in self.headers}
        body = self.rfile.read(int(headers.get("content-length", 0)))
        request = HTTPRequest(self.command, self.path, headers, body)
        self.endpoint.record(request)
        canned = self.endpoint.intercept(request) if self.endpoint.intercept is not None else None
        if canned is not None:
            self.reply(canned.status, canned.headers, canned.body)
        elif self.path.split("?")[0] != path:
            self.reply(404)
        elif not rules.origin_is_local(headers):
            self.refuse(403, INVALID_REQUEST, "This origin is not allowed")
        elif self._begin_fault(request):
            return request
        return None

    def _begin_fault(self, request: HTTPRequest) -> bool:
        """Look up what goes wrong with a request; return whether it is to be served all the same."""
        plan = self.endpoint.faults
        fault = None if plan is None else plan.meet(rules.method_of(request.body) or request.method)
        if plan is None or fault is None:
            return True
        self.fault = fault
        if fault.kind == "http" and fault.at == "request":
            self.reply(fault.status, dict(fault.headers))
            return False
        if self.strikes_elsewhere(fault):
            return True
        struck = StruckFile(self, fault, plan)
        self.wfile = cast("Any", struck)
        return fault.at != "request" or struck.strike.stop()

    def strikes_elsewhere(self, fault: Fault) -> bool:
        """Whether a fault is none of the answer to this request of HTTP."""
        return False

    def mark_result(self) -> None:
        """Note that what is written next is the result."""
        if isinstance(self.wfile, StruckFile):
            self.wfile.is_result = True

    def refuse(self, status: int, code: int, message: str) -> None:
        """Answer with a JSON-RPC error that belongs to no request."""
        self.reply_json(status, error_response(None, code, message))

    def reply_json(self, status: int, message: Message, headers: Optional[Mapping[str, str]] = None) -> None:
        """Answer with one JSON document."""
        self.reply(status, {"Content-Type": JSON_TYPE, **(headers or {})}, encode(message))

    def reply(self, status: int, headers: Optional[Mapping[str, str]] = None, body: bytes = b"") -> None:
        """Answer with a whole body, head and body in one write."""
        fields = dict(headers or {})
        if status not in (204, 304):
            fields.setdefault("Content-Length", str(len(body)))
        self.mark_result()
        self.wfile.write(self.head(status, fields) + body)

    def head(self, status: int, fields: Mapping[str, str]) -> bytes:
        """Return the head of a response."""
        phrase = HTTPStatus(status).phrase if status in HTTPStatus.__members__.values() else ""
        lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in fields.items())]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    def log_message(self, format: str, *args: Any) -> None:
        """Log quietly."""
        logger.debug(format, *args)


class Stream:
    """The answer to one request: a JSON document, or an event stream as soon as something else is sent.

    Attributes:
        headers: Go with the answer.
        logs: Where to note what an event stream carries, so that it can be taken up; ``None``: nowhere.
        on_broken: Called when the client hung up.
    """

    def __init__(self, handler: Answering, headers: Mapping[str, str]) -> None:
        self._handler = handler
        self.headers = headers
        self.logs: Optional[dict[str, EventLog]] = None
        self.on_broken: Callable[[], None] = lambda: None
        self._begun = False
        self._broken = False
        self._log: Optional[EventLog] = None
        # Keeps events apart, so it is held while one is written; only a fault waits under it.
        self.lock = threading.RLock()

    def send(self, message: Message) -> None:
        """Send one message as an event."""
        self.begin()
        self.write(message, None if self._log is None else self._log.append(message))

    def begin(self) -> None:
        """Send the head of an event stream, if that has not been done yet."""
        fields = {
            "Content-Type": EVENTS_TYPE,
            "Cache-Control": "no-cache, no-transform",
            "X-Accel-Buffering": "no",
            "Transfer-Encoding": "chunked",
            **self.headers,
        }
        with self.lock:
            begun, self._begun = self._begun, True
            if not begun:
                self._write(self._handler.head(200, fields))
            if not begun and self.logs is not None:
                self._log = EventLog(uuid.uuid4().hex[:8])
                self.logs[self._log.name] = self._log
                self._write(chunk(f"id: {self._log.name}_0\ndata: \n\n".encode()))

    def write(self, message: Message, event_id: Optional[str]) -> None:
        """Write one event."""
        self.write_raw(event(message, event_id))

    def write_raw(self, data: bytes) -> None:
        """Write bytes of the body as they are."""
        with self.lock:
            self._write(data)

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
        self._handler.mark_result()
        if reply is not None:
            self.send(reply)
        self.end()

    def end(self) -> None:
        """End the event stream."""
        if self._log is not None:
            self._log.finish()
        self.write_raw(b"0\r\n\r\n")

    def _write(self, data: bytes) -> None:
        if self._broken:
            return
        try:
            self._handler.wfile.write(data)
        except OSError:
            self._broken = True
            self._handler.close_connection = True
            self.on_broken()


def event(message: Message, event_id: Optional[str] = None) -> bytes:
    """Write a message as an event in a chunk of its own."""
    head = b"event: message\n" if event_id is None else f"event: message\nid: {event_id}\n".encode()
    return chunk(head + b"data: " + encode(message) + b"\n\n")


def chunk(data: bytes) -> bytes:
    """Frame a part of a body of unknown length."""
    return b"%x\r\n%b\r\n" % (len(data), data)
