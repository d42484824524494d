"""What is wrong with a configuration, and where."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

from .._protocol.visible import clean
from ..errors import UsageError

# As they are called in a file, by their types in Python.
_KINDS = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "a list",
    tuple: "a list",
    dict: "an object",
    type(None): "null",
}


class ConfigError(UsageError):
    """A configuration cannot be used. Says where, and shows no value.

    Attributes:
        file: The file, ``None`` for a mapping.
        server: The server in it, ``None`` where it is not about one.
        key: The key of the server, with dots below it (``env.TOKEN``), ``None`` where there is none.
        line: The line in the file, from 1, where it is known.
        column: The column, from 1, likewise.
    """

    def __init__(
        self,
        message: str,
        *,
        file: Optional[str] = None,
        server: Optional[str] = None,
        key: Optional[str] = None,
        line: Optional[int] = None,
        column: Optional[int] = None,
    ) -> None:
        super().__init__(message)
        self.file = file
        self.server = server
        self.key = key
        self.line = line
        self.column = column

    # Servers of two readings are compared, with what is wrong with them.
    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConfigError) and self._told() == other._told()

    def __hash__(self) -> int:
        return hash(self._told())

    def _told(self) -> tuple[Any, ...]:
        return self.args, self.file, self.server, self.key, self.line, self.column


class Place(NamedTuple):
    """Where something stands: what errors and warnings begin with."""

    file: Optional[str] = None
    server: Optional[str] = None
    key: Optional[str] = None

    def at(self, key: str) -> Place:
        """Return the place of a key below this one."""
        return self._replace(key=f"{self.key}.{key}" if self.key else key)

    def __str__(self) -> str:
        parts = [self.file or "the configuration"]
        if self.server is not None:
            parts.append(f"server {self.server!r}")
        if self.key is not None:
            parts.append(f"key {self.key!r}")
        return clean(", ".join(parts))

    def error(self, problem: str) -> ConfigError:
        """Return an error about it."""
        return ConfigError(f"{self}: {clean(problem)}", file=self.file, server=self.server, key=self.key)


def named_kind(value: Any) -> str:
    """Return what kind of value something is, in the words of JSON."""
    return _KINDS.get(type(value)) or f"a {type(value).__name__}"
