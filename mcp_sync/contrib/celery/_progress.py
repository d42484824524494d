"""What a server says about its work, as the state of a task."""

from __future__ import annotations

import time
from typing import Any, Optional

STATE = "PROGRESS"
_now = time.monotonic


class Reporter:
    """A ``progress_callback`` that writes into the result backend, now and then.

    Args:
        task: The task.
        interval: The fewest seconds between two reports.
        more: What else to write.
    """

    def __init__(self, task: Any, interval: float, /, **more: Any) -> None:
        # Callbacks run on threads of their own, where the task has no request.
        self._request = task.request_stack.top
        self._id = task.request.id
        self._task = task
        self._interval = interval
        self._more = more
        self._next = 0.0

    def __call__(self, progress: float, total: Optional[float], message: Optional[str]) -> None:
        """Take one report."""
        now = _now()
        if now < self._next and (total is None or progress < total):
            return
        self._next = now + self._interval
        meta = {**self._more, "progress": progress, "total": total, "message": message}
        self._task.backend.store_result(self._id, meta, STATE, request=self._request)
