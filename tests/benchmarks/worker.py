"""One contender in its own process: `worker.py bare|sdk|ours`; JSON lines in, JSON lines out.

Each contender runs under its own interpreter with its own dependencies and measures itself, so that the
driver costs nothing in the figures and a round can be given to each in turn.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import sys
import threading
import time
from typing import Any


def _busy(stop: threading.Event) -> None:
    count = 0
    while not stop.is_set():
        for _ in range(1000):
            count += 1


class Worker:
    """Carries out the driver's commands on one contender."""

    def __init__(self, contender: Any) -> None:
        self.contender = contender

    def open(self, target: dict[str, Any]) -> None:
        """Connect the contender."""
        self.contender.open(target)

    def close(self) -> None:
        """Disconnect the contender."""
        self.contender.close()

    def calls(self, count: int, busy: bool = False) -> list[int]:
        """Make small calls; return the nanoseconds of each."""
        call, clock, samples = self.contender.call, time.perf_counter_ns, []
        stop = threading.Event()
        if busy:
            threading.Thread(target=_busy, args=(stop,), daemon=True).start()
        try:
            for _ in range(count):
                start = clock()
                call()
                samples.append(clock() - start)
        finally:
            stop.set()
        return samples

    def big(self, length: int) -> float:
        """Make one big call; return its seconds."""
        start = time.perf_counter()
        got = self.contender.big()
        seconds = time.perf_counter() - start
        assert got == length, (got, length)
        return seconds

    def big_memory(self, length: int) -> int:
        """Make one big call; return by how many bytes the peak of the resident memory grew."""
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert self.contender.big() == length
        return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024

    def pages(self, count: int, times: int) -> float:
        """Fetch every page so many times; return the seconds of one time."""
        start = time.perf_counter()
        got = [self.contender.pages() for _ in range(times)]
        seconds = time.perf_counter() - start
        assert got == [count] * times, (got, count)
        return seconds / times

    def lists(self, count: int, kept: bool) -> float:
        """List the tools so many times; return the seconds of one time."""
        take = self.contender.lists(kept)
        take()
        start = time.perf_counter()
        for _ in range(count):
            take()
        return (time.perf_counter() - start) / count

    def progress(self, count: int) -> dict[str, Any]:
        """Make a call with progress; return its seconds, how many reports it brought, and if in order."""
        seconds, seen = self.contender.progress()
        return {"seconds": seconds, "seen": len(seen), "ordered": seen == list(range(1, count + 1))}

    def threads(self, count: int, calls: int) -> float:
        """Call from many threads at once; return the seconds."""
        return self.contender.threads(count, calls)

    def crowd(self, count: int) -> dict[str, float]:
        """Hold many open clients; return what they cost."""
        return self.contender.crowd(count)


def main() -> None:
    """Serve commands until standard input ends."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    worker = Worker(importlib.import_module(f"contender_{sys.argv[1]}").Contender())
    for line in sys.stdin:
        name, arguments = json.loads(line)
        try:
            reply = {"value": getattr(worker, name)(**arguments)}
        except Exception as failure:
            reply = {"error": f"{type(failure).__name__}: {failure}"}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


if __name__ == "__main__":
    main()
