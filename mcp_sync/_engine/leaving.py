"""The sessions of views that were forgotten: to end one takes a request, and somebody who waits for it."""

from __future__ import annotations

from .._concurrency.deadline import Deadline
from .._concurrency.workers import Workers
from .connection import Connection

# So many may wait until they are ended, each for no longer than these seconds.
_MOST, _SECONDS = 1000, 2.0
# What a request takes to end that was cut off, in seconds.
_CUT = 0.25


class Leaving:
    """Ends sessions one after the other, on a thread that is there only as long. Safe from any thread.

    Args:
        name: The client's name.
    """

    def __init__(self, name: str) -> None:
        self._workers = Workers(name, "leaving", 1, _MOST)
        # Whose sessions are still to be ended, or are being. Single operations only: no lock.
        self._left: set[Connection] = set()
        self._closed = False

    def add(self, connection: Connection) -> bool:
        """Have the session of a connection ended, and the connection closed; return whether it will be."""
        self._left.add(connection)
        if self._workers.submit(self._end, connection):
            return True
        self._left.discard(connection)
        return False

    def _end(self, connection: Connection) -> None:
        # In this order, as `close` does the reverse: so one of the two sees the other.
        if not self._closed:
            connection.channel.close(Deadline(_SECONDS))
        connection.channel.discard()
        self._left.discard(connection)

    def close(self, deadline: Deadline) -> None:
        """End sessions for half of the time that is left, then cut off the request, and leave the others.

        The client's own session needs time, too.
        """
        left = deadline.remaining()
        if self._workers.alive and not self._workers.is_worker():
            self._workers.drain(deadline if left is None else Deadline(left / 2), None)
        self._closed = True
        for connection in list(self._left):
            connection.channel.discard()
        self._workers.close(Deadline(_CUT))
        self._left.clear()

    def after_fork_in_child(self) -> None:
        """Forget the parent's thread, and drop the connections that it had to close."""
        self._workers.after_fork_in_child()
        left, self._left = self._left, set()
        for connection in left:
            connection.channel.abandon()
