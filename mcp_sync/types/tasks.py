"""Tasks: requests whose results are fetched later (basic/utilities/tasks of 2025-11-25, experimental)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Optional

from mcp_sync.types._base import WireModel
from mcp_sync.types._lenient import Entries, Kept, Lenient
from mcp_sync.types.messages import (
    Notification,
    NotificationParams,
    PaginatedResult,
    Request,
    RequestParams,
    Result,
)
from mcp_sync.types.scalars import Cursor, Number, TaskStatus

__all__ = [
    "CancelTaskRequest",
    "CancelTaskRequestParams",
    "CancelTaskResult",
    "CreateTaskResult",
    "GetTaskPayloadRequest",
    "GetTaskPayloadRequestParams",
    "GetTaskPayloadResult",
    "GetTaskRequest",
    "GetTaskRequestParams",
    "GetTaskResult",
    "ListTasksRequest",
    "ListTasksRequestParams",
    "ListTasksResult",
    "RelatedTaskMetadata",
    "Task",
    "TaskStatusNotification",
    "TaskStatusNotificationParams",
]


class RelatedTaskMetadata(WireModel):
    """Names the task that a message belongs to, in `_meta`."""

    task_id: str


class Task(WireModel):
    """The state of a task.

    Attributes:
        status: `working`, `input_required`, or final: `completed`, `failed`, `cancelled`.
        status_message: The state in words.
        created_at: When it began, as an ISO 8601 string.
        last_updated_at: When it changed last, as an ISO 8601 string.
        ttl: How long it is kept, in milliseconds from its creation; `None` means without limit.
        poll_interval: How long to wait between two looks at it, in milliseconds.
    """

    _null_is_a_value: ClassVar[frozenset[str]] = frozenset({"ttl"})

    task_id: str
    status: Kept[TaskStatus]
    status_message: Lenient[str] = None
    created_at: Lenient[str] = None
    last_updated_at: Lenient[str] = None
    ttl: Lenient[Number] = None
    poll_interval: Lenient[Number] = None


class CreateTaskResult(Result):
    """The answer to a request that now runs as a task."""

    task: Task


class GetTaskRequestParams(RequestParams):
    """Parameters of `tasks/get`."""

    task_id: str


class GetTaskRequest(Request):
    """Asks for the state of a task."""

    method: Literal["tasks/get"] = "tasks/get"
    params: GetTaskRequestParams


class GetTaskResult(Result, Task):
    """The state of a task."""


class GetTaskPayloadRequestParams(RequestParams):
    """Parameters of `tasks/result`."""

    task_id: str


class GetTaskPayloadRequest(Request):
    """Asks for the result of a task, and waits for it."""

    method: Literal["tasks/result"] = "tasks/result"
    params: GetTaskPayloadRequestParams


class GetTaskPayloadResult(Result):
    """The result of a task: whatever the request would have been answered with."""


class CancelTaskRequestParams(RequestParams):
    """Parameters of `tasks/cancel`."""

    task_id: str


class CancelTaskRequest(Request):
    """Asks to give up a task."""

    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: CancelTaskRequestParams


class CancelTaskResult(Result, Task):
    """The state of the task that was to be given up."""


class ListTasksRequestParams(RequestParams):
    """Parameters of `tasks/list`."""

    cursor: Optional[Cursor] = None


class ListTasksRequest(Request):
    """Asks for one page of the list of tasks."""

    method: Literal["tasks/list"] = "tasks/list"
    params: Optional[ListTasksRequestParams] = None


class ListTasksResult(PaginatedResult):
    """One page of `tasks/list`. Entries that are no tasks are dropped with a warning."""

    tasks: Annotated[list[Task], Entries("task")]


class TaskStatusNotificationParams(NotificationParams, Task):
    """Parameters of `notifications/tasks/status`: the state of the task."""


class TaskStatusNotification(Notification):
    """A task has changed its state."""

    method: Literal["notifications/tasks/status"] = "notifications/tasks/status"
    params: TaskStatusNotificationParams
