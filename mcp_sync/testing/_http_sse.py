"""The transport of the first revision: one event stream for everything, and a second URL for messages."""

from __future__ import annotations

import uuid
from urllib.parse import parse_qs, urlsplit

from . import _http_rules as rules
from ._event_log import EventLog
from ._http_answers import EVENTS_TYPE, Answering, Stream, chunk
from ._pump import Pump
from ._rpc import INVALID_REQUEST

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
        pump = Pump(self.endpoint.server, log.append)
        key = uuid.uuid4().hex
        self.endpoint.pumps[key] = pump
        try:
            self._follow(log, f"{MESSAGES_PATH}?session_id={key}")
        finally:
            del self.endpoint.pumps[key]
            pump.close()

    def _follow(self, log: EventLog, target: str) -> None:
        follower = log.follow()
        stream = Stream(self, {})
        stream.on_broken = follower.release
        stream.begin()
        stream.write_raw(chunk(f"event: endpoint\ndata: {target}\n\n".encode()))
        with self.endpoint.disconnects.watch(self.connection, follower.release):
            for _, message in follower:
                stream.write(message, None)
        stream.end()

    def do_POST(self) -> None:
        """Take a message; what there is to answer goes to the stream."""
        request = self.admitted(MESSAGES_PATH)
        if request is None:
            return
        keys = parse_qs(urlsplit(request.path).query).get("session_id", [""])
        pump = self.endpoint.pumps.get(keys[0])
        if pump is None:
            self.refuse(404, INVALID_REQUEST, "Session not found")
            return
        self.reply(202, {"Content-Type": "text/plain"}, b"Accepted")
        pump.take(request.body)
