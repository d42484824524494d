"""Calls that run while the caller does something else: what ``client.submit`` and ``stream_tool`` return.

>>> calls = [client.submit(client.call_tool, "add", {"a": n, "b": 1}, timeout=5) for n in range(10)]
>>> for call in concurrent.futures.as_completed(calls):
...     print(call.result().text)
"""

from __future__ import annotations

import contextvars
import math
import os
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from concurrent import futures
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar, cast

from ._concurrency.cancel import CancelToken
from ._concurrency.deadline import Deadline
from ._concurrency.expiry import Expiry
from ._concurrency.workers import Workers
from .errors import CallTimeout, ClientClosed, ConnectFailed, Forked, UsageError

if TYPE_CHECKING:
    from ._future_verbs import FutureVerbs

T = TypeVar("T")
# What a call waits for a thread is taken off its time from here on, in seconds.
_NOTICEABLE = 0.01
# How the standard library names the states of a future; it offers no way to cancel one that runs.
_PENDING, _RUNNING, _CANCELLED = "PENDING", "RUNNING", "CANCELLED"


class CallFuture(futures.Future[T]):
    """A call that runs on a thread of the client. Made by ``client.submit``.

    A `concurrent.futures.Future` in every way, for ``as_completed``, ``wait`` and ``asyncio.wrap_future``
    too, except that `cancel` also ends a call that runs already.
    """

    def __init__(self, token: CancelToken) -> None:
        super().__init__()
        self._token = token
        self._submitted = time.monotonic()
        # The bound on the whole call, in seconds, if there is one.
        self._timeout: Optional[float] = None

    def cancel(self, reason: Optional[str] = None) -> bool:
        """Cancel the call at once, whether it waits or runs; the server is told.

        `result` raises ``concurrent.futures.CancelledError`` from then on. A tool that was running may have
        done its work all the same. Does not block.

        Args:
            reason: For the server.

        Returns:
            Whether it is cancelled: ``False`` if it had ended before.

        Raises:
            UsageError: The reason is no string.
        """
        if reason is not None and not isinstance(reason, str):
            raise UsageError(f"the reason must be a str, not {type(reason).__name__}")
        with self._condition:
            is_open = self._state in (_PENDING, _RUNNING)
            if is_open:
                self._state = _CANCELLED
                self.set_running_or_notify_cancel()  # Tells those who wait for it among others.
                self._condition.notify_all()
        if not self.cancelled():
            return False
        # Also the second time: a signal handler may have interrupted the first.
        self._token.cancel(reason)
        if is_open:
            self._invoke_callbacks()  # type: ignore[attr-defined]
        return True

    def _begin(self) -> bool:
        """Note that the call runs now; return whether it still should."""
        with self._condition:
            return self._state == _PENDING and self.set_running_or_notify_cancel()

    def _end(self, result: Any, error: Optional[BaseException]) -> None:
        """Settle it. Only the first end counts."""
        with suppress(futures.InvalidStateError):
            if error is None:
                self.set_result(result)
            else:
                self.set_exception(error)

    def _after_fork_in_child(self) -> None:
        """Fail it in a forked child, where nobody runs it. What its callbacks have to do, the parent does."""
        self._condition = threading.Condition()
        self._done_callbacks: list[Any] = []
        for waiter in self._waiters:
            # Threads that do not exist here may have held their locks.
            waiter.event = threading.Event()
            if hasattr(waiter, "lock"):
                waiter.lock = threading.Lock()
        self._end(None, Forked("the call was made in another process"))


