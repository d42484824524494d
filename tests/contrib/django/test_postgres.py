"""The same tests of the store, the races and the pages with PostgreSQL, in a process of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from . import postgres

HERE = Path(__file__).parent
FILES = (
    *("test_store.py", "test_refresh_race.py", "test_own_threads.py", "test_transactions.py"),
    *("test_connecting.py", "test_questions.py", "test_tasks.py", "test_pages.py"),
)


def _run(*words: str, seconds: float) -> str:
    with postgres.running() as database:
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


pytestmark = [
    pytest.mark.contrib,
    pytest.mark.skipif("MCP_SYNC_TEST_DATABASE" in os.environ, reason="this is that process"),
    pytest.mark.skipif(not postgres.is_installed(), reason="needs PostgreSQL and psycopg"),
]


@pytest.mark.timeout(400)
def test_everything_holds_with_postgresql():
    _run(*(str(HERE / name) for name in FILES), seconds=380)


@pytest.mark.timeout(500)
@pytest.mark.parametrize("name", ["test_load.py", "test_deployed.py"])
def test_real_servers_work_with_postgresql(name, request, capsys):
    if not request.config.getoption("--contrib"):
        pytest.skip("starts real servers: --contrib")
    seconds = request.config.getoption("--load-seconds")
    told = _run(f"--load-seconds={seconds}", str(HERE / name), seconds=300 + seconds)
    with capsys.disabled():
        print(told)
