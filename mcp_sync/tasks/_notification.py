"""The notification of the extension."""

from __future__ import annotations

from typing import Any, Literal

from ..types._base import WireModel
from ..types._lenient import Kept, Lenient
from ..types.messages import Notification, NotificationParams
from ..types.scalars import Number, TaskStatus


class TaskNotificationParams(NotificationParams, WireModel):
    """Parameters of `notifications/tasks`: the state of the task, as `tasks/get` would show it.

    Attributes:
        result: The result, where the status is `completed`.
        error: The JSON-RPC error, where it is `failed`.
        input_requests: What the server asks, by its keys, where it is `input_required`.
    """

    task_id: str
    status: Kept[TaskStatus]
    status_message: Lenient[str] = None
    created_at: Lenient[str] = None
    last_updated_at: Lenient[str] = None
    ttl_ms: Lenient[Number] = None
    poll_interval_ms: Lenient[Number] = None
    result: Lenient[dict[str, Any]] = None
    error: Lenient[dict[str, Any]] = None
    input_requests: Lenient[dict[str, Any]] = None


class TaskNotification(Notification):
    """A task has changed its state (the extension, 2026-07-28)."""

    method: Literal["notifications/tasks"] = "notifications/tasks"
    params: TaskNotificationParams
