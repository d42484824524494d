"""How the process of a server is started, and what is said when it cannot be."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Optional

from ...errors import ConnectFailed
from .pipes import Wake


class Launched(NamedTuple):
    """A process that was started, our ends of its standard streams, and what wakes the readers of two."""

    popen: subprocess.Popen[bytes]
    stdin: int
    stdout: int
    stderr: int
    stdout_wake: Wake
    stderr_wake: Wake


def launch(command: Sequence[str], env: Mapping[str, str], cwd: Optional[str]) -> Launched:
    """Start a process that leads a session of its own.

    Raises:
        ConnectFailed: It cannot be started.
    """
    _refuse_where_gevent_cannot(command[0])
    resolved = resolve(command, env)
    if resolved is None:
        raise _not_found(command[0], env)
    with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
        try:
            wakes = _wake(ours), _wake(ours)
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
    return Launched(popen, stdin, stdout, stderr, *wakes)


def _refuse_where_gevent_cannot(program: str) -> None:
    # Patched by gevent, a start in another thread than the main one fails only after the process runs.
    gevent = sys.modules.get("gevent")
    is_patched = subprocess.Popen.__module__.startswith("gevent.")
    if gevent is not None and is_patched and not gevent.get_hub().loop.default:
        raise ConnectFailed(
            f"could not start {program}: gevent starts processes in the main thread only; "
            "open the client there"
        )


def _wake(ours: contextlib.ExitStack) -> Wake:
    wake = Wake()
    ours.callback(wake.close)
    return wake


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


INHERIT = ("base", "all", "none")
WINDOWS = os.name == "nt"

# fmt: off
_POSIX_BASE = (
    "HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "LOGNAME", "PATH", "SHELL",
    "SSL_CERT_DIR", "SSL_CERT_FILE", "TERM", "TMPDIR", "TZ", "USER", "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME", "__CF_USER_TEXT_ENCODING",
)
# Without some of these Windows loads no DLLs, and finds neither its shell nor installed programs.
_WINDOWS_BASE = (
    "ALLUSERSPROFILE", "APPDATA", "COMMONPROGRAMFILES", "COMMONPROGRAMFILES(X86)", "COMMONPROGRAMW6432",
    "COMPUTERNAME", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "NUMBER_OF_PROCESSORS", "OS", "PATH",
    "PATHEXT", "PROCESSOR_ARCHITECTURE", "PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)", "PROGRAMW6432",
    "PUBLIC", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERDOMAIN", "USERNAME", "USERPROFILE", "WINDIR",
)
# fmt: on


def child_environment(env: Optional[Mapping[str, str]], inherit: str) -> dict[str, str]:
    """Merge the user's variables over what is inherited: ``"base"``, ``"all"`` or ``"none"``."""
    result = {}
    if inherit == "all":
        result = dict(os.environ)
    elif inherit == "base":
        names = _WINDOWS_BASE if WINDOWS else _POSIX_BASE
        values = {name: os.environ[name] for name in names if name in os.environ}
        # What starts so is a function that an old bash has exported: code, not data.
        result = {name: value for name, value in values.items() if not value.startswith("()")}
    if WINDOWS and inherit != "none":
        # A Python child writes in the code page of the system otherwise.
        result.setdefault("PYTHONUTF8", "1")
        result.setdefault("PYTHONIOENCODING", "utf-8")
    return _merged(result, env or {}, ignore_case=WINDOWS)


def _merged(base: dict[str, str], env: Mapping[str, str], ignore_case: bool) -> dict[str, str]:
    if ignore_case:
        taken = {name.upper() for name in env}
        base = {name: value for name, value in base.items() if name.upper() not in taken}
    return {**base, **env}


def search_path(env: Mapping[str, str]) -> str:
    """Return the PATH in which the child's command is looked for."""
    return os.pathsep.join(os.get_exec_path(env))


def resolve(command: Sequence[str], env: Mapping[str, str]) -> Optional[list[str]]:
    """Return the command with the program as it can be started, or ``None`` if there is no such program.

    Only Windows needs that: launchers such as ``npx`` are ``.cmd`` files there, which starting a process
    does not find by itself.
    """
    if not WINDOWS:
        return list(command)
    path = next((value for name, value in env.items() if name.upper() == "PATH"), None)
    program = shutil.which(command[0], path=path)
    return None if program is None else [program, *command[1:]]
