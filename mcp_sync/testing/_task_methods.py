"""The methods of tasks: of the extension, and of the experiment in the last revision with a handshake."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable, Optional

from .._protocol.versions import LATEST_HANDSHAKE
from . import _extensions, _pages, _results
from ._context import Abandoned, ClientError, ToolContext
from ._extensions import TASKS
from ._rpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    META_RELATED_TASK,
    METHOD_NOT_FOUND,
    Message,
    RpcError,
    notification,
)
from ._task_context import TaskContext
from ._tasks import FakeTask

if TYPE_CHECKING:
    from ._catalog import FakeTool
    from ._exchange import Exchange

Work = Callable[[ToolContext], Message]


# --- the beginning ---------------------------------------------------------------------------------------


def is_due(exchange: Exchange, tool: FakeTool) -> bool:
    """Whether a call of a tool is to become a task.

    Raises:
        RpcError: It would have to, but the client does not know tasks; or it must not.
    """
    if exchange.modern:
        if not tool.task or TASKS not in _extensions.offered(exchange.connection.server):
            return False
        if tool.task == "required":
            _extensions.require_declared(exchange, TASKS)
        return _extensions.is_declared(exchange, TASKS)
    if not _has_experiment(exchange):
        return False
    wanted = isinstance(exchange.params.get("task"), dict)
    if wanted and not tool.task:
        raise RpcError(METHOD_NOT_FOUND, f"The tool {tool.name} cannot be called as a task")
    if tool.task == "required" and not wanted:
        raise RpcError(METHOD_NOT_FOUND, f"The tool {tool.name} can only be called as a task")
    return wanted


def start(exchange: Exchange, work: Work) -> Message:
    """Begin a task, and return the result that says so."""
    server = exchange.connection.server
    wanted = exchange.params.get("task")
    ttl_ms = wanted.get("ttl") if isinstance(wanted, dict) and not exchange.modern else None
    task = FakeTask(
        str(exchange.params.get("name")),
        exchange.modern,
        lambda changed: _tell(exchange, changed),
        server.task_ttl_ms if ttl_ms is None else ttl_ms,
        server.poll_interval_ms,
        exchange.principal,
    )
    begun = {"resultType": "task", **_plain(task)} if exchange.modern else {"task": _experimental(task)}
    server.tasks.start(task, lambda: _run(task, exchange, work))
    return begun


def start_inside(context: ToolContext, exchange: Exchange, function: Callable[[ToolContext], Any]) -> Message:
    """Begin a task in the middle of a call, where there are tasks; else do its work at once."""
    if not exchange.modern:
        return _results.tool_result(function(context))
    _extensions.require_declared(exchange, TASKS)
    return start(exchange, lambda inside: _results.guarded(function, inside))


def _run(task: FakeTask, exchange: Exchange, work: Work) -> None:
    try:
        result = work(TaskContext(exchange, task))
    except RpcError as error:
        task.fail(error)
    except Abandoned:
        task.cancel()
    except Exception as error:
        task.fail(RpcError(INTERNAL_ERROR, f"{type(error).__name__}: {error}"))
    else:
        task.complete(result)


def _tell(exchange: Exchange, task: FakeTask) -> None:
    """Tell of a change: those who listen for it, or the connection that began the task."""
    if task.modern:
        for subscription in exchange.connection.server.subscriptions.open:
            subscription.offer("notifications/tasks", detailed(task))
    else:
        exchange.connection.tell(notification("notifications/tasks/status", _experimental(task)))


# --- methods ---------------------------------------------------------------------------------------------


def get(exchange: Exchange) -> Message:
    """Say how a task is getting on."""
    task = _task(exchange)
    return detailed(task) if exchange.modern else _experimental(task)


def update(exchange: Exchange) -> Message:
    """Take answers to what a task has asked."""
    answers = exchange.params.get("inputResponses")
    if not isinstance(answers, dict):
        raise RpcError(INVALID_PARAMS, "inputResponses must be an object")
    _task(exchange).answer(answers)
    return {}


def cancel(exchange: Exchange) -> Message:
    """Cancel a task."""
    task = _task(exchange)
    has_ended = not task.cancel()
    if exchange.modern:
        return {}
    if has_ended:
        raise RpcError(INVALID_PARAMS, f"Cannot cancel the task: it is {task.status} already")
    return _experimental(task)


def list_tasks(exchange: Exchange) -> Message:
    """List the tasks."""
    _require(exchange)
    principal = exchange.principal
    tasks = [task for task in exchange.connection.server.tasks.all() if task.principal == principal]
    return _pages.page(exchange, "tasks", [_experimental(task) for task in tasks])


def result(exchange: Exchange) -> Message:
    """Wait for the end of a task, and put to the client meanwhile what the task asks."""
    task = _task(exchange)
    exchange.on_cancel(task.wake)
    for key, request in iter(lambda: task.claim(exchange.cancelled), None):
        task.answer({key: _asked(exchange, task, key, request)})
    if task.error is not None:
        raise task.error
    if task.result is None:
        raise RpcError(INTERNAL_ERROR, "The task was cancelled")
    return _related(task, task.result)


def _asked(exchange: Exchange, task: FakeTask, key: str, request: Message) -> Any:
    try:
        return exchange.ask(request["method"], _related(task, request["params"]))
    except ClientError as error:
        return error
    except BaseException:
        task.give_back(key)
        raise


def require_known(exchange: Exchange, wanted: Any) -> None:
    """Refuse a subscription to tasks of a client that has not declared them.

    Raises:
        RpcError: It has not.
    """
    has_tasks = TASKS in _extensions.offered(exchange.connection.server)
    if has_tasks and isinstance(wanted, Mapping) and wanted.get("taskIds"):
        _extensions.require_declared(exchange, TASKS)


def _task(exchange: Exchange) -> FakeTask:
    _require(exchange)
    task = exchange.connection.server.tasks.get(str(exchange.params.get("taskId")))
    if task is None or task.principal != exchange.principal:
        raise RpcError(INVALID_PARAMS, "Failed to retrieve task: Task not found")
    return task


def _require(exchange: Exchange) -> None:
    if exchange.modern:
        _extensions.require_offered(exchange, TASKS)
        _extensions.require_declared(exchange, TASKS)
    elif not _has_experiment(exchange):
        raise RpcError(METHOD_NOT_FOUND, f"Method not found: {exchange.method}")


def _has_experiment(exchange: Exchange) -> bool:
    server = exchange.connection.server
    return "tasks" in _extensions.capabilities(server, exchange.version, modern=False)


# --- on the wire -----------------------------------------------------------------------------------------


def detailed(task: FakeTask) -> Message:
    """Return a task as the extension shows it, with its result, its error or its open requests."""
    with task.changed:
        shown = _plain(task)
        if task.status == "input_required":
            shown["inputRequests"] = dict(task.inputs)
        elif task.error is not None:
            shown["error"] = _error(task.error)
        elif task.result is not None:
            shown["result"] = task.result
    return shown


def _plain(task: FakeTask) -> Message:
    return _shown(task, "ttlMs", "pollIntervalMs")


def _experimental(task: FakeTask) -> Message:
    with task.changed:
        return _shown(task, "ttl", "pollInterval")


def _shown(task: FakeTask, ttl: str, interval: str) -> Message:
    shown: Message = {
        "taskId": task.id,
        "status": task.status,
        "createdAt": task.created_at,
        "lastUpdatedAt": task.updated_at,
        ttl: task.ttl_ms,
    }
    if task.status_message is not None:
        shown["statusMessage"] = task.status_message
    if task.poll_interval_ms is not None:
        shown[interval] = task.poll_interval_ms
    return shown


def _error(error: RpcError) -> Message:
    shown: Message = {"code": error.code, "message": error.message}
    return shown if error.data is None else {**shown, "data": error.data}


def _related(task: FakeTask, message: Message) -> Message:
    return {**message, "_meta": {**message.get("_meta", {}), META_RELATED_TASK: {"taskId": task.id}}}


def task_support(exchange: Exchange, tool: FakeTool) -> Optional[str]:
    """Return what ``tools/list`` says about tasks of a tool, ``None`` for nothing."""
    if exchange.modern or exchange.version != LATEST_HANDSHAKE or not tool.task:
        return None
    return "required" if tool.task == "required" else "optional"
