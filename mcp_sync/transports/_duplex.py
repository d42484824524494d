"""What channels with one stream for all calls share: how messages come in and how frames go out."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from typing import Any, Optional, Protocol, Union

from .._concurrency.deadline import Deadline
from .._concurrency.locks import AT_ONCE, is_running, take
from .._concurrency.notes import note
from .._concurrency.pending import PendingCall
from .._protocol.codec import decode
from .._protocol.striking import cleaned, struck
from ..errors import CallTimeout, InvalidMessage, MCPError, UsageError
from ._base import Inbound

# A lock that is held for one system call is given up for lost after so long.
LOCK_LOST = 1.0
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
        error: Why the channel is lost, ``None`` while it is not.
        secrets: What no error of the peer may repeat.
    """

    def __init__(self, inbound: Inbound, peer: str, logger: logging.Logger) -> None:
        self._inbound = inbound
        self._peer = peer
        self._logger = logger
        self.secrets: Sequence[str] = ()
        self._skipped: deque[str] = deque(maxlen=_SKIPPED_KEPT)
        self._has_warned = False
        self._has_told = False
        self.error: Optional[MCPError] = None

    def deliver(self, message: bytes, is_last: bool = False) -> None:
        """Take one message on the thread that reads for all: a fault of it is noted, never raised."""
        try:
            self.take(message, is_last)
        except Exception:
            note(self._logger.exception, "A message of %s could not be handled", self._peer)

    def take(self, message: bytes, is_last: bool = False) -> None:
        """Take one message. What is none is skipped and reported.

        Args:
            message: The message.
            is_last: Whether the stream has ended in it, so that it may be half of one.
        """
        try:
            value = decode(message)
        except InvalidMessage as error:
            if is_last:
                error.request_id = None  # Whoever waits for it is told why the peer has gone.
            if message and not message.isspace():
                self.skip(message, error)
        else:
            self._inbound.receive(cleaned(value, lambda: self.secrets) if self.secrets else value)

    def skip(self, message: bytes, error: InvalidMessage) -> None:
        """Note and report a message that is none."""
        excerpt = message[: _EXCERPT + 1].decode("utf-8", "replace").strip()
        if len(excerpt) > _EXCERPT:
            excerpt = f"{excerpt[:_EXCERPT]}..."
        excerpt = struck(excerpt, self.secrets)
        self._skipped.append(excerpt)
        level = logging.DEBUG if self._has_warned else logging.WARNING
        self._has_warned = True
        note(self._logger.log, level, "Skipped what is no message, from %s: %r", self._peer, excerpt)
        self._call_inbound("report", error)

    @property
    def skipped(self) -> list[str]:
        """The last messages that were skipped, shortened."""
        return list(self._skipped)

    def lose(self, error: MCPError) -> None:
        """Declare the channel lost; only the first reason counts."""
        if self.error is None:
            self.error = error
        # Not by the error: a signal handler may have interrupted the first time.
        if not self._has_told:
            self._call_inbound("lost", self.error)
            self._has_told = True

    def _call_inbound(self, name: str, error: Exception) -> None:
        try:
            getattr(self._inbound, name)(error)
        except Exception:
            note(self._logger.exception, "%s of %s could not be passed on", name, self._peer)


class Sink(Protocol):
    """Where frames go.

    Attributes:
        lock: Held by whoever writes, for one operation that does not block: guards the state of the sink, and
            what it writes to against being closed meanwhile. Re-entrant, since a signal handler may write on
            the thread that is in here.
    """

    lock: Any

    def write(self, data: Union[bytes, memoryview], taken: list[int]) -> None:
        """Take what fits, without blocking, and append how many bytes that were, if any.

        Raises:
            OSError: Nothing can be written any more.
        """

    def wait(self, seconds: float) -> None:
        """Wait until something fits, at most so long."""


