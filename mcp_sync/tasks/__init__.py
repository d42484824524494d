"""Tasks: calls of tools whose results are fetched later, perhaps by another process.

A server may answer a call with a task instead of a result (the extension ``io.modelcontextprotocol/tasks``,
SEP-2663), or be asked to make one of a call (the experiment of revision 2025-11-25, "Tasks"). ``call_tool``
follows such a task to its end by itself; ``start_task`` gives a `TaskHandle` for it, and ``task`` takes one
up again.

Both ask the server from time to time how the task is getting on: as often as it wishes, but at least every
minute, and at most ten times a second. Where a server tells of a change by itself, over a connection that is
open anyway, it is asked at once (up to 2025-11-25: on a pipe, on a WebSocket, on the stream that callbacks
need). `listening` has servers of all revisions tell, at the price of a thread and a connection.

The way of a call that becomes a task: `Engine._go_on` gets a result of the kind ``task``, makes an
`InterimCall` (the call as it goes on: its time, token and callbacks) and hands it to `Tasks.finish`, that to
`finish_call` (``_calling``), which makes a `Following` (``_following``): `Following.to_end` looks, has
answered what is asked and pauses, until the task has ended; `Following.outcome` gives the result. A
`TaskHandle` does the same for ``result()``, and `as_completed` (``_many``) in turns for many. What has been
learnt of a task is in one place, its `Known`: the handle owns it, and those who follow the task share it. For
how long a server may be away is decided in ``_protocol.recovery`` (`outage_delay`).

Names load when they are used: each client offers tasks, and few calls become one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._concurrency.lazy import lazy

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

__getattr__, __dir__ = lazy(__name__, _HOMES)
