"""Tasks: calls of tools whose results are fetched later, perhaps by another process.

A server may answer a call with a task instead of a result (the extension ``io.modelcontextprotocol/tasks``,
SEP-2663), or be asked to make one of a call (the experiment of revision 2025-11-25, "Tasks"). ``call_tool``
follows such a task to its end by itself; ``start_task`` gives a `TaskHandle` for it, and ``task`` takes one
up again.

Both ask the server from time to time how the task is getting on: as often as it wishes, but at least every
minute, and at most ten times a second. Where a server tells of a change by itself, over a connection that is
open anyway, it is asked at once (up to 2025-11-25: on a pipe, on a WebSocket, on the stream that callbacks
need). `listening` has servers of all revisions tell, at the price of a thread and a connection.

Names load when they are used: each client offers tasks, and few calls become one.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..errors import InvalidHandle, TaskGone
    from ._extension import Tasks
    from ._handle import TaskHandle
    from ._listening import listening
    from ._listing import list_tasks
    from ._many import as_completed, wait_all
    from ._notification import TaskNotification
    from ._state import TaskState

__all__ = [
    "InvalidHandle",
    "TaskGone",
    "TaskHandle",
    "TaskNotification",
    "TaskState",
    "Tasks",
    "as_completed",
    "list_tasks",
    "listening",
    "wait_all",
]

_HOMES = {
    "InvalidHandle": ".errors",
    "TaskGone": ".errors",
    "TaskHandle": "_handle",
    "TaskNotification": "_notification",
    "TaskState": "_state",
    "Tasks": "_extension",
    "as_completed": "_many",
    "list_tasks": "_listing",
    "listening": "_listening",
    "wait_all": "_many",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .._concurrency.fork import hold_off

    with hold_off():
        value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
