"""The same tests of store, races and pages with databases that are servers, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from . import mariadb, pgbouncer, postgres

HERE = Path(__file__).parent
STORE = ("test_store.py", "test_refresh_race.py", "test_own_threads.py", "test_transactions.py")
PAGES = ("test_connecting.py", "test_questions.py", "test_tasks.py", "test_pages.py")


def _run(server: Any, *words: str, seconds: float) -> str:
    with server.running() as database:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "--contrib", *words],
            env={**os.environ, "MCP_SYNC_TEST_DATABASE": json.dumps(database)},
            cwd=HERE.parents[2],
            capture_output=True,
            text=True,
            timeout=seconds,
        )
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


def _of(*servers: Any) -> Any:
    """Have a test run with each of these servers that is installed."""
    return pytest.mark.parametrize(
        "server",
        [
            pytest.param(
                each,
                id=each.__name__.rpartition(".")[2],
                marks=pytest.mark.skipif(
                    not each.is_installed(), reason=f"not installed: see {each.__file__}"
                ),
            )
            for each in servers
        ],
    )


pytestmark = [
    pytest.mark.contrib,
    pytest.mark.skipif("MCP_SYNC_TEST_DATABASE" in os.environ, reason="this is that process"),
]


@pytest.mark.timeout(400)
@_of(postgres)
def test_everything_holds(server):
    _run(server, *(str(HERE / name) for name in (*STORE, *PAGES)), seconds=380)


@pytest.mark.timeout(400)
@_of(pgbouncer, mariadb)
def test_the_store_holds(server):
    _run(server, *(str(HERE / name) for name in (*STORE, "test_tasks.py")), seconds=380)


@pytest.mark.timeout(500)
@_of(postgres)
@pytest.mark.parametrize("name", ["test_load.py", "test_deployed.py"])
def test_real_servers_work(server, name, request, capsys):
    seconds = request.config.getoption("--load-seconds")
    told = _run(server, f"--load-seconds={seconds}", str(HERE / name), seconds=300 + seconds)
    with capsys.disabled():
        print(told)
