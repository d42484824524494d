"""Tasks of servers that take long, followed without a worker that waits."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Optional

from celery import states
from celery.exceptions import Ignore, Reject, SoftTimeLimitExceeded, TaskPredicate
from kombu.exceptions import OperationalError

from ...errors import (
    AuthError,
    CallTimeout,
    HTTPStatusError,
    MCPError,
    TransportError,
    UsageError,
)
from ...options import UNSET
from ...tasks._pace import Pace
from ._progress import STATE, short
from ._questions import RESUME, UPDATE, ask, see_that_it_counts
from ._retrying import MOST_SECONDS
from ._runs import ASKING, RESUMING, carried, is_of_backend, kept, logger, note
from ._servers import servers_of
from ._task import MCPTask

POLL = "mcp_sync.poll"
_JOB = ("server", "user", "task", "follower", "seconds", "cancels", "until")
_MOST_FAILURES = 20
_LONGEST = 60.0  # between two looks at a server that does not answer
_MOST_LOOKS = 20  # after which a pace grows no more
# How a message is tried to be sent to a broker that is away: for about half a minute.
_PATIENCE = {"max_retries": 12, "interval_start": 0.2, "interval_step": 0.5, "interval_max": 5.0}
_now = time.time


def register(app: Any) -> None:
    """Have workers of an application know the tasks of this module."""
    # That they are at work is nothing to tell: the state says how far the call is, or what was asked.
    options = {"base": MCPTask, "bind": True, "shared": False, "track_started": False}
    app.task(name=RESUME, max_retries=_MOST_FAILURES, **options)(resume)
    # To look at a task of a server twice, or to answer it, does no harm: whoever dies over it is replaced.
    options.update(acks_late=True, reject_on_worker_lost=True)
    app.task(name=POLL, max_retries=0, **options)(poll)
    app.task(name=UPDATE, max_retries=_MOST_FAILURES, mcp_idempotent=True, **options)(update)


def follow(task: MCPTask, handle: Any, server: Optional[str], user: Optional[str]) -> Any:
    """Return the result of a new task of a server, or have it looked after and end this run.

    Raises:
        CallTimeout: It has not ended within its time.
    """
    bounds = {"seconds": task.mcp_task_limit, "cancels": task.mcp_cancels_late}
    who = {"server": server, "user": user, "follower": secrets.token_hex(16)}
    job = _bounded({**who, "task": handle.to_json(), **bounds})
    with _another_look_if_it_fails(task, job, 0):
        return _look(task, handle, job)


def _bounded(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job whose time begins now."""
    seconds = job.get("seconds")
    return {**job, "until": None if seconds is None else _now() + seconds}


def poll(self: MCPTask, job: dict[str, Any], failures: int = 0) -> Any:
    """Look at a task of a server once. If it goes on, look again later."""
    with _another_look_if_it_fails(self, job, failures):
        if _is_followed(self, job):
            return _look(self, _handle(self, job), job)
    raise Ignore


def _handle(task: MCPTask, job: Mapping[str, Any]) -> Any:
    return task.mcp_for(job["user"], job["server"]).task(job["task"])


@contextmanager
def _another_look_if_it_fails(task: MCPTask, job: Mapping[str, Any], failures: int) -> Iterator[None]:
    """Have what passes, such as a server that is away, be no more than a reason to look again later."""
    try:
        yield
    except (TaskPredicate, SoftTimeLimitExceeded):
        raise
    except Exception as error:
        is_passing = _is_passing(error) if isinstance(error, MCPError) else is_of_backend(task, error)
        if failures >= _MOST_FAILURES or _left(job) <= 0 or not is_passing:
            raise
        asked: Optional[float] = getattr(error, "retry_after", None)
        seconds = min(2.0**failures, _LONGEST) if asked is None else min(asked, MOST_SECONDS)
        _send(task, job, min(seconds, _left(job)), failures + 1)
        raise Ignore from None


def _look(task: MCPTask, handle: Any, job: Mapping[str, Any]) -> Any:
    """Return the result of a task of a server, or have it looked at later and end this run."""
    try:
        state = handle.status(timeout=task._budget().within(UNSET))
        if job.get("stops") and not state.has_ended:
            handle.cancel(timeout=task._budget().within(UNSET))
            state = handle.status(timeout=task._budget().within(UNSET))
        if state.has_ended:
            return handle.result(timeout=task._budget().within(UNSET)).to_wire()
        # Who stops it will not answer.
        is_asking = bool(state.input_requests) and not job.get("stops")
        if not is_asking and _left(job) <= 0:
            raise _too_late(task, handle, job)
    except MCPError as error:
        error._mcp_origin = (job["server"], job["user"])  # type: ignore[attr-defined]
        raise
    job = {**job, "task": handle.to_json()}
    if is_asking:
        ask(task, {**job, "requests": state.raw["inputRequests"]})
    _note(task, job, state.status_message)
    looks = job.get("looks", 0)
    seconds = _until_next_look(state.poll_interval, looks)
    _send(task, {**job, "looks": looks + 1}, min(seconds, _left(job)), 0)
    raise Ignore


def _note(task: MCPTask, job: Mapping[str, Any], message: Optional[str]) -> None:
    note(task, {**job, "then": carried(task.request), "message": short(message)})


