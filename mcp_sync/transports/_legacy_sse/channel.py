"""The channel of HTTP with SSE: calls post their requests, and one thread reads all answers."""

from __future__ import annotations

import logging
import threading
import weakref
from contextlib import closing
from typing import NoReturn, Optional

from ..._concurrency.deadline import Deadline
from ..._concurrency.pending import PendingCall
from ..._concurrency.threads import join_all
from ..._protocol import codec, kinds
from ..._protocol.striking import cleaned
from ..._protocol.urls import public_url
from ...errors import ConnectFailed, ConnectionLost, InvalidMessage, SessionExpired
from .._base import Frame, Inbound, Settings, Wire
from .._duplex import Intake
from .._http.endpoint import EVENTS, POST_HEADERS, VERSION_HEADER
from .._http.errors import raise_translated
from .._http.exchange import Exchange
from .._http.redirects import REDIRECTS
from .._http.reply import Reply, media_type
from .._http.responses import ResponseReader
from .._http.senders import Cookies, Sender, sender_for
from .._http.streams import is_event_stream
from .stream import ServerStream
from .target import LegacySSE

logger = logging.getLogger("mcp_sync.transports.http")

# How long a POST may outlast the answer to its request.
_AWAIT_ACCEPTED = 0.05


class LegacySSEChannel:
    """An open event stream, the thread that reads it, and the way to send messages.

    Headers count here as on Streamable HTTP, although no revision of this transport asks for any: those of
    a single call go with its POST.
    """

    is_http = True
    duplex = True
    session_id: Optional[str] = None

    def __init__(self, target: LegacySSE, settings: Settings) -> None:
        self.peer = public_url(target.url)
        self._sender: Sender = sender_for(target)
        self._settings = settings
        self._connect = settings.timeouts.connect
        self._wire = Wire()
        self._stream: Optional[ServerStream] = None
        # The exchanges under way. Single operations only, so it needs no lock.
        self._live: set[Exchange] = set()
        self._closed = False

    # --- the stream ------------------------------------------------------------------------------

    @property
    def cookies(self) -> Cookies:
        """Those that go with a request now."""
        return self._sender.cookies

    def start(self, inbound: Inbound, deadline: Deadline) -> None:
        """Open the stream and wait for the event that names the endpoint.

        Raises:
            ConnectFailed: Nobody there, or no such event within ``Timeouts.connect``.
            HTTPStatusError, InvalidMessage, ProtocolError: Somebody else there.
            CallTimeout: Not within the deadline.
        """
        limit = self._settings.limits.message_bytes
        self._inbound = inbound
        self._intake = Intake(inbound, self.peer, logger)
        self._reader = ResponseReader(inbound, limit)
        exchange = Exchange(deadline.within(self._connect), self._connect)
        self._live.add(exchange)
        try:
            self._check_open("GET")
            self._open(exchange, limit)
        except BaseException as error:
            self._sender.close()
            self._raise_not_open(error, exchange, deadline)
        finally:
            self._live.discard(exchange)
        if self._closed and self._stream is not None:
            join_all(self._stream.threads, deadline)

    def _open(self, exchange: Exchange, limit: int) -> None:
        headers = {"Accept": EVENTS, "Cache-Control": "no-store"}
        sender = self._sender
        reply, url = sender.send_to(sender.url, "GET", headers, None, exchange, "GET", REDIRECTS)
        try:
            if not is_event_stream(reply):
                self._refuse_stream(reply, exchange)
            self._intake.secrets = reply.secrets()
            stream = ServerStream(reply, url, exchange, self.peer, limit)
            stream.await_endpoint(self._intake)
            stream.start(self._settings.name, self._intake)
        except BaseException:
            reply.close()
            raise
        self._stream = stream
        self._forgotten = weakref.finalize(self, _discard, stream, self._sender)
        self._forgotten.atexit = False

    def _refuse_stream(self, reply: Reply, exchange: Exchange) -> NoReturn:
        if 200 <= reply.status < 300:
            kind = media_type(reply) or "no content type"
            raise InvalidMessage(f"GET: {self.peer} answered {reply.status} with {kind}, not with events")
        self._reader.reject(reply, exchange, "GET")

    def _raise_not_open(self, error: BaseException, exchange: Exchange, deadline: Deadline) -> NoReturn:
        if not isinstance(error, Exception):
            raise error
        is_late = exchange.deadline.expired and not deadline.expired and not exchange.aborted
        if is_late and isinstance(error, OSError) and self._connect is not None:
            text = f"{self.peer} opened no event stream that names an endpoint within {self._connect:g} s"
            raise ConnectFailed(f"{text} (Timeouts.connect)") from error
        raise_translated(error, exchange, "GET", self.peer)

    def configure(self, wire: Wire) -> None:
        """Adapt to the negotiated revision. The stream is there in any case."""
        self._wire = wire

    # --- messages --------------------------------------------------------------------------------

    def request(self, frame: Frame, call: PendingCall) -> None:
        """POST a request; the answer comes on the stream, or right here if the server has it so."""
        exchange = Exchange(call.deadline, self._connect, call)
        caller, accepted = threading.get_ident(), threading.Event()

        def answered() -> None:
            # On the stream, before the POST is accepted. Nobody waits for a server that holds that back, but
            # a moment saves the connection.
            if threading.get_ident() != caller and not accepted.wait(_AWAIT_ACCEPTED):
                exchange.abort()

        if not call.attach(exchange.abort, answered):
            return
        self._live.add(exchange)
        try:
            with closing(self._post(frame, exchange, call.method)) as reply:
                if not 200 <= reply.status < 300:
                    self._refuse(reply, call, exchange)
                if not call.settled:
                    self._take_answer(reply, call, exchange)
                reply.release()
        except Exception as error:
            if not call.settled:
                raise_translated(error, exchange, call.method, self.peer)
        finally:
            accepted.set()
            self._live.discard(exchange)
            call.detach()

    def send(self, frame: Frame, deadline: Deadline) -> None:
        """POST a notification or a response."""
        doing = frame.method or "a response"
        exchange = Exchange(deadline, self._connect)
        self._live.add(exchange)
        try:
            with closing(self._post(frame, exchange, doing)) as reply:
                if not 200 <= reply.status < 300:
                    self._reject(reply, exchange, doing)
                reply.release()
        except Exception as error:
            raise_translated(error, exchange, doing, self.peer)
        finally:
            self._live.discard(exchange)

    def try_send(self, frame: Frame) -> bool:
        """Return ``False``: a POST always has to wait."""
        return False

    def _post(self, frame: Frame, exchange: Exchange, doing: str) -> Reply:
        self._check_open(doing)
        stream = self._stream
        if stream is None or self._intake.error is not None:
            reason = "is not open" if stream is None else f"is lost: {self._intake.error}"
            raise ConnectionLost(f"{doing}: the connection to {self.peer} {reason}", request_sent=False)
        headers = {**frame.headers, **POST_HEADERS}
        if self._wire.version_header is not None:
            headers[VERSION_HEADER] = self._wire.version_header
        return self._sender.send_to(stream.endpoint, "POST", headers, frame.body, exchange, doing)[0]

    def _take_answer(self, reply: Reply, call: PendingCall, exchange: Exchange) -> None:
        """Deliver what the server says to a POST, if that is a message: some answer here, or here too."""
        kind = media_type(reply)
        if kind == EVENTS:
            self._reader.events(reply, exchange, call)
        elif kind == "application/json":
            data = reply.read(self._settings.limits.message_bytes)
            try:
                message = codec.decode(data)
            except InvalidMessage:
                return
            if isinstance(message, list) or kinds.classify(message) is not kinds.INVALID:
                self._inbound.receive(cleaned(message, reply.secrets), call)

    def _refuse(self, reply: Reply, call: PendingCall, exchange: Exchange) -> NoReturn:
        in_session = None if call.method == "initialize" else True
        try:
            self._reader.refuse(reply, call, exchange, in_session)
        except SessionExpired as error:
            self._forget_session(error)

    def _reject(self, reply: Reply, exchange: Exchange, doing: str) -> NoReturn:
        try:
            self._reader.reject(reply, exchange, doing, in_session=True)
        except SessionExpired as error:
            self._forget_session(error)

    def _forget_session(self, error: SessionExpired) -> NoReturn:
        """Give up a stream that the server does not connect with messages any more.

        Nothing is sent again by itself: what answered may be something in between that knows no better.
        """
        self._intake.lose(ConnectionLost(str(error), request_sent=True))
        if self._stream is not None:
            self._stream.stop()
        raise ConnectionLost(str(error), request_sent=True) from error

    def _check_open(self, doing: str) -> None:
        if self._closed:
            raise ConnectionLost(f"{doing}: the connection to {self.peer} is closed", request_sent=False)

    # --- the end ---------------------------------------------------------------------------------

    def close(self, deadline: Deadline) -> None:
        """End the stream with its thread, and close all connections."""
        self.discard()
        if self._stream is not None:
            join_all(self._stream.threads, deadline)

    def discard(self) -> None:
        """End everything, waiting for nobody: for finalisers."""
        self._closed = True
        for exchange in list(self._live):
            exchange.abort()
        if self._stream is not None:
            self._stream.stop()
        self._sender.close()

    def abandon(self) -> None:
        """In a forked child: drop the inherited connections, without a byte to the server."""
        self._closed = True
        for exchange in list(self._live):
            exchange.drop()
        if self._stream is not None:
            self._forgotten.detach()
            self._stream.abandon()
        self._sender.abandon()


def _discard(stream: ServerStream, sender: Sender) -> None:
    stream.stop()
    sender.close()
