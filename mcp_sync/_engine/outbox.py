"""What is said to a server that no caller waits for: cancellations, and answers to its own requests."""

from __future__ import annotations

import logging
import threading
from typing import Optional

from .._concurrency.deadline import Deadline
from .._concurrency.workers import Workers
from .._protocol.frames import Frame
from ..errors import ClientClosed, MCPError
from ..transports._base import Channel
from .call_table import CallTable

logger = logging.getLogger("mcp_sync.session")
# How long a caller that gives up waits for the word to the server, in seconds.
LAST_WORD = 0.2


class Outbox:
    """Sends small messages on one connection. That one could not be sent is logged, never raised.

    Args:
        channel: Where they go.
        calls: Those of the connection, which tell whether the client is closed.
        sender: The thread of those that cannot be sent at once.
        seconds: How long one may take, ``None`` for any time.
    """

    def __init__(self, channel: Channel, calls: CallTable, sender: Workers, seconds: Optional[float]) -> None:
        self._channel = channel
        self._calls = calls
        self._sender = sender
        self._seconds = seconds

    def post(self, frame: Frame, patience: float = 0.0) -> None:
        """Send at once if that can be done, else on another thread, for which to wait so many seconds."""
        if self._channel.try_send(frame):
            return
        done = threading.Event()
        if self._sender.submit(self.send, frame, done) and patience:
            done.wait(patience)

    def send(self, frame: Frame, done: Optional[threading.Event] = None) -> None:
        """Send on this thread; at the end, however it went, set ``done``."""
        try:
            self._channel.send(frame, Deadline(self._seconds))
        except MCPError as error:
            # Where an answer is lost, the server may wait for it, and with it a call.
            is_over = isinstance(self._calls.error, ClientClosed)
            level = logging.DEBUG if frame.method or is_over else logging.WARNING
            logger.log(level, "Could not send %s: %s", frame.method or "an answer to the server", error)
        finally:
            if done is not None:
                done.set()
