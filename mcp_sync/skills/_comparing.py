"""Is the front matter of a ``SKILL.md`` what the entry of the skill says?

A value without quotes that versions 1.1 and 1.2 of YAML read in different ways (``yes``, ``010``, a date) may
be in the entry as either.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ._front_matter import Plain


def differences(found: Any, promised: Any, where: str = "") -> list[str]:
    """Return the names of the fields in which front matter and entry differ."""
    if isinstance(found, dict) and isinstance(promised, dict):
        names = [*found, *(name for name in promised if name not in found)]
        inner = [
            differences(found[name], promised[name], f"{where}{name}.")
            if name in found and name in promised
            else [f"{where}{name}"]
            for name in names
        ]
        return [name for each in inner for name in each]
    if isinstance(found, list) and isinstance(promised, list) and len(found) == len(promised):
        pairs = enumerate(zip(found, promised))
        return [name for index, (one, two) in pairs for name in differences(one, two, f"{where}{index}.")]
    values: Sequence[Any] = _readings(found) if isinstance(found, Plain) else [found]
    return [] if any(_equal(value, promised) for value in values) else [where.rstrip(".")]


def _equal(one: Any, two: Any) -> bool:
    numbers = (int, float)
    if isinstance(one, bool) or isinstance(two, bool):
        return one is two
    return one == two and (type(one) is type(two) or (isinstance(one, numbers) and isinstance(two, numbers)))


_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}
_OLD_WORDS = {"yes": True, "no": False, "on": True, "off": False, "y": True, "n": False}
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def _readings(plain: Plain) -> Sequence[Any]:
    text = str(plain)
    lower = text.lower()
    if lower in _WORDS and text in (lower, lower.title(), lower.upper()):
        return [_WORDS[lower]]
    if lower in _OLD_WORDS:
        return [text, _OLD_WORDS[lower]]
    if _DAY.fullmatch(text):
        return [text, f"{text}T00:00:00.000Z", f"{text}T00:00:00Z", f"{text}T00:00:00"]
    if len(text) < 400:
        return _numbers(text)
    return [text]


def _numbers(text: str) -> Sequence[Any]:
    digits = text.lstrip("+-")
    if re.fullmatch(r"[-+]?[0-9]+", text):
        if digits.startswith("0") and len(digits) > 1:
            octal = [int(text, 8)] if re.fullmatch("[0-7]+", digits) else []
            return [text, int(text), *octal]
        return [int(text)]
    if re.fullmatch(r"0x[0-9a-fA-F]+", text):
        return [int(text, 16)]
    if re.fullmatch(r"0o[0-7]+", text):
        return [text, int(text, 8)]
    if re.fullmatch(r"[-+]?[0-9][0-9_]*", text):
        return [text, int(text.replace("_", ""))]
    if re.fullmatch(r"[-+]?[1-9][0-9]*(?::[0-5]?[0-9]){1,3}", text):
        return [text, _by_sixty(text)]
    if _FLOAT.fullmatch(text):
        # Version 1.1 takes "1e3" for text.
        return [float(text), *([text] if "e" in text.lower() else [])]
    return [text]


def _by_sixty(text: str) -> int:
    """Return what version 1.1 takes for hours, minutes and seconds."""
    number = 0
    for part in text.lstrip("+-").split(":"):
        number = number * 60 + int(part)
    return -number if text.startswith("-") else number
