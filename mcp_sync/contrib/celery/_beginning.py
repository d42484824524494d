"""The call that `MCPTask.run_tool` makes: one, however often the run that makes it is repeated."""

from __future__ import annotations

from typing import Any, Optional

from celery import states
from celery.exceptions import Ignore

from ...errors import ConnectionLost
from ._progress import STATE
from ._runs import ASKING, is_of_backend, is_readable, kept, logger


def begin(task: Any, client: Any, tool: str, arguments: Optional[dict[str, Any]]) -> Any:
    """Return the handle of a call, which is made unless an earlier run of the task has made it.

    Raises:
        Ignore: That run has got as far as a question, or as the result.
        ConnectionLost: It has made the call, and died before it knew what became of that.
    """
    if not task.acks_late:
        return client.start_task(tool, arguments)
    if not is_readable(task.backend):
        if (task.request.delivery_info or {}).get("redelivered"):
            _see_that_it_may_be_made_again(task, tool)
        return client.start_task(tool, arguments)
    name = _name_of_call(task)
    made = _made(task, client, name, tool)
    if made is not None:
        return made
    task.backend.store_result(name, {"tool": tool, "task": None}, STATE)
    handle = client.start_task(tool, arguments)
    try:
        task.backend.store_result(name, {"tool": tool, "task": handle.to_json()}, STATE)
    except Exception as error:
        if not is_of_backend(task, error):
            raise
        logger.warning("That the task %s has called %r cannot be kept: %r", task.request.id, tool, error)
    return handle


def _name_of_call(task: Any) -> str:
    """Return under what the result backend keeps a call: the state of the task says other things, too."""
    request = task.request
    request.mcp_calls = getattr(request, "mcp_calls", 0) + 1
    return f"mcp-sync-{request.id}-{request.retries or 0}-{request.mcp_calls}"


def _made(task: Any, client: Any, name: str, tool: str) -> Any:
    """Return the handle of the call that an earlier run has made, ``None`` if a call is to be made."""
    noted = task.backend.get_task_meta(name, cache=False).get("result")
    if not isinstance(noted, dict) or noted["tool"] != tool:
        return None
    state, _ = kept(task)
    if state in ASKING or state == states.SUCCESS:
        raise Ignore
    if noted["task"] is not None:
        return client.task(noted["task"])
    _see_that_it_may_be_made_again(task, tool)
    return None


def _see_that_it_may_be_made_again(task: Any, tool: str) -> None:
    if not task.mcp_idempotent:
        text = f"an earlier run of this task died while it called {tool!r}, which may have begun its work"
        raise ConnectionLost(text, request_sent=None)
