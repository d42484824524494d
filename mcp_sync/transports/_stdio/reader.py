"""The thread that reads what a server writes, and the calls that look for their answers themselves."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
import weakref
from itertools import compress
from typing import Callable, Optional

from ..._concurrency.deadline import Deadline
from ..._concurrency.locks import AT_ONCE, is_running
from ..._concurrency.notes import note
from ..._concurrency.pending import PendingCall
from ...errors import ConnectionLost, MCPError, MessageTooLarge
from .._base import Settings
from .._duplex import Intake
from .lines import LineBuffer
from .pipes import BYTES, CAN_POLL, LOOK, NOTHING, Found
from .process import ServerProcess
from .stderr import StderrTail

logger = logging.getLogger("mcp_sync.stdio")

# How long the loss of a server is held back for its exit code and its last words.
_AWAIT_EXIT = 0.5
_AWAIT_STDERR = 0.3
# How long the reading thread leaves the turn to callers, who may come again.
_LEAVE = 0.02
_TURN_LOST = 1.0
# How many lines of standard error the text of an error quotes; all that are kept are in `stderr_tail`.
_QUOTED_LINES = 10


class StdoutReader:
    """Reads standard output until its end, tells of that, and leaves nothing of the process behind.

    Who settles a call is whoever reads its answer, the reading thread or the thread of any call.
    Handing an answer from thread to thread costs about as much as a quick server takes for it. So there
    is a turn, and who has it reads for all. The reading thread has it while the client is idle, and
    while several calls are in flight or one takes long. Between calls that follow each other quickly it
    leaves the turn to the callers, of whom each may look for its own answer for a moment. A caller that
    finds none rouses the reading thread, which otherwise comes back by itself, so that whatever goes
    wrong in between costs no more than that moment.

    It knows the channel's `Intake` only weakly: a channel that nobody uses any more must not be kept alive.

    Attributes:
        looker: The identifier of the thread that looks for its own answer, which has the turn; empty if there
            is none.
        thread: The identifier of the reading thread, 0 until it runs.
    """

    def __init__(
        self,
        process: ServerProcess,
        tail: StderrTail,
        stderr_thread: threading.Thread,
        peer: str,
        settings: Settings,
    ) -> None:
        self._process = process
        self._tail = tail
        self._stderr_thread = stderr_thread
        self._peer = peer
        self._limit = settings.limits.message_bytes
        self._close_seconds = settings.timeouts.close
        self._lines = LineBuffer(self._limit)
        self._read_soon = process.stdout.read_soon
        # The turn: guards the pipe's end and `_lines`. Its holder waits for the pipe and delivers what
        # comes. Only the reading thread ever waits for it, and has it from the start: where pipes cannot be
        # polled, nobody else may read.
        self._turn = threading.Lock()
        self._turn.acquire()
        # Held while the reading thread may stand back. A plain lock, released to rouse it: an Event runs
        # Python code under its own lock, in which a signal handler may raise.
        self._asleep = threading.Lock()
        self._asleep.acquire()
        # Calls whose answers the reading thread is to bring. Changed without a lock: a mistake delays
        # the reading thread for a moment, no more.
        self._left: list[PendingCall] = []
        # The id of the last call that looked for its answer: as long as it changes, calls follow each other
        # quickly.
        self._looked = 0
        self.looker: list[int] = []
        self.thread = 0

    @property
    def is_interrupted(self) -> bool:
        """Whether this thread is in the midst of `look`: then a signal handler asks."""
        return threading.get_ident() in self.looker and is_running(StdoutReader.look, self)

    # --- on the thread of a call -----------------------------------------------------------------

    def look(self, call: PendingCall, intake: Intake) -> None:
        """Read for a moment, if it is this thread's turn: the answer may come at once."""
        self._looked = call.id
        me, looker = threading.get_ident(), self.looker
        try:
            # In one step: whose turn it is must be known to a signal handler that calls, and to the reading
            # thread, which takes back a turn that nobody has.
            looker.extend(compress((me,), map(self._turn.acquire, AT_ONCE)))
            if me in looker and not self._left:
                until = 0.0
                # What a signal handler raises here, and what the engine does, is for this thread.
                while self._read(intake.take, self._read_soon) and not call.outcomes:
                    until = until or time.monotonic() + LOOK
                    if time.monotonic() >= until:
                        break
        finally:
            if me in looker:
                # No method: before its release a signal handler would be let in, which may raise.
                del looker[:]
                self._turn.release()
            if self._left or not call.outcomes:
                self._leave_to_reader(call)

    def _leave_to_reader(self, call: PendingCall) -> None:
        if not call.settled:
            self._left.append(call)
        try:
            self._asleep.release()
        except RuntimeError:
            pass  # It was roused already.

    # --- on the reading thread -------------------------------------------------------------------

    def run(self, intake: weakref.ref[Intake]) -> None:
        """Read until the end. The body of the reading thread."""
        process = self._process
        self.thread = threading.get_ident()
        try:
            try:
                self._pump(intake)
            except Exception:
                note(logger.exception, "The output of %s cannot be read any more", self._peer)
            receiver = intake()
            if receiver is not None and not process.ending:
                receiver.lose(self._loss(receiver.skipped))
            del receiver
        finally:
            grace = not self._lines.overflown
            process.end(Deadline(self._close_seconds), grace, self._drop_output)
            # The turn is kept: nobody may look at a descriptor that is closed.
            process.stdout.close()
            process.stdout_wake.close()
            process.stderr_wake.set()

    def _pump(self, intake: weakref.ref[Intake]) -> None:
        def deliver(line: bytes, is_last: bool) -> None:
            receiver = intake()
            if receiver is not None:
                receiver.deliver(line, is_last)

        while self._read(deliver, self._process.stdout.read_onto):
            if self._left and not self._has_calls() and CAN_POLL:
                self._turn.release()
                self._stand_back()
                self._take_turn()

    def _take_turn(self) -> None:
        while not self._turn.acquire(timeout=_TURN_LOST):
            if not self._somebody_looks():
                del self.looker[:]
                self._turn.release()

    def _somebody_looks(self) -> bool:
        """Look whether the turn is taken in earnest.

        Before Python 3.11 a signal handler may raise in front of what gives it back.
        """
        for thread in self.looker[:]:
            # (What is no thread is a greenlet.)
            return thread not in sys._current_frames() or is_running(StdoutReader.look, self, thread)
        return False

    def _has_calls(self) -> bool:
        self._left[:] = [call for call in self._left if not call.settled]
        return bool(self._left)

    def _stand_back(self) -> None:
        looked = -1
        while looked != self._looked:
            looked = self._looked
            # An old call to rise is dropped before the calls are looked at, so that none is missed.
            self._asleep.acquire(False)
            if self._has_calls() or self._asleep.acquire(timeout=_LEAVE):
                break

    # --- by turns --------------------------------------------------------------------------------

    def _read(
        self, take_line: Callable[[bytes, bool], None], read_onto: Callable[[list[bytes]], Found]
    ) -> bool:
        """Read once and deliver the messages that are complete; return ``False`` at the end."""
        buffer = self._lines
        pieces, lines, overflown = buffer.state
        # Something is left of a line that is not complete, and where a signal handler has raised.
        is_empty = not (pieces or lines or overflown)
        if is_empty or buffer.complete() == []:
            found = read_onto(buffer.state[0])
            if found is not BYTES:
                return found is NOTHING
            if is_empty:
                data = pieces[0]
                if data and data.find(b"\n") == len(data) - 1 < self._limit:
                    # One line and nothing else, as a rule. It stays where it is until it has been taken.
                    take_line(data, False)
                    pieces.clear()
                    return True
        left = buffer.complete()
        if left is None:
            return False
        while left:
            take_line(left[-1], buffer.ended)
            left.pop()
        return True

    # --- at the end ------------------------------------------------------------------------------

    def _drop_output(self, seconds: float) -> None:
        """Sleep, unless there is something to read: a server that cannot write it could not end."""
        if not self._process.stdout.drop():
            time.sleep(seconds)

    def _loss(self, skipped: list[str]) -> MCPError:
        if self._lines.overflown:
            return MessageTooLarge(
                f"{self._peer} sent a message of more than {self._limit} bytes (Limits.message_bytes)",
                limit=self._limit,
            )
        returncode = self._process.wait(_AWAIT_EXIT)
        self._stderr_thread.join(_AWAIT_STDERR)
        tail = self._tail.text()
        text = f"{self._peer} {_how_it_ended(returncode)}"
        if tail:
            quoted = "\n".join(tail.split("\n")[-_QUOTED_LINES:])
            text += f"; its standard error ended with:\n{quoted}"
        if skipped:
            text += "\nskipped on its standard output:\n" + "\n".join(skipped)
        return ConnectionLost(text, returncode=returncode, stderr_tail=tail)


def _how_it_ended(returncode: Optional[int]) -> str:
    if returncode is None:
        return "closed its standard output"
    if returncode >= 0:
        return f"ended with exit code {returncode}"
    try:
        return f"was ended by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"was ended by signal {-returncode}"
