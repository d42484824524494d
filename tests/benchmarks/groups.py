"""Measure registries and groups: `python -m tests.benchmarks.groups`.

- a look-up in a registry: at most 5 microseconds;
- the opening of a group of 20 servers, each of which takes a while to answer: that of the slowest alone. The
  servers are in a process of their own, or are each a process; for comparison those in one are opened one
  after the other, too.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
import timeit
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mcp_sync import Client, ClientGroup
from mcp_sync.registry import Registry
from mcp_sync.testing import FakeServer

SERVERS = 20
# Seconds that the last server takes to answer; the others take less, in equal steps. All processes together
# need a second of two processors to start.
SLOWEST = 0.4
SLOWEST_PROCESS = 2.0
ROUNDS = 5
LOOK_UPS = 200_000
PROGRAM = [sys.executable, "-m", "tests.benchmarks.groups"]


def _slow(seconds: float) -> FakeServer:
    def wait(message: Any) -> Any:
        time.sleep(seconds)
        return NotImplemented

    server = FakeServer([lambda: "x"])
    server.on("server/discover", wait)
    return server


def serve() -> None:
    """Serve until standard input ends; the first line of the output has the URLs."""
    endpoints = [_slow(SLOWEST * number / SERVERS).serve_http() for number in range(1, SERVERS + 1)]
    print(json.dumps([endpoint.url for endpoint in endpoints]), flush=True)
    sys.stdin.read()
    for endpoint in endpoints:
        endpoint.close()


@contextmanager
def over_http() -> Iterator[dict[str, Any]]:
    """Give the servers of one process, the slowest last."""
    command = [*PROGRAM, "serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        urls = json.loads(process.stdout.readline())
        try:
            yield {f"s{number}": url for number, url in enumerate(urls)}
        finally:
            process.communicate()


def processes() -> dict[str, Any]:
    """Return servers that are processes, the slowest last."""
    seconds = [SLOWEST_PROCESS * number / SERVERS for number in range(1, SERVERS + 1)]
    return {f"s{number}": [*PROGRAM, "process", str(each)] for number, each in enumerate(seconds)}


def ratios(servers: dict[str, Any], rounds: int) -> list[float]:
    """Return how many times as long the opening of all takes as that of the slowest alone."""
    slowest = dict([list(servers.items())[-1]])
    opening(slowest)
    return [opening(servers) / opening(slowest) for _ in range(rounds)]


def look_ups() -> float:
    """Return the microseconds of a look-up."""
    with Registry({f"s{number}": ["x"] for number in range(SERVERS)}) as registry:
        registry["s7"]
        runs = timeit.repeat(lambda: registry["s7"], number=LOOK_UPS, repeat=ROUNDS)
    return statistics.median(runs) / LOOK_UPS * 1e6


def opening(servers: dict[str, Any]) -> float:
    """Return the seconds in which a group opens and lists the tools of all its servers."""
    with ClientGroup(servers) as group:
        start = time.perf_counter()
        assert len(group.tools()) == len(servers)
        return time.perf_counter() - start


def one_by_one(servers: dict[str, Any]) -> float:
    """Return the seconds that it takes without a group."""
    start = time.perf_counter()
    for url in servers.values():
        with Client(url) as client:
            assert list(client.tools())
    return time.perf_counter() - start


def main() -> None:
    """Measure, and print what came of it."""
    print(f"look-up in a registry:         {look_ups():8.2f} us (at most 5)")
    with over_http() as servers:
        together = statistics.median(ratios(servers, ROUNDS))
        serial = one_by_one(servers)
    print(f"a group of {SERVERS} servers, HTTP:   {together:8.2f} times the slowest ({SLOWEST} s)")
    print(f"one after the other:           {serial / SLOWEST:8.2f} times")
    together = statistics.median(ratios(processes(), ROUNDS))
    print(f"a group of {SERVERS} processes:       {together:8.2f} times the slowest ({SLOWEST_PROCESS} s)")


if __name__ == "__main__":
    what = sys.argv[1] if sys.argv[1:] else ""
    if what == "serve":
        serve()
    elif what == "process":
        _slow(float(sys.argv[2])).serve_stdio()
    else:
        main()
