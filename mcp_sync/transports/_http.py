"""Streamable HTTP: the thread that makes a call sends its POST and reads the response."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any, Optional

from .._concurrency.deadline import Deadline
from .._concurrency.pending import PendingCall
from .._concurrency.threads import join_all, spawn
from .._protocol import codec
from ..errors import (
    ConnectionLost,
    InvalidMessage,
    MCPError,
    SessionExpired,
    remote_error,
)
from ._base import Frame, Inbound, Settings, Wire
from ._event_stream import EventStream
from ._http_body import Reply
from ._http_errors import EXCERPT_LENGTH, status_error, timed_out, translated
from ._http_exchange import Exchange
from ._http_target import StreamableHTTP, is_visible_ascii, public_url
from ._http_template import DirectSender, Sender, SessionSender

logger = logging.getLogger("mcp_sync.transports.http")

_SESSION_ID = "Mcp-Session-Id"
_SESSION_NOT_FOUND = -32001
_POST = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
_EXCERPT_SECONDS = 2.0


class HTTPChannel:
    """One MCP endpoint. See `mcp_sync.transports._base.Channel`."""

    is_http = True
    duplex = False

    def __init__(self, target: StreamableHTTP, settings: Settings) -> None:
        self.peer = public_url(target.url)
        self._settings = settings
        self._limit = settings.limits.message_bytes
        self._sender: Sender = SessionSender(target) if target.session is not None else DirectSender(target)
        self._inbound: Inbound
        self._wire = Wire()
        self._session_id = target.session_id
        self._live: set[Exchange] = set()
        self._closed = False

    @property
    def session_id(self) -> Optional[str]:
        """The session id in use."""
        return self._session_id if self._wire.sessions else None

    def start(self, inbound: Inbound, deadline: Deadline) -> None:
        """Take note of the engine. Connecting is left to the first request."""
        self._inbound = inbound

    def configure(self, wire: Wire) -> None:
        """Adapt to the negotiated revision."""
        self._wire = wire

    # --- requests --------------------------------------------------------------------------------------

    def request(self, frame: Frame, call: PendingCall) -> None:
        """POST a request and deliver what comes back until the call is settled."""
        exchange = Exchange(call.deadline, self._settings.timeouts.connect, call)
        if not call.attach(exchange.abort):
            return
        self._live.add(exchange)
        try:
            self._request(frame, call, exchange)
        except Exception as error:
            if not call.settled:
                raise translated(error, exchange, call.method, self.peer) from error
        finally:
            self._live.discard(exchange)
            call.detach()

    def _request(self, frame: Frame, call: PendingCall, exchange: Exchange) -> None:
        wire, session_id = self._wire, self._session_id
        headers = self._headers(frame, wire, session_id)
        reply = self._sender.send("POST", headers, frame.body, exchange, call.method)
        try:
            self._take(reply, frame, call, exchange, _SESSION_ID in headers)
        except BaseException:
            reply.close()
            raise
        reply.release()

    def _headers(self, frame: Frame, wire: Wire, session_id: Optional[str]) -> dict[str, str]:
        headers = {**frame.headers, **_POST}
        if wire.version_header is not None:
            headers["MCP-Protocol-Version"] = wire.version_header
        if wire.sessions and session_id is not None and frame.method != "initialize":
            headers[_SESSION_ID] = session_id
        return headers

    def _take(self, reply: Reply, frame: Frame, call: PendingCall, exchange: Exchange, in_session: bool) -> None:
        if not 200 <= reply.status < 300:
            self._fail(reply, call, exchange, in_session)
            return
        if frame.method == "initialize":
            self._adopt_session(reply.headers)
        kind = (reply.headers.get("content-type") or "").partition(";")[0].strip().lower()
        if kind == "application/json":
            self._take_json(reply, call)
        elif kind == "text/event-stream":
            self._take_events(reply, call)
        else:
            raise self._unusable(reply, exchange, call)

    def _adopt_session(self, headers: Mapping[str, str]) -> None:
        session_id = headers.get(_SESSION_ID)
        if session_id is not None and not is_visible_ascii(session_id):
            logger.warning("%s sent a session id with characters that none may have", self.peer)
            session_id = None
        self._session_id = session_id

    def _take_json(self, reply: Reply, call: PendingCall) -> None:
        data = reply.read(self._limit)
        reply.release()
        try:
            message = codec.decode(data)
        except InvalidMessage as error:
            raise self._invalid(reply, call, data) from error
        self._inbound.receive(message, call)
        if not call.settled:
            raise self._invalid(reply, call, data, "which does not answer the request")

    def _take_events(self, reply: Reply, call: PendingCall) -> None:
        events = EventStream(iter(reply.read1, b""), self._limit)
        for data in events:
            self._inbound.receive(codec.decode(data), call)
            if call.settled:
                return
        raise ConnectionLost(
            f"{call.method}: the stream of {self.peer} ended without the answer", request_sent=True
        )

    # --- failures --------------------------------------------------------------------------------------

    def _fail(self, reply: Reply, call: PendingCall, exchange: Exchange, in_session: bool) -> None:
        body = self._excerpt(reply, exchange)
        raise status_error(reply.status, reply.headers, reply.url, body, call.method)

    def _excerpt(self, reply: Reply, exchange: Exchange) -> str:
        data = b""
        for chunk in iter(reply.read1, b""):
            data += chunk
            if len(data) > EXCERPT_LENGTH * 4:
                break
        return data.decode("utf-8", "replace")[:EXCERPT_LENGTH]

    def _unusable(self, reply: Reply, exchange: Exchange, call: PendingCall) -> MCPError:
        return self._invalid(reply, call, self._excerpt(reply, exchange).encode())

    def _invalid(self, reply: Reply, call: PendingCall, data: bytes, why: str = "") -> InvalidMessage:
        excerpt = data[: EXCERPT_LENGTH * 4].decode("utf-8", "replace")[:EXCERPT_LENGTH]
        kind = reply.headers.get("content-type") or "no content type"
        text = f"{call.method}: {public_url(reply.url)} answered {reply.status} with {kind}"
        return InvalidMessage(f"{text}{', ' + why if why else ''}: {excerpt[:200]}", excerpt=excerpt)

    # --- the rest --------------------------------------------------------------------------------------

    def send(self, frame: Frame, deadline: Deadline) -> None:
        """POST a notification or a response."""
        exchange = Exchange(deadline, self._settings.timeouts.connect)
        doing = frame.method or "a response"
        self._live.add(exchange)
        try:
            headers = self._headers(frame, self._wire, self._session_id)
            reply = self._sender.send("POST", headers, frame.body, exchange, doing)
            if not 200 <= reply.status < 300:
                try:
                    body = self._excerpt(reply, exchange)
                finally:
                    reply.close()
                raise status_error(reply.status, reply.headers, reply.url, body, doing)
            reply.release()
        except Exception as error:
            raise translated(error, exchange, doing, self.peer) from error
        finally:
            self._live.discard(exchange)

    def post(self, frame: Frame) -> bool:
        """Return ``False``: a POST always has to wait."""
        return False

    def close(self, deadline: Deadline) -> None:
        """End the session and close the connections."""
        self._closed = True
        for exchange in list(self._live):
            exchange.abort()
        self._sender.close()

    def abandon(self) -> None:
        """In a forked child: drop the inherited connections."""
        self._closed = True
        for exchange in list(self._live):
            exchange.drop()
        self._sender.abandon()
