"""The socket of a connection: one thread reads it, any thread writes it, and none of them blocks.

TLS keeps state that reading and writing share, so each operation on it holds a lock. It is never held while
anybody waits: the operations take what is there, and waiting is left to the system's poll.
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
import threading
from typing import Any, Optional, Union

from urllib3.util.wait import wait_for_read, wait_for_write

from ..._concurrency.locks import take
from .._duplex import LOCK_LOST
from .._http.exchange import shut_down

_CHUNK = 64 * 1024
# What one record of TLS holds.
_RECORD = 16 * 1024
# How many are written in one go.
_RECORDS = 16
_NOT_NOW = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class SocketStream:
    """A connected socket, plain or under TLS; see `mcp_sync.transports._duplex.Sink`.

    Args:
        sock: The socket, owned from now on.

    Attributes:
        has_moved: Set whenever something was written; for whoever clears it.
    """

    def __init__(self, sock: Any) -> None:
        sock.settimeout(0)
        self._owner = os.getpid()
        self._is_plain = isinstance(sock, socket.socket) and not isinstance(sock, ssl.SSLSocket)
        self._sock: Any = sock if isinstance(sock, socket.socket) else NestedTLS(sock)
        # Guards the state of TLS, and the descriptor against being closed while it is used. Held for one
        # operation that does not block; nothing else happens under it. Re-entrant, for signal handlers.
        self.lock = threading.RLock()
        # What TLS has begun to write: it must be offered again, and nothing else before it.
        self._begun = b""
        self.has_moved = True
        # Stays set where a signal handler has raised in the midst of a write under TLS.
        self._writing = False

    def read_onto(self, pieces: list[bytes]) -> bool:
        """Read what is there and append it, ``b""`` at the end; return ``False`` if there is nothing.

        Raises:
            OSError: The connection is broken.
        """
        try:
            if self._is_plain:
                # No signal handler can run between the two and lose what was read by raising.
                pieces.extend(map(self._sock.recv, (_CHUNK,)))
                return True
            got: list[bool] = []
            try:
                if not take(self.lock, LOCK_LOST, got):
                    return False
                pieces.append(self._sock.recv(_CHUNK))
                return True
            finally:
                if got and got[0]:
                    self.lock.release()
        except _NOT_NOW:
            return False

    def wait_for_bytes(self, seconds: Optional[float]) -> None:
        """Wait until there may be something to be read, at most so long."""
        wait_for_read(self._sock, seconds)

    def write(self, data: Union[bytes, memoryview], taken: list[int]) -> None:
        """Take what fits, and append how many bytes that were, if any.

        Raises:
            OSError: The connection is broken or closed.
        """
        if self._sock.fileno() < 0:
            raise BrokenPipeError(errno.EPIPE, "the connection is closed")
        try:
            if self._is_plain:
                # No signal handler can run between the two and lose that number by raising.
                taken.extend(map(self._sock.send, (data,)))
            else:
                self._write_records(memoryview(data), taken)
            self.has_moved = True
        except _NOT_NOW:
            pass

    def _write_records(self, data: memoryview, taken: list[int]) -> None:
        for _ in range(_RECORDS):
            count = self._write_record(data)
            taken.append(count)
            self._writing = False
            data = data[count:]
            if self._begun or not data:
                break

    def _write_record(self, data: memoryview) -> int:
        """Write one record of TLS, and return how many bytes count as taken.

        What TLS has encrypted it must write, so that a record which has begun counts as taken, but for its
        last byte: for that byte the caller comes again, and with it the record is finished.
        """
        if self._writing:
            raise BrokenPipeError(errno.EPIPE, "a write was interrupted, nobody knows where")
        self._writing = True
        begun = self._begun
        record = begun or bytes(data[:_RECORD])
        try:
            self._sock.send(record)
        except _NOT_NOW:
            self._begun = record
            return 0 if begun else len(record) - 1
        self._begun = b""
        return 1 if begun else len(record)

    def wait(self, seconds: float) -> None:
        """Wait until something fits, at most so long."""
        try:
            wait_for_write(self._sock, seconds)
        except (OSError, ValueError):
            pass  # It was closed meanwhile: `write` will say so.

    def shut_down(self) -> None:
        """End the connection, which wakes whoever waits for it. In a forked child: do nothing."""
        if os.getpid() != self._owner:
            return
        got: list[bool] = []
        try:
            if take(self.lock, LOCK_LOST, got):
                shut_down(self._sock)
        finally:
            if got and got[0]:
                self.lock.release()

    def close(self) -> None:
        """Close the socket. For the thread that reads, or when there is none any more."""
        got: list[bool] = []
        try:
            if take(self.lock, LOCK_LOST, got):
                self.abandon()
        finally:
            if got and got[0]:
                self.lock.release()

    def abandon(self) -> None:
        """Close it without the lock and without a byte: for a forked child, where no other thread exists."""
        self._sock.close()


class NestedTLS:
    """TLS within TLS, as urllib3 makes it behind a proxy that is reached by https, without blocking.

    Args:
        transport: The `urllib3.util.ssltransport.SSLTransport`.
    """

    def __init__(self, transport: Any) -> None:
        self.socket = transport.socket
        self._tls = transport.sslobj
        self._incoming = transport.incoming
        self._outgoing = transport.outgoing
        self._due = b""

    def fileno(self) -> int:
        """Return the descriptor of the socket below."""
        number: int = self.socket.fileno()
        return number

    def recv(self, size: int) -> bytes:
        """Return what is there, ``b""`` at the end.

        Raises:
            ssl.SSLWantReadError: There is nothing.
        """
        while True:
            try:
                plain: bytes = self._tls.read(size)
                return plain
            except ssl.SSLWantReadError:
                data = self.socket.recv(size)
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return b""
            if data:
                self._incoming.write(data)
            else:
                self._incoming.write_eof()

    def send(self, data: bytes) -> int:
        """Write a record, or go on with the one that was begun, which must be offered again.

        Raises:
            ssl.SSLWantWriteError: It does not all fit.
        """
        if not self._due:
            self._tls.write(data)
            self._due = self._outgoing.read()
        while self._due:
            self._due = self._due[self.socket.send(self._due[:_RECORD]) :]
        return len(data)

    def close(self) -> None:
        """Close the socket below."""
        self.socket.close()
