"""Files with variables for a server: ``NAME=value``, one a line."""

from __future__ import annotations

import re
from pathlib import Path

from ._errors import Place
from ._reading import read_named

_LINE = re.compile(
    r"""(?:export\s+)?(?P<name>[A-Za-z_][\w.-]*)\s*=\s*"""
    r"""(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>[^']*)'|(?P<plain>.*?))\s*(?:(?<=\s)\#.*)?"""
)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def read_env_file(path: Path, place: Place) -> dict[str, str]:
    """Return the variables of a file.

    Raises:
        ConfigError: It cannot be read, or has another form.
    """
    found = {}
    for number, line in enumerate(read_named(path, str(path), place).splitlines(), 1):
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
