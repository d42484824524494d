"""What can go wrong with tasks alone."""

from __future__ import annotations

from typing import Any

from ..errors import RemoteError, UsageError


class TaskGone(RemoteError):
    """The server does not know the task (any more): its time is over, or it never was one of this server.

    Attributes:
        task_id: The id of the task.
        code: That of the server's answer.
        message: The server's words.
    """

    def __init__(self, code: int, message: str, data: Any = None, *, task_id: str = "") -> None:
        super().__init__(code, message, data)
        self.task_id = task_id

    def __str__(self) -> str:
        return f"the server does not know the task {self.task_id} (any more): {super().__str__()}"


class InvalidHandle(UsageError):
    """What was kept of a task does not fit this client. Nothing was sent.

    Attributes:
        reason: ``"malformed"`` (no handle), ``"version"`` (of another version of this library),
            ``"server"`` or ``"principal"`` (made for another one).
    """

    def __init__(self, message: str, *, reason: str = "malformed") -> None:
        super().__init__(message)
        self.reason = reason
