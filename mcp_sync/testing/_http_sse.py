"""The transport of the first revision: one event stream for everything, and a second URL for messages."""

from __future__ import annotations

import uuid
from urllib.parse import parse_qs, urlsplit

from . import _http_rules as rules
from ._event_log import EventLog
from ._faults import Fault
from ._http_answers import EVENTS_TYPE, Answering, Stream, chunk, event
from ._http_faults import HTTPLine
from ._pump import Pump
from ._rpc import INVALID_REQUEST, Message

MESSAGES_PATH = "/messages"


class SSEHandler(Answering):
    """Serves one TCP connection of a client that speaks HTTP+SSE."""

    def do_GET(self) -> None:
        """Open the stream: it names the URL for messages, and then carries whatever the server sends."""
        request = self.admitted(self.endpoint.path)
        if request is None:
            return
        if not rules.accepts(request.headers, EVENTS_TYPE):
            self.refuse(406, INVALID_REQUEST, f"The client must accept {EVENTS_TYPE}")
            return
        log = EventLog("sse")
        stream = Stream(self, {})
        line = _StreamLine(self, stream, log)
        pump = Pump(self.endpoint.server, line, self.endpoint.faults, draws=False)
        key = uuid.uuid4().hex
        self.endpoint.pumps[key] = pump
        try:
            self._follow(log, stream, f"{MESSAGES_PATH}?session_id={key}")
        finally:
            self.endpoint.pumps.pop(key, None)  # A test may have forgotten it.
            pump.close()

    def _follow(self, log: EventLog, stream: Stream, target: str) -> None:
        follower = log.follow()
        stream.on_broken = follower.release
        stream.begin()
        self.mark_result()
        stream.write_raw(chunk(f"event: endpoint\ndata: {target}\n\n".encode()))
        with self.endpoint.disconnects.watch(self.connection, follower.release):
            for _, message in follower:
                stream.write(message, None)
        stream.end()

    def do_POST(self) -> None:
        """Take a message; what there is to answer goes to the stream."""
        is_stream = self.path.split("?")[0] == self.endpoint.path
        request = self.admitted(self.endpoint.path if is_stream else MESSAGES_PATH)
        if request is None:
            return
        if is_stream:
            self.reply(405, {"Allow": "GET"})
            return
        keys = parse_qs(urlsplit(request.path).query).get("session_id", [""])
        pump = self.endpoint.pumps.get(keys[0])
        if pump is None:
            self.refuse(404, INVALID_REQUEST, "Session not found")
            return
        self.reply(202, {"Content-Type": "text/plain"}, b"Accepted")
        fault = self.fault
        pump.take(request.body, fault if fault is not None and self.strikes_elsewhere(fault) else None)

    def strikes_elsewhere(self, fault: Fault) -> bool:
        """Whether a fault strikes the event stream, as all faults of messages do but those of the head."""
        return self.command == "POST" and fault.at != "head" and fault.kind != "http"


class _StreamLine(HTTPLine):
    """The event stream, as the line of a client."""

    def __init__(self, handler: Answering, stream: Stream, log: EventLog) -> None:
        super().__init__(handler)
        self._stream = stream
        self._log = log
        self.lock = stream.lock

    def write(self, message: Message) -> None:
        self._log.append(message)

    def frame(self, message: Message) -> bytes:
        return event(message)

    def put(self, data: bytes) -> None:
        self._stream.write_raw(data)
