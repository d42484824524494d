"""What one HTTP exchange is bound by: its clock, and the way in which another thread ends it."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from typing import Any, Optional

from ..._concurrency.deadline import Deadline
from ..._concurrency.pending import PendingCall


class Aborted(OSError):
    """Another thread ended the exchange."""


class Exchange:
    """The deadline of an HTTP exchange, and the socket that it uses at the moment.

    It is passed to the adapter, and to authorization hooks, in the place of requests' ``timeout``. One
    exchange may use several connections, one after the other: after a redirect, or when a hook repeats
    the request.

    Args:
        deadline: When it has to end.
        connect: Seconds until a connection has to stand, ``None`` for no bound but the deadline.
        call: The call that it is made for, if there is one.

    Attributes:
        sent: Whether a byte of the current request may have left.
        session: Whether it goes through a session of the user, which tells nothing of what was sent.
        resumes: Whether the call's request has been sent before, and the rest of its answer is asked for.
        aborted: Whether `abort` was called.
        proxy: The proxy that it goes through, without credentials; empty for none.
        handled: The identity of the exception that the calling thread is handling, which becomes the context
            of each that is raised here, and is the cause of none. (To hold it could make a circle.)
    """

    __slots__ = (
        *("_cut", "_sockets", "aborted", "call", "connect"),
        *("deadline", "handled", "proxy", "resumes", "sent", "session"),
    )

    def __init__(
        self, deadline: Deadline, connect: Optional[float] = None, call: Optional[PendingCall] = None
    ) -> None:
        self.deadline = deadline
        self.connect = connect
        self.call = call
        self.sent = False
        self.session = False
        self.resumes = False
        self.aborted = False
        self.proxy = ""
        self.handled = id(sys.exc_info()[1])
        # The sockets in use. Whoever takes one out decides: its owner, who gives it back to the pool, or
        # `abort`, which shuts it down. Single operations of a list are atomic, so that a connection which
        # was given back is never hit by a late abort.
        self._sockets: list[Any] = []
        # Those that `abort` has taken out.
        self._cut: Optional[list[Any]] = None

    @classmethod
    def of(cls, timeout: Any) -> Exchange:
        """Make an exchange of what requests takes as ``timeout``, or return the one that it is."""
        if isinstance(timeout, Exchange):
            return timeout
        if isinstance(timeout, Deadline):
            return cls(timeout)
        if isinstance(timeout, tuple):
            connect, read = timeout
            return cls(Deadline(None, silence=read), connect)
        return cls(Deadline(timeout))

    def publish(self, sock: Any) -> None:
        """Name a socket that `abort` has to shut down.

        Raises:
            Aborted: It is too late.
        """
        self._sockets.append(sock)
        if self.aborted:
            self.withdraw(sock)
            raise Aborted("the exchange was ended")

    def withdraw(self, sock: Any) -> bool:
        """Take a socket back; return ``False`` if it was shut down meanwhile, or was not there."""
        try:
            self._sockets.remove(sock)
        except ValueError:
            return False
        return True

    @property
    def call_sent(self) -> bool:
        """Whether a byte of the call's request, or else of the current one, may have left."""
        return self.sent if self.call is None else self.call.request_sent

    def admitted(self, host: str, port: int, addresses: list[Any]) -> list[Any]:
        """Return those of the addresses of a host, as ``getaddrinfo`` gives them, that may be connected to.

        Raises:
            OSError: None may be.
        """
        return addresses

    def mark_sent(self) -> None:
        """Note that a byte of the request may leave from now on."""
        self.sent = True
        if self.call is not None:
            self.call.request_sent = True

    def unmark_sent(self) -> None:
        """Note that no byte of the request has left after all."""
        self.sent = False
        if self.call is not None and not self.resumes:
            self.call.request_sent = False

    def check(self, deadline: Deadline) -> None:
        """Look whether it may go on, where much is done without a wait for the socket.

        Raises:
            Aborted: Another thread has ended it.
            socket.timeout: The deadline has passed.
        """
        if self.aborted:
            raise Aborted("the exchange was ended")
        if deadline.expired:
            raise socket.timeout("the deadline has passed")

    def abort(self) -> None:
        """End the exchange: wake the thread that sends or reads. From any thread; does not block."""
        self.aborted = True
        if self._cut is None:
            self._cut = []
        try:
            # In one step: what a signal handler keeps this from shutting down, the next time finds there.
            self._cut.extend(iter(self._sockets.pop, None))
        except IndexError:
            pass
        for sock in self._cut:
            shut_down(sock)

    def drop(self) -> None:
        """In a forked child: close the inherited sockets without a byte to the peer."""
        self.aborted = True
        for sock in self._taken():
            sock.close()

    def _taken(self) -> Iterator[Any]:
        while True:
            try:
                yield self._sockets.pop()
            except IndexError:
                return


def shut_down(sock: Any) -> None:
    """Shut a socket down below TLS, which wakes whoever waits for it. Neither blocks nor raises."""
    while hasattr(sock, "socket"):  # TLS within TLS, or pyOpenSSL
        sock = sock.socket
    try:
        # The method of SSLSocket would take the TLS state from the thread that reads.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
    except (OSError, TypeError, AttributeError):
        pass
