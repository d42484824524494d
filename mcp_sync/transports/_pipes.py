"""Our ends of a child's pipes: how they are read, written and closed by several threads.

A descriptor must not be closed while another thread is about to use it: its number may belong to
something else by then. So each end has one owner that closes it, and the others can only ask.
"""

from __future__ import annotations

import errno
import os
import select
import threading
import time
from typing import Callable, Optional

# Windows has no poll for pipes (and eventlet takes it away): reading and writing block there, until the
# end of the process ends them.
CAN_POLL = hasattr(select, "poll") and os.name == "posix"

_CHUNK = 256 * 1024
# Without a pidfd a silent pipe looks at its process this often.
_LOOK = 0.5
# A pipe that somebody else still holds open after the process has ended: how long it may be silent, and
# how long it is read at all.
_SILENT_AFTER_EXIT = 0.2
_READ_AFTER_EXIT = 1.0


class Wake:
    """Ends the wait of all threads that poll it, for good.

    `set` takes no lock, so that a finaliser can call it. The descriptors are closed when the last holder
    drops the object: then nobody can be about to use them.
    """

    __slots__ = ("__weakref__", "_closing", "_in", "fd")

    def __init__(self) -> None:
        self._closing = os.close
        self.fd, self._in = os.pipe()
        os.set_blocking(self._in, False) if CAN_POLL else None

    def set(self) -> None:
        """Wake them; later polls return at once."""
        try:
            os.write(self._in, b"\0")
        except OSError:
            pass

    def __del__(self) -> None:
        for name in ("fd", "_in"):
            fd = getattr(self, name, -1)
            if fd >= 0:
                self._closing(fd)


class PipeReader:
    """The end of a pipe that one thread reads.

    Args:
        fd: The descriptor, owned from now on.
        wake: What ends a wait.
        pidfd: A descriptor that tells of the end of the process, owned from now on, or -1.
        ended: Says whether the process has ended, where that shall end the reading.
    """

    def __init__(
        self, fd: int, wake: Wake, pidfd: int = -1, ended: Optional[Callable[[], bool]] = None
    ) -> None:
        self._fd = fd
        self._wake = wake
        self._pidfd = pidfd
        self._ended = ended
        self._patience = None if ended is None or pidfd >= 0 else _LOOK * 1000
        self._last: Optional[float] = None
        if CAN_POLL:
            self._poll = select.poll()
            for each in (fd, wake.fd, pidfd):
                if each >= 0:
                    self._poll.register(each, select.POLLIN)

    def read(self) -> bytes:
        """Wait for bytes and return them, or ``b""`` at the end.

        The end is the end of file, a `Wake`, or a pipe that is silent although its process has ended:
        then somebody whom the process left behind still holds it.
        """
        if not CAN_POLL:
            return os.read(self._fd, _CHUNK)
        while True:
            ready = dict(self._poll.poll(self._patience))
            if self._wake.fd in ready:
                return b""
            if self._pidfd in ready:
                self._process_ended()
            if self._fd in ready:
                return b"" if self._is_over() else os.read(self._fd, _CHUNK)
            if self._last is not None and self._pidfd not in ready:
                return b""
            if self._pidfd < 0 and self._ended is not None and self._ended():
                self._process_ended()

    def _process_ended(self) -> None:
        if self._pidfd >= 0:
            self._poll.unregister(self._pidfd)
        self._last = time.monotonic() + _READ_AFTER_EXIT
        self._patience = _SILENT_AFTER_EXIT * 1000

    def _is_over(self) -> bool:
        return self._last is not None and time.monotonic() > self._last

    def close(self) -> None:
        """Close it. For the thread that reads, or when there is none."""
        for name in ("_fd", "_pidfd"):
            fd = getattr(self, name)
            if fd >= 0:
                setattr(self, name, -1)
                os.close(fd)


class PipeWriter:
    """The end of a pipe that any thread writes.

    Args:
        fd: The descriptor, owned from now on.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        # Guards the descriptor against being closed during a write. Held for one system call, which does
        # not block except on Windows; nothing else happens under it.
        self._lock = threading.Lock()
        if CAN_POLL:
            os.set_blocking(fd, False)

    def write(self, data: bytes | memoryview) -> int:
        """Write what fits; return how many bytes that were. (On Windows: write all of it.)

        Raises:
            OSError: The pipe is broken or closed.
        """
        with self._lock:
            if self._fd < 0:
                raise BrokenPipeError(errno.EPIPE, "the pipe is closed")
            try:
                return os.write(self._fd, data)
            except BlockingIOError:
                return 0

    def wait(self, seconds: float) -> None:
        """Wait until something fits, or the pipe is broken, at most so long."""
        # Polling a number that is closed meanwhile does no harm: `write` looks again.
        poll = select.poll()
        poll.register(max(self._fd, 0), select.POLLOUT)
        poll.poll(seconds * 1000)

    def close(self) -> None:
        """Close it, unless a write is stuck in it (Windows). From any thread, more than once."""
        if not self._lock.acquire(timeout=0.1):
            return
        try:
            self.abandon()
        finally:
            self._lock.release()

    def abandon(self) -> None:
        """Close it without the lock: for a forked child, where no other thread exists."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
