"""What a client sends back just as it came, and so has to know exactly, even where a message is mended."""

from __future__ import annotations

import json
from typing import Any

# Of a result. What is asked for is answered under its keys.
_MEMBERS = ("requestState", "taskId")
_KEYED = "inputRequests"
# Where revision 2025-11-25 has a new task.
_TASK = "task"


def restore(message: Any, text: str) -> None:
    """Put back into a message that was mended what is sent back just as it came.

    What cannot be written as UTF-8 is no text then, and refused where it would be sent: a server that got
    something else than it had sent would answer for something else.

    Args:
        message: The message as it was read, with U+FFFD in place of what is no Unicode.
        text: The same as it came, with surrogates in place of bytes that are no UTF-8.

    Raises:
        ValueError: It cannot be read as it came: it has an integer of more digits than Python takes.
    """
    result = message.get("result") if isinstance(message, dict) else None
    if isinstance(result, dict) and any(name in result for name in (*_MEMBERS, _TASK, _KEYED)):
        _restore(result, json.loads(text)["result"])


def _restore(result: dict[str, Any], came: dict[str, Any]) -> None:
    for name in _MEMBERS:
        if name in result:
            result[name] = came[name]
    task, requests = result.get(_TASK), result.get(_KEYED)
    if isinstance(task, dict):
        _restore(task, came[_TASK])
    if isinstance(requests, dict) and set(requests) != set(came[_KEYED]):
        result[_KEYED] = came[_KEYED]


def is_text(value: Any) -> bool:
    """Whether a value is a string that comes back as it was: half a surrogate pair has no UTF-8."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False
