"""Tasks of servers that take long, followed without a worker that waits; and questions, answered later."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from celery.exceptions import Ignore

from ...errors import (
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
from ._progress import STATE, short
from ._servers import servers_of
from ._task import INPUT_REQUIRED, MCPTask

POLL, RESUME = "mcp_sync.poll", "mcp_sync.resume"
RESUMING = "RESUMING"
_MOST_FAILURES = 20
_LONGEST = 60.0


def register(app: Any) -> None:
    """Have workers of an application know the two tasks of this module."""
    # Looking at a task twice does no harm: whoever dies over it, another one looks.
    options = {"base": MCPTask, "bind": True, "acks_late": True, "reject_on_worker_lost": True}
    app.task(name=POLL, mcp_idempotent=True, max_retries=None, **options)(poll)
    app.task(name=RESUME, base=MCPTask, bind=True)(resume)


def begin(
    task: MCPTask,
    client: Any,
    tool: str,
    arguments: Optional[dict[str, Any]],
    server: Optional[str],
    user: Optional[str],
) -> Any:
    """Return the handle of a new call. If this process dies meanwhile, `made_before` tells a repeated run."""
    if not task.acks_late:
        return client.start_task(tool, arguments)
    call = {"server": server, "user": user, "tool": tool}
    _note(task, {**call, "task": None})
    # What it reports replaces the note, and says the same.
    reporter = task._reporter(**call, task=None)
    handle = client.start_task(tool, arguments, progress_callback=reporter)
    _note(task, {**call, "task": handle.to_json()})
    return handle


def made_before(task: MCPTask, client: Any, tool: str) -> Any:
    """Return the handle of the call that an earlier run of a task has made, ``None`` if it has made none.

    Raises:
        ConnectionLost: It has made one, and died before it knew what became of that.
    """
    if not task.acks_late:
        return None
    kept = task.backend.get_task_meta(task.request.id, cache=False)
    noted = kept.get("result") if kept.get("status") == STATE else None
    if not isinstance(noted, dict) or noted.get("tool") != tool or "task" not in noted:
        return None
    if noted["task"] is not None:
        return client.task(noted["task"])
    if task.mcp_idempotent:
        return None
    text = f"an earlier run of this task died while it called {tool!r}, which may have begun its work"
    raise ConnectionLost(text, request_sent=None)


def _note(task: MCPTask, meta: dict[str, Any]) -> None:
    task.update_state(state=STATE, meta=meta)


def hand_over(task: MCPTask, handle: Any, server: Optional[str], user: Optional[str]) -> Any:
    """Return the result of a task of a server, or have it looked after and end this run."""
    try:
        state = handle.status(timeout=task._budget().within(UNSET))
        if state.has_ended:
            return handle.result(timeout=task._budget().within(UNSET)).to_wire()
    except MCPError as error:
        error._mcp_origin = (server, user)  # type: ignore[attr-defined]
        raise
    job = {"server": server, "user": user, "task": handle.to_json()}
    if state.input_requests:
        task.update_state(state=INPUT_REQUIRED, meta={**job, "requests": state.raw["inputRequests"]})
        raise Ignore
    if task.acks_late:
        # Where a run is not repeated, the next look comes first, and says then how far it is.
        _note(task, {**job, "tool": handle.tool, "message": short(state.status_message)})
    _send(task, job, Pace().next(state.poll_interval), 0)
    raise Ignore


def _send(task: MCPTask, job: Mapping[str, Any], seconds: float, failures: int) -> None:
    options = {"queue": (task.request.delivery_info or {}).get("routing_key")}
    kept = {name: value for name, value in options.items() if value}
    args, id = (dict(job), failures), task.request.id
    task.app.tasks[POLL].apply_async(args, task_id=id, countdown=seconds, **kept)


def poll(self: MCPTask, job: dict[str, Any], failures: int = 0) -> Any:
    """Look at a task of a server once. If it goes on, look again later."""
    handle = self.mcp_for(job["user"], job["server"]).task(job["task"])
    try:
        return hand_over(self, handle, job["server"], job["user"])
    except (TransportError, CallTimeout) as error:
        if failures >= _MOST_FAILURES or _is_final(error):
            raise
        _send(self, job, min(2.0**failures, _LONGEST), failures + 1)
        raise Ignore from None


def _is_final(error: Exception) -> bool:
    return isinstance(error, HTTPStatusError) and error.status < 500 and error.status not in (408, 425, 429)


def resume(self: MCPTask, job: dict[str, Any], answers: dict[str, Any]) -> Any:
    """Go on with a call, or a task of a server, that has asked something."""
    client = self.mcp_for(job["user"], job["server"])
    if "task" not in job:
        key = servers_of(self.app).envelope_key
        return client.resume(job["envelope"], answers, key=key).to_wire()
    handle = client.task(job["task"])
    handle.status(timeout=self._budget().within(UNSET))
    handle.update(answers, timeout=self._budget().within(UNSET))
    return hand_over(self, handle, job["server"], job["user"])


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

    What the server returns then is the result; the rest of the function that made the call is not run.

    Args:
        result: The `AsyncResult` of the task.
        answers: By the keys of `question`, as for ``client.resume``.

    Raises:
        UsageError: The task waits for nothing: perhaps somebody else has answered.
    """
    if result.state != INPUT_REQUIRED:
        raise UsageError(f"the task {result.id} waits for no answer: its state is {result.state}")
    job, app = result.info, result.app
    wire = {key: each if isinstance(each, Mapping) else each.to_wire() for key, each in answers.items()}
    result.backend.store_result(result.id, job, RESUMING)
    app.tasks[RESUME].apply_async((job, wire), task_id=result.id)


def look_again(result: Any) -> None:
    """Have a worker look at the server's task of a `run_tool` anew, where nobody seems to do so any more.

    For brokers that can lose a message, as Redis does with one that a worker had just taken when it was
    killed. To be called, say, by a task of Celery beat for what has been in ``PROGRESS`` for long. Needlessly
    done it does no harm.

    Args:
        result: The `AsyncResult` of the task.

    Raises:
        UsageError: No task of a server is looked after under this id.
    """
    noted = result.info if result.state == STATE else None
    if not isinstance(noted, dict) or not noted.get("task"):
        raise UsageError(f"the task {result.id} follows no task of a server: its state is {result.state}")
    job = {name: noted[name] for name in ("server", "user", "task")}
    result.app.tasks[POLL].apply_async((job,), task_id=result.id)
