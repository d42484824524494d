"""The channel to a server that is a child process: what a call writes, and how its answer is read."""

from __future__ import annotations

import logging
import select
import signal
import threading
import time
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable, Optional

from ..._concurrency.deadline import Deadline
from ..._concurrency.locks import take
from ..._concurrency.notes import note
from ..._concurrency.pending import PendingCall
from ..._concurrency.threads import join_all, spawn
from ...errors import ConnectFailed, ConnectionLost, MCPError, MessageTooLarge, UsageError
from .._base import Frame, Inbound, Settings, Wire
from .._duplex import Intake, Outlet
from .launch import child_environment
from .lines import LineBuffer
from .masking import shown_command
from .pipes import BYTES, CAN_POLL, NOTHING
from .process import ServerProcess
from .stderr import StderrTail

if TYPE_CHECKING:
    from .target import Stdio

logger = logging.getLogger("mcp_sync.stdio")

# Up to this size a pipe takes a write as a whole or not at all. Where a write may block, nothing is posted.
_POSTABLE = getattr(select, "PIPE_BUF", 512) if CAN_POLL else 0
_PEER_LENGTH = 80
# How long a writer into a broken pipe waits for the reader to find out why.
_AWAIT_CAUSE = 1.0
_LOOK_FOR_CAUSE = 0.005
_UNDO = 1.0
# How long the loss of a server is held back for its exit code and its last words.
_AWAIT_EXIT = 0.5
_AWAIT_STDERR = 0.3
# How long the other reader may take to come to its end, where its pipe is still being written to.
_AWAIT_LAST_READER = 2.0
# How long a caller looks for its answer itself, and how long the reading thread then leaves it the turn.
_LOOK = 0.002
_LEAVE = 0.02
_TURN_LOST = 1.0
# How many lines of standard error the text of an error quotes; all that are kept are in `stderr_tail`.
_QUOTED_LINES = 10


@dataclass(frozen=True)
class _Server:
    """A started process with everything that serves it."""

    process: ServerProcess
    intake: Intake
    outlet: Outlet
    reader: StdoutReader
    threads: tuple[threading.Thread, ...]


