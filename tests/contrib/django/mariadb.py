"""A MariaDB server of the tests' own, if there is one to start (Debian: ``apt install mariadb-server``)."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..listening import PATIENCE, wait_for


def program(name: str) -> str | None:
    """Return the path of one of MariaDB's programs, ``None`` if it is not installed."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def is_installed() -> bool:
    """Whether a server can be started, and Python can talk to it."""
    try:
        import pymysql  # noqa: F401
    except ImportError:
        return False
    return all(map(program, ("mariadbd", "mariadb-install-db")))


@contextmanager
def running() -> Iterator[dict[str, Any]]:
    """Start a server that listens at a socket in a folder of its own; give the settings of a database."""
    import pymysql

    folder = tempfile.mkdtemp(prefix="mcp-sync-mariadb-")
    # MariaDB does not run as root, either.
    user = "mysql" if os.geteuid() == 0 else getpass.getuser()
    if os.geteuid() == 0:
        shutil.chown(folder, user, user)
    place, at = [f"--datadir={folder}/data", f"--user={user}"], f"{folder}/socket"
    try:
        install = [str(program("mariadb-install-db")), "--no-defaults", *place, "--skip-test-db"]
        install.append("--auth-root-authentication-method=normal")
        subprocess.run(install, check=True, capture_output=True, timeout=PATIENCE)
        options = [f"--socket={at}", f"--pid-file={folder}/pid", "--skip-networking", "--skip-log-bin"]
        fast = ["--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0", "--skip-name-resolve"]
        with open(f"{folder}/log", "wb") as log:
            server = subprocess.Popen(
                [str(program("mariadbd")), "--no-defaults", *place, *options, *fast], stdout=log, stderr=log
            )
        try:
            wait_for(at, server)
            with pymysql.connect(user="root", unix_socket=at, ssl_disabled=True) as connection:
                connection.query("CREATE DATABASE site CHARACTER SET utf8mb4")
            yield {
                "ENGINE": "django.db.backends.mysql",
                "NAME": "site",
                "USER": "root",
                "HOST": at,
                "PORT": "",
                "PASSWORD": "",
                # Without the last, the driver reads all certificates of the system for each connection.
                "OPTIONS": {"charset": "utf8mb4", "ssl_disabled": True},
            }
        finally:
            server.kill()
            server.wait(PATIENCE)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
