"""The extension that each client offers by default. All that does the work loads with the first task."""

from __future__ import annotations

from typing import Any

from .._concurrency.fork import no_fork
from ..extensions import Extension, Interim, Method

GET = "tasks/get"
UPDATE = "tasks/update"
CANCEL = "tasks/cancel"
RESULT = "tasks/result"
LIST = "tasks/list"


class _NotificationModel:
    """Stands for `TaskNotification` until one comes."""

    @staticmethod
    def model_validate(message: dict[str, Any]) -> Any:
        with no_fork():
            from ._notification import TaskNotification
        return TaskNotification.model_validate(message)


class Tasks(Extension):
    """Offers servers to answer calls of tools with tasks (SEP-2663).

    Clients offer it by default; where ``extensions=`` is given, name it there too.

    Example:
        >>> client = Client(url, extensions=[Tasks(), MyExtension()])
    """

    identifier = "io.modelcontextprotocol/tasks"
    methods = (
        Method(GET, name_param="taskId", idempotent=True, handshake=True),
        # A server should ignore an answer that comes twice. It is not left to that.
        Method(UPDATE, name_param="taskId"),
        Method(CANCEL, name_param="taskId", idempotent=True, handshake=True),
        Method(RESULT, idempotent=True, handshake=True),
        Method(LIST, idempotent=True, handshake=True),
    )
    result_types = {"task": ("tools/call",)}
    notifications = {"notifications/tasks": _NotificationModel}

    def finish(self, interim: Interim) -> dict[str, Any]:
        """Follow a task to its end and return the result."""
        with no_fork():
            from ._calling import finish_call
        return finish_call(interim, interim.result)
