"""Streamable HTTP: what the fake server does with a request of it."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any, Optional

from . import _http_rules as rules
from ._event_log import EventLog
from ._exchange import Connection, Exchange
from ._http_answers import EVENTS_TYPE, JSON_TYPE, Answering, Stream
from ._rpc import INVALID_REQUEST, PARSE_ERROR, Message, RpcError, error_response

if TYPE_CHECKING:
    from ._http import HTTPSession

_SESSION_NOT_FOUND = -32001


class StreamableHandler(Answering):
    """Serves one TCP connection of a client that speaks Streamable HTTP."""

    def do_POST(self) -> None:
        """Take a message of the client."""
        request = self.admitted(self.endpoint.path)
        if request is None:
            return
        if not rules.accepts(request.headers, JSON_TYPE, EVENTS_TYPE):
            self.refuse(406, INVALID_REQUEST, f"The client must accept {JSON_TYPE} and {EVENTS_TYPE}")
        elif request.headers.get("content-type", "").split(";")[0].strip() != JSON_TYPE:
            self.refuse(415, INVALID_REQUEST, f"The content type must be {JSON_TYPE}")
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
        request = self.admitted(self.endpoint.path)
        if request is None:
            return
        if not self.endpoint.get_stream or not self.endpoint.server.handshake_versions:
            self.reply(405, {"Allow": "POST"})
        elif not rules.accepts(request.headers, EVENTS_TYPE):
            self.refuse(406, INVALID_REQUEST, f"The client must accept {EVENTS_TYPE}")
        else:
            session = self._session(request.headers)
            if session is not None:
                self._follow(session, request.headers.get("last-event-id"))

    def do_DELETE(self) -> None:
        """End a session."""
        request = self.admitted(self.endpoint.path)
        if request is None:
            return
        if not self.endpoint.issues_sessions or not self.endpoint.server.handshake_versions:
            self.reply(405, {"Allow": "POST"})
            return
        session = self._session(request.headers)
        if session is not None:
            self.endpoint.close_session(session)
            self.reply(200)

    # --- revisions without a handshake ---------------------------------------------------------------------

    def _post_modern(self, message: Any, headers: rules.Headers) -> None:
        stream = Stream(self, {})
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
        accepted.fault = self.fault
        accepted.headers = headers
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
        stream = Stream(self, {"Mcp-Session-Id": session.id} if session.id else {})
        stream.logs = session.streams if self.endpoint.event_ids else None
        accepted = session.connection.accept(message, stream.send)
        if not isinstance(accepted, Exchange):
            self._acknowledge(message, accepted)
            return
        accepted.fault = self.fault
        accepted.headers = headers
        # A client may leave the stream of a result at any time; what is asked there waits for the next one.
        leaves = accepted.method == "tasks/result" and stream.logs is None
        watch = self.endpoint.disconnects.watch(self.connection, accepted.cancel)
        with watch if leaves else contextlib.nullcontext():
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
        stream = Stream(self, {})
        stream.begin()
        self.mark_result()
        stream.on_broken = follower.release
        with self.endpoint.disconnects.watch(self.connection, follower.release):
            for event_id, message in follower:
                stream.write(message, event_id if self.endpoint.event_ids else None)
        stream.end()
