"""The channel to a server that is a child process."""

from __future__ import annotations

import logging
import select
import threading
import weakref
from typing import TYPE_CHECKING, Optional

from .._concurrency.deadline import Deadline
from .._concurrency.pending import PendingCall
from .._concurrency.threads import join_all, spawn
from ..errors import ConnectFailed, ConnectionLost
from ._base import Frame, Inbound, Settings, Wire
from ._duplex import Intake, Outlet
from ._environment import child_environment
from ._masking import shown_command
from ._pipes import CAN_POLL
from ._process import ServerProcess
from ._stderr import StderrTail
from ._stdio_reader import StdoutReader

if TYPE_CHECKING:
    from ._stdio import Stdio

logger = logging.getLogger("mcp_sync.stdio")

# Up to this size a pipe takes a write as a whole or not at all. Where a write may block, nothing is posted.
_POSTABLE = getattr(select, "PIPE_BUF", 512) if CAN_POLL else 0
_PEER_LENGTH = 80
# How long a writer into a broken pipe waits for the reader to find out why.
_AWAIT_CAUSE = 1.0


class StdioChannel:
    """A running server, its two reading threads, and the way to write to it."""

    is_http = False
    duplex = True
    session_id: Optional[str] = None

    def __init__(self, target: Stdio, settings: Settings) -> None:
        self._target = target
        self._settings = settings
        self.peer = shown_command((target.command, *target.args), _PEER_LENGTH)
        self._process: Optional[ServerProcess] = None
        self._intake: Optional[Intake] = None
        self._outlet: Optional[Outlet] = None
        self._reader: Optional[StdoutReader] = None
        self._threads: list[threading.Thread] = []
        self._closed = False

    def start(self, inbound: Inbound, deadline: Deadline) -> None:
        """Start the process and its readers. Does not wait for a word of it.

        Raises:
            ConnectFailed: The command cannot be started.
        """
        target, name = self._target, self._settings.name
        env = child_environment(target.env, target.inherit_env)
        process = ServerProcess((target.command, *target.args), env, target.cwd)
        self._intake = Intake(inbound, self.peer, logger)
        self._outlet = Outlet(process.stdin, self.peer)
        tail = StderrTail(target.stderr, self._settings.limits.stderr_lines)
        try:
            errors = spawn(name, "stderr", tail.drain, process.stderr)
            self._threads.append(errors)
            reader = StdoutReader(process, tail, errors, self.peer, self._settings)
            self._threads.append(spawn(name, "reader", reader.run, weakref.ref(self._intake)))
        except RuntimeError as error:
            process.end(deadline.within(1.0), grace=False)
            process.wake.set()
            raise ConnectFailed(f"could not start a thread for {self.peer}: {error}") from error
        self._process, self._reader = process, reader
        weakref.finalize(self, process.wake.set).atexit = False
        if self._closed:
            self.close(deadline)

    def configure(self, wire: Wire) -> None:
        """Do nothing: the revision makes no difference to lines."""

    def request(self, frame: Frame, call: PendingCall) -> None:
        """Write a request and look for the answer; the reading thread brings it if it takes longer."""
        self._write(frame, call.deadline, call)
        if self._reader is not None and self._intake is not None and not call.settled:
            self._reader.look(call, self._intake)

    def send(self, frame: Frame, deadline: Deadline) -> None:
        """Write a notification or a response."""
        self._write(frame, deadline, None)

    def post(self, frame: Frame) -> bool:
        """Write a small message, unless somebody else is writing or the pipe is full."""
        return self._outlet is not None and self._outlet.post(frame.body + b"\n", _POSTABLE)

    def _write(self, frame: Frame, deadline: Deadline, call: Optional[PendingCall]) -> None:
        outlet = self._outlet
        if outlet is None:
            raise ConnectionLost(f"{self.peer} is not running", request_sent=False)
        try:
            outlet.write(frame.body + b"\n", deadline, call)
        except TimeoutError:
            raise
        except OSError as error:
            self._broken(error, deadline, call)

    def _broken(self, error: OSError, deadline: Deadline, call: Optional[PendingCall]) -> None:
        """Raise why nothing can be written; if the reading thread finds out first, let it settle the call."""
        intake = self._intake
        assert intake is not None
        if not self._closed:
            intake.dead.wait(deadline.within(_AWAIT_CAUSE).remaining())
        if call is not None and call.settled:
            return
        sent = None if call is None else call.request_sent
        cause = intake.error
        if cause is None and not self._closed:
            cause = ConnectionLost(f"{self.peer} takes no more input: {error.strerror}")
            intake.lose(cause)
        returncode = getattr(cause, "returncode", None)
        tail = getattr(cause, "stderr_tail", "")
        text = f"{self.peer} is closed" if cause is None else str(cause)
        raise ConnectionLost(text, request_sent=sent, returncode=returncode, stderr_tail=tail) from error

    def close(self, deadline: Deadline) -> None:
        """End the process with its group, and the threads."""
        self._closed = True
        process = self._process
        if process is None:
            return
        process.end(deadline)
        process.wake.set()
        join_all(self._threads, deadline)

    def abandon(self) -> None:
        """In a forked child: close the copies of the pipes."""
        self._closed = True
        if self._process is not None:
            self._process.abandon()
