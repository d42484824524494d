"""``${VAR}`` and its like, in the strings of a configuration."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Optional, Union

from ._errors import Place
from ._reading import read_named

Inputs = Union[Mapping[str, str], Callable[[Mapping[str, Any]], Optional[str]], None]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\([A-Za-z0-9_]+\))?")
_BARE = re.compile(r"(?<!\w)\$([A-Za-z_][A-Za-z0-9_]*)")
# A default may have a variable, which has a default, and so on.
_DEEPEST = 10


@dataclass(frozen=True)
class Variables:
    """What the variables of a configuration stand for. The environment is read when it is asked.

    Args:
        folder: What relative paths of files are relative to.
        bare: Whether ``$NAME`` is a variable too, unless it stands in the middle of a word.
        inputs: The declarations of ``${input:id}``, by id (VS Code).
        answers: Their values, by id, or a function that returns one, given the declaration.
    """

    folder: str
    bare: bool
    inputs: Mapping[str, Mapping[str, Any]]
    answers: Inputs = None

    def fill(self, value: Any, place: Place) -> Any:
        """Return a value with all variables in its strings replaced. Keys stay as they are.

        Raises:
            ConfigError: A variable is not set, or cannot be read.
        """
        if isinstance(value, str):
            return self._text(value, place, 0)
        if isinstance(value, Mapping):
            return {name: self.fill(each, place.at(str(name))) for name, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.fill(each, place.at(str(number))) for number, each in enumerate(value)]
        return value

    def _text(self, text: str, place: Place, depth: int) -> str:
        if depth > _DEEPEST:
            raise place.error("the defaults of variables are nested too deeply")
        return "".join(
            self._value(piece, place, depth) if is_variable else self._plain(piece, place)
            for is_variable, piece in pieces(text, place)
        )

    def _plain(self, text: str, place: Place) -> str:
        """Return what stands for a text without ``${...}``."""
        if not self.bare:
            return text
        return _BARE.sub(lambda found: self.variable(found[1], None, place), text)

    def _value(self, inner: str, place: Place, depth: int) -> str:
        """Return what stands for the inside of ``${...}``."""
        # The colon of a default comes after the name, that of a kind in front of it.
        kind, colon, rest = inner.partition(":")
        if colon and not rest.startswith("-"):
            return self._of_kind(kind, rest, place, depth)
        name, has_default, default = inner.partition(":-")
        if not has_default:
            known = self._of_the_workspace(name)
            if known is not None:
                return known
        return self._with_default(name, default if has_default else None, place, depth)

    def _with_default(self, name: str, default: Optional[str], place: Place, depth: int) -> str:
        if not _NAME.fullmatch(name):
            raise place.error("${...} must hold the name of a variable; write $${ for these two characters")
        value = self.variable(name, "" if default is not None else None, place)
        return value or self._text(default or "", place, depth + 1)

    def _of_kind(self, kind: str, rest: str, place: Place, depth: int) -> str:
        if kind == "env":
            name, has_default, default = rest.partition(":-")
            return self._with_default(name, default if has_default else None, place, depth)
        if kind == "file":
            return self._file(self._text(rest, place, depth + 1), place)
        if kind == "input":
            return self._input(rest, place)
        raise place.error(
            f"${{{kind}:...}} is not known: there are ${{NAME}}, ${{NAME:-default}}, ${{env:NAME}}, "
            "${file:path} and ${input:id}"
        )

    def variable(self, name: str, default: Optional[str], place: Place) -> str:
        """Return a variable of the environment.

        Raises:
            ConfigError: It is not set.
        """
        value = os.environ.get(name, default)
        if value is None:
            raise place.error(f"the environment variable {name} is not set")
        return value

    def _of_the_workspace(self, name: str) -> Optional[str]:
        """Return what editors call by these names, ``None`` for any other name."""
        if name == "workspaceFolder":
            return self.folder
        if name == "workspaceFolderBasename":
            return os.path.basename(self.folder)
        if name == "userHome":
            return os.path.expanduser("~")
        return os.sep if name in ("pathSeparator", "/") else None

    def _file(self, name: str, place: Place) -> str:
        # Whoever writes a secret into a file ends the line.
        return read_named(self.path(name), name, place).rstrip("\r\n")

    def path(self, name: str) -> Path:
        """Return a path that may be relative to the configuration, or to the home of the user."""
        return Path(self.folder, os.path.expanduser(name))

    def _input(self, name: str, place: Place) -> str:
        declared = self.inputs.get(name, {"id": name})
        given = self.answers(declared) if callable(self.answers) else (self.answers or {}).get(name)
        if given is None:
            given = declared.get("default")
        if not isinstance(given, str):
            what = declared.get("description")
            about = f" ({what})" if isinstance(what, str) else ""
            raise place.error(f"the input {name}{about} has no value: pass inputs={{{name!r}: ...}}")
        return given


def pieces(text: str, place: Place) -> Iterator[tuple[bool, str]]:
    """Give the parts of a string: plain text, and the insides of ``${...}``. ``$${`` stands for ``${``.

    Raises:
        ConfigError: A ``${`` is not closed.
    """
    position = 0
    while True:
        start = text.find("${", position)
        if start < 0:
            yield False, text[position:]
            return
        if start > position and text[start - 1] == "$":
            yield False, text[position : start - 1] + "${"
            position = start + 2
            continue
        yield False, text[position:start]
        position = _end(text, start, place)
        yield True, text[start + 2 : position - 1]


def _end(text: str, start: int, place: Place) -> int:
    """Return where the variable that begins at ``start`` has ended."""
    depth = 0
    for found in re.finditer(r"\$\{|\}", text[start:]):
        depth += 1 if found.group() == "${" else -1
        if not depth:
            return start + found.end()
    raise place.error("${ is not closed; write $${ for these two characters")
