"""Measure registries and groups: `python -m tests.benchmarks.groups`.

- a look-up in a registry: at most 5 microseconds;
- the opening of a group of 20 servers, each of which takes a while to answer: that of the slowest alone. The
  servers are in a process of their own; for comparison the same servers are opened one after the other.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
import timeit
from typing import Any

from mcp_sync import Client, ClientGroup
from mcp_sync.registry import Registry
from mcp_sync.testing import FakeServer

SERVERS = 20
SLOWEST = 0.4  # seconds that the last server takes to answer; the others take less, in equal steps
ROUNDS = 5
LOOK_UPS = 200_000


def serve() -> None:
    """Serve until standard input ends; the first line of the output has the URLs."""

    def slow(seconds: float) -> FakeServer:
        def wait(message: Any) -> Any:
            time.sleep(seconds)
            return NotImplemented

        server = FakeServer([lambda: "x"])
        server.on("server/discover", wait)
        return server

    endpoints = [slow(SLOWEST * number / SERVERS).serve_http() for number in range(1, SERVERS + 1)]
    print(json.dumps([endpoint.url for endpoint in endpoints]), flush=True)
    sys.stdin.read()
    for endpoint in endpoints:
        endpoint.close()


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
    """Measure, and print a table."""
    command = [sys.executable, "-m", __spec__.name, "serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        urls = json.loads(process.stdout.readline())
        servers = {f"s{number}": url for number, url in enumerate(urls)}
        slowest = dict([list(servers.items())[-1]])
        opening(servers)
        alone = [opening(slowest) for _ in range(ROUNDS)]
        together = [opening(servers) for _ in range(ROUNDS)]
        serial = one_by_one(servers)
        process.communicate()
    print(f"look-up in a registry:   {look_ups():8.2f} us (at most 5)")
    print(f"the slowest server alone: {statistics.median(alone):7.3f} s")
    print(
        f"a group of {SERVERS} servers:    {statistics.median(together):7.3f} s (about that of the slowest)"
    )
    print(f"one after the other:      {serial:7.3f} s")


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["serve"] else main()
