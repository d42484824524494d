"""A PgBouncer before a PostgreSQL of the tests' own: sessions go from client to client with each transaction.

Debian: ``apt install postgresql pgbouncer``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..listening import PATIENCE, wait_for
from . import postgres

_SESSIONS = 20  # of PostgreSQL, for all clients


def program() -> str | None:
    """Return the path of PgBouncer, ``None`` if it is not installed."""
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


def is_installed() -> bool:
    """Whether both can be started, and Django can talk to them."""
    return program() is not None and postgres.is_installed()


@contextmanager
def running() -> Iterator[dict[str, Any]]:
    """Start both, with sockets in folders of their own; give the settings of a database."""
    with postgres.running() as database, tempfile.TemporaryDirectory(prefix="mcp-sync-pgb-") as folder:
        settings = {
            "listen_addr": "",
            "unix_socket_dir": folder,
            "auth_type": "any",
            "pool_mode": "transaction",
            "max_client_conn": 500,
            "default_pool_size": _SESSIONS,
        }
        with open(f"{folder}/ini", "w") as ini:
            target = f"host={database['HOST']} dbname={database['NAME']} user={database['USER']}"
            lines = [f"{name} = {value}" for name, value in settings.items()]
            print("[databases]", f"site = {target}", "[pgbouncer]", *lines, sep="\n", file=ini)
        command = [str(program()), f"{folder}/ini"]
        if os.geteuid() == 0:  # which it does not run as
            shutil.chown(folder, "postgres", "postgres")
            command = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *command]
        with open(f"{folder}/log", "wb") as log:
            pooler = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            wait_for(f"{folder}/.s.PGSQL.6432", pooler)
            yield {
                **database,
                "NAME": "site",
                "HOST": folder,
                "PORT": "6432",
                # As Django's documentation has it for such a pooler.
                "DISABLE_SERVER_SIDE_CURSORS": True,
            }
        finally:
            pooler.kill()
            pooler.wait(PATIENCE)
