"""What a server says about its work, as the state of a task."""

from __future__ import annotations

import time
from typing import Any, Optional

STATE = "PROGRESS"
_LONGEST = 1000  # characters of what a server says: each report is kept in the result backend
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
        self._was_last = False

    def __call__(self, progress: float, total: Optional[float], message: Optional[str]) -> None:
        """Take one report."""
        now = _now()
        is_last = total is not None and progress >= total and not self._was_last
        if now < self._next and not is_last:
            return
        self._next = now + self._interval
        # Once: a server may say so as often as it likes.
        self._was_last = self._was_last or is_last
        meta = {**self._more, "progress": progress, "total": total, "message": short(message)}
        self._task.backend.store_result(self._id, meta, STATE, request=self._request)


def short(message: Optional[str]) -> Optional[str]:
    """Return what a server says, not at any length."""
    return message if message is None or len(message) <= _LONGEST else f"{message[: _LONGEST - 1]}\u2026"
