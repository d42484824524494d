"""Many threads and processes share one refresh token that may be used once only.

The token lives for a second. `--race-seconds 60` makes the races as long as that.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from auth.store_worker import open_store

from mcp_sync import Client

from . import race_worker
from .conftest import World
from .harness import Robot
from .users import by_robot, echo, silent

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]

THREADS = 16
PROCESSES = 4
HERE = Path(__file__).parent


@pytest.fixture
def seconds(request: pytest.FixtureRequest) -> float:
    """Return how long the race takes."""
    return float(request.config.getoption("--race-seconds"))


def check(world: World, outcomes: list[dict[str, Any]], seconds: float) -> None:
    """See that no call has failed, and that there were as many refreshes as tokens expired."""
    counters = world.authlib.counters
    summary = {"calls": sum(outcome["calls"] for outcome in outcomes), **counters}
    assert [failure for outcome in outcomes for failure in outcome["failures"]] == [], summary
    assert "reuses" not in counters, summary
    assert "revoked families" not in counters, summary
    assert "refused refreshes" not in counters, summary
    # A token is replaced when half of its second is over, or later where nobody calls just then.
    assert seconds / 2 <= counters["refreshes"] <= 2 * seconds + 2, summary
    assert summary["calls"] > 5 * counters["refreshes"], summary
    print(summary)


def log_in(world: World, robot: Robot, store: Any) -> str:
    """Have the user log in once; return the URL of the server."""
    url = world.protected["sdk2", "authlib"].url
    with Client(url, auth=by_robot(robot, store=store)) as client:
        assert echo(client) == "hello"
    world.authlib.set(access_seconds=1)
    world.authlib.tell(expire=True)
    return url


def test_the_threads_of_a_process_refresh_once_for_all(world: World, robot: Robot, seconds: float) -> None:
    store = open_store("memory", Path())
    url = log_in(world, robot, store)
    with Client(url, auth=silent(store)) as client:
        outcome = race_worker.run(client, seconds, THREADS)
    check(world, [outcome], seconds)


@pytest.mark.parametrize("kind", ["file", "sqlite", "keyring"])
def test_the_threads_of_all_processes_refresh_once_for_all(
    world: World, robot: Robot, kind: str, tmp_path: Path, seconds: float
) -> None:
    url = log_in(world, robot, open_store(kind, tmp_path))
    command = [sys.executable, str(HERE / "race_worker.py"), kind, str(tmp_path), url, str(seconds)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parents[1]), str(HERE.parent)])}
    workers = [
        subprocess.Popen(
            [*command, str(THREADS)], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(PROCESSES)
    ]
    try:
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("go\n")
            worker.stdin.flush()
        outcomes = [json.loads(worker.communicate(timeout=seconds + 60)[0]) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()
    check(world, outcomes, seconds)
