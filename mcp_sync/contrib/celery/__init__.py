"""MCP servers in Celery tasks: within their time limits, retried where that is safe, paused by questions.

::

    from mcp_sync.contrib.celery import MCPTask, use_servers

    app = Celery("site", broker="redis://", backend="redis://")
    use_servers(app, {"reports": {"url": "https://reports.example.com/mcp"}})

    @app.task(base=MCPTask, bind=True, mcp_server="reports", soft_time_limit=120)
    def build(self, month):
        return self.mcp.call_tool("build_report", {"month": month}).to_wire()

How it is made: ``_servers``: the clients of a worker; ``_task``: `MCPTask`; ``_retrying``: which errors are
worth a retry; ``errors``: what results keep of them; ``_progress``; ``_beginning``: the one call of
``run_tool``; ``_polling``: tasks of servers that take long; ``_questions``: what they ask; ``_claiming``:
which of several answers counts; ``_runs``: what all runs of a task have in common.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._concurrency.lazy import lazy

# Whoever reads results has to have this loaded: Celery looks for the classes of errors, and imports nothing.
from . import errors as errors

if TYPE_CHECKING:
    from ._claiming import AlreadyAnswered
    from ._polling import cancel_followed, look_again
    from ._questions import answer, question
    from ._retrying import LoginNeeded, retry_kwargs_for
    from ._servers import use_servers
    from ._task import MCPTask

__all__ = [
    "AlreadyAnswered",
    "LoginNeeded",
    "MCPTask",
    "answer",
    "cancel_followed",
    "look_again",
    "question",
    "retry_kwargs_for",
    "use_servers",
]

_HOMES = {
    "AlreadyAnswered": "_claiming",
    "LoginNeeded": "_retrying",
    "MCPTask": "_task",
    "answer": "_questions",
    "cancel_followed": "_polling",
    "look_again": "_polling",
    "question": "_questions",
    "retry_kwargs_for": "_retrying",
    "use_servers": "_servers",
}

__getattr__, __dir__ = lazy(__name__, _HOMES)
