"""Work that is done to its end, whoever still waits for it.

When an authorization server has answered, the refresh token or the code that it was shown is used up, and the
answer is all that there is. Were it thrown away because one call has no time left, everybody would have lost
the grant. So such work runs on a thread of its own, and only the wait for it ends early.

At an orderly end of the interpreter, or of a worker of `multiprocessing`, what is under way gets five seconds
more: see `_under_way`. What kills a process takes the answer with it, and so does ``os._exit``. A forked
child has no part in it: the parent keeps what comes.
"""

from __future__ import annotations

import contextvars
from collections.abc import Mapping
from typing import Any, Callable, Generic, Optional, TypeVar

from .._concurrency.deadline import Deadline
from .._concurrency.locks import Latch
from .._concurrency.threads import spawn
from ..errors import ConnectionLost, another
from ._errand import Errand
from ._under_way import under_way

T = TypeVar("T")
Task = Callable[[Errand], T]

_LOOK_SECONDS = 0.05  # between two looks at whether whoever waits still has time
_OWNER, _ROLE = "auth", "work"


class Work(Generic[T]):
    """Something that runs on a thread of its own. It is given up only before `Errand.see_through`.

    Args:
        doing: What it is, in words.
        task: What is to be done; called with an errand of its own.
        options: As in `Errand`.

    Attributes:
        doing: The same.
        is_over: Whether it has ended.
        is_given_up: Whether it ended because nobody waited for it any more.
    """

    def __init__(self, doing: str, task: Task[T], options: Optional[Mapping[str, Any]] = None) -> None:
        self.doing = doing
        self.is_given_up = False
        self.is_seen_through = False
        self._task: Optional[Task[T]] = task
        self._options = options
        self._over = Latch()
        # Those that wait. Single operations only, so it needs no lock.
        self._waiting: list[object] = []
        self._result: Optional[T] = None
        self._error: Optional[BaseException] = None

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._over.is_open

    @property
    def has_waiters(self) -> bool:
        """Whether anybody waits for it."""
        return bool(self._waiting)

    def done(self, errand: Errand, *, begin: bool = False) -> T:
        """Wait until it is done, and return what has come of it.

        Args:
            errand: What it is waited for.
            begin: Begin it, too.

        Raises:
            CallTimeout, ConnectionLost: The errand is over. The work goes on.
            Exception: What the work has raised, anew for each that waits.
        """
        mark = object()
        self._waiting.append(mark)
        try:
            if begin:
                self._begin()
            while not self._over.wait(Deadline(_LOOK_SECONDS)):
                errand.check(errand.deadline, self.doing)
        finally:
            self._waiting.remove(mark)
        if self._error is not None:
            raise another(self._error)
        return self._result  # type: ignore[return-value]

    def _begin(self) -> None:
        context = contextvars.copy_context()
        under_way.begins(self._over)
        try:
            spawn(_OWNER, _ROLE, context.run, self._run)
        except RuntimeError:
            # There are no more threads to be had: the interpreter ends, say. So nobody may leave early.
            self._run()

    def _run(self) -> None:
        errand = _Own(self, self._options)
        task, self._task = self._task, None
        assert task is not None
        try:
            with errand.here():
                self._result = task(errand)
        except BaseException as error:
            # Its frames would keep alive whatever they hold, and it with them.
            self._error = error.with_traceback(None)
        finally:
            del task
            self._over.open()
            under_way.ends(self._over)


class _Own(Errand):
    """The errand of work: it has all the time that its steps take, as long as anybody waits for it."""

    def __init__(self, work: Work[Any], options: Optional[Mapping[str, Any]]) -> None:
        super().__init__(None, options)
        self._work = work

    def check(self, deadline: Deadline, doing: str) -> None:
        """See `Errand.check`."""
        work = self._work
        if not work.is_seen_through and not work.has_waiters:
            work.is_given_up = True
            raise ConnectionLost(f"{doing}: nobody waits for it any more", request_sent=False)
        super().check(deadline, doing)

    def see_through(self) -> None:
        """See `Errand.see_through`."""
        self._work.is_seen_through = True
