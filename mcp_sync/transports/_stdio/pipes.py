"""Our ends of a child's pipes: how they are read, written and closed by several threads.

A descriptor must not be closed while another thread is about to use it: its number may belong to
something else by then. So each end has one owner that closes it, and the others can only ask.
"""

from __future__ import annotations

import enum
import errno
import os
import select
import threading
import time
from typing import Callable, Optional

from ..._concurrency.locks import take

# Windows has no poll for pipes (and eventlet takes it away): reading and writing block there, until the
# end of the process ends them.
CAN_POLL = hasattr(select, "poll") and os.name == "posix"

# What a pipe holds, as a rule. (Larger buffers are not kept by the allocator: they would cost 25 us a read.)
_CHUNK = 64 * 1024
_CHUNKS = (_CHUNK,)
# Without a pidfd a silent pipe looks at its process this often.
_GLANCE = 0.5
# A pipe that somebody else still holds open after the process has ended: how long it may be silent, and
# how long it is read at all.
_SILENT = 0.2
_READ_ON = 1.0
# How long a caller looks for its answer itself.
LOOK = 0.002
# How long a thread that expects bytes at once does not sleep, and how it lets others use its core meanwhile.
# When that is in vain, because the process is slow or the core is busy, the next waits sleep at once: one,
# two, four, up to so many.
_AWAKE = 0.0001
_LONGEST_PAUSE = 128
_give_way: Optional[Callable[[], None]] = getattr(os, "sched_yield", None)


class Wake:
    """Ends the wait of all threads that poll it, for good."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        # Guards the descriptors against being closed while `set` uses them; nothing but that happens under
        # it. Reentrant, since a finaliser may set the very Wake that its thread is just setting.
        self._lock = threading.RLock()
        self.fd, self._in = os.pipe()

    def set(self) -> None:
        """Wake them; later polls return at once. In a forked child: leave the parent's threads alone."""
        with self._lock:
            if self._in >= 0 and os.getpid() == self._owner:
                os.write(self._in, b"\0")

    def close(self) -> None:
        """Close it, when nobody polls it any more."""
        with self._lock:
            self.abandon()

    def abandon(self) -> None:
        """Close it without the lock: for a forked child, where no other thread exists."""
        for name in ("fd", "_in"):
            fd = getattr(self, name)
            if fd >= 0:
                setattr(self, name, -1)
                os.close(fd)


class Found(enum.Enum):
    """What a wait for bytes came to."""

    BYTES = "bytes"
    NOTHING = "nothing"
    END = "end"


BYTES = Found.BYTES
NOTHING = Found.NOTHING
END = Found.END


