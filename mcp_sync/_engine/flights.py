"""One request for many who want the same answer at the same time."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Optional

from .._concurrency.cancel import CancelToken
from .._concurrency.deadline import Deadline
from .._concurrency.pending import PendingCall
from .cache_entry import Entry


class Flight:
    """A request that is under way for whoever wants its answer.

    Attributes:
        thread: Which thread makes it.
        entry: The answer, if it can be shared.
        shareable: Whether another request may have an answer that can be.
        unreachable: Whether it failed because the server could not be reached.
        overtaken: Whether somebody has asked for something newer meanwhile.
    """

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.entry: Optional[Entry] = None
        self.shareable = True
        self.unreachable = False
        self.overtaken = False
        self._turns: list[PendingCall] = []
        self._over = False

    def end(self) -> None:
        """Wake all who wait."""
        self._over = True
        for turn in list(self._turns):
            turn.settle({})

    def wait(self, turn: PendingCall, cancel: Optional[CancelToken]) -> bool:
        """Wait until it is over; return whether that was in time.

        Raises:
            CallCancelled: ``cancel`` was cancelled.
        """
        try:
            self._turns.append(turn)
            # In this order, as `end` does the reverse: so one of the two sees the other.
            if self._over:
                turn.settle({})
            if cancel is not None:
                cancel.watch(turn)
            if not turn.wait():
                return False
            turn.result()
            return True
        finally:
            turn.forget_outcome()


class Flights:
    """The requests that are under way, by what is asked. Single operations only, so it needs no lock."""

    def __init__(self) -> None:
        self._all: dict[Hashable, Flight] = {}

    def join(self, key: Hashable, own: Flight) -> Flight:
        """Return the flight that is under way; ``own``, if that is the first now."""
        return self._all.setdefault(key, own)

    def overtake(self, key: Hashable) -> None:
        """Have the answer that is under way not count for those who ask from now on."""
        flight = self._all.pop(key, None)
        if flight is not None:
            flight.overtaken = True

    def land(self, key: Hashable, own: Flight) -> None:
        """End a flight that was given to `join`, whether it was the first or not."""
        if self._all.get(key) is own:
            # Overtaken just now, it may be another one that goes: that costs one more request at most.
            self._all.pop(key, None)
        own.end()


def turn_of(method: str, deadline: Deadline) -> PendingCall:
    """Return what a caller waits with."""
    return PendingCall(0, method, deadline)
