"""Tasks of servers that take long, followed without a worker that waits; and questions, answered later."""

from __future__ import annotations

import logging
import math
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NoReturn, Optional

from celery import states
from celery.backends.base import DisabledBackend
from celery.backends.rpc import RPCBackend
from celery.exceptions import BackendError, Ignore, Reject, SoftTimeLimitExceeded, TaskPredicate
from kombu.exceptions import OperationalError

from ...errors import (
    AuthError,
    CallTimeout,
    ConnectionLost,
    HTTPStatusError,
    InputRequired,
    MCPError,
    TransportError,
    UsageError,
)
from ...options import UNSET
from ...tasks._pace import Pace
from ._claiming import AlreadyAnswered, claim, give_up
from ._progress import STATE, short
from ._retrying import MOST_SECONDS
from ._servers import servers_of
from ._task import INPUT_REQUIRED, MCPTask

logger = logging.getLogger("mcp_sync.celery")

POLL, RESUME, UPDATE = "mcp_sync.poll", "mcp_sync.resume", "mcp_sync.update"
RESUMING = "RESUMING"
_ASKING = (INPUT_REQUIRED, RESUMING)
_JOB = ("server", "user", "task", "follower", "seconds", "cancels", "until")
_MOST_FAILURES = 20
_LONGEST = 60.0  # between two looks at a server that does not answer
_MOST_LOOKS = 20  # after which a pace grows no more
# How a message is tried to be sent to a broker that is away: for about half a minute.
_PATIENCE = {"max_retries": 12, "interval_start": 0.2, "interval_step": 0.5, "interval_max": 5.0}
# Backends of which a worker cannot read what it has written: none at all, and messages to the sender.
_UNREADABLE = (DisabledBackend, RPCBackend)
# What belongs to one run of a task, and not to those that follow it under the same id.
_OF_ONE_RUN = ("task_id", "expires", "retries", "replaced_task_nesting")
_now = time.time


def register(app: Any) -> None:
    """Have workers of an application know the tasks of this module."""
    options = {"base": MCPTask, "bind": True, "shared": False}
    app.task(name=RESUME, **options)(resume)
    # To look at a task of a server twice, or to answer it, does no harm: whoever dies over it is replaced.
    options.update(acks_late=True, reject_on_worker_lost=True)
    app.task(name=POLL, max_retries=0, **options)(poll)
    app.task(name=UPDATE, **options)(update)


def job_of(task: MCPTask, server: Optional[str], user: Optional[str]) -> dict[str, Any]:
    """Return what has to be known of a call that becomes a task of a server."""
    bounds = {"seconds": task.mcp_task_limit, "cancels": task.mcp_cancels_late}
    return _bounded({"server": server, "user": user, "task": None, "follower": _new_name(), **bounds})


def _new_name() -> str:
    return secrets.token_hex(16)


