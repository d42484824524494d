"""Files with variables for a server: ``NAME=value``, one a line."""

from __future__ import annotations

import re
from pathlib import Path

from .._concurrency.deadline import Deadline
from .._files import PATIENCE, read_bytes
from ._errors import Place

_LINE = re.compile(
    r"""(?:export\s+)?(?P<name>[A-Za-z_][\w.-]*)\s*=\s*"""
    r"""(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>[^']*)'|(?P<plain>.*?))\s*(?:(?<=\s)\#.*)?"""
)
_LARGEST = 1024 * 1024
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def read_env_file(path: Path, place: Place) -> dict[str, str]:
    """Return the variables of a file.

    Raises:
        ConfigError: It cannot be read, or has another form.
    """
    try:
        data = read_bytes(path, _LARGEST + 1, Deadline(PATIENCE))
        text = data.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or "it is no text"
        raise place.error(f"the file {path} cannot be read: {problem}") from None
    if len(data) > _LARGEST:
        raise place.error(f"the file {path} is larger than {_LARGEST} bytes")
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None:
            raise place.error(f"line {number} of the file {path} is not NAME=value")
        found[match["name"]] = _value(match)
    return found


def _value(match: re.Match[str]) -> str:
    if match["double"] is not None:
        return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), match["double"])
    return match["single"] if match["single"] is not None else match["plain"]
