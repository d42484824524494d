"""The raw reader and writer over a socket: each single wait is bounded by a deadline."""

from __future__ import annotations

import _socket
import errno
import io
import socket
import ssl
import struct
import sys
from typing import Any, Optional, cast

from urllib3.util.wait import wait_for_read, wait_for_write

from .._concurrency.deadline import Deadline

# A thread that waits for a connection looks this often whether it still has to.
SLICE = 0.1
_WSAEWOULDBLOCK = 10035
IN_PROGRESS = (errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EALREADY, errno.EINTR, _WSAEWOULDBLOCK)
_DISCONNECTED = (errno.EPIPE, errno.ECONNRESET, errno.ECONNABORTED, errno.ENOTCONN, errno.ESHUTDOWN)
_NOT_NOW = (socket.timeout, BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_DONTWAIT = getattr(socket, "MSG_DONTWAIT", 0)
_KERNEL_TIMEOUTS = sys.platform == "linux" and struct.calcsize("ll") == 16


class NothingSent(OSError):
    """The connection was found dead before it took a byte of the request."""


class TimedSocket(io.RawIOBase):
    """Reads from and writes to a connected socket, whose timeouts it owns.

    Attributes:
        deadline: The current bound. One that has expired admits what is at hand; with ``None`` nothing is
            read at all.
    """

    def __init__(self, sock: Any) -> None:
        super().__init__()
        self._sock = sock
        self.deadline: Optional[Deadline] = None
        self._armed: Optional[float] = sock.gettimeout()
        self._is_plain = isinstance(sock, socket.socket) and not isinstance(sock, ssl.SSLSocket)

    def readable(self) -> bool:
        """Whether it can be read: yes."""
        return True

    def readinto(self, buffer: Any) -> Optional[int]:
        """Wait for bytes and take them; 0 at the end of the stream.

        Raises:
            socket.timeout: The deadline has passed.
        """
        if self.deadline is None:
            return None
        self._lower_timeout()
        while True:
            try:
                return self._receive(buffer)
            except _NOT_NOW:
                self._raise_timeout()

    def write_all(self, data: bytes) -> None:
        """Send all of it, in one system call if it fits.

        Raises:
            NothingSent: The connection is dead and took nothing.
            OSError: It failed later, or took not all in time.
        """
        view = memoryview(data)
        self._lower_timeout()
        while view:
            try:
                view = view[self._send(view) :]
            except _NOT_NOW:
                self._await_room()
            except OSError as error:
                # Under TLS some bytes may have left all the same.
                if len(view) == len(data) and self._is_plain and error.errno in _DISCONNECTED:
                    raise NothingSent(*error.args) from error
                raise

    def is_silent(self) -> bool:
        """Whether nothing has arrived, not even the end of the stream."""
        return not wait_for_read(self._sock, timeout=0.0)

    def _lower_timeout(self) -> None:
        # A timeout that is too short costs one wakeup; setting it each time would cost more. So here it is
        # only ever lowered, and raised when it was too short.
        assert self.deadline is not None
        left = self.deadline.remaining()
        if left is not None and (self._armed is None or left < self._armed):
            self._arm(left)

    def _raise_timeout(self) -> None:
        assert self.deadline is not None
        left = self.deadline.remaining()
        if left == 0.0:
            raise socket.timeout("the deadline has passed")
        self._arm(left)

    def _receive(self, buffer: Any) -> int:
        return cast(int, self._sock.recv_into(buffer))

    def _send(self, view: memoryview) -> int:
        return cast(int, self._sock.send(view))

    def _await_room(self) -> None:
        self._raise_timeout()  # The socket itself waits, with a timeout.

    def _arm(self, seconds: Optional[float]) -> None:
        self._armed = seconds
        self._sock.settimeout(seconds)


class KernelTimedSocket(TimedSocket):
    """The same for plain TCP on Linux, with the kernel's timeout on a blocking socket.

    With a timeout of its own Python polls before each ``recv`` and ``send``, and gives up the GIL once more
    for that: beside a busy thread each time may cost 5 ms.
    """

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        sock.settimeout(None)
        self._armed = None

    def _receive(self, buffer: Any) -> int:
        return cast(int, self._sock.recv_into(buffer, 0, _DONTWAIT if self._armed == 0.0 else 0))

    def _send(self, view: memoryview) -> int:
        return cast(int, self._sock.send(view, _DONTWAIT))

    def _await_room(self) -> None:
        assert self.deadline is not None
        if not wait_for_write(self._sock, self.deadline.remaining()) and self.deadline.expired:
            raise socket.timeout("the deadline has passed")

    def _arm(self, seconds: Optional[float]) -> None:
        self._armed = seconds
        # A kernel timeout of zero is none at all; for "at once" there is a flag.
        microseconds = 0 if seconds is None else max(1, int(seconds * 1e6))
        timeval = struct.pack("ll", *divmod(microseconds, 1_000_000))
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, timeval)


def timed_socket(sock: Any) -> TimedSocket:
    """Wrap a connected socket in the class that suits it."""
    # The sockets of gevent are no instances of the built-in class, and wait in their own way.
    if _KERNEL_TIMEOUTS and isinstance(sock, _socket.socket) and not isinstance(sock, ssl.SSLSocket):
        return KernelTimedSocket(cast(socket.socket, sock))
    return TimedSocket(sock)


def keep_alive(sock: socket.socket) -> None:
    """Send small writes at once, and have the system find out when a silent peer is gone."""
    options = [("IPPROTO_TCP", "TCP_NODELAY", 1), ("SOL_SOCKET", "SO_KEEPALIVE", 1)]
    options += [("IPPROTO_TCP", "TCP_KEEPIDLE", 60), ("IPPROTO_TCP", "TCP_KEEPINTVL", 15)]
    for level, name, value in options:
        if hasattr(socket, name):
            try:
                sock.setsockopt(getattr(socket, level), getattr(socket, name), value)
            except OSError:
                pass
