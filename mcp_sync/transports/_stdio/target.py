"""A server that is a child process, spoken to over its standard input and output."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

from ...errors import UsageError
from .._base import Settings
from .channel import StdioChannel
from .launch import INHERIT
from .masking import masked


@dataclass(frozen=True)
class Stdio:
    """A server to be started as a child process.

    The child gets a small, safe part of this process's environment: PATH, HOME, USER, SHELL, TERM, the
    language, the time zone, directories for temporary files and the like, and on Windows what programs
    need there. ``env`` is merged over it: ``env={}`` adds nothing, just as ``env=None`` does.

    Args:
        command: The program: a name to be found in the child's PATH, or a path.
        args: Its arguments.
        env: Variables for the child, over the inherited ones. Never shown anywhere.
        cwd: The working directory of the child.
        stderr: What gets the child's standard error, besides being kept for errors and logged at DEBUG
            under ``mcp_sync.stdio``: an object with ``write`` (a file, text or binary), or a callable
            that takes a line. It is used on a thread of its own, and must not block for long: a child
            whose standard error is not read stops.
        inherit_env: ``"base"`` for the safe part, ``"all"`` for the whole environment of this process,
            ``"none"`` for nothing but ``env``.
        name: What errors call it beside its command: the name that it has in a configuration, say. Makes no
            difference otherwise.

    Raises:
        UsageError: An argument has a wrong type.
    """

    command: str
    args: Sequence[str] = ()
    env: Optional[Mapping[str, str]] = field(default=None, hash=False)
    cwd: Optional[str] = None
    stderr: Any = field(default=None, hash=False)
    inherit_env: str = "base"
    name: Optional[str] = field(default=None, compare=False)

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        set_field(self, "command", _text("command", self.command))
        if not self.command:
            raise UsageError("Stdio: command is empty")
        if isinstance(self.args, (str, bytes)) or not isinstance(self.args, Sequence):
            raise UsageError(f"Stdio: args must be a list of strings, not {type(self.args).__name__}")
        set_field(self, "args", tuple(_text("an argument", each) for each in self.args))
        if self.env is not None:
            set_field(self, "env", _variables(self.env))
        if self.cwd is not None:
            set_field(self, "cwd", _text("cwd", self.cwd))
        if self.inherit_env not in INHERIT:
            raise UsageError(f"Stdio: inherit_env must be one of {INHERIT}, not {self.inherit_env!r}")
        if self.name is not None:
            set_field(self, "name", _text("name", self.name))
        if not (self.stderr is None or hasattr(self.stderr, "write") or callable(self.stderr)):
            raise UsageError("Stdio: stderr must be None, an object with write(), or a callable")

    def __repr__(self) -> str:
        command, *args = masked((self.command, *self.args))
        parts = [repr(command)]
        if args:
            parts.append(repr(args))
        if self.env is not None:
            parts.append(f"env={dict.fromkeys(self.env, '***')}")
        if self.cwd is not None:
            parts.append(f"cwd={self.cwd!r}")
        if self.inherit_env != "base":
            parts.append(f"inherit_env={self.inherit_env!r}")
        if self.name is not None:
            parts.append(f"name={self.name!r}")
        return f"Stdio({', '.join(parts)})"

    def identity(self) -> Hashable:
        """Return a key of this server: a digest, since arguments and variables may hold secrets."""
        env = None if self.env is None else sorted(self.env.items())
        what = repr((self.command, self.args, env, self.cwd, self.inherit_env))
        return ("stdio", hashlib.sha256(what.encode("utf-8", "surrogatepass")).hexdigest())

    def channel(self, settings: Settings) -> StdioChannel:
        """Make a channel; its `start` starts the process."""
        return StdioChannel(self, settings)


def _text(what: str, value: Any) -> str:
    try:
        text = os.fspath(value)
    except TypeError:
        text = None
    if not isinstance(text, str):
        raise UsageError(f"Stdio: {what} must be a string or a path, not {type(value).__name__}")
    if "\0" in text:
        raise UsageError(f"Stdio: {what} holds a null character")
    return text


def _variables(env: Any) -> dict[str, str]:
    if not isinstance(env, Mapping):
        raise UsageError(f"Stdio: env must be a mapping of strings, not {type(env).__name__}")
    for name, value in env.items():
        if not isinstance(name, str) or not name or "=" in name or "\0" in name:
            raise UsageError(f"Stdio: {name!r} cannot be the name of an environment variable")
        if not isinstance(value, str) or "\0" in value:
            kind = type(value).__name__
            raise UsageError(f"Stdio: the environment variable {name} must be a string, not this {kind}")
    return dict(env)
