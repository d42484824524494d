"""Tasks that take long: kept in a row that any worker can look at."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Optional
from uuid import uuid4

from django.utils import timezone

from ...errors import UsageError
from . import crypto, signals
from .authorization import ANONYMOUS, principal_of
from .models import TaskRecord, plain
from .servers import mcp

_LONGEST = 255  # characters of the name of a task
FINAL = ("completed", "failed", "cancelled")
_SEEN = ("status", "message", "poll_interval", "expires", "updated", "result")


def start(alias: str, user: Any, tool: str, arguments: Optional[Mapping[str, Any]] = None) -> TaskRecord:
    """Start a task, and keep it.

    Args:
        alias: The server.
        user: Whose task it is.
        tool: Which tool it calls.
        arguments: With which arguments.
    """
    handle = mcp[alias].for_user(user).start_task(tool, arguments)
    row = TaskRecord(
        alias=alias,
        user=user if getattr(user, "is_authenticated", False) else None,
        principal=principal_of(user),
        task_id=_name(handle.id or f"answered-{uuid4()}"),
        tool=tool,
    )
    row.handle = crypto.sealer().seal(handle.to_json(), row.about)
    _look(row, handle)
    return row


def refresh(row: TaskRecord, user: Any) -> TaskRecord:
    """Ask the server how a task is getting on, and keep the answer. Once it has ended, nobody is asked.

    Raises:
        MCPError: As from any call; `TaskGone` if the server has forgotten it.
    """
    if row.status not in FINAL:
        _look(row, handle_of(row, user))
    return row


def handle_of(row: TaskRecord, user: Any) -> Any:
    """Return the handle of a task, to cancel it for instance.

    Raises:
        UsageError: It cannot be read: the keys were replaced, or somebody has changed it.
    """
    handle = crypto.sealer().unseal(row.handle, row.about)
    if handle is None:
        raise UsageError("the record of this task cannot be read any more")
    return mcp[row.alias].for_user(user).task(handle)


def of_user(user: Any) -> Any:
    """Return the tasks of a user, the newest first: none for who is not logged in, as there may be many.

    For those, keep the primary key of a row in their session.
    """
    principal = principal_of(user)
    rows = TaskRecord.objects.filter(principal=principal).order_by("-created")
    return rows.none() if principal == ANONYMOUS else rows


def _look(row: TaskRecord, handle: Any) -> None:
    state = handle.status()
    row.status = plain(state.status, 20)
    row.message = plain(getattr(state, "status_message", ""))
    interval, ttl = getattr(state, "poll_interval", None), getattr(state, "ttl", None)
    row.poll_interval = interval / 1000 if interval else 1.0
    row.expires = _later(row.created, ttl) if ttl else None
    row.updated = timezone.now()
    if row.status == "completed":
        row.result = crypto.sealer().seal(handle.result().to_wire(), row.about)
    if not _kept(row):
        return
    if row.status in FINAL:
        signals.send(signals.task_finished, TaskRecord, task=row)


def _kept(row: TaskRecord) -> bool:
    """Keep what was seen, unless somebody else has seen the end of the task, or the row is gone."""
    if row.pk is None:
        row.save()
        return True
    rows = TaskRecord.objects.filter(pk=row.pk)
    if rows.exclude(status__in=FINAL).update(**{name: getattr(row, name) for name in _SEEN}):
        return True
    with suppress(TaskRecord.DoesNotExist):
        row.refresh_from_db(using=rows.db)
    return False


def _name(id: str) -> str:
    """Return what a column can hold of the name that a server has given to a task."""
    return id if id == plain(id, _LONGEST) else f"sha256-{hashlib.sha256(id.encode()).hexdigest()}"


def _later(since: datetime, milliseconds: float) -> Optional[datetime]:
    try:
        return since + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None  # As good as never.