def _bounded(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job whose time begins now."""
    seconds = job.get("seconds")
    return {**job, "until": None if seconds is None else _now() + seconds}


def carried(request: Any) -> dict[str, Any]:
    """Return what belongs to a task whichever run it is in: what follows it, its group, its queue."""
    options = {name: v for name, v in request.as_execution_options().items() if name not in _OF_ONE_RUN}
    info = request.delivery_info or {}
    if info.get("exchange"):
        options.update(exchange=info["exchange"], routing_key=info.get("routing_key"))
    else:
        options["queue"] = info.get("routing_key")
    options.update(priority=info.get("priority"), ignore_result=request.ignore_result)
    return {name: value for name, value in options.items() if value is not None}


def begin(task: MCPTask, client: Any, tool: str, arguments: Optional[dict[str, Any]], job: Any) -> Any:
    """Return the handle of a new call. If this process dies meanwhile, `made_before` tells a repeated run."""
    if not task.acks_late:
        return client.start_task(tool, arguments)
    known = {**job, "tool": tool, "then": carried(task.request)}
    _note(task, known, is_needed=True)
    # What it reports replaces the note, and says the same.
    handle = client.start_task(tool, arguments, progress_callback=task._reporter(**known))
    _note(task, {**known, "task": handle.to_json()})
    return handle


def made_before(task: MCPTask, client: Any, tool: str) -> Any:
    """Return the handle of the call that an earlier run of a task has made, ``None`` if it has made none.

    Raises:
        Ignore: It has got as far as a question.
        ConnectionLost: It has made one, and died before it knew what became of that.
    """
    if not task.acks_late:
        return None
    state, noted = _kept(task)
    if state in _ASKING:
        raise Ignore
    if state != STATE or noted.get("tool") != tool or "task" not in noted:
        return None
    if noted["task"] is not None:
        return client.task(noted["task"])
    if task.mcp_idempotent:
        return None
    text = f"an earlier run of this task died while it called {tool!r}, which may have begun its work"
    raise ConnectionLost(text, request_sent=None)


def _kept(task: MCPTask) -> tuple[str, dict[str, Any]]:
    """Return the state of a task, and what was noted with it."""
    if isinstance(task.backend, _UNREADABLE):
        return states.PENDING, {}
    kept = task.backend.get_task_meta(task.request.id, cache=False)
    noted = kept.get("result")
    return kept["status"], noted if isinstance(noted, dict) else {}


def _note(task: MCPTask, meta: dict[str, Any], *, is_needed: bool = False) -> None:
    try:
        task.update_state(state=STATE, meta=meta)
    except Exception as error:
        if is_needed or not _is_of_backend(task, error):
            raise
        logger.warning("How far the task %s is cannot be kept: %r", task.request.id, error)


def _is_of_backend(task: MCPTask, error: Exception) -> bool:
    """Whether the result backend cannot be used just now."""
    return isinstance(error, BackendError) or bool(task.backend.exception_safe_to_retry(error))


def hand_over(task: MCPTask, handle: Any, job: Mapping[str, Any]) -> Any:
    """Return the result of a task of a server, or have it looked after and end this run.

    Raises:
        CallTimeout: It has not ended within its time.
    """
    job = {**job, "task": handle.to_json()}
    try:
        state = handle.status(timeout=task._budget().within(UNSET))
        if state.has_ended:
            return handle.result(timeout=task._budget().within(UNSET)).to_wire()
        if not state.input_requests and _left(job) <= 0:
            raise _too_late(task, handle, job)
    except MCPError as error:
        error._mcp_origin = (job["server"], job["user"])  # type: ignore[attr-defined]
        raise
    if state.input_requests:
        ask(task, {**job, "requests": state.raw["inputRequests"]})
    then, message = carried(task.request), short(state.status_message)
    _note(task, {**job, "tool": handle.tool, "then": then, "message": message})
    looks = job.get("looks", 0)
    seconds = _until_next_look(state.poll_interval, looks)
    _send(task, {**job, "looks": looks + 1}, min(seconds, _left(job)), 0)
    raise Ignore


def _until_next_look(asked: Optional[float], looks: int) -> float:
    pace = Pace()
    for _ in range(min(looks, _MOST_LOOKS)):
        pace.next(None)
    return pace.next(asked)


def ask(task: MCPTask, job: Mapping[str, Any]) -> NoReturn:
    """Have a task wait for an answer, and end this run."""
    meta = {**job, "question": _new_name(), "then": carried(task.request)}
    task.update_state(state=INPUT_REQUIRED, meta=meta)
    raise Ignore


def _left(job: Mapping[str, Any]) -> float:
    until = job.get("until")
    return math.inf if until is None else float(until - _now())


def _too_late(task: MCPTask, handle: Any, job: Mapping[str, Any]) -> CallTimeout:
    done = "goes on there"
    if job.get("cancels"):
        try:
            handle.cancel(timeout=task._budget().within(UNSET))
            done = "was cancelled there"
        except MCPError as error:
            done = f"could not be cancelled there: {error}"
    text = f"the task {handle.id} of the server has not ended within {job['seconds']:g} s (mcp_task_limit)"
    return CallTimeout(f"{text}; it {done}", timeout=job["seconds"], request_sent=True)


def _send(task: MCPTask, job: Mapping[str, Any], seconds: float, failures: int) -> None:
    then = {**carried(task.request), "task_id": task.request.id, "retry": True, "retry_policy": _PATIENCE}
    try:
        task.app.tasks[POLL].apply_async((dict(job), failures), countdown=seconds, **then)
    except OperationalError as error:
        if not task.acks_late:
            raise
        # The broker is away, and will give this message to somebody when it is back.
        raise Reject(f"the next look cannot be sent: {error}", requeue=True) from error


def poll(self: MCPTask, job: dict[str, Any], failures: int = 0) -> Any:
    """Look at a task of a server once. If it goes on, look again later."""
    try:
        if _is_followed(self, job):
            return hand_over(self, self.mcp_for(job["user"], job["server"]).task(job["task"]), job)
        raise Ignore
    except (TaskPredicate, SoftTimeLimitExceeded):
        raise
    except Exception as error:
        is_passing = _is_passing(error) if isinstance(error, MCPError) else _is_of_backend(self, error)
        if failures >= _MOST_FAILURES or _left(job) <= 0 or not is_passing:
            raise
        asked: Optional[float] = getattr(error, "retry_after", None)
        seconds = min(2.0**failures, _LONGEST) if asked is None else min(asked, MOST_SECONDS)
        _send(self, job, min(seconds, _left(job)), failures + 1)
        raise Ignore from None


def _is_followed(task: MCPTask, job: Mapping[str, Any]) -> bool:
    """Whether it is this run that is to look, and nobody has done more meanwhile."""
    state, noted = _kept(task)
    if state in _ASKING or state in states.READY_STATES:
        return False
    # After `look_again`, another one follows it.
    return state != STATE or bool(noted.get("follower", job["follower"]) == job["follower"])


def _is_passing(error: MCPError) -> bool:
    if isinstance(error, AuthError):
        return error.transient
    if isinstance(error, HTTPStatusError):
        return error.status >= 500 or error.status in (408, 425, 429)
    return isinstance(error, (TransportError, CallTimeout))


def resume(self: MCPTask, job: dict[str, Any], answers: dict[str, Any]) -> Any:
    """Go on with a call that has asked something."""
    key, client = servers_of(self.app).envelope_key, self.mcp_for(job["user"], job["server"])
    return client.resume(job["envelope"], answers, key=key).to_wire()


def update(self: MCPTask, job: dict[str, Any], answers: dict[str, Any]) -> Any:
    """Go on with a task of a server that has asked something."""
    handle = self.mcp_for(job["user"], job["server"]).task(job["task"])
    state = handle.status(timeout=self._budget().within(UNSET))
    # Who died over it before may have given them.
    open_ones = {key: each for key, each in answers.items() if key in state.input_requests}
    if open_ones:
        handle.update(open_ones, timeout=self._budget().within(UNSET))
    # What a person needs for an answer is not to count.
    return hand_over(self, handle, _bounded(job))


def question(result: Any) -> Optional[dict[str, Any]]:
    """Return what a task waits for, by the server's keys: see ``InputRequired.requests``.

    Args:
        result: The `AsyncResult` of the task.

    Returns:
        ``None`` if it waits for nothing.
    """
    if result.state != INPUT_REQUIRED:
        return None
    meta = result.info
    if "envelope" in meta:
        key = servers_of(result.app).envelope_key
        return InputRequired.from_json(meta["envelope"], key=key).requests
    from ...types.input_required import parse_input_requests

    return parse_input_requests(meta["requests"])


def answer(result: Any, answers: Mapping[str, Any]) -> None:
    """Answer what a task waits for: a worker goes on, and the result is that of the same task.

    What the server returns then is the result; the rest of the function that made the call is not run. Of
    several answers to one question one counts: with Redis, Memcached, a database or a folder as the result
    backend wherever they come from, with others among those of one process.

    Args:
        result: The `AsyncResult` of the task.
        answers: By the keys of `question`, as for ``client.resume``.

    Raises:
        AlreadyAnswered: Somebody else has answered.
        UsageError: The task waits for nothing, or not for that.
    """
    meta = result.backend.get_task_meta(result.id, cache=False)
    state, asked, app = meta["status"], meta["result"], result.app
    if state == RESUMING:
        raise AlreadyAnswered(f"the task {result.id} goes on with an answer that it has got")
    if state != INPUT_REQUIRED:
        raise UsageError(f"the task {result.id} waits for no answer: its state is {state}")
    wire = {key: each if isinstance(each, Mapping) else each.to_wire() for key, each in answers.items()}
    unknown = sorted(set(wire) - set(asked.get("requests", wire)))
    if unknown:
        raise UsageError(f"the task {result.id} has not asked: {', '.join(map(repr, unknown))}")
    job = {name: value for name, value in asked.items() if name not in ("requests", "question", "then")}
    claimed = f"mcp-sync-{asked['question']}"
    if not claim(result.backend, claimed):
        raise AlreadyAnswered(f"the task {result.id} has got another answer just now")
    try:
        result.backend.store_result(result.id, {**job, "then": asked["then"]}, RESUMING)
        app.tasks[UPDATE if "task" in job else RESUME].apply_async(
            (job, wire), task_id=result.id, **asked["then"]
        )
    except Exception:
        # The broker is down, say. The question is to wait on.
        with suppress(Exception):
            result.backend.store_result(result.id, asked, INPUT_REQUIRED)
            give_up(result.backend, claimed)
        raise


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
    meta = result.backend.get_task_meta(result.id, cache=False)
    state, noted = meta["status"], meta["result"]
    if state not in (STATE, RESUMING) or not isinstance(noted, dict) or not noted.get("task"):
        raise UsageError(f"the task {result.id} follows no task of a server: its state is {state}")
    noted = {**noted, "follower": _new_name()}
    result.backend.store_result(result.id, noted, STATE)
    job = {name: noted[name] for name in _JOB}
    result.app.tasks[POLL].apply_async((job,), task_id=result.id, **noted["then"])
