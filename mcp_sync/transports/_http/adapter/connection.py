"""Connections that never wait longer than their exchange allows, and that any thread can wake.

urllib3 knows how to connect, through proxies and TLS. What is ours is the waiting: a connection belongs to
an `Exchange` while it is used, whose deadline bounds each step of the connecting and each single ``recv``
and ``send``, and which can shut its socket down.
"""

from __future__ import annotations

# Imported by `socket.getaddrinfo` otherwise, and half an import is of no use to a child that is forked then.
import encodings.idna  # noqa: F401
import io
import os
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.util.connection import allowed_gai_family
from urllib3.util.wait import wait_for_write

from ...._concurrency.deadline import Deadline
from ..exchange import Aborted, Exchange
from .response import Head
from .timed_socket import IN_PROGRESS, SLICE, NothingSent, TimedSocket, keep_alive

_BUFFER_SIZE = 65536
# An event stream is often ended just after its answer. To wait for that is quicker than to connect anew.
_END_SECONDS = 0.005

if TYPE_CHECKING:
    _Connection = HTTPConnection
else:
    _Connection = object


class BoundedConnection(_Connection):
    """What our connections add to those of urllib3. One thread uses a connection at a time.

    Attributes:
        pool: Where it goes when it is free; ``None`` while it is there.
        is_reused: Whether it has served an exchange before the current one.
    """

    pool: Any = None
    is_reused = False
    _exchange: Optional[Exchange] = None
    _bound = Deadline(0)
    _guard: Optional[socket.socket] = None
    _head: Optional[Head] = None
    _timed: Optional[TimedSocket] = None
    _reader: Optional[io.BufferedReader] = None

    # --- connecting ------------------------------------------------------------------------------------

    def open(self, exchange: Exchange, connect: Callable[[], None]) -> None:
        """Connect within the bounds of an exchange: all addresses, the proxy's tunnel, TLS.

        Args:
            exchange: What it is for.
            connect: Leads to our ``connect``, by way of the pool.

        Raises:
            OSError, urllib3.exceptions.HTTPError: There is no connection.
        """
        self._exchange = exchange
        self._bound = exchange.deadline.within(exchange.connect)
        self.timeout = self._time_left()
        connect()
        self._drop_guard()
        exchange.publish(self.sock)
        self._timed = TimedSocket(self.sock)
        self._timed.deadline = exchange.deadline
        self._reader = io.BufferedReader(self._timed, _BUFFER_SIZE)

    def _time_left(self) -> Optional[float]:
        """Return the timeout of a socket that is to be connected.

        Raises:
            socket.timeout: Nothing is left; with 0.0 the socket would not wait at all, which TLS refuses.
        """
        left = self._bound.remaining()
        if left == 0.0:
            raise socket.timeout("no connection in time")
        return left

    def _raise_guard(self, sock: socket.socket) -> None:
        # TLS takes the file descriptor over into another object; a duplicate can be shut down meanwhile.
        assert self._exchange is not None
        self._guard = sock.dup()
        self._exchange.publish(self._guard)

    def _drop_guard(self) -> None:
        guard, self._guard = self._guard, None
        if guard is None:
            return
        unharmed = self._exchange is not None and self._exchange.withdraw(guard)
        guard.close()
        if not unharmed:
            raise Aborted("the exchange was ended")

    def response_class(  # type: ignore[override]
        self, sock: Any, debuglevel: int = 0, method: Any = None, url: Any = None
    ) -> Head:
        """Return what reads a proxy's answer to CONNECT."""
        timed = TimedSocket(sock)
        timed.deadline = self._bound
        return Head(io.BufferedReader(timed), method)

    def _tunnel(self) -> None:
        super()._tunnel()
        self.sock.settimeout(self._time_left())

    def dig(self, host: str, port: int, headers: Mapping[str, str]) -> None:
        """Have the proxy that it is connected to pass on all that follows, to a server without TLS."""
        if self._guard is None:
            self._raise_guard(self.sock)
        # http.client takes orders for a tunnel only as long as there is no socket.
        sock, self.sock = self.sock, None
        try:
            self.set_tunnel(host, port, headers)
        finally:
            self.sock = sock
        self._tunnel()

    # --- exchanges -------------------------------------------------------------------------------------

    def reuse(self, exchange: Exchange) -> bool:
        """Bind an idle connection to an exchange, or return ``False`` if it is of no use any more."""
        timed = self._timed
        if timed is None or not self._finish_last(timed, exchange.deadline.within(_END_SECONDS)):
            return False
        if not timed.is_silent():
            return False
        self._exchange = exchange
        self.is_reused = True
        timed.deadline = exchange.deadline
        exchange.publish(self.sock)
        return True

    def is_stale(self) -> bool:
        """Whether an idle connection is of no use any more, as far as that is known without waiting."""
        timed = self._timed
        if timed is None:
            return True
        if timed.is_silent():
            return False
        # What is there may be the rest of the last response, with or without an end of the stream behind it.
        return self._head is None or not self._finish_last(timed, Deadline(0)) or not timed.is_silent()

    def _finish_last(self, timed: TimedSocket, deadline: Deadline) -> bool:
        """Take what is left of the last response, if it comes in time."""
        head, self._head = self._head, None
        if head is None:
            return True
        timed.deadline = deadline
        try:
            while not head.isclosed():
                head.read1(_BUFFER_SIZE)
        except Exception:
            return False
        timed.deadline = None
        return not head.will_close and self._is_empty()

    def _is_empty(self) -> bool:
        # With no deadline nothing is read from the socket, so that this sees what the buffer holds.
        return self._reader is not None and not self._reader.peek(1)

    def transmit(self, data: Union[bytes, memoryview]) -> None:
        """Send a request, headers and body at once.

        Raises:
            NothingSent: The connection has died since it was used last, and took nothing.
            OSError: It failed, or not all was taken in time.
        """
        assert self._exchange is not None
        assert self._timed is not None
        self._exchange.mark_sent()
        try:
            self._timed.write_all(data)
        except NothingSent:
            if self.is_reused:
                raise
        except BrokenPipeError:
            pass  # The server may have refused the request before it had read all of it.

    def receive(self, method: Optional[str]) -> Head:
        """Read the head of the response."""
        assert self._reader is not None
        self._head = head = Head(self._reader, method)
        head.begin()
        return head

    def hurry(self, deadline: Deadline) -> None:
        """Bound the rest of the current exchange by another deadline."""
        if self._timed is not None:
            self._timed.deadline = deadline

    def check(self) -> None:
        """Look whether the current exchange may go on; see `Exchange.check`."""
        if self._exchange is not None and self._timed is not None and self._timed.deadline is not None:
            self._exchange.check(self._timed.deadline)

    def give_back(self) -> bool:
        """Part from the exchange; return whether another one may use the connection.

        Of a response that was not read to its end, the rest may come later: `reuse` will see.
        """
        exchange, self._exchange = self._exchange, None
        head = self._head
        if exchange is None or not exchange.withdraw(self.sock) or head is None or head.will_close:
            return False
        assert self._timed is not None
        self._timed.deadline = None
        if not head.isclosed():
            return True
        self._head = None
        return self._is_empty()

    def detach(self) -> tuple[Any, bytes]:
        """Part with the socket, after a response by which it changed to another protocol.

        Returns:
            The socket, now the caller's to close, and what has been read of the other protocol already.

        Raises:
            Aborted: Another thread has ended the exchange.
        """
        assert self._exchange is not None
        assert self._timed is not None
        assert self._reader is not None
        self._timed.deadline = None
        rest = self._reader.peek(1)
        if not self._exchange.withdraw(self.sock):
            raise Aborted("the exchange was ended")
        self._exchange = None
        self._head = self._reader = self._timed = None
        sock, self.sock = self.sock, None
        return sock, rest

    def close(self) -> None:
        """Close the socket; in the middle of an exchange that tells the server that nobody reads on."""
        exchange, self._exchange = self._exchange, None
        guard, self._guard = self._guard, None
        if exchange is not None:
            exchange.withdraw(guard or self.sock)
        if guard is not None:
            guard.close()
        self._head = self._reader = self._timed = None
        super().close()


