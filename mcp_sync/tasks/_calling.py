"""Calls of tools that become tasks: followed to their end, or begun and handed out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Optional, cast

from pydantic import ValidationError

from .. import types
from .._concurrency.deadline import Deadline
from .._engine.call_options import CallOptions
from .._engine.interim import InterimCall
from .._protocol import methods
from ..errors import (
    CallCancelled,
    CallTimeout,
    HeaderMismatch,
    InputRoundsExceeded,
    InvalidResult,
    MCPError,
    TransportError,
    UsageError,
)
from ..extensions import Interim
from ..types._lenient import first_problem
from ._asked import Asked
from ._extension import CANCEL, Tasks
from ._following import Following, seed_is_final
from ._known import Known
from ._progress import TaskProgress
from ._state import TaskState, read_state

if TYPE_CHECKING:
    from .._engine.engine import Engine
    from ..session import ClientSession

_IN_META = "modelcontextprotocol.io/task"
# With these a call ends its task as well, which nobody has any more. After others it can be taken up again.
_END_THE_TASK = (CallTimeout, CallCancelled, InvalidResult, InputRoundsExceeded)


def finish_call(interim: Interim, seed: Mapping[str, Any]) -> dict[str, Any]:
    """Follow the task that a call has become to its end, and return the result.

    A call that ends before its task cancels it.

    Args:
        interim: The call.
        seed: What the server said of the new task.
    """
    first = read_state(seed)
    following = follow(cast("InterimCall", interim), first.id, Known(Asked(), first), True)
    # What began a task says nothing of its questions, nor of its end.
    return _finish(following, first if first.status == "working" or seed_is_final(first) else None)


def resume_call(
    session: Any,
    task: Mapping[str, Any],
    params: dict[str, Any],
    options: CallOptions,
    deadline: Deadline,
) -> types.CallToolResult:
    """Go on with a call that raised `InputRequired` after it had become a task.

    Args:
        session: The client.
        task: What the envelope holds of the task.
        params: The params of the call, with the answers.
        options: Those of the new call.
        deadline: Likewise.

    Raises:
        TaskGone: The task was not kept for so long.
        UsageError: It does not ask that any more: somebody has answered, or it has ended.
    """
    answers = params["inputResponses"]
    call = {key: value for key, value in params.items() if key != "inputResponses"}
    interim = InterimCall(session._engine, methods.CALL_TOOL, call, options, deadline, {})
    following = follow(interim, task["id"], Known(Asked(task["asked"])), True)
    state = following.look()
    mine = following.claim(state, answers) if following.open_requests(state) else {}
    if mine.keys() != answers.keys():
        raise UsageError(f"{following.title} does not ask that any more: it is {state.status}")

    try:
        with _answered():
            return as_tool_result(_finish(following, None, answers))
    finally:
        interim.drain()


@contextmanager
def _answered() -> Iterator[None]:
    """Whatever becomes of the requests in here, that of the call itself was answered."""
    try:
        yield
    except (TransportError, CallTimeout, CallCancelled) as error:
        error.request_sent = True
        raise


def follow(interim: InterimCall, task_id: str, known: Known, modern: Optional[bool]) -> Following:
    """Return what follows a task on behalf of a call."""
    name = str(interim.params.get("name") or "")
    return Following(
        interim, task_id, name, known, modern=modern, rounds=interim.session._limits.input_rounds
    )


def _finish(
    following: Following, state: Optional[TaskState], answers: Optional[Mapping[str, Any]] = None
) -> dict[str, Any]:
    """Go from a state (``None``: look at it first) to the end, and return the result."""
    is_over = False
    try:
        with following.naming():
            if answers is not None:
                following.send_answers(answers)
            state = following.to_end(state)
            is_over = True
            return following.outcome(state)
    except BaseException as error:
        has_use = isinstance(error, MCPError) and not isinstance(error, _END_THE_TASK)
        if not is_over and (following.needs_end or not has_use):
            following.interim.tell(CANCEL, {"taskId": following.task_id})
        raise


def call_as_task(
    session: Any, params: dict[str, Any], options: CallOptions, deadline: Deadline
) -> types.CallToolResult:
    """Call a tool of a server of 2025-11-25 that can only be called as a task."""
    engine = session._engine
    asking = {**params, "task": {}}
    interim = InterimCall(engine, methods.CALL_TOOL, asking, options, deadline, {})
    with TaskProgress(interim, options, engine.router) as progress:
        try:
            result = engine.call_raw(methods.CALL_TOOL, asking, progress.options, deadline)
            seed = begun_task(result)
            if seed is not None:
                first = read_state(seed)
                following = follow(interim, first.id, Known(Asked(), first), False)
                following.progress = progress
                with _answered():
                    result = _finish(following, first)
        finally:
            interim.drain()
    return as_tool_result(result)


def begin(
    session: ClientSession,
    params: dict[str, Any],
    ttl: Optional[float],
    options: CallOptions,
    deadline: Deadline,
) -> tuple[dict[str, Any], Optional[Mapping[str, Any]]]:
    """Call a tool, as a task where it can be one; return the answer, and what it says of a task, if any."""
    engine = session._engine
    if engine.connection(deadline, options.cancel).era.handshake:
        return _begin_experiment(session, params, ttl, options, deadline)
    options = options._replace(stop_at=("task",))
    try:
        given = session._mirrored(options, params, deadline)
        raw = engine.call_raw(methods.CALL_TOOL, params, given, deadline)
    except HeaderMismatch:
        if not session._mirrors(engine.latest(deadline)):
            raise
        session._relist(options, deadline)
        given = session._mirrored(options, params, deadline)
        raw = engine.call_raw(methods.CALL_TOOL, params, given, deadline)
    return raw, raw if raw.get("resultType") == "task" else None


def _begin_experiment(
    session: ClientSession,
    params: dict[str, Any],
    ttl: Optional[float],
    options: CallOptions,
    deadline: Deadline,
) -> tuple[dict[str, Any], Optional[Mapping[str, Any]]]:
    engine = session._engine
    offers = takes_tasks(engine, options, deadline)
    if not offers or not _may_be_task(session, params["name"], options, deadline):
        return engine.call_raw(methods.CALL_TOOL, params, options, deadline), None
    params = {**params, "task": {} if ttl is None else {"ttl": round(ttl * 1000)}}
    raw = engine.call_raw(methods.CALL_TOOL, params, options, deadline)
    return raw, begun_task(raw)


def takes_tasks(engine: Engine, options: CallOptions, deadline: Deadline) -> bool:
    """Whether the server is of 2025-11-25 and takes calls of tools as tasks, and the client wants tasks."""
    era = engine.connection(deadline, options.cancel).era
    found: Any = era.server.get("capabilities") if era.handshake else None
    for name in ("tasks", "requests", "tools", "call"):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found is not None and found is not False and engine.plan.extensions.find(Tasks) is not None


def _may_be_task(session: ClientSession, name: str, options: CallOptions, deadline: Deadline) -> bool:
    """Whether a tool admits tasks, by the list of tools, which is fetched if it was not."""
    admits = session._tools.admits_tasks(name)
    if admits is None:
        session._relist(options, deadline)
        admits = session._tools.admits_tasks(name)
    return bool(admits)


def begun_task(result: Mapping[str, Any]) -> Optional[Mapping[str, Any]]:
    """Return what a server of 2025-11-25 says of the task that it made of a call; ``None``: it made none."""
    meta = result.get("_meta")
    # fastmcp 2.14 has it in the metadata of a result of the ordinary form.
    found = result.get("task") or (meta.get(_IN_META) if isinstance(meta, Mapping) else None)
    return found if isinstance(found, Mapping) and not result.get("content") else None


def as_tool_result(raw: dict[str, Any]) -> types.CallToolResult:
    """Return the result of a tool as its model.

    Raises:
        InvalidResult: It has another shape.
    """
    try:
        return types.CallToolResult.model_validate(raw)
    except ValidationError as error:
        text = f"the result of tools/call is malformed: {first_problem(error)}"
        raise InvalidResult(text, result=raw) from error
