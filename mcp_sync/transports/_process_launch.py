"""How the process of a server is started, and what is said when it cannot be."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Optional

from ..errors import ConnectFailed
from ._environment import resolve, search_path
from ._pipes import Wake


class Launched(NamedTuple):
    """A process that was started, our ends of its standard streams, and what wakes their readers."""

    popen: subprocess.Popen[bytes]
    stdin: int
    stdout: int
    stderr: int
    wake: Wake


def launch(command: Sequence[str], env: Mapping[str, str], cwd: Optional[str]) -> Launched:
    """Start a process that leads a session of its own.

    Raises:
        ConnectFailed: It cannot be started.
    """
    resolved = resolve(command, env)
    if resolved is None:
        raise _not_found(command[0], env)
    with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
        try:
            wake = Wake()
            ours.callback(wake.close)
            stdin_read, stdin = _pipe(theirs, ours)
            stdout, stdout_write = _pipe(ours, theirs)
            stderr, stderr_write = _pipe(ours, theirs)
            popen = subprocess.Popen(
                resolved,
                stdin=stdin_read,
                stdout=stdout_write,
                stderr=stderr_write,
                env=dict(env),
                cwd=cwd,
                start_new_session=True,
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except (OSError, ValueError) as error:
            raise _start_failed(error, command[0], env, cwd) from error
        ours.pop_all()
    return Launched(popen, stdin, stdout, stderr, wake)


def _pipe(reader: contextlib.ExitStack, writer: contextlib.ExitStack) -> tuple[int, int]:
    read, write = os.pipe()
    reader.callback(os.close, read)
    writer.callback(os.close, write)
    return read, write


def _start_failed(
    error: Exception, program: str, env: Mapping[str, str], cwd: Optional[str]
) -> ConnectFailed:
    if cwd is not None and not os.path.isdir(cwd):
        return ConnectFailed(f"could not start {program}: no such directory: {cwd}")
    if isinstance(error, FileNotFoundError):
        return _not_found(program, env)
    return ConnectFailed(f"could not start {program}: {getattr(error, 'strerror', None) or error}")


def _not_found(program: str, env: Mapping[str, str]) -> ConnectFailed:
    if os.path.dirname(program):
        # The file may be there, and the interpreter of its first line missing.
        missing = "the interpreter it names was not found" if os.path.exists(program) else "no such file"
        return ConnectFailed(f"command not found: {program} ({missing})")
    hint = ""
    if " " in program.strip():
        hint = "; arguments go into a list of their own: Stdio('program', ['argument', ...])"
    return ConnectFailed(f"command not found: {program} (PATH searched: {search_path(env)}){hint}")
