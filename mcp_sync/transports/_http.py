"""Streamable HTTP: the thread that makes a call sends its POST and reads the response itself.

The way of a request, from module to module (each ``_http_...``):

- ``_http`` (here): the channel, what the engine sees;
- ``target``: what the user says about the server;
- ``endpoint``: POST, GET and DELETE of the protocol, with the headers of session and revision;
- ``template``: the sender, which puts on what is the same each time: URL, user's headers, authorization,
  cookies, redirects;
- ``adapter``: the requests adapter, which finds the pool and writes the request as bytes;
- ``pool``: the idle connections of one server (``socks``: through a SOCKS proxy);
- ``connection``: connects, sends, and reads, within the bounds of an exchange;
- ``socket``: each single wait for the system's socket.

The way of the response back:

- ``response``: the head, and the answer, which is the `requests.Response` made of it;
- ``body``: the reply, whose body is read as it comes (``session``: the sender's way and the reply through a
  session of the user);
- ``intake``: delivers messages to the engine, and raises failures; ``_event_stream`` splits its events;
- ``streams``: GET streams, the standalone one and those taken up again.

``exchange`` goes all the way with them: the deadline, and how another thread ends it. ``errors`` puts what
the libraries raise in our terms.
"""

from __future__ import annotations

import logging
import threading
import weakref
from contextlib import closing
from typing import Optional

from .._concurrency.deadline import Deadline
from .._concurrency.pending import PendingCall
from .._concurrency.threads import join_all
from ..errors import ConnectionLost
from ._base import Frame, Inbound, Settings, Wire
from ._http_endpoint import Endpoint
from ._http_errors import raise_translated
from ._http_exchange import Exchange
from ._http_intake import Intake
from ._http_streams import GetStream, Resumption, unanswered
from ._http_target import StreamableHTTP

logger = logging.getLogger("mcp_sync.transports.http")

_DELETE_SECONDS = 2.0


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
        self._settings = settings
        self._connect = settings.timeouts.connect
        self._stream: Optional[GetStream] = None
        # The exchanges under way. Single operations only, so it needs no lock.
        self._live: set[Exchange] = set()
        self._closed = False
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
        self._intake = Intake(inbound, self._settings.limits.message_bytes)
        self._resumption = Resumption(self._endpoint, self._intake, self._settings.retry)

    def configure(self, wire: Wire) -> None:
        """Adapt to the negotiated revision; open or close the standalone stream."""
        self._endpoint.wire = wire
        stream = self._stream
        if wire.get_stream and stream is None and not self._closed:
            # The thread must not keep a channel alive that nobody uses any more.
            inbound: Inbound = weakref.proxy(self._inbound)
            intake = Intake(inbound, self._settings.limits.message_bytes)
            stream = GetStream(self._endpoint, intake, inbound, self._settings.retry, self._connect)
            self._stream = stream
            weakref.finalize(self, stream.stop).atexit = False
            stream.start(self._settings.name)
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
            if not call.settled:
                raise_translated(error, exchange, call.method, self.peer)
        finally:
            self._live.discard(exchange)
            call.detach()

    def _request(self, frame: Frame, call: PendingCall, exchange: Exchange) -> None:
        in_session = self._endpoint.carries_session(frame)
        with closing(self._endpoint.post(frame, exchange)) as reply:
            if not 200 <= reply.status < 300:
                self._intake.refuse(reply, call, exchange, in_session)
            ended = self._intake.answer(reply, call, exchange)
        if ended is None or call.settled:
            return
        if not self._endpoint.wire.resumable or not ended.last_id:
            raise unanswered(call.method, self.peer, ended.junk) from ended.fault
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
                    self._intake.reject(reply, exchange, doing, in_session)
                reply.release()
        except Exception as error:
            raise_translated(error, exchange, doing, self.peer)
        finally:
            self._live.discard(exchange)

    def post(self, frame: Frame) -> bool:
        """Return ``False``: a POST always has to wait."""
        return False

    def _check_open(self, doing: str) -> None:
        if self._closed:
            raise ConnectionLost(f"{doing}: the connection to {self.peer} is closed", request_sent=False)

    # --- the end ---------------------------------------------------------------------------------------

    def close(self, deadline: Deadline) -> None:
        """End the session and close all connections."""
        if not self._closing.acquire(False):
            return
        self._closed = True
        stream = self._stream
        if stream is not None:
            stream.stop()
        for exchange in list(self._live):
            exchange.abort()
        try:
            if self._endpoint.in_session:
                self._endpoint.delete(deadline.within(_DELETE_SECONDS))
        except Exception as error:
            logger.debug("The session of %s could not be ended: %s", self.peer, type(error).__name__)
        self._endpoint.close()
        if stream is not None:
            join_all(stream.threads, deadline)

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
