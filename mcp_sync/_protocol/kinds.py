"""What a decoded message is for, and what can be read of it: its id, its error.

Lenient: one odd member of a peer's message must not cost a whole connection.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, NamedTuple, Optional, Union

from .codec import excerpt


class Kind(enum.Enum):
    """What a message is for."""

    RESPONSE = "response"
    REQUEST = "request"
    NOTIFICATION = "notification"
    INVALID = "invalid"


# Before Python 3.11 reading a member off an enumeration runs Python code; these names do not.
RESPONSE = Kind.RESPONSE
REQUEST = Kind.REQUEST
NOTIFICATION = Kind.NOTIFICATION
INVALID = Kind.INVALID


class ErrorParts(NamedTuple):
    """The members of a JSON-RPC error, as far as they can be read."""

    code: int
    message: str
    data: Any


def classify(message: Any) -> Kind:
    """Tell what kind of message this is.

    With a ``method`` it is a request if its ``id`` is a string or an integer, and a notification if
    it has no ``id``. Without one it is a response if it has an ``id``, a ``result`` or an ``error``.
    ``jsonrpc`` may be missing. All else is invalid.
    """
    if not isinstance(message, dict):
        return INVALID
    if "method" in message:
        if not isinstance(message["method"], str):
            return INVALID
        if "id" not in message:
            return NOTIFICATION
        request_id = message["id"]
        if isinstance(request_id, (str, int)) and not isinstance(request_id, bool):
            return REQUEST
        return INVALID
    if "id" in message or "result" in message or "error" in message:
        return RESPONSE
    return INVALID


def as_id(raw: Any) -> Optional[int]:
    """Read the id of an answer as one of our integers, or ``None`` if it cannot be one.

    Besides an integer this takes what careless servers make of it: a float without fraction
    (``1.0``) and its canonical decimal string (``"1"``, but neither ``"01"`` nor ``" 1"``).
    """
    if isinstance(raw, int):
        return None if isinstance(raw, bool) else raw
    if isinstance(raw, (float, str)):
        return _lenient_int(raw)
    return None


def shown_id(response: Mapping[str, Any]) -> str:
    """Return the id of an answer as messages of errors show it."""
    return excerpt(repr(response.get("id")), 40)


def _lenient_int(raw: Union[float, str]) -> Optional[int]:
    if isinstance(raw, float):
        return int(raw) if raw.is_integer() and abs(raw) < 2**53 else None
    if len(raw) > 20:
        return None
    try:
        number = int(raw)
    except ValueError:
        return None
    return number if str(number) == raw else None


def outcome(message: Mapping[str, Any]) -> Union[ErrorParts, str, None]:
    """Return what a response comes to: ``None`` for a result, an error, or what makes it unusable.

    It can be used with a non-null ``error`` that `error_parts` can read, or else with a non-null
    ``result``. With both the error counts: taking a failure for a success would be worse than the
    reverse.
    """
    error = message.get("error")
    if error is not None:
        return error_parts(message) or f"the response has an error without a code: {excerpt(repr(error))}"
    if message.get("result") is not None:
        return None
    if "result" in message:
        return "the result of the response is null"
    return "the response has neither a result nor an error"


def error_parts(message: Mapping[str, Any]) -> Optional[ErrorParts]:
    """Read the error of a response, or ``None`` if it has none or one without a readable code.

    The code may also be a float without fraction or a decimal string; a message that is missing or
    null is empty, and one that is no string is written out.
    """
    error = message.get("error")
    if not isinstance(error, dict):
        return None
    code = as_id(error.get("code"))
    if code is None:
        return None
    words = error.get("message")
    if not isinstance(words, str):
        words = "" if words is None else str(words)
    return ErrorParts(code, words, error.get("data"))
