"""Celery: real workers of each kind, with a client at the module level of the tasks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from .spied import APPS, Program, Spied, gone, program, run, told_stdio


class Worker:
    """A running worker."""

    def __init__(self, running: Program, told: dict[str, str]) -> None:
        self.running = running
        self._told = told

    def do(self, task: str, *arguments: list[Any]) -> list[Any]:
        """Send tasks and return their results."""
        script = (APPS / "site_producer.py").read_text()
        told = {**self._told, "MCP_OPEN": ""}
        try:
            return list(json.loads(run(script, task, json.dumps(arguments), **told)))
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.running.output}") from error


@contextmanager
def worker(folder: Path, *options: str, **told: str) -> Iterator[Worker]:
    told["CELERY_FOLDER"] = str(folder)
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "INFO"]
    command = ["-m", "celery", "-A", "site_tasks", "worker", *quiet, *options]
    with program(command, folder, **told) as running:
        running.wait_for("ready.", 60)
        yield Worker(running, told)
        assert running.end(30) == 0, running.output
    assert "Traceback" not in running.output, running.output


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_prefork_workers_share_nothing_over_http(mode: str, spied: Spied, tmp_path: Path) -> None:
    told = {"MCP_URL": spied.url, "MCP_MODE": mode, "MCP_OPEN": "yes"}
    with worker(tmp_path, "-P", "prefork", "-c", "2", **told) as running:
        results = running.do("use", *(["echo", f"text {number}"] for number in range(20)))
    assert [text for text, _ in results] == [f"text {number}" for number in range(20)]
    everybody = spied.check_that_nothing_is_shared()
    assert {str(pid) for _, pid in results} < everybody  # and the parent, before the fork


def test_a_time_limit_ends_a_call_and_the_worker_goes_on(spied: Spied, tmp_path: Path) -> None:
    with worker(tmp_path, "-P", "prefork", "-c", "1", MCP_URL=spied.url) as running:
        ((first, then, pid),) = running.do("use_too_long", [])
        assert (first, then) == ("time is up", "goes on")
        assert running.do("use", ["echo", "again"]) == [["again", pid]]


def test_prefork_workers_have_server_processes_of_their_own(tmp_path: Path) -> None:
    with worker(tmp_path, "-P", "prefork", "-c", "2", MCP_OPEN="yes", **told_stdio()) as running:
        results = running.do("use", *(["whoami", "x"] for _ in range(16)))
    servers = {int(server) for server, _ in results}
    assert len(servers) == len({pid for _, pid in results})
    assert gone(servers)


@pytest.mark.parametrize("target", ["http", "stdio"])
@pytest.mark.parametrize("pool", ["gevent", "threads"])
def test_tasks_of_other_pools_wait_side_by_side(pool: str, target: str, spied: Spied, tmp_path: Path) -> None:
    told = {"MCP_URL": spied.url} if target == "http" else told_stdio()
    with worker(tmp_path, "-P", pool, "-c", "8", **told) as running:
        results = running.do("use", *(["meet", f"8 {number}"] for number in range(8)))
        assert [text for text, _ in results] == [f"8 {number}" for number in range(8)]
        assert len({pid for _, pid in results}) == 1
