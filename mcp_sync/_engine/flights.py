"""One request for many who want the same answer at the same time."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Optional

from .._concurrency.cancel import CancelToken
from .._concurrency.pending import PendingCall
from .cache_entry import Entry
from .waits import settled_in_time

# More requests than this are not remembered.
_MOST = 1000


class Flight:
    """A request that is under way for whoever wants its answer.

    Attributes:
        thread: Which thread makes it.
        entry: The answer, if it can be shared.
        unreachable: Whether the server could not be reached, and what is out of date has to do.
        failed: Whether the server failed, and not this one call of it: whoever waits asks for itself then.
        overtaken: Whether somebody has asked for something newer meanwhile.
        key: Where `Flights` has it.
    """

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.entry: Optional[Entry] = None
        self.unreachable = False
        self.failed = False
        self.overtaken = False
        self.key: Hashable = None
        self._waiters: list[PendingCall] = []
        self._over = False

    def end(self) -> None:
        """Wake all who wait."""
        self._over = True
        for waiter in list(self._waiters):
            waiter.settle({})

    def wait(self, waiter: PendingCall, cancel: Optional[CancelToken]) -> bool:
        """Wait until it is over; return whether that was in time.

        Raises:
            CallCancelled: ``cancel`` was cancelled.
        """
        self._waiters.append(waiter)
        # In this order, as `end` does the reverse: so one of the two sees the other.
        if self._over:
            waiter.settle({})
        return settled_in_time(waiter, cancel)


class Flights:
    """The requests of a client, and of its views, that are under way. Safe for any number of threads.

    Attributes:
        generation: Another object after each change that was heard of: who asks after it does not share the
            answer to a request that was sent before.
    """

    def __init__(self) -> None:
        # Single operations only, so it needs no lock.
        self._all: dict[Hashable, Flight] = {}
        self.generation = object()
        # Requests whose last answer could not be kept: nobody waits for the answer of another to them.
        self._alone: set[str] = set()

    def join(self, key: str, own: Flight) -> Flight:
        """Return the flight that is under way; ``own``, if that is the first now."""
        own.key = (key, self.generation)
        return self._all.setdefault(own.key, own)

    def overtake(self, key: str) -> None:
        """Have the answer that is under way not count for those who ask from now on."""
        flight = self._all.pop((key, self.generation), None)
        if flight is not None:
            flight.overtaken = True

    def land(self, own: Flight) -> None:
        """End a flight that was given to `join`, whether it was the first or not."""
        if self._all.get(own.key) is own:
            # Overtaken just now, it may be another one that goes: that costs one more request at most.
            self._all.pop(own.key, None)
        own.end()

    def after_fork_in_child(self) -> None:
        """Forget what the threads of the parent were about to fetch."""
        self._all = {}

    def is_shared(self, key: str) -> bool:
        """Whether it is likely that an answer can be shared."""
        return key not in self._alone

    def note(self, key: str, shareable: bool) -> None:
        """Remember whether an answer could be shared."""
        if shareable:
            self._alone.discard(key)
        elif len(self._alone) < _MOST:
            self._alone.add(key)
        else:
            self._alone = {key}