class _DirectConnection(BoundedConnection):
    """Connects to an address by itself, or to the proxy's."""

    def _new_conn(self) -> socket.socket:
        host = self._dns_host.strip("[]")
        try:
            addresses = socket.getaddrinfo(host, self.port, allowed_gai_family(), socket.SOCK_STREAM)
        except UnicodeError as error:
            raise OSError(f"{host!r} is no host name") from error
        assert self._exchange is not None
        addresses = self._exchange.admitted(host, self.port, addresses)
        fault: Optional[OSError] = None
        for index, (family, kind, protocol, _, address) in enumerate(addresses):
            left = self._bound.remaining()
            # One address that swallows everything must leave time for the others.
            share = None if left is None else left / (len(addresses) - index)
            try:
                return self._connect_to(socket.socket(family, kind, protocol), address, share)
            except Aborted:
                raise
            except OSError as error:
                fault = error
        raise fault or OSError(f"{host!r} has no address")

    def _connect_to(self, sock: socket.socket, address: Any, share: Optional[float]) -> socket.socket:
        assert self._exchange is not None
        try:
            keep_alive(sock)
            for option in self.socket_options or ():
                sock.setsockopt(*option)
            if self.source_address:
                sock.bind(self.source_address)
            sock.settimeout(0)
            self._exchange.publish(sock)
            fault = sock.connect_ex(address)
            if fault in IN_PROGRESS:
                fault = self._await_connect(sock, self._bound.within(share))
            if not self._exchange.withdraw(sock):
                raise Aborted("the exchange was ended")
            if fault:
                raise OSError(fault, os.strerror(fault))
            sock.settimeout(self._time_left())
            return sock
        except BaseException:
            self._exchange.withdraw(sock)
            sock.close()
            raise

    def _await_connect(self, sock: socket.socket, bound: Deadline) -> int:
        assert self._exchange is not None
        while not self._exchange.aborted:
            left = bound.remaining()
            # Not every system wakes us when the socket is shut down while it connects.
            if wait_for_write(sock, SLICE if left is None else min(left, SLICE)):
                return sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if left == 0.0:
                raise socket.timeout("no connection in time")
        raise Aborted("the exchange was ended")


class PlainConnection(_DirectConnection, HTTPConnection):
    """For http."""


class GuardedConnection(BoundedConnection):
    """Can be woken while TLS is agreed upon, too."""

    def _new_conn(self) -> socket.socket:
        sock = super()._new_conn()
        try:
            self._raise_guard(sock)
        except BaseException:
            sock.close()
            raise
        return sock


class TLSConnection(GuardedConnection, _DirectConnection, HTTPSConnection):
    """For https."""
