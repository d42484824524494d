"""The process of a server: how it is started, watched and ended, with all that it has started itself."""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Callable, Optional

from ..._concurrency.deadline import Deadline
from .launch import launch
from .pipes import CAN_POLL, PipeReader, PipeWriter

# How the time for ending a process is shared out; what is left serves for joining the threads.
_SHARE_END_OF_INPUT = 0.5
_SHARE_TERMINATE = 0.3
_SHARE_KILL = 0.1
# Where no bound is given, and the least that the kernel gets to bury a killed process.
_END_SECONDS = 5.0
_BURIAL = 0.2
_AT_EXIT_SECONDS = 3.0

_running: set[ServerProcess] = set()


class ServerProcess:
    """A running server. It leads a session of its own, so that Ctrl-C at the terminal is not for it, and so
    that everything it starts can be ended with it.

    Args:
        command: The program and its arguments.
        env: The whole environment of the process.
        cwd: Its working directory, ``None`` for ours.

    Raises:
        ConnectFailed: It cannot be started.

    Attributes:
        owner: The id of the process that has started it.
        pid: Its process id, which is also that of its group.
        stdin, stdout, stderr: Our ends of its pipes. The readers belong to the threads that read.
        stdout_wake, stderr_wake: End the reading of these pipes.
        ending: Whether `end` was called, so that its exit is no surprise.
        ends_with_us: Whether that is because the interpreter ends.
    """

    def __init__(self, command: Sequence[str], env: Mapping[str, str], cwd: Optional[str]) -> None:
        self.ending = self.ends_with_us = False
        self._alone = False
        self.owner = os.getpid()
        launched = launch(command, env, cwd)
        self._popen = launched.popen
        self.pid = self._popen.pid
        _running.add(self)
        self.stdout_wake, self.stderr_wake = launched.stdout_wake, launched.stderr_wake
        self.stdin = PipeWriter(launched.stdin)
        self.stdout = PipeReader(launched.stdout, self.stdout_wake, _pidfd(self.pid), self.has_exited)
        self.stderr = PipeReader(launched.stderr, self.stderr_wake)

    @property
    def returncode(self) -> Optional[int]:
        """The exit code if it is known to have ended; negative: the signal."""
        return self._popen.returncode

    def has_exited(self) -> bool:
        """Look whether the process itself has ended."""
        return self._popen.poll() is not None

    def wait(self, seconds: float) -> Optional[int]:
        """Wait for its end; return the exit code, or ``None`` if it still runs."""
        try:
            return self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def end(
        self, deadline: Deadline, grace: bool = True, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """End it and its group: by the end of its input, then SIGTERM, then SIGKILL. Returns by the deadline.

        From any thread, more than once. Standard output should be read meanwhile: a server that still
        wants to write something cannot end otherwise.

        Args:
            deadline: By when; 5 s where it has no bound.
            grace: Whether to wait for it to end by itself.
            sleep: Called with a few milliseconds, again and again, while it is waited for.
        """
        _end([self], deadline, grace, sleep)

    def is_gone(self) -> bool:
        """Look whether the process and its whole group have ended."""
        if not self._alone:
            if not self.has_exited():
                return False
            if group_lives(self.pid):
                return False
            self._alone = True
        _running.discard(self)
        return True

    def signal(self, number: int) -> None:
        """Send a signal to the group, if there is still somebody in it."""
        # The number of the group cannot be given to another one as long as it has a member.
        if self.is_gone():
            return
        try:
            signal_group(self.pid, number)
        except OSError:
            # Not ours any more (a program that changed its user), or gone meanwhile.
            pass

    def abandon(self) -> None:
        """In a forked child: close our copies of the pipes, leave the process to the parent."""
        _running.discard(self)
        self._alone = True
        if self._popen.returncode is None:
            self._popen.returncode = 0  # or it would be waited for and warned about when it is deleted
        self.stdout_wake.abandon()
        self.stderr_wake.abandon()
        self.stdin.abandon()
        self.stdout.close()
        self.stderr.close()


def _pidfd(pid: int) -> int:
    if CAN_POLL and hasattr(os, "pidfd_open"):
        try:
            return os.pidfd_open(pid)
        except OSError:
            pass
    return -1


def _end(
    processes: list[ServerProcess],
    deadline: Deadline,
    grace: bool = True,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    # A forked child knows the servers of its parent, which are not its to end.
    processes = [process for process in processes if process.owner == os.getpid()]
    left = deadline.remaining()
    budget = _END_SECONDS if left is None else left
    for process in processes:
        process.ending = True
        process.stdin.close()
    if grace:
        _await(processes, budget * _SHARE_END_OF_INPUT, ServerProcess.has_exited, sleep)
    for number, seconds in (
        (signal.SIGTERM, budget * _SHARE_TERMINATE),
        (getattr(signal, "SIGKILL", signal.SIGTERM), max(budget * _SHARE_KILL, _BURIAL)),
    ):
        processes = [process for process in processes if not process.is_gone()]
        for process in processes:
            process.signal(number)
        processes = _await(processes, seconds, ServerProcess.is_gone, sleep)
    for process in processes:
        process.stdin.close()


def _await(
    processes: list[ServerProcess],
    seconds: float,
    done: Callable[[ServerProcess], bool],
    sleep: Callable[[float], None],
) -> list[ServerProcess]:
    """Wait until all are done; return those that are not."""
    until = time.monotonic() + seconds
    pause = 0.0005
    while True:
        processes = [process for process in processes if not done(process)]
        if not processes or time.monotonic() >= until:
            return processes
        sleep(min(pause, max(0.0, until - time.monotonic())))
        pause = min(pause * 2, 0.02)


def _end_all() -> None:
    """At the end of the interpreter: end the servers that nobody has closed."""
    processes = list(_running)
    for process in processes:
        process.ends_with_us = True
    _end(processes, Deadline(_AT_EXIT_SECONDS))


atexit.register(_end_all)


def signal_group(group: int, number: int) -> None:
    """Send a signal to a process group; on Windows, which has none, end a process with its descendants."""
    if sys.platform != "win32":
        os.killpg(group, number)
    else:
        subprocess.run(["taskkill", "/T", "/F", "/PID", str(group)], capture_output=True, check=False)


def group_lives(group: int) -> bool:
    """Say whether a process group has a member that has not ended."""
    if sys.platform == "win32":
        return False
    try:
        os.killpg(group, 0)
    except OSError:
        return False
    # In a container nobody may bury those whose parent has ended before them: they stay members for ever.
    return _member_in_proc(group)


def _member_in_proc(group: int) -> bool:
    try:
        pids = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return True
    unknown = not pids
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                state, _, of_group = file.read().rpartition(b")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        if int(of_group) == group and state not in (b"Z", b"X"):
            return True
    return unknown
