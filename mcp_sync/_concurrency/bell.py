"""Waiting for whatever changes, without holding a lock meanwhile."""

from __future__ import annotations

from typing import Callable

from .deadline import Deadline
from .locks import Latch


class Bell:
    """Wakes all who wait when something has changed that they may be waiting for.

    Unlike `threading.Condition` it has no lock that a signal handler could leave taken, and whoever rings
    need not know what anybody waits for.
    """

    def __init__(self) -> None:
        # Those who wait. Single operations only, so it needs no lock.
        self._latches: set[Latch] = set()

    def ring(self) -> None:
        """Wake all who wait. Call it after the change. From any thread; does not block."""
        for latch in list(self._latches):
            latch.open()

    def wait(self, ready: Callable[[], bool], deadline: Deadline) -> bool:
        """Wait until ``ready()`` holds, so that Ctrl-C gets through; return whether it does."""
        while True:
            latch = Latch()
            try:
                # In this order, as whoever rings does the reverse: so one of the two sees the other.
                self._latches.add(latch)
                if ready():
                    return True
                if not latch.wait(deadline):
                    return ready()
            finally:
                self._latches.discard(latch)
