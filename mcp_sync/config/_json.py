"""JSON as configuration files have it: with the place of a mistake, and perhaps with comments."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple, Optional

from ._errors import ConfigError

# Strings are matched to be passed over. The comments go first: so there is nothing but white space between a
# comma and the end of its list.
_STRING = r'(?P<string>"(?:[^"\\\n]|\\.)*")'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?\*/", re.DOTALL)
_COMMA = re.compile(rf"{_STRING}|,(?=\s*[}}\]])", re.DOTALL)


class Oddity(NamedTuple):
    """The first thing in a file that JSON itself does not have."""

    kind: str
    offset: int


class _Twice(ValueError):
    """JSON allows it, and says nothing of which of the two it means."""


def read_json(text: str, file: str) -> tuple[Any, Optional[Oddity]]:
    """Read JSON with comments and with commas after the last entry.

    Returns:
        What it says, and the first of these extras, ``None`` if there is none.

    Raises:
        ConfigError: It is none, with line and column; or a name stands twice in an object.
    """
    found: list[Oddity] = []
    plain = _without(_COMMENT, "a comment", text, found)
    plain = _without(_COMMA, "a comma after the last entry", plain, found)
    try:
        value = json.loads(plain, object_pairs_hook=_object, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        raise at(text, error.pos, file, f"this is no JSON: {error.msg}") from None
    except _Twice as error:
        raise ConfigError(f"{file}: {error}", file=file) from None
    except RecursionError:
        raise ConfigError(f"{file}: nested too deeply", file=file) from None
    except ValueError as error:
        raise ConfigError(f"{file}: this is no JSON: {error}", file=file) from None
    return value, min(found, key=lambda oddity: oddity.offset, default=None)


def _without(extra: re.Pattern[str], kind: str, text: str, found: list[Oddity]) -> str:
    """Replace what JSON does not have by spaces: lines and columns of what follows stay what they are."""

    def blank(match: re.Match[str]) -> str:
        if match["string"] is not None:
            return match.group()
        found.append(Oddity(kind, match.start()))
        return re.sub(r"[^\n]", " ", match.group())

    return extra.sub(blank, text)


def at(text: str, offset: int, file: str, problem: str) -> ConfigError:
    """Return an error with line and column of a place in a file."""
    line = text.count("\n", 0, offset) + 1
    column = offset - text.rfind("\n", 0, offset)
    message = f"{file}, line {line}, column {column}: {problem}"
    return ConfigError(message, file=file, line=line, column=column)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object. The second of two servers with one name would replace the first without a word."""
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Twice(f"the key {twice!r} stands twice in one object")
    return made


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no number")
