"""What responses bring: messages for the engine, or a refusal. Whatever reads one over HTTP uses this."""

from __future__ import annotations

import logging
import socket
from typing import Any, NamedTuple, NoReturn, Optional, Union

from ..._concurrency.pending import PendingCall
from ..._protocol import codec, kinds
from ..._protocol.recovery import means_lost_session
from ..._protocol.striking import cleaned, without
from ..._protocol.urls import public_url
from ...errors import InvalidMessage, MCPError, SessionExpired, remote_error
from .._base import Inbound
from .._event_stream import JUNK_LENGTH, EventStream
from .errors import EXCERPT_LENGTH, FOREIGN, status_error
from .exchange import Exchange
from .reply import Reply, media_type

logger = logging.getLogger("mcp_sync.transports.http")

_SESSION_NOT_FOUND = -32001
# How long, and how much, of the body of a failure is read.
_EXCERPT_SECONDS = 2.0
_LARGEST_ERROR = 1_048_576


class Ended(NamedTuple):
    """How an event stream ended that brought no answer.

    Attributes:
        last_id: The last event id, ``""`` if there was none.
        retry: The milliseconds before it may be taken up again, if the server named them.
        messages: How many messages it brought.
        fault: What broke it, ``None`` for an orderly end.
        junk: The start of what it brought and is no message.
        stray: The id of the last answer that it brought, as it is shown.
        is_final: Whether it is of no use to ask for the rest.
    """

    last_id: str
    retry: Optional[int]
    messages: int
    fault: Optional[Exception]
    junk: bytes = b""
    stray: str = ""
    is_final: bool = False


class ResponseReader:
    """Delivers what responses bring.

    Args:
        inbound: Where to.
        limit: The most bytes of a message.
    """

    def __init__(self, inbound: Inbound, limit: int) -> None:
        self._inbound = inbound
        self._limit = limit

    def deliver(self, reply: Reply, call: PendingCall, exchange: Exchange) -> Optional[Ended]:
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
            why = str(error).replace("what arrived is", "which is", 1)
            raise self._invalid(reply, call, data, why) from error
        self._inbound.receive(cleaned(message, reply.secrets), call)
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
        last_id = stray = ""
        fault: Optional[Exception] = None
        junk = b""
        messages = 0
        try:
            for data in events:
                if data:
                    odd, answer = self._deliver(data, call, bool(junk), reply)
                    junk = junk or odd
                    stray = answer or stray
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
        junk = junk or _struck(events.junk, reply)
        return Ended(events.last_id, events.retry, messages, fault, junk, stray)

    def _deliver(
        self, data: Union[str, bytes], call: Optional[PendingCall], has_warned: bool, reply: Reply
    ) -> tuple[bytes, str]:
        """Pass a message on; return the start of what is none, and the id of an answer, as it is shown."""
        try:
            message = codec.decode(data)
        except InvalidMessage as error:
            level = logging.DEBUG if has_warned else logging.WARNING
            start = _struck(_start(data), reply)
            logger.log(level, "An event is no message: %r", start.decode("utf-8", "replace")[:200])
            error.excerpt = without(error.excerpt, reply.secrets())
            self._inbound.report(error)
            limit = next((each for each in (codec.TOO_DEEP, codec.TOO_LONG) if each in str(error)), "")
            return (f"({limit}) " if limit else "").encode() + start, ""
        self._inbound.receive(cleaned(message, reply.secrets), call)
        return b"", kinds.shown_id(message) if kinds.classify(message) is kinds.RESPONSE else ""

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
        # No name for it: a frame that knows its own error is a circle, and keeps connections alive.
        raise _released(reply, self._refusal(reply, call, body, in_session))

    def _refusal(self, reply: Reply, call: PendingCall, body: bytes, in_session: Optional[bool]) -> MCPError:
        message = _json_object(body) if media_type(reply) in ("application/json", "") else {}
        parts = kinds.error_parts(message)
        is_ours = kinds.as_id(message.get("id")) == call.id
        is_addressed = is_ours and parts is not None and parts.code != _SESSION_NOT_FOUND
        if means_lost_session(reply.status, in_session, is_addressed):
            return _expired(reply, call.method)
        if parts is not None and (is_ours or message.get("id") is None):
            return remote_error(*parts, status=reply.status, method=call.method, peer=public_url(reply.url))
        return _failure(reply, body, call.method, in_session)

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
        if means_lost_session(reply.status, in_session):
            raise _released(reply, _expired(reply, doing))
        raise _released(reply, _failure(reply, body, doing, in_session))

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
        except InvalidMessage as error:
            logger.debug("A body could not be read: %s", error)
        except FOREIGN:
            if exchange.aborted or exchange.deadline.expired:
                raise
        return _struck(bytes(data[:size]), reply)

    def _invalid(self, reply: Reply, call: PendingCall, data: bytes, why: str = "") -> InvalidMessage:
        excerpt = _text(_struck(data[: 4 * EXCERPT_LENGTH], reply))
        kind = reply.headers.get("content-type") or "no content type"
        text = f"{call.method}: {public_url(reply.url)} answered {reply.status} with {kind}"
        text += f", {why}" if why else ""
        return InvalidMessage(f"{text}: {' '.join(excerpt.split())[:120] or '(empty)'}", excerpt=excerpt)


def _released(reply: Reply, fault: MCPError) -> MCPError:
    """Give the connection back, now that the response has told what is wrong."""
    reply.release()
    return fault


def _expired(reply: Reply, doing: str) -> MCPError:
    where = public_url(reply.url)
    return SessionExpired(f"{doing}: {where} does not know the session any more", request_sent=False)


def _failure(reply: Reply, body: bytes, doing: str, in_session: Optional[bool]) -> MCPError:
    """Say what a status means that is no success."""
    hint = _hint(reply, in_session)
    fault = status_error(reply.status, reply.headers, reply.url, _text(body), doing, hint=hint)
    fault.headers = without(fault.headers, reply.secrets())
    return fault


def _hint(reply: Reply, in_session: Optional[bool]) -> str:
    if reply.status in (401, 403) and not reply.is_authorized():
        return "give credentials by headers= or auth="
    if reply.status == 404 and in_session is False:
        return "is the path right, such as /mcp?"
    return ""


def _start(data: Union[str, bytes]) -> bytes:
    start = data[:JUNK_LENGTH]
    return start.encode("utf-8", "replace") if isinstance(start, str) else start


def _struck(data: bytes, reply: Reply) -> bytes:
    """Return the start of a body without what was secret of its request."""
    # In this coding every byte is a character, and stays what it was.
    return str(without(data.decode("latin-1"), reply.secrets())).encode("latin-1") if data else data


def _text(data: bytes) -> str:
    return data[: 4 * EXCERPT_LENGTH].decode("utf-8", "replace")[:EXCERPT_LENGTH]


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        message = codec.decode(body)
    except InvalidMessage:
        return {}
    return message if isinstance(message, dict) else {}
