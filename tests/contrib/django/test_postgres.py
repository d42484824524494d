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
    *("test_connecting.py", "test_questions.py", "test_pages.py"),
)


@pytest.mark.contrib
@pytest.mark.timeout(400)
@pytest.mark.skipif("MCP_SYNC_TEST_DATABASE" in os.environ, reason="this is that process")
@pytest.mark.skipif(not postgres.is_installed(), reason="needs PostgreSQL and psycopg")
def test_everything_holds_with_postgresql():
    with postgres.running() as database:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", *(str(HERE / name) for name in FILES)],
            env={**os.environ, "MCP_SYNC_TEST_DATABASE": json.dumps(database)},
            cwd=HERE.parents[2],
            capture_output=True,
            text=True,
            timeout=380,
        )
    assert done.returncode == 0, done.stdout[-6000:]
