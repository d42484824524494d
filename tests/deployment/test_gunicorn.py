"""gunicorn: a client that was opened before the workers were forked, in workers of each kind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from .spied import Spied, gone, program, told_stdio

KINDS = {
    "sync": ["-k", "sync", "-w", "2"],
    "gthread": ["-k", "gthread", "-w", "2", "--threads", "4"],
    "gevent": ["-k", "gevent", "-w", "2"],
}


class Site:
    """A running application."""

    def __init__(self, url: str, running: Any) -> None:
        self.url = url
        self.running = running

    def get(self, tool: str, text: str) -> tuple[str, int]:
        """Ask for a page; return what the tool said, and which process asked it."""
        with requests.Session() as session:
            session.trust_env = False
            reply = session.get(f"{self.url}/{tool}/{text}", timeout=30)
        assert reply.status_code == 200, self.running.output
        page = reply.json()
        return page["text"], page["pid"]

    def wait_for_workers(self, count: int) -> None:
        """Have each worker answer: one that just starts would miss the signal that ends it."""
        pids: set[int] = set()
        for _ in range(100):
            pids |= self.get_many("echo", ["a", "b", "c", "d"], at_once=4)
            if len(pids) == count:
                return
        raise AssertionError(f"{len(pids)} of {count} workers answer: {self.running.output}")

    def get_many(self, tool: str, texts: list[str], at_once: int) -> set[int]:
        """Ask for pages at the same time, check each, and return the processes."""
        with ThreadPoolExecutor(at_once) as pool:
            pages = list(pool.map(lambda text: self.get(tool, text), texts))
        assert [text for text, _ in pages] == texts
        return {pid for _, pid in pages}


@contextmanager
def site(options: list[str], folder: Path, **told: str) -> Iterator[Site]:
    options = [*options, "--bind", "127.0.0.1:0", "--timeout", "30"]
    command = ["-m", "gunicorn", *options, "site_wsgi:application"]
    with program(command, folder, **told) as running:
        line = running.wait_for("Listening at")
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        assert found, line
        started = Site(found[0], running)
        started.wait_for_workers(int(options[options.index("-w") + 1]))
        yield started
        assert running.end() == 0, running.output
    assert "Traceback" not in running.output
    assert "WORKER TIMEOUT" not in running.output


@pytest.mark.parametrize(
    ("kind", "mode"), [("sync", "auto"), ("sync", "legacy"), ("gthread", "auto"), ("gevent", "legacy")]
)
def test_preloaded_workers_share_nothing_over_http(
    kind: str, mode: str, spied: Spied, tmp_path: Path
) -> None:
    told = {"MCP_URL": spied.url, "MCP_MODE": mode, "MCP_OPEN": "yes"}
    with site(["--preload", *KINDS[kind]], tmp_path, **told) as running:
        pids = running.get_many("echo", [f"text {number}" for number in range(60)], at_once=8)
    everybody = spied.check_that_nothing_is_shared()
    assert {str(pid) for pid in pids} < everybody  # and the process that had opened it before the fork


@pytest.mark.parametrize("kind", KINDS)
def test_preloaded_workers_have_server_processes_of_their_own(kind: str, tmp_path: Path) -> None:
    with site(["--preload", *KINDS[kind]], tmp_path, MCP_OPEN="yes", **told_stdio()) as running:
        running.get_many("echo", [f"text {number}" for number in range(40)], at_once=8)
        with ThreadPoolExecutor(8) as pool:
            pairs = set(pool.map(lambda _: running.get("whoami", "x"), range(16)))
        servers = {int(server) for server, _ in pairs}
        assert len(servers) == len({pid for _, pid in pairs}), "a server for each worker"
    assert gone(servers), "servers have outlived the application"


def test_requests_of_a_gevent_worker_wait_side_by_side(spied: Spied, tmp_path: Path) -> None:
    with site(["-k", "gevent", "-w", "1"], tmp_path, MCP_URL=spied.url) as running:
        assert len(running.get_many("meet", [f"12 {number}" for number in range(12)], at_once=12)) == 1


def test_requests_of_a_gevent_worker_wait_side_by_side_for_a_server_process(tmp_path: Path) -> None:
    with site(["-k", "gevent", "-w", "1"], tmp_path, **told_stdio()) as running:
        running.get("echo", "x")
        assert len(running.get_many("meet", [f"12 {number}" for number in range(12)], at_once=12)) == 1


def test_requests_of_a_gthread_worker_wait_side_by_side(spied: Spied, tmp_path: Path) -> None:
    with site(["-k", "gthread", "-w", "1", "--threads", "6"], tmp_path, MCP_URL=spied.url) as running:
        assert len(running.get_many("meet", [f"6 {number}" for number in range(6)], at_once=6)) == 1
