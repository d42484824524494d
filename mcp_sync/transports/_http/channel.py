"""The channel of Streamable HTTP: the thread that makes a call sends its POST and reads the response."""

from __future__ import annotations

import logging
import socket
import threading
import weakref
from contextlib import closing
from typing import Any, NoReturn, Optional, Union

from ..._concurrency.deadline import Deadline
from ..._concurrency.pending import PendingCall
from ..._concurrency.threads import join_all
from ..._protocol import codec
from ..._protocol.recovery import means_lost_session
from ..._protocol.urls import public_url
from ...errors import ConnectionLost, InvalidMessage, MCPError, SessionExpired, remote_error
from .._base import Frame, Inbound, Settings, Wire
from .._event_stream import JUNK_LENGTH, EventStream
from .endpoint import Endpoint
from .errors import EXCERPT_LENGTH, FOREIGN, raise_translated, root_of, status_error
from .exchange import Exchange
from .reply import Ended, Reply, media_type
from .streams import GetStream, Resumption, unanswered
from .target import StreamableHTTP

logger = logging.getLogger("mcp_sync.transports.http")

_DELETE_SECONDS = 2.0
_SESSION_NOT_FOUND = -32001
# How long, and how much, of the body of a failure is read.
_EXCERPT_SECONDS = 2.0
_LARGEST_ERROR = 1_048_576


class HTTPChannel:
    """A connection to one MCP endpoint. See `mcp_sync.transports._base.Channel`.

    It has no thread but, where the server's own messages are wanted (legacy revisions), the one that
    reads them.
    """

    is_http = True
    duplex = False

    def __init__(self, target: StreamableHTTP, settings: Settings) -> None:
        self._endpoint = Endpoint(target)
        self.peer = self._endpoint.peer
        self._terminates = target.terminate_on_close
        self._settings = settings
        self._connect = settings.timeouts.connect
        self._stream: Optional[GetStream] = None
        # The exchanges under way. Single operations only, so it needs no lock.
        self._live: set[Exchange] = set()
        self._closed = False
        # The server does not know the session any more, so there is nothing to end.
        self._expired = False
        # Taken for good by whoever closes. Nobody waits for it.
        self._closing = threading.Lock()
        self._forgotten = weakref.finalize(self, self._endpoint.close)
        self._forgotten.atexit = False

    @property
    def session_id(self) -> Optional[str]:
        """The session that the server opened, else ``None``."""
        return self._endpoint.session_id if self._endpoint.in_session else None

    def start(self, inbound: Inbound, deadline: Deadline) -> None:
        """Take note of the engine. Connecting is left to the first request."""
        self._inbound = inbound
        self._reader = ResponseReader(inbound, self._settings.limits.message_bytes)
        self._resumption = Resumption(self._endpoint, self._reader, self._settings.retry)

    def configure(self, wire: Wire) -> None:
        """Adapt to the negotiated revision; open or close the standalone stream."""
        self._endpoint.wire = wire
        stream = self._stream
        if wire.get_stream and (stream is None or stream.is_over) and not self._closed:
            # The thread must not keep a channel alive that nobody uses any more.
            inbound: Inbound = weakref.proxy(self._inbound)
            reader = ResponseReader(inbound, self._settings.limits.message_bytes)
            has_stood = stream is not None and stream.has_stood
            stream = GetStream(self._endpoint, reader, inbound, self._settings.retry, self._connect)
            stream.has_stood = has_stood
            self._stream = stream
            weakref.finalize(self, stream.stop).atexit = False
            stream.start(self._settings.name)
            if self._closed:
                stream.stop()  # Whoever closed did not see it yet.
        elif not wire.get_stream and stream is not None:
            self._stream = None
            stream.stop()

    # --- requests --------------------------------------------------------------------------------------

    def request(self, frame: Frame, call: PendingCall) -> None:
        """POST a request and deliver what comes back, until the call is settled."""
        exchange = Exchange(call.deadline, self._connect, call)
        if not call.attach(exchange.abort):
            return
        self._live.add(exchange)
        try:
            self._check_open(call.method)
            self._request(frame, call, exchange)
        except Exception as error:
            self._note_expiry(error)
            if not call.settled:
                raise_translated(error, exchange, call.method, self.peer)
        finally:
            self._live.discard(exchange)
            call.detach()

    def _request(self, frame: Frame, call: PendingCall, exchange: Exchange) -> None:
        if frame.resume_from:
            call.request_sent = True
            self._resumption.take_up(call, exchange, frame.resume_from)
            return
        in_session = self._endpoint.carries_session(frame)
        with closing(self._endpoint.post(frame, exchange)) as reply:
            if not 200 <= reply.status < 300:
                self._reader.refuse(reply, call, exchange, in_session)
            ended = self._reader.answer(reply, call, exchange)
        if ended is None or call.settled:
            return
        if not self._endpoint.wire.resumable or not ended.last_id:
            raise unanswered(call.method, self.peer, ended) from root_of(ended.fault)
        self._resumption.run(call, exchange, ended)

    def send(self, frame: Frame, deadline: Deadline) -> None:
        """POST a notification or a response."""
        doing = frame.method or "a response"
        exchange = Exchange(deadline, self._connect)
        self._live.add(exchange)
        try:
            self._check_open(doing)
            in_session = self._endpoint.carries_session(frame)
            with closing(self._endpoint.post(frame, exchange)) as reply:
                if not 200 <= reply.status < 300:
                    self._reader.reject(reply, exchange, doing, in_session)
                reply.release()
        except Exception as error:
            self._note_expiry(error)
            raise_translated(error, exchange, doing, self.peer)
        finally:
            self._live.discard(exchange)

    def try_send(self, frame: Frame) -> bool:
        """Return ``False``: a POST always has to wait."""
        return False

    def _note_expiry(self, error: Exception) -> None:
        if isinstance(error, SessionExpired):
            self._expired = True

    def _check_open(self, doing: str) -> None:
        if self._closed:
            raise ConnectionLost(f"{doing}: the connection to {self.peer} is closed", request_sent=False)

    # --- the end ---------------------------------------------------------------------------------------

    def close(self, deadline: Deadline) -> None:
        """End the session and close all connections."""
        if not self._closing.acquire(False):
            return
        self._stop()
        try:
            if self._endpoint.in_session and self._terminates and not self._expired:
                self._endpoint.delete(deadline.within(_DELETE_SECONDS))
        except Exception as error:
            logger.debug("The session of %s could not be ended: %s", self.peer, type(error).__name__)
        self._endpoint.close()
        if self._stream is not None:
            join_all(self._stream.threads, deadline)

    def discard(self) -> None:
        """Close all connections. A session is left to the server, since ending it takes a request."""
        if self._closing.acquire(False):
            self._stop()
            self._endpoint.close()

    def _stop(self) -> None:
        self._closed = True
        if self._stream is not None:
            self._stream.stop()
        for exchange in list(self._live):
            exchange.abort()

    def abandon(self) -> None:
        """In a forked child: drop the inherited connections, without a byte to the server."""
        self._closed = True
        self._closing.acquire(False)
        self._forgotten.detach()
        for exchange in list(self._live):
            exchange.drop()
        if self._stream is not None:
            self._stream.abandon()
        self._endpoint.abandon()


