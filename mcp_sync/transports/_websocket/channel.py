"""The channel to a server over WebSocket: what a call writes, and how the connection begins and ends."""

from __future__ import annotations

import errno
import logging
import threading
import time
import weakref
from dataclasses import dataclass
from typing import Optional

from ..._concurrency.deadline import Deadline
from ..._concurrency.pending import PendingCall
from ..._concurrency.threads import join_all, spawn
from ..._protocol.urls import public_url
from ...errors import CallTimeout, ConnectFailed, ConnectionLost, UsageError
from .._base import Frame, Inbound, Settings, Wire
from .._duplex import Intake, Outlet
from .._http.exchange import Exchange
from .._http.responses import ResponseReader
from .frames import close_frame, text_frame
from .handshake import Handshake
from .reader import POSTABLE, Reader
from .stream import SocketStream
from .target import WebSocket

logger = logging.getLogger("mcp_sync.websocket")

# How long the server has to answer our close frame.
_AWAIT_CLOSE = 0.5
# How long a writer into a broken connection waits for the reader to find out why.
_AWAIT_CAUSE = 1.0
_LOOK_FOR_CAUSE = 0.005


@dataclass(frozen=True)
class _Link:
    """A connection that stands, with everything that serves it."""

    stream: SocketStream
    intake: Intake
    outlet: Outlet
    reader: Reader
    thread: threading.Thread


class WebSocketChannel:
    """A connection to one server, its reading thread, and the way to write to it."""

    is_http = False
    duplex = True
    session_id: Optional[str] = None

    def __init__(self, target: WebSocket, settings: Settings) -> None:
        self._target = target
        self._settings = settings
        self.peer = public_url(target.url)
        self._handshake = Handshake(target)
        self._exchange: Optional[Exchange] = None
        self._link: Optional[_Link] = None
        self._closed = False
        self._parted = False

    def start(self, inbound: Inbound, deadline: Deadline) -> None:
        """Connect.

        Raises:
            HTTPStatusError: The server does not change to WebSocket.
            ConnectFailed: There is no connection, or it is not one for MCP.
            CallTimeout: Not within the deadline.
        """
        exchange = self._exchange = Exchange(deadline, self._settings.timeouts.connect)
        if self._closed:
            exchange.abort()
        reader = ResponseReader(inbound, self._settings.limits.message_bytes)
        sock, rest = self._handshake.shake(exchange, reader)
        stream = SocketStream(sock)
        intake = Intake(inbound, self.peer, logger)
        intake.secrets = self._handshake.secrets
        self._link = self._serve(stream, rest, intake)
        # The reader ends then; whoever collects the garbage waits for nothing.
        self._finalizer = weakref.finalize(self, stream.shut_down)
        self._finalizer.atexit = False
        if self._closed:
            self.close(deadline)

    def _serve(self, stream: SocketStream, rest: bytes, intake: Intake) -> _Link:
        outlet = Outlet(stream, self.peer)
        reader = Reader(stream, rest, outlet, self.peer, self._settings, self._target.ping_interval)
        try:
            thread = spawn(self._settings.name, "reader", reader.run, weakref.ref(intake))
        except RuntimeError as error:
            stream.shut_down()
            stream.close()
            raise ConnectFailed(f"there is no thread to be had for {self.peer}: {error}") from error
        return _Link(stream, intake, outlet, reader, thread)

    def configure(self, wire: Wire) -> None:
        """Do nothing: the revision makes no difference to messages."""

    def request(self, frame: Frame, call: PendingCall) -> None:
        """Write a request; the reading thread brings the answer."""
        self._write(frame, call.deadline, call)

    def send(self, frame: Frame, deadline: Deadline) -> None:
        """Write a notification or a response."""
        self._write(frame, deadline, None)

    def try_send(self, frame: Frame) -> bool:
        """Write a small message, unless somebody else is writing or the peer does not read."""
        link = self._link
        return link is not None and link.outlet.post(text_frame(frame.body), POSTABLE)

    def _write(self, frame: Frame, deadline: Deadline, call: Optional[PendingCall]) -> None:
        link = self._link
        if link is None:
            raise ConnectionLost(f"{self.peer} was not connected", request_sent=False)
        try:
            if link.intake.error is not None:
                raise BrokenPipeError(errno.EPIPE, "the connection is lost")
            link.outlet.write(text_frame(frame.body), deadline, call)
        except CallTimeout:
            raise
        except OSError as error:
            self._broken(link, error, deadline, call)

    def _broken(self, link: _Link, error: OSError, deadline: Deadline, call: Optional[PendingCall]) -> None:
        """Raise why nothing can be written; the reading thread is given the time to find out."""
        intake = link.intake
        until = deadline.within(_AWAIT_CAUSE)
        while not (self._closed or intake.error or until.expired):
            time.sleep(_LOOK_FOR_CAUSE)
        if not self._closed and intake.error is None:
            intake.lose(ConnectionLost(f"{self.peer} takes nothing any more: {error.strerror}"))
            link.stream.shut_down()
        if call is None or not call.settled:
            raise ConnectionLost(
                f"{self.peer} is closed" if intake.error is None else str(intake.error),
                request_sent=None if call is None else call.request_sent,
                close_code=getattr(intake.error, "close_code", None),
            ) from error

    def close(self, deadline: Deadline) -> None:
        """Part with the server, if it answers soon, and end the connection and its thread."""
        link = self._end()
        if link is None:
            return
        link.intake.lose(ConnectionLost(f"the connection to {self.peer} was closed on this side"))
        if not self._parted:
            self._parted = True
            try:
                link.outlet.write(close_frame(), deadline.within(_AWAIT_CLOSE))
            except (OSError, UsageError):
                # The server has gone, or reads nothing any more; or a signal handler that interrupts a write
                # closes.
                pass
        if link.thread is not threading.current_thread():
            link.thread.join(deadline.within(_AWAIT_CLOSE).remaining())
        link.stream.shut_down()
        if join_all([link.thread], deadline):
            self._finalizer.detach()

    def discard(self) -> None:
        """End the connection without waiting."""
        link = self._end()
        if link is not None:
            link.outlet.post(close_frame(), POSTABLE)
            link.stream.shut_down()

    def _end(self) -> Optional[_Link]:
        """End the opening, if it is under way; return the connection if it stands."""
        self._closed = True
        if self._exchange is not None:
            self._exchange.abort()
        return self._link

    def abandon(self) -> None:
        """In a forked child: close the copy of the socket, without a byte to the server."""
        self._closed = True
        if self._exchange is not None:
            self._exchange.drop()
        self._handshake.abandon()
        if self._link is not None:
            self._finalizer.detach()
            self._link.stream.abandon()
