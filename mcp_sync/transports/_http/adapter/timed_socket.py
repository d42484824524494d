"""The raw reader and writer over a socket: each single wait is bounded by a deadline."""

from __future__ import annotations

import errno
import io
import os
import socket
import ssl
from typing import Any, Optional, Union, cast

from urllib3.util.wait import wait_for_read

from ...._concurrency.deadline import Deadline

# A thread that waits for a connection looks this often whether it still has to.
SLICE = 0.1
_WSAEWOULDBLOCK = 10035
# So often what is at hand is read after the deadline: some peers never stop to send.
_OVERTIME = 16
IN_PROGRESS = (errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EALREADY, errno.EINTR, _WSAEWOULDBLOCK)
_DISCONNECTED = (errno.EPIPE, errno.ECONNRESET, errno.ECONNABORTED, errno.ENOTCONN, errno.ESHUTDOWN)
# On Windows Ctrl-C does not interrupt a wait, so each is cut into slices.
_LONGEST = SLICE if os.name == "nt" else None
_NOT_NOW = (socket.timeout, BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class NothingSent(OSError):
    """The connection was found dead before it took a byte of the request."""


class TimedSocket(io.RawIOBase):
    """Reads from and writes to a connected socket, whose timeouts it owns.

    Attributes:
        deadline: The current bound. One that has expired admits what is at hand, up to a limit; with
            ``None`` nothing is read at all.
    """

    def __init__(self, sock: Any) -> None:
        super().__init__()
        self._sock = sock
        self.deadline: Optional[Deadline] = None
        self._overtime = 0
        self._armed: Optional[float] = sock.gettimeout()
        if _LONGEST is not None:
            self._arm(_LONGEST)
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
        if self._armed == 0.0:
            self._count_overtime()
        while True:
            try:
                return cast(int, self._sock.recv_into(buffer))
            except _NOT_NOW:
                self._raise_timeout()

    def _count_overtime(self) -> None:
        assert self.deadline is not None
        self._overtime = self._overtime + 1 if self.deadline.expired else 0
        if self._overtime > _OVERTIME:
            raise socket.timeout("the deadline has passed")

    def write_all(self, data: Union[bytes, memoryview]) -> None:
        """Send all of it, in one system call if it fits.

        Raises:
            NothingSent: The connection is dead and took nothing.
            OSError: It failed later, or took not all in time.
        """
        view = memoryview(data)
        self._lower_timeout()
        while view:
            try:
                view = view[self._sock.send(view) :]
            except _NOT_NOW:
                self._raise_timeout()
            except OSError as error:
                # Under TLS some bytes may have left all the same.
                if len(view) == len(data) and self._is_plain and error.errno in _DISCONNECTED:
                    raise NothingSent(*error.args) from error
                raise

    def is_silent(self) -> bool:
        """Whether nothing has arrived, not even the end of the stream."""
        has_pending = isinstance(self._sock, ssl.SSLSocket) and self._sock.pending()
        return not has_pending and not wait_for_read(self._sock, timeout=0.0)

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

    def _arm(self, seconds: Optional[float]) -> None:
        if _LONGEST is not None and (seconds is None or seconds > _LONGEST):
            seconds = _LONGEST
        self._armed = seconds
        self._sock.settimeout(seconds)


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
