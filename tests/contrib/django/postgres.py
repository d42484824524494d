"""A PostgreSQL server of the tests' own, if there is one to start (Debian: ``apt install postgresql``)."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def program(name: str) -> str | None:
    """Return the path of one of PostgreSQL's programs, ``None`` if it is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(found[-1]) if found else shutil.which(name)


def is_installed() -> bool:
    """Whether a server can be started, and Django can talk to it."""
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return False
    return all(map(program, ("initdb", "postgres", "pg_ctl")))


@contextmanager
def running() -> Iterator[dict[str, Any]]:
    """Start a server that listens at a socket in a folder of its own; give the settings of a database."""
    folder = tempfile.mkdtemp(prefix="mcp-sync-pg-")
    # PostgreSQL does not run as root.
    is_root = os.geteuid() == 0
    user = "postgres" if is_root else pwd.getpwuid(os.geteuid()).pw_name
    if is_root:
        shutil.chown(folder, "postgres", "postgres")

    def run(name: str, *words: str) -> None:
        command = [str(program(name)), *words]
        if is_root:
            command = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *command]
        subprocess.run(command, check=True, capture_output=True, cwd=folder, timeout=120)

    data = f"{folder}/data"
    try:
        run("initdb", "-D", data, "-U", user, "--auth=trust", "--no-sync")
        options = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
        run("pg_ctl", "-D", data, "-w", "-l", f"{folder}/log", "-o", options, "start")
        try:
            yield {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": "postgres",
                "USER": user,
                "HOST": folder,
                "PORT": "",
                "PASSWORD": "",
                "OPTIONS": {},
            }
        finally:
            run("pg_ctl", "-D", data, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
