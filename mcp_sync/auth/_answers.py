"""What answers of servers say, and how errors quote them: bounded, printable, without secrets."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Optional

from .._protocol.striking import struck
from ._steps import Answer

# Statuses after which the same request may have another outcome later.
_PASSING = (408, 425, 429)
_LONGEST_CODE = 64
_LONGEST_QUOTE = 200
_NUMBER = re.compile(r"[+-]?[0-9]{1,15}(?:\.[0-9]{0,15})?")


class Refusal(NamedTuple):
    """What a server says when it refuses (RFC 6749, section 5.2).

    Attributes:
        error: The code, such as ``invalid_grant``; empty if there is none.
        description: Its words, fit for an error; empty if there are none.
    """

    error: str
    description: str

    def __str__(self) -> str:
        return ": ".join(part for part in self if part)


def json_object(body: bytes) -> Optional[dict[str, Any]]:
    """Return a body that is a JSON object, ``None`` for anything else.

    A number that is none, or too large to be one, is null: what is kept has to be JSON for anybody.
    """
    try:
        value = json.loads(body, parse_constant=lambda name: None, parse_float=_finite)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _finite(text: str) -> Optional[float]:
    number = float(text)
    return number if math.isfinite(number) else None


def is_passing(status: int) -> bool:
    """Whether an answer says nothing about what was asked for, only that it cannot be had now."""
    return status >= 500 or status in _PASSING


def refusal_of(body: Mapping[str, Any], secrets: Iterable[str] = ()) -> Refusal:
    """Return how an answer refuses; both parts are empty if it does not.

    Args:
        body: The JSON object.
        secrets: What was sent, and must not come back in an error.
    """
    known = list(secrets)
    code, words = body.get("error"), body.get("error_description")
    return Refusal(
        quoted(code, known, _LONGEST_CODE) if isinstance(code, str) else "",
        quoted(words, known) if isinstance(words, str) else "",
    )


def quoted(text: str, secrets: Iterable[str] = (), limit: int = _LONGEST_QUOTE) -> str:
    """Return a server's words on one line, shortened, without control characters and without secrets."""
    plain = struck(text, secrets)
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in plain).split())
    return line if len(line) <= limit else line[: limit - 3] + "..."


def described(answer: Answer, secrets: Iterable[str] = ()) -> str:
    """Return in a few words what an answer is that is of no use."""
    body = json_object(answer.body)
    if body is None:
        return f"status {answer.status}" + (", no JSON" if answer.status < 300 else "")
    refusal = str(refusal_of(body, secrets))
    return f"status {answer.status}: {refusal}" if refusal else f"status {answer.status}"


def is_text(value: str) -> bool:
    """Whether a string can be sent at all: halves of characters (lone surrogates) cannot."""
    return not any("\ud800" <= character <= "\udfff" for character in value)


def text_of(body: Mapping[str, Any], name: str) -> Optional[str]:
    """Return a text that can be sent again, ``None`` if it is absent, empty, null or something else."""
    value = body.get(name)
    if not isinstance(value, str) or not value:
        return None
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return None
    return value


def number_of(value: Any) -> Optional[float]:
    """Return a number, also one that came as a text; ``None`` for anything else."""
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