class Jobs:
    """The submitted calls of one client, and the threads that run them: started when needed, gone when idle.

    Only the calls themselves refer to the client, and only until they have ended.

    Args:
        name: The client's name.
        threads: How many calls run at a time.
        callbacks: Whose threads run callbacks, for which these calls may have to wait.

    Attributes:
        threads: See `Companion`.
    """

    def __init__(self, name: str, threads: int, callbacks: tuple[Workers, ...] = ()) -> None:
        self._workers = Workers(name, "submit", threads, sys.maxsize)
        self._those_who_may_wait = (self._workers, *callbacks)
        self._clock = Expiry(name, _expire)
        self.threads: list[threading.Thread] = []
        self._closed = False
        # Those that wait or run, and those that are about to end. Single operations only: no lock.
        self._open: set[CallFuture[Any]] = set()
        self._ending: set[CallFuture[Any]] = set()

    def add(
        self, call: Callable[..., T], token: CancelToken, timeout: Optional[float] = None
    ) -> CallFuture[T]:
        """Run a call as soon as there is a thread for it, in a copy of the caller's context.

        One that comes from one of these threads, or from a callback, has not to wait until another call is
        done, which might wait for it.

        Args:
            call: The call. It is given ``timeout``, where it has waited for a thread: what is left of that.
            token: What cancels it.
            timeout: The bound on the whole call, in seconds, ``None`` for none.

        Raises:
            ClientClosed: It is too late.
            ConnectFailed: No thread could be started.
        """
        future: CallFuture[T] = CallFuture(token)
        future._timeout = timeout
        self._open.add(future)
        future.add_done_callback(self._open.discard)
        entry = [(future, contextvars.copy_context(), call)]
        ahead = any(workers.is_worker() for workers in self._those_who_may_wait)
        if not self._workers.submit(self._run, entry, ahead=ahead):
            self._open.discard(future)
            if not self._closed:
                raise ConnectFailed("no thread could be started for the call")
        if self._closed:
            # In this order, as `stop` does the reverse: so one of the two sees the other.
            raise ClientClosed("the client is closed")
        if timeout is not None and self._workers.is_full:
            self._clock.add(future, timeout)
            if future.running() or future.done():  # In this order, as `_run` does the reverse.
                self._clock.discard(future)
        return future

    def _run(self, entry: list[tuple[CallFuture[Any], contextvars.Context, Callable[..., Any]]]) -> None:
        future, context, call = entry.pop()
        is_wanted = future._begin()
        self._clock.discard(future)
        if not is_wanted:
            return
        result, fault = None, None
        waited = time.monotonic() - future._submitted
        if future._timeout is not None and waited > _NOTICEABLE:
            call = partial(call, timeout=max(future._timeout - waited, 0.0))
        try:
            result = context.run(_outcome, call, future._token)
        except BaseException as error:  # Whatever it is, it is raised where somebody asks for the result.
            fault = _without_references(error)
            if isinstance(fault, CallTimeout) and future._timeout is not None and waited > _NOTICEABLE:
                fault.args = (f"{fault}, after {waited:.1f} s in which it waited for a thread",)
                fault.timeout = future._timeout
        # Before anybody learns of the end: then nothing keeps the client alive any more. Perhaps nothing does
        # by now, and then its own end must not be what becomes of this call.
        self._ending.add(future)
        self._open.discard(future)
        del call, context
        future._end(result, fault)
        self._ending.discard(future)
        # An error that is kept knows this frame.
        del future, result, fault

    def stop(self) -> None:
        """Fail all calls. See `Companion.stop`."""
        self._closed = True
        self.threads = self._workers.alive + self._clock.threads
        self._workers.close(Deadline(0.0))
        self._clock.clear()
        for future in list(self._open):
            future._end(None, ClientClosed("the client was closed"))

    def after_fork_in_child(self) -> None:
        """Fail the calls of the parent."""
        self._workers.after_fork_in_child()
        self._clock.after_fork_in_child()
        left, self._open, self._ending = self._open | self._ending, set(), set()
        for future in left:
            future._after_fork_in_child()


def _expire(future: CallFuture[Any]) -> None:
    """Fail a call that no thread was free for in time."""
    text = f"no thread was free for the call within {future._timeout:g} s (Limits.submit_threads)"
    with future._condition:
        if future._state != _PENDING:
            return
        error = CallTimeout(text, timeout=future._timeout, request_sent=False)
    future._end(None, error)


def _outcome(call: Callable[[], Any], token: CancelToken) -> Any:
    result = call()
    if not isinstance(result, Iterator) or not hasattr(result, "gi_frame"):
        return result
    items = []
    for item in result:
        if token.cancelled:
            raise token.error("the iteration", True)
        items.append(item)
    return items


def _without_references(error: BaseException) -> BaseException:
    """Have an error refer to lines of code, but no more to what was at hand there: the client, for one."""
    seen: list[BaseException] = []
    link: Optional[BaseException] = error
    while link is not None and link not in seen:
        seen.append(link)
        if link.__traceback__ is not None:
            traceback.clear_frames(link.__traceback__)
        link = link.__cause__ or link.__context__
    return error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)


def submit(
    client: FutureVerbs, method: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> CallFuture[T]:
    """Do what ``client.submit`` documents."""
    if getattr(method, "__self__", None) is not client:
        raise UsageError("submit takes a method of this client, such as client.call_tool, and its arguments")
    token = CancelToken()
    if _takes(method, "cancel"):
        given = kwargs.get("cancel")
        if isinstance(given, CancelToken):
            token.follow(given)
        if given is None or isinstance(given, CancelToken):
            kwargs = {**kwargs, "cancel": token}
    timeout = kwargs.get("timeout", client._timeout) if _takes(method, "timeout") else None
    has_bound = (
        isinstance(timeout, (int, float)) and not isinstance(timeout, bool) and 0 <= timeout < math.inf
    )
    bound = cast("float", timeout) if has_bound else None
    return jobs_of(client).add(partial(method, *args, **kwargs), token, bound)


def _takes(method: Any, name: str) -> bool:
    code = getattr(getattr(method, "__func__", None), "__code__", None)
    return code is not None and name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def jobs_of(client: FutureVerbs) -> Jobs:
    """Return what runs the submitted calls of a client, in this process."""
    process = os.getpid()
    jobs = client._jobs.get(process)
    if jobs is None:
        callbacks = client._engine.router.callback_workers
        fresh = Jobs(client.name, client._limits.submit_threads, callbacks)
        jobs = cast("Jobs", client._jobs.setdefault(process, fresh))
        if jobs is fresh:
            try:
                client._engine.accompany(jobs)
            except ClientClosed:
                jobs.stop()
                raise
    return jobs