class Outlet:
    """Writes whole frames, one after the other, for any number of threads.

    The thread that has a frame writes it itself, and waits no longer than its own deadline. A frame that
    was begun stays first in line until it is complete, and whoever comes next goes on with it: so the
    stream stays whole when its own thread gives up, or is interrupted by a signal.

    Args:
        sink: Where frames go.
        peer: How the peer is named.
    """

    def __init__(self, sink: Sink, peer: str) -> None:
        self._sink = sink
        self._peer = peer
        # Guards the frame that is being written, too: nobody waits for the peer under it.
        self._lock = sink.lock
        self._frame: Optional[bytes] = None
        self._taken: list[int] = []

    def write(self, data: bytes, deadline: Deadline, call: Optional[PendingCall] = None) -> None:
        """Write a frame, or return early when ``call`` is settled.

        Sets ``call.request_sent``, and takes it back if not one byte of the frame could be written.

        Raises:
            CallTimeout: Not all of it could be written by the deadline.
            UsageError: A signal handler asks, and the thread that it interrupts is in the midst of a write.
            OSError: The peer takes nothing any more.
        """
        begun = False
        # What the lock is taken with, a sequence for each argument: at first without a wait, which would have
        # to know how long.
        wait: tuple[tuple[float, ...], ...] = (AT_ONCE,)
        try:
            while True:
                got: list[bool] = []
                try:
                    got.extend(map(self._lock.acquire, *wait))
                    if got[0]:
                        if not begun and (self._frame is None or self._go_on(call)):
                            if call is not None:
                                if call.outcomes:
                                    return
                                call.request_sent = True
                            self._taken = []
                            self._frame = data
                            begun = True
                        if begun and (self._frame is not data or self._advance()):
                            return
                finally:
                    if got and got[0]:
                        self._lock.release()
                seconds = _patience(deadline, call)
                if not seconds:
                    break
                if got[0]:
                    self._sink.wait(seconds)
                wait = ((True,), (seconds,))
        finally:
            if self._frame is data:
                self._withdraw(data, call)
        if call is None or not call.settled:
            raise self._too_late(deadline, call)

    def post(self, data: bytes, limit: int) -> bool:
        """Write a frame if that can be done at once; return whether it was.

        ``limit`` is the size up to which the sink takes a frame as a whole or not at all.
        """
        if len(data) > limit:
            return False
        got: list[bool] = []
        try:
            if not take(self._lock, 0.0, got) or self._is_interrupted() or not self._advance():
                return False
            self._taken = []
            self._frame = data
            if self._advance():
                return True
        except OSError:
            self._withdraw(data, None)
            return False
        finally:
            if got and got[0]:
                self._lock.release()
        return not self._withdraw(data, None)

    def _go_on(self, call: Optional[PendingCall]) -> bool:
        """Go on with a frame that somebody else has begun; return whether it is complete."""
        if self._is_interrupted():
            what = "a message" if call is None else call.method
            raise UsageError(
                f"{what}: a signal handler cannot write to {self._peer} while the thread that it interrupts "
                "does; let it raise, set a flag, or start a thread"
            )
        return self._advance()

    def _is_interrupted(self) -> bool:
        """Whether this thread is in `_advance` already, and would then write the same bytes once more."""
        return self._frame is not None and is_running(Outlet._advance, self)

    def _advance(self) -> bool:
        """Write what fits of the frame that was begun; return whether there is none any more."""
        frame, taken = self._frame, self._taken
        if frame is None:
            return True
        if not taken:
            self._sink.write(frame, taken)
        elif sum(taken) < len(frame):
            self._sink.write(memoryview(frame)[sum(taken) :], taken)
        if sum(taken) < len(frame):
            # One number is enough from now on.
            self._taken = [sum(taken)]
            return False
        self._frame = None
        return True

    def _withdraw(self, data: bytes, call: Optional[PendingCall]) -> bool:
        """Take a frame back if nothing of it has left; return whether it was."""
        got: list[bool] = []
        try:
            if not take(self._lock, LOCK_LOST, got) or self._frame is not data or sum(self._taken) > 0:
                return False
            self._frame = None
            if call is not None:
                call.request_sent = False
            return True
        finally:
            if got and got[0]:
                self._lock.release()

    def _too_late(self, deadline: Deadline, call: Optional[PendingCall]) -> CallTimeout:
        what, sent = ("a message", None) if call is None else (call.method, call.request_sent)
        bound = deadline.reached
        text = f"{what}: not written within {bound:g} s, {self._peer} does not read its input"
        return CallTimeout(text, timeout=bound, request_sent=sent)


def _patience(deadline: Deadline, call: Optional[PendingCall]) -> float:
    """Return how long to wait before looking again, 0 to give up."""
    if call is not None and call.settled:
        return 0.0
    left = deadline.remaining()
    return _SLICE if left is None else min(left, _SLICE)
