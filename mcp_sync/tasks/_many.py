"""Waits for many tasks on one thread."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Optional

from .._arguments import check_instance
from .._concurrency.deadline import Deadline
from ..errors import (
    CallCancelled,
    CallTimeout,
    ClientClosed,
    InputRequired,
    MCPError,
    TaskGone,
    UsageError,
    another,
)
from ..errors._printable import printable
from ..options import check_seconds
from ._following import task_of
from ._handle import TaskHandle
from ._pace import LEAST

if TYPE_CHECKING:
    from .._concurrency.cancel import CancelToken
    from ._following import Following

# How many tasks are named at most that had not ended in time.
_SHOWN = 10


def as_completed(
    handles: Iterable[TaskHandle],
    *,
    timeout: Optional[float] = None,
    cancel: Optional[CancelToken] = None,
) -> Iterator[TaskHandle]:
    """Iterate over tasks as they end: one thread, the caller's, looks at them all in turn.

    Ask each handle for its ``result()``. One that cannot be waited for any longer comes as well, and the
    others go on: the server does not know it (any more), says what makes no sense, or is away for too long,
    or a callback failed. The next ``result()`` raises why, the one after that asks the server again. So does
    a task come that asks something which the callbacks do not answer (``on_input="raise"``): its ``requests``
    say what. The handles may belong to several clients.

    Args:
        handles: The tasks.
        timeout: Seconds for all together; default: no bound but ``Timeouts.silence`` for each look.
        cancel: A `CancelToken` that ends the waiting.

    Raises:
        CallTimeout: Some had not ended by then: it says how many, and which. They go on.
        CallCancelled: By ``cancel``. They go on.
        UsageError: These are no handles.
    """
    if isinstance(handles, (str, bytes, Mapping)) or not isinstance(handles, Iterable):
        raise UsageError(f"as_completed takes a list of handles, not {type(handles).__name__}")
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
    """Wait until all tasks have ended, or cannot be waited for: ``result()`` tells. See `as_completed`."""
    for _ in as_completed(handles, timeout=timeout, cancel=cancel):
        pass


# When to look, a number to sort by, and what to look at, once it was looked at.
_Waiting = tuple[float, int, TaskHandle, Optional["Following"]]


class _Queue:
    """The tasks that have not ended, by when they are to be looked at next."""

    def __init__(self, handles: list[TaskHandle], deadline: Deadline, cancel: Optional[CancelToken]) -> None:
        self._deadline = deadline
        self._cancel = cancel
        # A heap.
        self._waiting: list[_Waiting] = [(0.0, number, handle, None) for number, handle in enumerate(handles)]
        self._count = len(handles)
        # Ids of tasks that the servers told of. Single operations only, so it needs no lock.
        self._told: set[str] = set()
        self._sleeper: Optional[Following] = None

    def ended(self) -> Iterator[TaskHandle]:
        routers = {handle._session._engine.router for _, _, handle, _ in self._waiting}
        for router in routers:
            router.watch(self._notice)
        try:
            while self._waiting:
                yield self._next()
        except CallTimeout as error:
            bound, failing = error.timeout, self._failing()
            text = f"{self._those_left()}, within {bound or 0:g} s"
            if failing is not None:
                text += f"; of {printable(failing.task_id)}{failing.words[1:]}"
            fault = failing.fault if failing is not None else None
            raise CallTimeout(text, timeout=bound, request_sent=True) from fault
        except CallCancelled as error:
            text = f"{error}; {self._those_left()}"
            raise CallCancelled(text, reason=error.reason, request_sent=True) from None
        finally:
            for router in routers:
                router.unwatch(self._notice)

    def _next(self) -> TaskHandle:
        """Wait for one that has ended, and take it out."""
        while True:
            self._sleep()
            _, number, handle, following = self._waiting[0]
            started = time.monotonic()
            again = self._step(number, handle, following)
            heapq.heappop(self._waiting)
            if time.monotonic() - started > LEAST:
                self._put_behind(handle)
            if again is None:
                return handle
            heapq.heappush(self._waiting, again)

    def _put_behind(self, slow: TaskHandle) -> None:
        """Let tasks of other clients go first that are due already: a slow server delays its own alone."""
        now = time.monotonic()
        self._waiting = [
            (max(due, now) if handle._session is slow._session else due, number, handle, following)
            for due, number, handle, following in self._waiting
        ]
        heapq.heapify(self._waiting)

    def _those_left(self) -> str:
        ids = [printable(handle.id) for _, _, handle, _ in sorted(self._waiting, key=lambda entry: entry[1])]
        shown = ", ".join(ids[:_SHOWN]) + (", ..." if len(ids) > _SHOWN else "")
        return f"{len(ids)} of {self._count} tasks have not ended ({shown})"

    def _failing(self) -> Optional[Following]:
        """Return one whose last look failed."""
        entries = sorted(self._waiting, key=lambda entry: entry[1])
        return next((each for *_, each in entries if each is not None and each.fault is not None), None)

    def _sleep(self) -> None:
        """Wait until the first one is due, or a server has told of a change."""
        self._deadline.touch()  # What the caller did meanwhile was no silence of a server.
        due, _, _, following = self._waiting[0]
        left = due - time.monotonic()
        while left > 0 and following is not None:
            self._sleeper = following
            try:
                if not self._told:
                    following.interim.pause(left)
            except ClientClosed:
                if self._is_over():
                    raise
                return  # The look at this one shows it; others may be tasks of other clients.
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

    def _step(self, number: int, handle: TaskHandle, following: Optional[Following]) -> Optional[_Waiting]:
        """Look at one, and answer what it asks; return when to look again, ``None`` if it has ended."""
        if handle._known.final is not None:
            return None
        following = following or handle._follow(cancel=self._cancel, deadline=self._deadline)
        following.shares_thread = len(self._waiting) > 1
        try:
            with following.naming():
                state = following.try_look()
                if state is not None and not state.has_ended:
                    following.answer(state)
        except (TaskGone, InputRequired):
            return None
        except Exception as error:
            if self._is_over():
                raise
            # Without its frames, which know the handle.
            handle._failure = another(error) if isinstance(error, MCPError) else error
            return None
        if state is not None and state.has_ended:
            return None
        return time.monotonic() + following.interval(), number, handle, following

    def _is_over(self) -> bool:
        """Whether the waiting for all has ended, and not only that for one."""
        is_late = self._deadline.expired and not self._deadline.was_silent
        return is_late or (self._cancel is not None and self._cancel.cancelled)

    def _notice(self, message: dict[str, Any]) -> None:
        task_id = task_of(message)
        if isinstance(task_id, str):
            self._told.add(task_id)
            sleeper = self._sleeper
            if sleeper is not None:
                sleeper.interim.wake()
