"""What a server's process gets to see of our environment, and how its command is found."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Optional

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
