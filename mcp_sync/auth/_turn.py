"""The turns in which the threads of a process get a grant: one at a time, and the others take what it got."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Optional, TypeVar

from .._concurrency import fork
from .._concurrency.locks import take
from ..errors import AuthError, another
from ._current import Current
from ._errand import Errand
from ._work import Task, Work

T = TypeVar("T")

_LOOK_SECONDS = 0.05  # between two looks at whether somebody still waits for a turn
_TURN_SECONDS = 900.0  # how long others are waited for, a login of theirs included


class Turn:
    """The turn to get a grant for one MCP server. Safe for any number of threads."""

    def __init__(self) -> None:
        self._renew()
        fork.watch(self)

    def _renew(self) -> None:
        # Held by the thread that gets a grant; all others wait, within their time. The exception to the rule
        # that nothing waits under a lock.
        self._lock = threading.Lock()
        # Those that wait for it, or have it. Single operations only, so it needs no lock.
        self._takers: list[Taker] = []
        # What was begun in a turn, and may go on after it. Set by whoever has the turn.
        self._work: Optional[Work[Any]] = None

    def after_fork_in_child(self) -> None:
        """Replace what a thread of the parent may have locked."""
        self._renew()

    @property
    def takers(self) -> int:
        """How many threads wait for it, or have it."""
        return len(self._takers)

    @contextmanager
    def taken(self, errand: Errand, doing: str, asking: Optional[frozenset[str]] = None) -> Iterator[Taker]:
        """Wait for the turn, and have it.

        Args:
            errand: What it is for.
            doing: What is to be done in it, in words.
            asking: The scopes that a login is to ask for, ``None`` where that is not settled.

        Raises:
            CallTimeout, ConnectionLost: See `Errand.check`.
        """
        lock, takers, deadline = self._lock, self._takers, errand.within(_TURN_SECONDS)
        taker = Taker(asking)
        got: list[bool] = []
        try:
            takers.append(taker)
            while not take(lock, _LOOK_SECONDS, got):
                got.clear()
                errand.check(deadline, doing)
            yield taker
        finally:
            if taker in takers:
                takers.remove(taker)
            if got and got[0]:
                lock.release()

    @property
    def is_working(self) -> bool:
        """Whether something that was begun in a turn goes on."""
        return self._work is not None and not self._work.is_over

    def work(self, errand: Errand, doing: str, task: Task[T]) -> T:
        """Have something done to its end, whether or not the caller waits for it. Takes the turn.

        Args:
            errand: What it is for.
            doing: What it is, in words.
            task: What is to be done.

        Raises:
            CallTimeout, ConnectionLost: See `Errand.check`; the work goes on.
            Exception: What the task raises.
        """
        work: Work[T] = Work(doing, task, errand.options)
        self._work = work
        try:
            return work.done(errand, begin=True)
        finally:
            self._drop(work)

    def join(self, errand: Errand, doing: str) -> None:
        """Wait for what goes on since an earlier turn. Takes the turn.

        Args:
            errand: What it is for.
            doing: What the caller wants to do.

        Raises:
            CallTimeout, ConnectionLost: See `Errand.check`.
            Exception: The same was to be done, and has failed while the caller waited. What failed before is
                no answer to a caller who came later.
        """
        work = self._work
        if work is None:
            return
        if work.is_over:
            self._drop(work)
            return
        try:
            work.done(errand)
        except Exception:
            if not work.is_over or (work.doing == doing and not work.is_given_up):
                raise
        finally:
            self._drop(work)

    def _drop(self, work: Work[Any]) -> None:
        if work.is_over and self._work is work:
            self._work = None

    def tell(self, asker: Taker, current: Optional[Current], error: Optional[AuthError]) -> None:
        """Have those that wait with the same question take the answer that the asker has got."""
        for taker in list(self._takers):
            # The asker has it. Its frames know it, and the error knows its frames: that would be a circle.
            if taker is not asker and taker.asking == asker.asking:
                taker.current, taker.error = current, error


class Taker:
    """A thread that waits for its turn.

    Attributes:
        asking: The scopes that it would ask for.
        current: The grant that a login of another thread has brought meanwhile.
        error: Why it has brought none.
    """

    __slots__ = ("asking", "current", "error")

    def __init__(self, asking: Optional[frozenset[str]]) -> None:
        self.asking = asking
        self.current: Optional[Current] = None
        self.error: Optional[AuthError] = None

    def answer(self) -> Optional[Current]:
        """Return what the login of another thread has brought, ``None`` if there was none.

        Raises:
            AuthError: It has brought an error: nobody is asked twice at once.
        """
        if self.error is not None:
            raise another(self.error)
        return self.current
