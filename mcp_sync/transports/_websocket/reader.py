"""The reading thread of a connection: delivers messages, answers pings, notices when the peer is gone."""

from __future__ import annotations

import logging
import time
import weakref
from typing import Optional

from ..._concurrency.deadline import Deadline
from ..._concurrency.notes import note
from ...errors import ConnectionLost, InvalidMessage, MCPError, MessageTooLarge
from .._base import Settings
from .._duplex import Intake, Outlet
from .frames import (
    BINARY,
    CLOSE,
    PING,
    PONG,
    PROTOCOL_ERROR,
    TEXT,
    TOO_BIG,
    FrameBuffer,
    Received,
    TooLarge,
    close_frame,
    close_reason,
    control_frame,
)
from .stream import SocketStream

logger = logging.getLogger("mcp_sync.websocket")

# Frames up to this size are written by the way, by threads that must not wait.
POSTABLE = 16 * 1024
# How soon the reading thread tries again to write what it owes.
_RETRY = 0.02
# How long the last frame may take, when all who wait have been told already.
_FAREWELL = 0.2


class Vigil:
    """When to ask a silent peer for a sign of life, and when to give it up.

    Args:
        interval: Seconds of silence before either, ``None`` for never.

    Attributes:
        has_asked: Whether it was asked, and has not been heard since.
    """

    def __init__(self, interval: Optional[float]) -> None:
        self._interval = interval
        self.heard()

    def heard(self) -> None:
        """Note a sign of life."""
        self._since = time.monotonic()
        self.has_asked = False

    def left(self) -> Optional[float]:
        """Return the seconds until something has to be done."""
        if self._interval is None:
            return None
        return max(0.0, self._since + self._interval - time.monotonic())

    def ask(self) -> None:
        """Note that the peer is asked."""
        self._since = time.monotonic()
        self.has_asked = True


class Reader:
    """Reads until the end, tells of that, and closes the socket.

    It knows the channel's `Intake` only weakly: a channel that nobody uses any more must not be kept alive.

    Args:
        stream: Where to read.
        rest: What has been read already.
        outlet: Where pongs go.
        peer: How the server is named.
        settings: Those of the client.
        ping_interval: See `WebSocket`.
    """

    def __init__(
        self,
        stream: SocketStream,
        rest: bytes,
        outlet: Outlet,
        peer: str,
        settings: Settings,
        ping_interval: Optional[float],
    ) -> None:
        self._stream = stream
        self._outlet = outlet
        self._peer = peer
        self._limit = settings.limits.message_bytes
        self._frames = FrameBuffer(self._limit, rest)
        self._vigil = Vigil(ping_interval)
        self._interval = ping_interval
        # What has to be written as soon as that can be done without waiting: the last pong counts.
        self._owed: list[bytes] = []
        self._farewell: Optional[bytes] = None

    def run(self, intake: weakref.ref[Intake]) -> None:
        """Read until the end. The body of the reading thread."""
        try:
            try:
                loss = self._pump(intake)
            except OSError as error:
                loss = ConnectionLost(f"the connection to {self._peer} broke: {error.strerror or error}")
            except Exception as error:
                note(logger.exception, "What %s sends cannot be read any more", self._peer)
                loss = ConnectionLost(f"what {self._peer} sends cannot be read: {error!r}")
            receiver = intake()
            if receiver is not None:
                receiver.lose(loss)
            if self._farewell is not None:
                self._outlet.write(self._farewell, Deadline(_FAREWELL))
        except OSError:
            pass  # The server has gone, or reads nothing any more.
        finally:
            self._stream.shut_down()
            self._stream.close()

    def _pump(self, intake: weakref.ref[Intake]) -> MCPError:
        """Deliver what comes; return how it ended."""
        frames = self._frames
        while True:
            received = frames.head()
            while received is not None:
                if received.opcode == CLOSE:
                    return self._closed(received.payload)
                self._take(received, intake)
                frames.drop()
                received = frames.head()
            if frames.ended:
                return self._loss()
            if self._owed:
                self._pay()
            if not self._stream.read_onto(frames.pieces):
                fault = self._wait()
                if fault is not None:
                    return fault
            else:
                self._vigil.heard()

    def _wait(self) -> Optional[MCPError]:
        """Wait until there may be something to be read; return why there will be nothing."""
        left = self._vigil.left()
        if left == 0.0:
            return self._ask()
        self._stream.wait_for_bytes(_RETRY if self._owed else left)
        return None

    def _ask(self) -> Optional[MCPError]:
        """Ask the silent server for a sign of life; return why it is given up."""
        if not self._vigil.has_asked:
            if self._outlet.post(control_frame(PING), POSTABLE):
                self._vigil.ask()
                return None
            if self._stream.has_moved:
                # The server takes a long message, behind which a ping would have to wait.
                self._stream.has_moved = False
                self._vigil.heard()
                return None
        return ConnectionLost(
            f"{self._peer} is gone: it answered no ping within {self._interval:g} s (ping_interval)"
        )

    def _take(self, received: Received, intake: weakref.ref[Intake]) -> None:
        if received.opcode == PING:
            self._owed[:] = [control_frame(PONG, received.payload)]
            self._pay()
        elif received.opcode in (TEXT, BINARY):
            receiver = intake()
            if receiver is None:
                return
            if received.opcode == TEXT:
                receiver.deliver(received.payload)
            else:
                receiver.skip(received.payload, InvalidMessage("a binary message", excerpt="(binary)"))

    def _pay(self) -> None:
        self._owed[:] = [frame for frame in self._owed if not self._outlet.post(frame, POSTABLE)]

    def _closed(self, payload: bytes) -> ConnectionLost:
        """Answer a close frame."""
        code, reason = close_reason(payload)
        self._farewell = close_frame(code)
        return ConnectionLost(f"{self._peer} closed the connection {reason}", close_code=code)

    def _loss(self) -> MCPError:
        fault = self._frames.fault
        if fault is None:
            return ConnectionLost(f"{self._peer} ended the connection without a word")
        if isinstance(fault, TooLarge):
            self._farewell = close_frame(TOO_BIG)
            return MessageTooLarge(
                f"{self._peer} sent a message of more than {self._limit} bytes (Limits.message_bytes)",
                limit=self._limit,
            )
        self._farewell = close_frame(PROTOCOL_ERROR)
        return ConnectionLost(f"{self._peer} broke the rules of WebSocket: {fault}")