class PipeReader:
    """The end of a pipe that is read, by one thread at a time.

    Args:
        fd: The descriptor, owned from now on.
        wake: What ends a wait.
        pidfd: A descriptor that tells of the end of the process, owned from now on, or -1.
        has_exited: Says whether the process has ended, where that shall end the reading.
    """

    def __init__(
        self, fd: int, wake: Wake, pidfd: int = -1, has_exited: Optional[Callable[[], bool]] = None
    ) -> None:
        self._fd = fd
        self._wake_fd = wake.fd
        self._pidfd = pidfd
        self._has_exited = has_exited
        self._patience = None if has_exited is None or pidfd >= 0 else _GLANCE * 1000
        self._last: Optional[float] = None
        self._sleeps, self._pause = 0, 1
        if CAN_POLL:
            os.set_blocking(fd, False)
            self._poll = select.poll()
            for each in (fd, wake.fd, pidfd):
                if each >= 0:
                    self._poll.register(each, select.POLLIN)

    def wait(self, seconds: Optional[float] = None) -> Found:
        """Wait for bytes (or for the end of file, which is read as ``b""``).

        Args:
            seconds: After which to return ``NOTHING``; ``None`` for any time.

        Returns:
            ``END`` once a `Wake` is set and nothing is left to be read, and for a pipe that is silent
            although its process has ended: then somebody whom the process left behind still holds it.
        """
        if not CAN_POLL:
            return BYTES
        while True:
            ready = dict(self._poll.poll(self._patience if seconds is None else seconds * 1000))
            woken = self._wake_fd in ready
            if woken or self._pidfd in ready:
                self._near_end()
            if self._fd in ready:
                return END if self._last is not None and time.monotonic() > self._last else BYTES
            if woken:
                return END
            if seconds is not None:
                return NOTHING
            if not ready and self._last is not None:
                return END
            if not ready and self._has_exited is not None and self._has_exited():
                self._near_end()

    def _near_end(self) -> None:
        """Read on what is there already, but not what somebody else may write for ever."""
        if self._last is None:
            self._last = time.monotonic() + _READ_ON
        self._patience = _SILENT * 1000
        try:
            self._poll.unregister(self._pidfd)
        except (KeyError, ValueError):
            pass

    def read(self) -> bytes:
        """Read what is there, ``b""`` at the end of file."""
        return os.read(self._fd, _CHUNK)

    def drop(self) -> bool:
        """Read what is there, if anything is, and forget it; return whether anything was."""
        try:
            return CAN_POLL and bool(self.read())
        except BlockingIOError:
            return False

    def read_onto(self, pieces: list[bytes], seconds: Optional[float] = None) -> Found:
        """Wait as `wait` does, read what is there and append it: ``b""`` at the end of file.

        No signal handler can run between the last two and lose what was read by raising.
        """
        found = self.wait(seconds)
        if found is BYTES:
            try:
                pieces.extend(map(os.read, (self._fd,), _CHUNKS))
            except BlockingIOError:
                return NOTHING
        return found

    def read_soon(self, pieces: list[bytes]) -> Found:
        """Do as `read_onto` does, for at most `LOOK`, and stay awake at first.

        A thread that sleeps is woken late, where the process runs on another core.
        """
        if self._sleeps > 0:
            self._sleeps -= 1
        elif self._last is None and _give_way is not None:
            until = 0.0
            while True:
                try:
                    pieces.extend(map(os.read, (self._fd,), _CHUNKS))
                    self._pause = 1
                    return BYTES
                except BlockingIOError:
                    now = time.monotonic()
                    until = until or now + _AWAKE
                    if now >= until:
                        self._sleeps, self._pause = self._pause, min(2 * self._pause, _LONGEST_PAUSE)
                        break
                    _give_way()
        return self.read_onto(pieces, LOOK)

    def close(self) -> None:
        """Close it. For the thread that reads, or when there is none any more."""
        for name in ("_fd", "_pidfd"):
            fd = getattr(self, name)
            if fd >= 0:
                setattr(self, name, -1)
                os.close(fd)
        self._has_exited = None


class PipeWriter:
    """The end of a pipe that any thread writes.

    Args:
        fd: The descriptor, owned from now on.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        # Guards the descriptor against being closed during a write. Held for one system call, which does
        # not block except on Windows.
        self.lock = threading.RLock()
        if CAN_POLL:
            os.set_blocking(fd, False)

    def write(self, data: bytes | memoryview, taken: list[int]) -> None:
        """Write what fits, and append how many bytes that were, if any. (On Windows: write all of it.)

        No signal handler can run between the two and lose that number by raising.

        Raises:
            OSError: The pipe is broken or closed.
        """
        if self._fd < 0:
            raise BrokenPipeError(errno.EPIPE, "the pipe is closed")
        try:
            taken.extend(map(os.write, (self._fd,), (data,)))
        except BlockingIOError:
            pass

    def wait(self, seconds: float) -> None:
        """Wait until something fits, or the pipe is broken, at most so long."""
        # Polling a number that is closed meanwhile does no harm: `write` looks again.
        poll = select.poll()
        poll.register(max(self._fd, 0), select.POLLOUT)
        poll.poll(seconds * 1000)

    def close(self) -> None:
        """Close it, unless a write is stuck in it (Windows). From any thread, more than once."""
        got: list[bool] = []
        try:
            if take(self.lock, 0.1, got):
                self.abandon()
        finally:
            if got and got[0]:
                self.lock.release()

    def abandon(self) -> None:
        """Close it without the lock: for a forked child, where no other thread exists."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
