"""Waits for many tasks on one thread."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Optional

from .._arguments import check_instance
from .._concurrency.deadline import Deadline
from ..errors import InputRequired, TaskGone
from ..options import check_seconds
from ._following import task_of
from ._handle import TaskHandle
from ._pace import LEAST
from ._state import TaskState

if TYPE_CHECKING:
    from .._concurrency.cancel import CancelToken
    from ._following import Following


def as_completed(
    handles: Iterable[TaskHandle],
    *,
    timeout: Optional[float] = None,
    cancel: Optional[CancelToken] = None,
) -> Iterator[TaskHandle]:
    """Iterate over tasks as they end: one thread, the caller's, looks at them all in turn.

    A task that the server does not know (any more) counts as ended; so does one that asks something which the
    callbacks do not answer (``on_input="raise"``): its ``requests`` say what. Ask each handle for its
    ``result()``. The handles may belong to several clients.

    Args:
        handles: The tasks.
        timeout: Seconds for all together; default: no bound but ``Timeouts.silence`` for each look.
        cancel: A `CancelToken` that ends the waiting.

    Raises:
        CallTimeout: Some had not ended by then. They go on.
        CallCancelled: By ``cancel``. They go on.
        MCPError: As ``status`` of a handle.
    """
    each = list(handles)
    for handle in each:
        check_instance("a handle", handle, TaskHandle)
    # Checked at the call, not at the first step of the iterator.
    check_seconds("timeout", timeout)
    silences = [
        bound for bound in (handle._session._timeouts.silence for handle in each) if bound is not None
    ]
    return _Queue(each, Deadline(timeout, min(silences, default=None)), cancel).ended()


def wait_all(
    handles: Iterable[TaskHandle],
    *,
    timeout: Optional[float] = None,
    cancel: Optional[CancelToken] = None,
) -> None:
    """Wait until all tasks have ended. See `as_completed`."""
    for _ in as_completed(handles, timeout=timeout, cancel=cancel):
        pass


class _Queue:
    """The tasks that have not ended, by when they are to be looked at next."""

    def __init__(self, handles: list[TaskHandle], deadline: Deadline, cancel: Optional[CancelToken]) -> None:
        self._deadline = deadline
        self._cancel = cancel
        self._numbers = itertools.count()
        self._waiting: list[tuple[float, int, TaskHandle, Optional[Following]]] = []
        for handle in handles:
            self._put(0.0, handle, None)
        # Ids of tasks that the servers told of. Single operations only, so it needs no lock.
        self._told: set[str] = set()
        self._sleeper: Optional[Following] = None

    def _put(self, due: float, handle: TaskHandle, following: Optional[Following]) -> None:
        heapq.heappush(self._waiting, (due, next(self._numbers), handle, following))

    def ended(self) -> Iterator[TaskHandle]:
        routers = {handle._session._engine.router for _, _, handle, _ in self._waiting}
        for router in routers:
            router.watch(self._notice)
        try:
            while self._waiting:
                self._sleep()
                _, _, handle, following = heapq.heappop(self._waiting)
                if self._step(handle, following):
                    yield handle
        finally:
            for router in routers:
                router.unwatch(self._notice)

    def _sleep(self) -> None:
        """Wait until the first one is due, or a server has told of a change."""
        self._deadline.touch()  # What the caller did meanwhile was no silence of a server.
        due, _, _, following = self._waiting[0]
        left = due - time.monotonic()
        while left > 0 and following is not None:
            self._sleeper = following
            try:
                if not self._told:
                    following.way.pause(left)
            finally:
                self._sleeper = None
            self._hurry()
            due, _, _, following = self._waiting[0]
            left = due - time.monotonic()

    def _hurry(self) -> None:
        """Look soon at those of which a server has told."""
        told, self._told = self._told, set()
        if told:
            soon = time.monotonic() + LEAST
            self._waiting = [
                (min(due, soon) if handle.id in told else due, number, handle, following)
                for due, number, handle, following in self._waiting
            ]
            heapq.heapify(self._waiting)

    def _step(self, handle: TaskHandle, following: Optional[Following]) -> bool:
        """Look at one, and answer what it asks; return whether that was its end."""
        if handle._final() is not None:
            return True
        following = following or handle._follow(cancel=self._cancel, deadline=self._deadline)
        try:
            state = self._look(following)
            if not state.has_ended:
                following.answer(state)
        except (TaskGone, InputRequired):
            return True
        finally:
            handle._keep(following)
        if state.has_ended:
            return True
        self._put(time.monotonic() + following.interval(state), handle, following)
        return False

    @staticmethod
    def _look(following: Following) -> TaskState:
        last = following.last
        return following.look() if last is None else following.look_again(last)

    def _notice(self, message: dict[str, Any]) -> None:
        task_id = task_of(message)
        if isinstance(task_id, str):
            self._told.add(task_id)
            sleeper = self._sleeper
            if sleeper is not None:
                sleeper.way.wake()
