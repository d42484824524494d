"""The channel of Streamable HTTP: the thread that makes a call sends its POST and reads the response."""

from __future__ import annotations

import logging
import threading
import weakref
from contextlib import closing
from typing import Optional

from ..._concurrency.deadline import Deadline
from ..._concurrency.locks import take
from ..._concurrency.pending import PendingCall
from ..._concurrency.threads import join_all
from ...errors import ConnectionLost, SessionExpired
from .._base import Frame, Inbound, Settings, Wire
from .adapter.adapter import BoundedAdapter
from .endpoint import Endpoint
from .errors import raise_translated, root_of
from .exchange import Exchange
from .responses import ResponseReader
from .senders import Cookies, Shared
from .streams import GetStream, Resumption, unanswered
from .target import StreamableHTTP

logger = logging.getLogger("mcp_sync.transports.http")

_DELETE_SECONDS = 2.0


class HTTPChannel:
    """A connection to one MCP endpoint. See `mcp_sync.transports._base.Channel`.

    It has no thread but, where the server's own messages are wanted (legacy revisions), the one that
    reads them.
    """

    is_http = True
    duplex = False

    def __init__(self, target: StreamableHTTP, settings: Settings, shared: Optional[Shared] = None) -> None:
        self._endpoint = Endpoint(target, shared)
        self.peer = self._endpoint.peer
        self._terminates = target.terminate_on_close
        self._settings = settings
        self._connect_timeout = settings.timeouts.connect
        self._stream: Optional[GetStream] = None
        self._stops_stream: Optional[weakref.finalize[[], HTTPChannel]] = None
        # The exchanges under way. Single operations only, so it needs no lock.
        self._live: set[Exchange] = set()
        self._closed = False
        # The server does not know the session any more, so there is nothing to end.
        self._expired = False
        # Held by whoever closes, for good by whoever discards. Nobody waits for it.
        self._closing = threading.Lock()
        self._discarded = False
        self._forgotten = weakref.finalize(self, self._endpoint.close)
        self._forgotten.atexit = False

    @property
    def session_id(self) -> Optional[str]:
        """The session that the server opened, else ``None``."""
        return self._endpoint.session_id if self._endpoint.in_session else None

    @property
    def cookies(self) -> Cookies:
        """Those that go with a request now."""
        return self._endpoint.cookies

    @property
    def adapter(self) -> Optional[BoundedAdapter]:
        """What sends its requests, ``None`` where that is the user's."""
        return self._endpoint.adapter

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
            stream = GetStream(self._endpoint, reader, inbound, self._settings.retry, self._connect_timeout)
            stream.has_stood = has_stood
            self._stream = stream
            if self._stops_stream is not None:
                self._stops_stream.detach()
            self._stops_stream = weakref.finalize(self, stream.stop)
            self._stops_stream.atexit = False
            stream.start(self._settings.name)
            if self._closed:
                stream.stop()  # Whoever closed did not see it yet.
        elif not wire.get_stream and stream is not None:
            self._stream = None
            stream.stop()

    # --- requests --------------------------------------------------------------------------------------

    def request(self, frame: Frame, call: PendingCall) -> None:
        """POST a request and deliver what comes back, until the call is settled."""
        exchange = Exchange(call.deadline, self._connect_timeout, call)
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
            ended = self._reader.deliver(reply, call, exchange)
        if ended is None or call.settled:
            return
        if not self._endpoint.wire.resumable or not ended.last_id:
            raise unanswered(call.method, self.peer, ended) from root_of(ended.fault, exchange.handled)
        self._resumption.run(call, exchange, ended)

    def send(self, frame: Frame, deadline: Deadline) -> None:
        """POST a notification or a response."""
        doing = frame.method or "a response"
        exchange = Exchange(deadline, self._connect_timeout)
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
        """End the session and close all connections, or go on with it after an interruption."""
        got: list[bool] = []
        try:
            if take(self._closing, 0.0, got):
                self._stop()
                self._end_session(deadline)
                self._endpoint.close()
                if self._stream is not None:
                    join_all(self._stream.threads, deadline)
        finally:
            if got and got[0]:
                self._closing.release()

    def _end_session(self, deadline: Deadline) -> None:
        if not self._terminates or not self._endpoint.in_session or self._expired:
            return
        self._terminates = False  # Whoever interrupts it does not want to wait for it once more.
        try:
            self._delete(deadline.within(_DELETE_SECONDS))
        except Exception as error:
            logger.debug("The session of %s could not be ended: %s", self.peer, type(error).__name__)

    def _delete(self, deadline: Deadline) -> None:
        exchange = Exchange(deadline)
        self._live.add(exchange)
        try:
            # In this order, as `discard` does the reverse: so one of the two sees the other.
            if not self._discarded:
                self._endpoint.delete(exchange)
        finally:
            self._live.discard(exchange)

    def discard(self) -> None:
        """Close all connections. A session is left to the server, since ending it takes a request.

        One that `close` sends at that moment is cut off.
        """
        self._discarded = True
        is_first = self._closing.acquire(False)
        self._stop()
        if is_first:
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
