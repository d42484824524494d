"""What the runs of one task have in common: its id, its state, and what comes after it."""

from __future__ import annotations

import logging
from typing import Any

from celery import states
from celery.backends.base import DisabledBackend
from celery.backends.rpc import RPCBackend
from celery.exceptions import BackendError

from ._progress import STATE

logger = logging.getLogger("mcp_sync.celery")

INPUT_REQUIRED, RESUMING = "INPUT_REQUIRED", "RESUMING"
ASKING = (INPUT_REQUIRED, RESUMING)
# Backends of which a worker cannot read what it has written: none at all, and messages to the sender.
_UNREADABLE = (DisabledBackend, RPCBackend)
# What belongs to one run of a task, and not to those that follow it under the same id.
_OF_ONE_RUN = ("task_id", "expires", "retries", "replaced_task_nesting")


def carried(request: Any) -> dict[str, Any]:
    """Return what belongs to a task whichever run it is in: what follows it, its group, its queue."""
    options = {name: v for name, v in request.as_execution_options().items() if name not in _OF_ONE_RUN}
    info = request.delivery_info or {}
    if info.get("exchange"):
        options.update(exchange=info["exchange"], routing_key=info.get("routing_key"))
    else:
        options["queue"] = info.get("routing_key")
    options.update(priority=info.get("priority"), ignore_result=request.ignore_result)
    return {name: value for name, value in options.items() if value is not None}


def is_readable(backend: Any) -> bool:
    """Whether workers can read what they have written to a result backend."""
    return not isinstance(backend, _UNREADABLE)


def kept(task: Any) -> tuple[str, dict[str, Any]]:
    """Return the state of a task, and what was noted with it."""
    if not is_readable(task.backend):
        return states.PENDING, {}
    found = task.backend.get_task_meta(task.request.id, cache=False)
    noted = found.get("result")
    return found["status"], noted if isinstance(noted, dict) else {}


def note(task: Any, meta: dict[str, Any]) -> None:
    """Keep how far a task is, if the result backend can be used."""
    try:
        task.update_state(state=STATE, meta=meta)
    except Exception as error:
        if not is_of_backend(task, error):
            raise
        logger.warning("How far the task %s is cannot be kept: %r", task.request.id, error)


def is_of_backend(task: Any, error: Exception) -> bool:
    """Whether the result backend cannot be used just now."""
    return isinstance(error, BackendError) or bool(task.backend.exception_safe_to_retry(error))