def _until_next_look(asked: Optional[float], looks: int) -> float:
    pace = Pace()
    for _ in range(min(looks, _MOST_LOOKS)):
        pace.next(None)
    return pace.next(asked)


def _left(job: Mapping[str, Any]) -> float:
    until = job.get("until")
    return math.inf if until is None else float(until - _now())


def _too_late(task: MCPTask, handle: Any, job: Mapping[str, Any]) -> CallTimeout:
    text = f"the task {handle.id} of the server has not ended within {job['seconds']:g} s (mcp_task_limit)"
    text = f"{text}; it {_let_go(task, handle, job)}"
    return CallTimeout(text, timeout=job["seconds"], request_sent=True)


def _let_go(task: MCPTask, handle: Any, job: Mapping[str, Any]) -> str:
    """Cancel what nobody follows any more, if that is wanted; say what becomes of it."""
    if not job.get("cancels"):
        return "goes on there"
    try:
        handle.cancel(timeout=task._budget().within(UNSET))
    except MCPError as error:
        return f"could not be cancelled there: {error}"
    return "was cancelled there"


def _send(task: MCPTask, job: Mapping[str, Any], seconds: float, failures: int) -> None:
    then = {**carried(task.request), "task_id": task.request.id, "retry": True, "retry_policy": _PATIENCE}
    try:
        task.app.tasks[POLL].apply_async((dict(job), failures), countdown=seconds, **then)
    except (OperationalError, SoftTimeLimitExceeded) as error:
        if task.acks_late:
            # The broker is away, and will give this message to somebody when it is back.
            raise Reject(f"the next look cannot be sent: {error!r}", requeue=True) from error
        done = _let_go(task, _handle(task, job), job)
        logger.warning("Nobody follows the call of the task %s any more: it %s", task.request.id, done)
        raise


def _is_followed(task: MCPTask, job: Mapping[str, Any]) -> bool:
    """Whether it is this run that is to look, and nobody has done more meanwhile."""
    state, noted = kept(task)
    if state in ASKING or state in states.READY_STATES:
        return False
    # After `look_again`, another one follows it.
    return state != STATE or bool(noted.get("follower", job["follower"]) == job["follower"])


def _is_passing(error: MCPError) -> bool:
    if isinstance(error, AuthError):
        return error.transient
    if isinstance(error, HTTPStatusError):
        return error.status >= 500 or error.status in (408, 425, 429)
    return isinstance(error, (TransportError, CallTimeout))


def resume(
    self: MCPTask, job: dict[str, Any], answers: dict[str, Any], claimed: Optional[list[str]] = None
) -> Any:
    """Go on with a call that has asked something."""
    see_that_it_counts(self, claimed)
    key, client = servers_of(self.app).envelope_key, self.mcp_for(job["user"], job["server"])
    return client.resume(job["envelope"], answers, key=key).to_wire()


def update(
    self: MCPTask, job: dict[str, Any], answers: dict[str, Any], claimed: Optional[list[str]] = None
) -> Any:
    """Go on with a task of a server that has asked something."""
    see_that_it_counts(self, claimed)
    handle = _handle(self, job)
    state = handle.status(timeout=self._budget().within(UNSET))
    # Who died over it before may have given them.
    open_ones = {key: each for key, each in answers.items() if key in state.input_requests}
    if open_ones:
        handle.update(open_ones, timeout=self._budget().within(UNSET))
    # What a person needs for an answer is not to count.
    job = _bounded(job)
    _note(self, job, None)
    with _another_look_if_it_fails(self, job, 0):
        return _look(self, handle, job)


def look_again(result: Any) -> None:
    """Have a worker look at the server's task of a `run_tool` anew, where nobody seems to do so any more.

    For brokers that can lose a message, as Redis does with one that a worker had just taken when it was
    killed. To be called, say, by a task of Celery beat for what has been in ``PROGRESS`` for long, or in
    ``RESUMING``: if the answer was lost, the question comes back. Whoever still looks after it stops, so
    needlessly done it does no harm.

    Args:
        result: The `AsyncResult` of the task.

    Raises:
        UsageError: No task of a server is looked after under this id.
    """
    _have_it_followed(result, (STATE, RESUMING), stops=False)


def cancel_followed(result: Any) -> None:
    """Have a worker cancel the server's task of a `run_tool`, also one that waits for an answer.

    The task of Celery fails with `CallCancelled` when the server says that its own is cancelled; if that ends
    in another way, what it ends with counts. ``revoke()``, in contrast, leaves the task of the server alone.

    Args:
        result: The `AsyncResult` of the task.

    Raises:
        UsageError: No task of a server is looked after under this id.
    """
    _have_it_followed(result, (STATE, *ASKING), stops=True)


def _have_it_followed(result: Any, states: tuple[str, ...], stops: bool) -> None:
    meta = result.backend.get_task_meta(result.id, cache=False)
    state, noted = meta["status"], meta["result"]
    if state not in states or not isinstance(noted, dict) or not noted.get("task"):
        raise UsageError(f"the task {result.id} follows no task of a server: its state is {state}")
    noted = {**noted, "follower": secrets.token_hex(16), "stops": stops or noted.get("stops", False)}
    result.backend.store_result(result.id, noted, STATE)
    job = {name: noted[name] for name in (*_JOB, "stops")}
    result.app.tasks[POLL].apply_async((job,), task_id=result.id, **noted["then"])
