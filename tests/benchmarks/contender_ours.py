"""The client of this project."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from mcp_sync import CacheOptions, Client, LegacySSE


class Contender:
    """One `mcp_sync.Client`, and for kept lists another one."""

    keeping: Client | None = None

    def open(self, target: dict[str, Any]) -> None:
        """Connect and list the tools, as programs do."""
        self.target = target.get("url") or target["command"]
        if target.get("transport") == "sse":
            self.target = LegacySSE(self.target)
        self.client = Client(self.target).open()
        self.client.list_tools()

    def close(self) -> None:
        """Disconnect."""
        self.client.close()
        if self.keeping is not None:
            self.keeping.close()

    def call(self) -> None:
        """Make one small call."""
        result = self.client.call_tool("add", {"a": 1, "b": 2})
        assert result.content[0].text == "3"

    def big(self) -> int:
        """Make one call with a big result; return the text's length."""
        return len(self.client.call_tool("add", {"a": 1, "b": 2}).content[0].text)

    def pages(self) -> int:
        """Fetch every page of tools; return how many tools there were."""
        return sum(1 for _ in self.client.tools())

    def lists(self, kept: bool) -> Callable[[], Any]:
        """Return what lists the tools, and keeps the list or not."""
        if not kept:
            return self.client.list_tools
        if self.keeping is None:
            self.keeping = Client(self.target, cache=CacheOptions()).open()
        return self.keeping.list_tools

    def progress(self) -> tuple[float, list[float]]:
        """Make one call that reports progress; return its seconds and what had arrived when it returned."""
        seen: list[float] = []

        def show(progress: float, total: float | None, message: str | None) -> None:
            seen.append(progress)

        start = time.perf_counter()
        self.client.call_tool("add", {"a": 1, "b": 2}, progress_callback=show)
        return time.perf_counter() - start, list(seen)

    def threads(self, count: int, calls: int) -> float:
        """Let `count` threads make `calls` calls each on the one client; return the seconds."""
        failures: list[BaseException] = []
        barrier = threading.Barrier(count + 1)

        def work() -> None:
            barrier.wait()
            try:
                for _ in range(calls):
                    self.call()
            except BaseException as failure:
                failures.append(failure)

        workers = [threading.Thread(target=work) for _ in range(count)]
        for worker in workers:
            worker.start()
        barrier.wait()
        start = time.perf_counter()
        for worker in workers:
            worker.join()
        if failures:
            raise failures[0]
        return time.perf_counter() - start

    def crowd(self, count: int) -> dict[str, float]:
        """Hold `count` open clients that each made a call; return the threads and bytes that they cost."""
        gc.collect()
        threads, memory = threading.active_count(), _resident()
        clients = [Client(self.target).open() for _ in range(count)]
        for client in clients:
            client.call_tool("add", {"a": 1, "b": 2})
        gc.collect()
        cost = {"threads": threading.active_count() - threads, "bytes": (_resident() - memory) / count}
        for client in clients:
            client.close()
        return cost


def _resident() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096


def whole(url: str) -> None:
    """Be a whole short-lived program: connect, list, call, leave."""
    with Client(url) as client:
        client.list_tools()
        client.call_tool("add", {"a": 1, "b": 2})


if __name__ == "__main__":
    whole(sys.argv[1])
