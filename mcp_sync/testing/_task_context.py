"""What a tool of the fake server can do while it runs as a task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Optional

from ._context import ToolContext
from ._rpc import META_RELATED_TASK, Message, notification

if TYPE_CHECKING:
    from ._exchange import Exchange
    from ._tasks import FakeTask


class TaskContext(ToolContext):
    """The context of a tool that runs as a task: it asks through the task, and waits for the answers.

    Progress and log messages reach the client only on revisions with a handshake: tasks of the others have
    none, so that `status` is the way there.

    Attributes:
        task: The task.
        cancelled: Set when the task is cancelled.
    """

    def __init__(self, exchange: Exchange, task: FakeTask) -> None:
        super().__init__(exchange)
        self.task: Optional[FakeTask] = task
        self.cancelled = task.cancelled

    def notify(self, method: str, params: Optional[Message] = None) -> None:
        """Send a notification that belongs to the task, where the revision has such."""
        if self._exchange.modern or self.task is None:
            return
        meta = {**((params or {}).get("_meta") or {}), META_RELATED_TASK: {"taskId": self.task.id}}
        self._exchange.connection.tell(notification(method, {**(params or {}), "_meta": meta}))

    def status(self, message: str) -> None:
        """Say how the task is getting on."""
        if self.task is not None:
            self.task.say(message)

    def _answers_to(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        assert self.task is not None
        return self.task.ask_all(requests, self._exchange.connection.server.answer_timeout)
