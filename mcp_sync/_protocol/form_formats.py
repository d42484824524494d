"""The formats that a string of a form may have, and numbers as people type them."""

from __future__ import annotations

import math
import re
from datetime import date, datetime
from typing import Any, Callable, Optional

TRUE = ("true", "yes", "y", "on", "1")
FALSE = ("false", "no", "n", "off", "0")

_INTEGER = re.compile(r"[+-]?[0-9]+")
# Longer ones Python refuses to read, and nobody types.
_MOST_DIGITS = 1000
_EMAIL = re.compile(r"[^@\s]+@[^@\s.]+(\.[^@\s.]+)*")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"{}|\\^`]+")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DATE_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2}:)([0-9]{2})(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})"
)
_LEAP_SECOND = "60"


def is_number(value: Any) -> bool:
    """Whether a value is a number of JSON."""
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def typed_number(text: str, whole: bool) -> Optional[float]:
    """Return the number that was typed, ``None`` if it is none; a whole one without a fraction."""
    if len(text) > _MOST_DIGITS or "_" in text:
        return None
    if _INTEGER.fullmatch(text):
        return int(text)
    try:
        value = float(text)
    except ValueError:
        return None
    if not math.isfinite(value) or (whole and not value.is_integer()):
        return None
    return int(value) if whole else value


def _is_date(text: str) -> bool:
    try:
        return bool(_DATE.fullmatch(text)) and date.fromisoformat(text) is not None
    except ValueError:
        return False


def _is_date_time(text: str) -> bool:
    found = _DATE_TIME.fullmatch(text)
    if found is None:
        return False
    day, minutes, seconds, _, zone = found.groups()
    seconds = "59" if seconds == _LEAP_SECOND else seconds
    try:
        datetime.fromisoformat(f"{day}T{minutes}{seconds}{'+00:00' if zone in 'Zz' else zone}")
    except ValueError:
        return False
    return True


FORMATS: dict[str, tuple[Callable[[str], bool], str]] = {
    "email": (lambda text: bool(_EMAIL.fullmatch(text)), "must be an e-mail address"),
    "uri": (lambda text: bool(_URI.fullmatch(text)), "must be a URI, such as https://example.com/"),
    "date": (_is_date, "must be a date: YYYY-MM-DD"),
    "date-time": (_is_date_time, "must be a date and time: YYYY-MM-DDThh:mm:ss and Z or an offset as +01:00"),
}
"""What a string of each format must be, and what to say if it is not (RFC 3339, RFC 3986; for e-mail
addresses no more than their outline)."""
