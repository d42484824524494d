"""The progress of a call that became a task of 2025-11-25: its token outlives the request."""

from __future__ import annotations

import secrets
from typing import Any

from .._engine.call_options import CallOptions
from .._engine.interim import InterimCall
from .._engine.progress import number_of
from .._engine.router import Router


class TaskProgress:
    """Takes progress to the callback of a call, from its request to the end of its task.

    Source: specification 2025-11-25, "Tasks", section "Task Progress Notifications".

    Args:
        interim: The call.
        options: Its options.
        router: Shows what comes.

    Attributes:
        options: Those to make the request with.
        heard: Whether the server has reported progress, so that its other words need not stand for it.
    """

    def __init__(self, interim: InterimCall, options: CallOptions, router: Router) -> None:
        self.options = options
        self.heard = False
        self._interim = interim
        self._router = router
        self._token = ""
        if options.progress is not None or options.wants_progress:
            self._token = secrets.token_hex(8)
            meta = {**options.meta, "progressToken": self._token}
            self.options = options._replace(meta=meta, progress=None, wants_progress=False)

    def __enter__(self) -> TaskProgress:
        if self._token:
            self._router.watch(self._notice)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._router.unwatch(self._notice)

    def _notice(self, message: dict[str, Any]) -> None:
        params = message.get("params")
        if message.get("method") != "notifications/progress" or not isinstance(params, dict):
            return
        amount, text = number_of(params.get("progress")), params.get("message")
        if params.get("progressToken") != self._token or amount is None:
            return
        self.heard = True
        self._interim.report(amount, number_of(params.get("total")), text if isinstance(text, str) else None)