class ResponseReader:
    """Delivers what responses bring.

    Args:
        inbound: Where to.
        limit: The most bytes of a message.
    """

    def __init__(self, inbound: Inbound, limit: int) -> None:
        self._inbound = inbound
        self._limit = limit

    def answer(self, reply: Reply, call: PendingCall, exchange: Exchange) -> Optional[Ended]:
        """Deliver a successful response until the call is settled.

        Returns:
            How the response ended, if it was an event stream that did not settle the call.

        Raises:
            InvalidMessage: It is nothing that could answer a request.
            MessageTooLarge: It is larger than the limit.
        """
        kind = media_type(reply)
        if kind == "text/event-stream":
            return self.events(reply, exchange, call)
        if kind != "application/json" and kind:
            raise self._invalid(reply, call, self._excerpt(reply, exchange))
        data = reply.read(self._limit)
        reply.release()
        try:
            message = codec.decode(data)
        except InvalidMessage as error:
            why = f"which is {codec.TOO_DEEP}" if codec.TOO_DEEP in str(error) else ""
            raise self._invalid(reply, call, data, why) from error
        self._inbound.receive(message, call)
        if not call.settled:
            raise self._invalid(reply, call, data, "which does not answer the request")
        return None

    def events(self, reply: Reply, exchange: Exchange, call: Optional[PendingCall]) -> Optional[Ended]:
        """Deliver the events of a stream, each when it comes, until the call is settled.

        Args:
            call: The call whose stream it is, ``None`` for the standalone stream.

        Returns:
            How it ended, unless the call is settled.
        """
        events = EventStream(iter(reply.read1, b""), self._limit)
        take_id = call.on_event_id if call is not None else None
        last_id = ""
        fault: Optional[Exception] = None
        junk = b""
        messages = 0
        try:
            for data in events:
                if data:
                    odd = self._deliver(data, call, bool(junk))
                    junk = junk or odd
                    messages += not odd
                if call is not None and call.settled:
                    reply.release()
                    return None
                if exchange.deadline.expired:
                    # What one read brings may hold events without number.
                    raise socket.timeout("too late")
                if take_id is not None and events.last_id != last_id:
                    last_id = events.last_id
                    take_id(last_id)
        except MCPError:
            raise
        except FOREIGN as error:
            if exchange.aborted or exchange.deadline.expired:
                raise
            fault = error
        if fault is None:
            reply.release()
        else:
            reply.close()
        return Ended(events.last_id, events.retry, messages, fault, junk or events.junk)

    def _deliver(self, data: Union[str, bytes], call: Optional[PendingCall], has_warned: bool) -> bytes:
        """Pass a message on; return the start of what is none."""
        try:
            message = codec.decode(data)
        except InvalidMessage as error:
            level = logging.DEBUG if has_warned else logging.WARNING
            logger.log(level, "An event is no message: %r", data[:200])
            self._inbound.report(error)
            depth = f"({codec.TOO_DEEP}) " if codec.TOO_DEEP in str(error) else ""
            return depth.encode() + _start(data)
        self._inbound.receive(message, call)
        return b""

    def refuse(
        self, reply: Reply, call: PendingCall, exchange: Exchange, in_session: Optional[bool]
    ) -> NoReturn:
        """Raise what a response with another status than 2xx means for a request.

        Args:
            in_session: Whether the request carried a session id; ``None`` where there are none.

        Raises:
            RemoteError: The body is a JSON-RPC error for this request.
            SessionExpired: The server does not know the session any more.
            HTTPStatusError: Anything else.
        """
        body = self._failure_body(reply, exchange)
        message = _json_object(body) if media_type(reply) in ("application/json", "") else {}
        parts = codec.error_parts(message)
        is_ours = codec.as_id(message.get("id")) == call.id
        is_addressed = is_ours and parts is not None and parts.code != _SESSION_NOT_FOUND
        fault: MCPError
        if means_lost_session(reply.status, in_session, is_addressed):
            fault = _expired(reply, call.method)
        elif parts is not None and (is_ours or message.get("id") is None):
            fault = remote_error(parts.code, parts.message, parts.data, status=reply.status)
        else:
            fault = _failure(reply, body, call.method, in_session)
        reply.release()
        raise fault

    def reject(
        self, reply: Reply, exchange: Exchange, doing: str, in_session: Optional[bool] = None
    ) -> NoReturn:
        """Raise what a response with another status than the one hoped for means where no request waits.

        Args:
            in_session: Whether a message was sent with a session id; ``None`` if none was sent.

        Raises:
            SessionExpired: The server does not know the session any more.
            HTTPStatusError: Anything else.
        """
        body = self._excerpt(reply, exchange)
        lost = means_lost_session(reply.status, in_session)
        fault = _expired(reply, doing) if lost else _failure(reply, body, doing, in_session)
        reply.release()
        raise fault

    def _failure_body(self, reply: Reply, exchange: Exchange) -> bytes:
        if media_type(reply) == "application/json":
            return self._excerpt(reply, exchange, min(self._limit, _LARGEST_ERROR))
        return self._excerpt(reply, exchange)

    def _excerpt(self, reply: Reply, exchange: Exchange, size: int = 4 * EXCERPT_LENGTH) -> bytes:
        """Read the start of a body that is no message. What does not come soon is not waited for."""
        reply.hurry(exchange.deadline.within(_EXCERPT_SECONDS))
        data = bytearray()
        try:
            for chunk in iter(reply.read1, b""):
                data += chunk
                if len(data) > size:
                    break
        except FOREIGN:
            if exchange.aborted or exchange.deadline.expired:
                raise
        return bytes(data[:size])

    def _invalid(self, reply: Reply, call: PendingCall, data: bytes, why: str = "") -> InvalidMessage:
        excerpt = _text(data)
        kind = reply.headers.get("content-type") or "no content type"
        text = f"{call.method}: {public_url(reply.url)} answered {reply.status} with {kind}"
        text += f", {why}" if why else ""
        return InvalidMessage(f"{text}: {' '.join(excerpt.split())[:120] or '(empty)'}", excerpt=excerpt)


def _expired(reply: Reply, doing: str) -> MCPError:
    where = public_url(reply.url)
    return SessionExpired(f"{doing}: {where} does not know the session any more", request_sent=False)


def _failure(reply: Reply, body: bytes, doing: str, in_session: Optional[bool]) -> MCPError:
    """Say what a status means that is no success."""
    hint = _hint(reply, in_session)
    return status_error(reply.status, reply.headers, reply.url, _text(body), doing, hint=hint)


def _hint(reply: Reply, in_session: Optional[bool]) -> str:
    if reply.status in (401, 403) and not reply.is_authorized():
        return "give credentials by headers= or auth="
    if reply.status == 404 and in_session is False:
        return "is the path right, such as /mcp?"
    return ""


def _start(data: Union[str, bytes]) -> bytes:
    start = data[:JUNK_LENGTH]
    return start.encode("utf-8", "replace") if isinstance(start, str) else start


def _text(data: bytes) -> str:
    return data[: 4 * EXCERPT_LENGTH].decode("utf-8", "replace")[:EXCERPT_LENGTH]


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        message = codec.decode(body)
    except InvalidMessage:
        return {}
    return message if isinstance(message, dict) else {}