class StdioChannel:
    """A running server, its two reading threads, and the way to write to it."""

    is_http = False
    duplex = True
    session_id: Optional[str] = None

    def __init__(self, target: Stdio, settings: Settings) -> None:
        self._target = target
        self._settings = settings
        self.peer = shown_command((target.command, *target.args), _PEER_LENGTH)
        self._server: Optional[_Server] = None
        self._closed = False

    def start(self, inbound: Inbound, deadline: Deadline) -> None:
        """Start the process and its readers. Does not wait for a word of it.

        Raises:
            ConnectFailed: The command cannot be started.
        """
        target = self._target
        env = child_environment(target.env, target.inherit_env)
        process = ServerProcess((target.command, *target.args), env, target.cwd)
        self._server = self._serve(process, Intake(inbound, self.peer, logger))
        # The reading thread ends the process then; whoever collects the garbage waits for nothing.
        self._finalizer = weakref.finalize(self, process.stdout_wake.set)
        self._finalizer.atexit = False
        if self._closed:
            self.close(deadline)

    def _serve(self, process: ServerProcess, intake: Intake) -> _Server:
        name = self._settings.name
        tail = StderrTail(self._target.stderr, self._settings.limits.stderr_lines)
        threads: list[threading.Thread] = []
        try:
            threads.append(spawn(name, "stderr", tail.drain, process.stderr))
            reader = StdoutReader(process, tail, threads[0], self.peer, self._settings)
            threads.append(spawn(name, "reader", reader.run, weakref.ref(intake)))
        except RuntimeError as error:
            process.end(Deadline(_UNDO), grace=False)
            process.stdout.close()
            process.stdout_wake.close()
            process.stderr_wake.set()
            if not threads or join_all(threads, Deadline(_UNDO)):
                process.stderr.close()
                process.stderr_wake.close()
            raise ConnectFailed(f"there is no thread to be had for {self.peer}: {error}") from error
        return _Server(process, intake, Outlet(process.stdin, self.peer), reader, tuple(threads))

    def configure(self, wire: Wire) -> None:
        """Do nothing: the revision makes no difference to lines."""

    def request(self, frame: Frame, call: PendingCall) -> None:
        """Write a request and look for the answer; the reading thread brings it if it takes longer."""
        if self._server is not None and self._server.reader.is_interrupted:
            raise UsageError(
                f"{call.method}: a signal handler cannot call a server process while the thread that it "
                "interrupts reads from it; let it raise, set a flag, or start a thread"
            )
        server = self._write(frame, call.deadline, call)
        if not call.settled:
            server.reader.look(call, server.intake)

    def send(self, frame: Frame, deadline: Deadline) -> None:
        """Write a notification or a response."""
        self._write(frame, deadline, None)

    def try_send(self, frame: Frame) -> bool:
        """Write a small message, unless somebody else is writing or the pipe is full."""
        server = self._server
        return server is not None and server.outlet.post(frame.body + b"\n", _POSTABLE)

    def _write(self, frame: Frame, deadline: Deadline, call: Optional[PendingCall]) -> _Server:
        server = self._server
        if server is None:
            raise ConnectionLost(f"{self.peer} was not started", request_sent=False)
        try:
            server.outlet.write(frame.body + b"\n", deadline, call)
        except TimeoutError:
            raise
        except OSError as error:
            self._broken(server, error, deadline, call)
        return server

    def _broken(
        self, server: _Server, error: OSError, deadline: Deadline, call: Optional[PendingCall]
    ) -> None:
        """Raise why nothing can be written; the reading thread is given the time to find out."""
        intake = server.intake
        until = deadline.within(_AWAIT_CAUSE)
        if server.process.ends_with_us and threading.current_thread() is not threading.main_thread():
            until = deadline  # Other threads live no longer than that. What they raise would only be noise.
        while not (self._closed or intake.error or until.expired):
            time.sleep(_LOOK_FOR_CAUSE)
        if not self._closed and intake.error is None:
            intake.lose(ConnectionLost(f"{self.peer} takes no more input: {error.strerror}"))
            server.process.stdout_wake.set()
        if call is None or not call.settled:
            raise ConnectionLost(
                f"{self.peer} is closed" if intake.error is None else str(intake.error),
                request_sent=None if call is None else call.request_sent,
                returncode=getattr(intake.error, "returncode", None),
                stderr_tail=getattr(intake.error, "stderr_tail", ""),
            ) from error

    def close(self, deadline: Deadline) -> None:
        """End the process with its group, and the threads."""
        self._closed = True
        server = self._server
        if server is None:
            return
        server.process.end(deadline)
        server.process.stdout_wake.set()
        server.process.stderr_wake.set()
        if server.reader.is_interrupted:
            return  # By a signal handler, for whose end the reading thread has to wait.
        if join_all(server.threads, deadline):
            self._finalizer.detach()

    def discard(self) -> None:
        """Have the reading thread end the process, with the usual grace. (On Windows: at its next word.)"""
        self._closed = True
        if self._server is not None:
            self._server.process.ending = True
            self._server.process.stdout_wake.set()

    def abandon(self) -> None:
        """In a forked child: close the copies of the pipes."""
        self._closed = True
        if self._server is not None:
            self._server.process.abandon()
            self._finalizer.detach()


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
        # The turn: guards the pipe's end and `_lines`. Its holder waits for the pipe and delivers what
        # comes. Only the reading thread ever waits for it.
        self._turn = threading.Lock()
        # Held while the reading thread may stand back. A plain lock, released to rouse it: an Event runs
        # Python code under its own lock, in which a signal handler may raise.
        self._asleep = threading.Lock()
        self._asleep.acquire()
        # Calls whose answers the reading thread is to bring. Changed without a lock: a mistake delays
        # the reading thread for a moment, no more.
        self._others: list[PendingCall] = []
        self._looks = 0
        # The thread that looks for its own answer, 0 for none.
        self._looker = 0

    @property
    def is_interrupted(self) -> bool:
        """Whether this thread is in the midst of `look`: then a signal handler asks."""
        return self._looker == threading.get_ident()

    # --- on the thread of a call -----------------------------------------------------------------

    def look(self, call: PendingCall, intake: Intake) -> None:
        """Read for a moment, if it is this thread's turn: the answer may come at once."""
        self._looks += 1
        got: list[bool] = []
        try:
            if self._others or not CAN_POLL or not take(self._turn, 0.0, got):
                self._leave_to_reader(call)
                return
            self._looker = threading.get_ident()
            until = time.monotonic() + _LOOK
            # What a signal handler raises here, and what the engine does, is for this thread.
            while not call.settled and self._read(intake.take, _LOOK) and time.monotonic() < until:
                pass
        finally:
            if got and got[0]:
                self._looker = 0
                self._turn.release()
                if self._others or not call.settled:
                    self._leave_to_reader(call)

    def _leave_to_reader(self, call: PendingCall) -> None:
        if not call.settled:
            self._others.append(call)
        try:
            self._asleep.release()
        except RuntimeError:
            pass  # It was roused already.

    # --- on the reading thread -------------------------------------------------------------------

    def run(self, intake: weakref.ref[Intake]) -> None:
        """Read until the end. The body of the reading thread."""
        process = self._process
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
            self._stderr_thread.join(_AWAIT_LAST_READER)
            if not self._stderr_thread.is_alive():
                process.stderr_wake.close()

    def _pump(self, intake: weakref.ref[Intake]) -> None:
        def deliver(line: bytes) -> None:
            receiver = intake()
            if receiver is not None:
                receiver.deliver(line)

        self._take_turn()
        while self._read(deliver, None):
            if CAN_POLL and self._others and not self._has_calls():
                self._turn.release()
                self._stand_back()
                self._take_turn()

    def _take_turn(self) -> None:
        while not self._turn.acquire(timeout=_TURN_LOST):
            # Taken by a caller in which a signal handler has raised before it could even begin.
            if not self._looker:
                self._turn.release()

    def _has_calls(self) -> bool:
        self._others[:] = [call for call in self._others if not call.settled]
        return bool(self._others)

    def _stand_back(self) -> None:
        looks = -1
        while looks != self._looks:
            looks = self._looks
            # An old call to rise is dropped before the calls are looked at, so that none is missed.
            self._asleep.acquire(False)
            if self._has_calls() or self._asleep.acquire(timeout=_LEAVE):
                break

    # --- by turns --------------------------------------------------------------------------------

    def _read(self, take: Callable[[bytes], None], seconds: Optional[float]) -> bool:
        """Read once and deliver the messages that are complete; return ``False`` at the end."""
        lines, stdout = self._lines, self._process.stdout
        # Something is left only where a signal handler has raised in the midst of it.
        self._deliver(take)
        if lines.ended:
            return False
        found = stdout.wait(seconds)
        if found is BYTES:
            stdout.read_onto(lines.pieces)
            self._deliver(take)
            return not lines.ended
        return found is NOTHING

    def _deliver(self, take: Callable[[bytes], None]) -> None:
        lines = self._lines
        line = lines.head()
        while line is not None:
            take(line)
            lines.drop()
            line = lines.head()

    # --- at the end ------------------------------------------------------------------------------

    def _drop_output(self, seconds: float) -> None:
        """Sleep, unless there is something to read: a server that cannot write it could not end."""
        stdout = self._process.stdout
        if not CAN_POLL or stdout.wait(0.0) is not BYTES or not stdout.read():
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
