"""What channels with one stream for all calls share: how messages come in and how frames go out."""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import Optional, Protocol, Union

from .._concurrency.deadline import Deadline
from .._concurrency.pending import PendingCall
from .._protocol.codec import decode
from ..errors import CallTimeout, InvalidMessage, MCPError
from ._base import Inbound

# A thread that waits to write looks this often whether its call has been settled meanwhile.
_SLICE = 0.1
_SKIPPED_KEPT = 5
_EXCERPT = 200


class Intake:
    """Takes what the peer sends, decodes it and passes it on. Used by whoever reads.

    The channel holds it, and the reading thread only a weak reference: a channel that nobody uses any
    more must not be kept alive by its own reader.

    Args:
        inbound: Where messages go.
        peer: How the peer is named.
        logger: Where skipped messages are noted.

    Attributes:
        dead: Set when the channel is lost.
        error: Why it is lost.
    """

    def __init__(self, inbound: Inbound, peer: str, logger: logging.Logger) -> None:
        self._inbound = inbound
        self._peer = peer
        self._logger = logger
        self._skipped: deque[str] = deque(maxlen=_SKIPPED_KEPT)
        self._has_warned = False
        self.dead = threading.Event()
        self.error: Optional[MCPError] = None

    def deliver(self, message: bytes) -> None:
        """Take one message on the thread that reads for all: a fault of it is noted, never raised."""
        try:
            self.take(message)
        except Exception:
            self._logger.exception("A message of %s could not be handled", self._peer)

    def take(self, message: bytes) -> None:
        """Take one message. What is none is skipped and reported."""
        if not message or message.isspace():
            return
        try:
            value = decode(message)
        except InvalidMessage as error:
            self._skip(message, error)
        else:
            self._inbound.receive(value)

    def _skip(self, message: bytes, error: InvalidMessage) -> None:
        excerpt = message[: _EXCERPT + 1].decode("utf-8", "replace").strip()
        if len(excerpt) > _EXCERPT:
            excerpt = f"{excerpt[:_EXCERPT]}..."
        self._skipped.append(excerpt)
        level = logging.DEBUG if self._has_warned else logging.WARNING
        self._has_warned = True
        self._logger.log(level, "Skipped what is no message, from %s: %r", self._peer, excerpt)
        self._call_inbound("report", error)

    @property
    def skipped(self) -> list[str]:
        """The last messages that were skipped, shortened."""
        return list(self._skipped)

    def lose(self, error: MCPError) -> None:
        """Declare the channel lost; only the first time counts."""
        if self.error is not None:
            return
        self.error = error
        self._call_inbound("lost", error)
        self.dead.set()

    def _call_inbound(self, name: str, error: Exception) -> None:
        try:
            getattr(self._inbound, name)(error)
        except Exception:
            self._logger.exception("%s of %s could not be passed on", name, self._peer)


class Sink(Protocol):
    """Where frames go."""

    def write(self, data: Union[bytes, memoryview]) -> int:
        """Take what fits without blocking; return how many bytes that were.

        Raises:
            OSError: Nothing can be written any more.
        """

    def wait(self, seconds: float) -> None:
        """Wait until something fits, at most so long."""


class Outlet:
    """Writes whole frames, one after the other, for any number of threads.

    The thread that has a frame writes it itself, and waits no longer than its own deadline. A frame of
    which only a part could be written is finished by whoever writes next, so that the stream stays whole.

    Args:
        sink: Where frames go.
        peer: How the peer is named.
    """

    def __init__(self, sink: Sink, peer: str) -> None:
        self._sink = sink
        self._peer = peer
        # Guards the order of what is written, and `_rest`. Its holder may wait for the peer to read, for
        # as long as its own deadline lasts; so others wait for the lock only by their own, and closing
        # does without it.
        self._lock = threading.Lock()
        self._rest: Optional[memoryview] = None

    def write(self, data: bytes, deadline: Deadline, call: Optional[PendingCall] = None) -> None:
        """Write a frame, or return early when ``call`` is settled.

        Sets ``call.request_sent``, and takes it back if not one byte of the frame could be written.

        Raises:
            CallTimeout: Not all of it could be written by the deadline.
            OSError: The peer takes nothing any more.
        """
        if not self._lock.acquire(False) and not self._await_turn(deadline, call):
            return
        try:
            if self._rest is None or self._finish_rest(deadline, call):
                self._write_frame(data, deadline, call)
        finally:
            self._lock.release()

    def post(self, data: bytes, limit: int) -> bool:
        """Write a frame if that can be done at once; return whether it was.

        ``limit`` is the size up to which the sink takes a frame as a whole or not at all.
        """
        if len(data) > limit or not self._lock.acquire(False):
            return False
        try:
            return self._rest is None and self._sink.write(data) > 0
        except OSError:
            return False
        finally:
            self._lock.release()

    def _write_frame(self, data: bytes, deadline: Deadline, call: Optional[PendingCall]) -> None:
        if call is not None and call.settled:
            return
        taken = 0
        try:
            taken = self._attempt(data, call, False)
            while taken < len(data):
                seconds = self._patience(deadline, call)
                if not seconds:
                    return
                self._sink.wait(seconds)
                taken += self._attempt(memoryview(data)[taken:], call, taken > 0)
        finally:
            if 0 < taken < len(data):
                self._rest = memoryview(data)[taken:]

    def _attempt(self, data: Union[bytes, memoryview], call: Optional[PendingCall], begun: bool) -> int:
        if call is None:
            return self._sink.write(data)
        taken = 0
        call.request_sent = True
        try:
            taken = self._sink.write(data)
        finally:
            call.request_sent = begun or taken > 0
        return taken

    def _finish_rest(self, deadline: Deadline, call: Optional[PendingCall]) -> bool:
        while self._rest is not None:
            rest = self._rest[self._sink.write(self._rest) :]
            self._rest = rest if len(rest) else None
            if self._rest is not None:
                seconds = self._patience(deadline, call)
                if not seconds:
                    return False
                self._sink.wait(seconds)
        return True

    def _await_turn(self, deadline: Deadline, call: Optional[PendingCall]) -> bool:
        while True:
            seconds = self._patience(deadline, call)
            if not seconds:
                return False
            if self._lock.acquire(timeout=seconds):
                return True

    def _patience(self, deadline: Deadline, call: Optional[PendingCall]) -> float:
        """Return how long to wait before looking again, 0 to stop since ``call`` is settled."""
        if call is not None and call.settled:
            return 0.0
        left = deadline.remaining()
        if left == 0.0:
            what = "a message" if call is None else call.method
            raise CallTimeout(
                f"{what}: not written within {deadline.reached:g} s, {self._peer} does not read its input",
                timeout=deadline.reached,
                request_sent=None if call is None else call.request_sent,
            )
        return _SLICE if left is None else min(left, _SLICE)
