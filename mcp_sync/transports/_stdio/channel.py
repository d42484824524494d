"""The channel to a server that is a child process: how it is started, written to and ended."""

from __future__ import annotations

import logging
import select
import threading
import time
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Optional

from ..._concurrency.deadline import Deadline
from ..._concurrency.pending import PendingCall
from ..._concurrency.threads import join_all, spawn
from ..._protocol.visible import clean
from ...errors import ConnectFailed, ConnectionLost, UsageError
from .._base import Frame, Inbound, Settings, Wire
from .._duplex import Intake, Outlet
from .launch import child_environment
from .masking import secrets_among, shown_command
from .pipes import CAN_POLL
from .process import ServerProcess
from .reader import StdoutReader
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
        shown = shown_command((target.command, *target.args), _PEER_LENGTH)
        # A command alone may be that of several servers.
        self._name = clean(target.name or "")
        self.peer = f"{self._name} ({shown})" if self._name else shown
        self._server: Optional[_Server] = None
        self._closed = False
        # Until when the end may take, for a start that finds out later that there was one.
        self._end: Optional[Deadline] = None

    def start(self, inbound: Inbound, deadline: Deadline) -> None:
        """Start the process and its readers. Does not wait for a word of it.

        Raises:
            ConnectFailed: The command cannot be started.
        """
        target = self._target
        env = child_environment(target.env, target.inherit_env)
        try:
            process = ServerProcess((target.command, *target.args), env, target.cwd)
        except ConnectFailed as error:
            if self._name:
                error.args = (f"{self._name}: {error}",)
            raise
        self._server = self._serve(process, Intake(inbound, self.peer, logger))
        # The reading thread ends the process then; whoever collects the garbage waits for nothing.
        self._finalizer = weakref.finalize(self, process.stdout_wake.set)
        self._finalizer.atexit = False
        if self._closed:
            self.close(self._end or deadline)

    def _serve(self, process: ServerProcess, intake: Intake) -> _Server:
        name = self._settings.name
        intake.secrets = secrets_among(self._target.env or {})
        tail = StderrTail(self._target.stderr, self._settings.limits.stderr_lines, intake.secrets)
        threads: list[threading.Thread] = []
        try:
            threads.append(spawn(name, "stderr", tail.drain, process.stderr, process.stderr_wake))
            reader = StdoutReader(process, tail, threads[0], self.peer, self._settings)
            threads.append(spawn(name, "reader", reader.run, weakref.ref(intake)))
        except RuntimeError as error:
            process.end(Deadline(_UNDO), grace=False)
            process.stdout.close()
            process.stdout_wake.close()
            process.stderr_wake.set()
            join_all(threads, Deadline(_UNDO))
            if not threads:
                process.stderr.close()
                process.stderr_wake.close()
            raise ConnectFailed(f"there is no thread to be had for {self.peer}: {error}") from error
        return _Server(process, intake, Outlet(process.stdin, self.peer), reader, tuple(threads))

    def configure(self, wire: Wire) -> None:
        """Do nothing: the revision makes no difference to lines."""

    def request(self, frame: Frame, call: PendingCall) -> None:
        """Write a request and look for the answer; the reading thread brings it if it takes longer."""
        server = self._server or self._running()
        if threading.get_ident() == server.reader.thread:
            raise UsageError(
                f"{call.method}: the thread that reads from a server process cannot wait for its answers; a "
                "finaliser, which may run there, has to leave that to another thread"
            )
        if server.reader.looker and server.reader.is_interrupted:
            raise UsageError(
                f"{call.method}: a signal handler cannot call a server process while the thread that it "
                "interrupts reads from it; let it raise, set a flag, or start a thread"
            )
        try:
            server.outlet.write(frame.body + b"\n", call.deadline, call)
        except TimeoutError:
            raise
        except OSError as error:
            self._broken(server, error, call.deadline, call)
        server.reader.look(call, server.intake)

    def send(self, frame: Frame, deadline: Deadline) -> None:
        """Write a notification or a response."""
        server = self._running()
        try:
            server.outlet.write(frame.body + b"\n", deadline)
        except TimeoutError:
            raise
        except OSError as error:
            self._broken(server, error, deadline, None)

    def try_send(self, frame: Frame) -> bool:
        """Write a small message, unless somebody else is writing or the pipe is full."""
        server = self._server
        return server is not None and server.outlet.post(frame.body + b"\n", _POSTABLE)

    def _running(self) -> _Server:
        if self._server is None:
            raise ConnectionLost(f"{self.peer} was not started", request_sent=False)
        return self._server

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
        self._end = deadline
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
