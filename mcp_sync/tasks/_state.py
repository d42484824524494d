"""How a task is getting on, as a server tells it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from .._concurrency.fork import no_fork
from .._protocol.brief import excerpt
from .._protocol.echoed import is_text
from ..errors import InvalidResult
from ..errors._printable import printable

ENDED = ("completed", "failed", "cancelled")
INPUT_REQUIRED = "input_required"
_KNOWN = ("working", INPUT_REQUIRED, *ENDED)


@dataclass(frozen=True)
class TaskState:
    """How a task was getting on when the server was asked.

    Attributes:
        id: The id of the task; empty where the server answered the call at once.
        status: ``"working"``, ``"input_required"``, or final: ``"completed"``, ``"failed"``, ``"cancelled"``.
        status_message: The status in the server's words.
        created_at: When the task began, as an ISO 8601 string.
        last_updated_at: When it changed last, likewise.
        ttl: Seconds from its beginning for which the server keeps it, ``None`` for ever (or not said). The
            server may change it, and is the one who decides: the client ends nothing by it.
        poll_interval: Seconds that the server wants between two looks at it, ``None`` if it did not say.
        raw: The answer as it came.
    """

    id: str
    status: str
    status_message: Optional[str] = None
    created_at: Optional[str] = None
    last_updated_at: Optional[str] = None
    ttl: Optional[float] = None
    poll_interval: Optional[float] = None
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def has_ended(self) -> bool:
        """Whether nothing will change any more."""
        return self.status in ENDED

    @property
    def input_requests(self) -> dict[str, Any]:
        """What the server asks, by its keys: `ElicitRequest`, `CreateMessageRequest`, `ListRootsRequest`.

        Empty where it asks nothing, and on revision 2025-11-25, where it asks by requests of its own.

        Raises:
            InvalidResult: One of them is malformed.
        """
        with no_fork():
            from ..types.input_required import parse_input_requests
        requests = self.raw.get("inputRequests") if self.status == INPUT_REQUIRED else None
        found = parse_input_requests(requests) if isinstance(requests, dict) else {}
        if found is None:
            raise InvalidResult(
                f"the input requests of task {printable(self.id)} are malformed", result=self.raw
            )
        return found


def read_state(raw: Mapping[str, Any], task_id: Optional[str] = None) -> TaskState:
    """Read what a server says of a task, in the words of the extension or in those of 2025-11-25.

    Args:
        raw: The answer.
        task_id: The task that it must be about; ``None`` for a new one.

    Raises:
        InvalidResult: It is about no task, about another one, or has an unknown status.
    """
    found, status = raw.get("taskId", task_id), raw.get("status")
    if not isinstance(found, str) or not found:
        raise InvalidResult("the server began a task without an id", result=raw)
    if not is_text(found):
        raise InvalidResult("the id of the task is no text, and cannot be sent back", result=raw)
    if task_id is not None and found != task_id:
        raise InvalidResult(
            f"asked for task {printable(task_id)}, the server answered for {printable(found)}", result=raw
        )
    if status not in _KNOWN:
        raise InvalidResult(
            f"task {printable(found)} has the unknown status {excerpt(repr(status))}", result=raw
        )
    return TaskState(
        found,
        status,
        _text(raw.get("statusMessage")),
        _text(raw.get("createdAt")),
        _text(raw.get("lastUpdatedAt")),
        _seconds(raw.get("ttlMs", raw.get("ttl"))),
        _seconds(raw.get("pollIntervalMs", raw.get("pollInterval"))),
        raw,
    )


def raw_requests(state: TaskState) -> dict[str, Any]:
    """Return what the server asks, as it came.

    Raises:
        InvalidResult: It waits for input without saying which, or in another form.
    """
    if state.status != INPUT_REQUIRED:
        return {}
    requests = state.raw.get("inputRequests")
    if not isinstance(requests, dict):
        raise InvalidResult(
            f"task {printable(state.id)} waits for input without saying which", result=state.raw
        )
    for key in requests:
        if not is_text(key):
            raise InvalidResult(
                f"task {printable(state.id)} asks under the key {excerpt(repr(key))}, which is no text",
                result=state.raw,
            )
    return requests


def _text(value: Any) -> Optional[str]:
    return value if isinstance(value, str) else None


def _seconds(value: Any) -> Optional[float]:
    """Return milliseconds as seconds; ``None`` for what is no length of time."""
    if type(value) not in (int, float):
        return None
    try:
        seconds = value / 1000
    except OverflowError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
