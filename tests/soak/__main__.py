"""Make many calls and watch what the process holds: `python -m tests.soak [--calls 200000] [--minutes 20]`.

Two threads share each client. Every tenth call has progress and log messages; after every thousand calls the
server drops its connections, forgets its sessions or dies, and every twenty thousand a new client takes over.
It fails when a result is wrong, when errors come elsewhere than with a disturbance, and when memory, threads
or descriptors have grown since the warm-up.
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

from mcp_sync import Client, MCPError

from .lanes import LANES, Lane, available, served

THREADS = 2
WARM_UP = 0.2
BETWEEN_DISTURBANCES = 1_000
CALLS_OF_A_CLIENT = 20_000
# What the allocator of the system may add: it keeps what was free for a moment, page by page.
MOST_GROWTH = 3 * 1024
HEADINGS = (
    "lane", "calls", "calls/s", "errors",
    "KiB warm", "KiB most", "KiB end", "growth", "threads", "descriptors",
)  # fmt: skip


class Holding(NamedTuple):
    """What the process holds."""

    kibibytes: int
    threads: int
    descriptors: int


def holding() -> Holding:
    """Take stock."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Holding(
        pages * resource.getpagesize() // 1024, threading.active_count(), len(os.listdir("/proc/self/fd"))
    )


class Soak:
    """The calls of one lane.

    Attributes:
        errors: How many calls failed.
        most: The most KiB that the process held between calls, since this was set to 0.
        wrong: What went wrong.
    """

    def __init__(self, target: Any, disturbing: Any, deadline: float) -> None:
        self._target = target
        self._disturbing = disturbing
        self._deadline = deadline
        self._made = 0
        self.errors = 0
        self.most = 0
        self.wrong: list[str] = []

    def run(self, count: int) -> int:
        """Make calls; return how many."""
        done = 0
        while done < count and time.monotonic() < self._deadline:
            part = min(CALLS_OF_A_CLIENT, count - done)
            with Client(self._target, logging_callback=lambda params: None) as client:
                disturb = self._disturbing(client)
                for start in range(0, part, BETWEEN_DISTURBANCES):
                    self._call_in_threads(client, min(BETWEEN_DISTURBANCES, part - start))
                    self._made += 1
                    disturb(self._made)
                    self.most = max(self.most, holding().kibibytes)
            done += part
        return done

    def _call_in_threads(self, client: Client, count: int) -> None:
        numbers = iter(range(count))
        threads = [threading.Thread(target=self._calls, args=(client, numbers)) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _calls(self, client: Client, numbers: Any) -> None:
        for number in numbers:
            steps = 3 if number % 10 == 0 else 0
            seen: list[Any] = []
            watch = {"progress_callback": _Watch(seen)} if steps else {}
            try:
                text = client.call_tool("work", {"nonce": number, "steps": steps}, timeout=30, **watch).text
            except MCPError as error:
                self.errors += 1
                # The first calls after a disturbance may find out what has happened.
                if number > 50:
                    self.wrong.append(f"call {number}: {error!r}")
            else:
                if text != f"did {number}" or len(seen) != steps:
                    self.wrong.append(f"call {number}: {text!r}, {len(seen)} reports")


class _Watch:
    """Takes note of progress."""

    def __init__(self, seen: list[Any]) -> None:
        self._seen = seen

    def __call__(self, amount: float, total: Any, message: Any) -> None:
        self._seen.append(amount)


def soaked(name: str, lane: Lane, count: int, deadline: float) -> tuple[tuple[str, ...], list[str]]:
    """Run a lane; return its row of the table, and what is to be complained of."""
    with served(lane) as (target, disturbing):
        soak = Soak(target, disturbing, deadline)
        soak.run(max(1, int(count * WARM_UP)))
        warm = holding()
        soak.most = 0
        start = time.monotonic()
        done = soak.run(count - int(count * WARM_UP))
        seconds = time.monotonic() - start
        end = holding()
    growth = max(soak.most, end.kibibytes) - warm.kibibytes
    faults = [f"{name}: {text}" for text in soak.wrong[:5]]
    if growth > MOST_GROWTH:
        faults.append(f"{name}: the memory has grown by {growth} KiB")
    if end.threads > warm.threads or end.descriptors > warm.descriptors:
        faults.append(f"{name}: from {warm} to {end}")
    cells = [name, done + int(count * WARM_UP), f"{done / seconds:.0f}", soak.errors]
    cells += [warm.kibibytes, soak.most, end.kibibytes, f"{growth:+d}"]
    cells += [f"{warm.threads} {end.threads}", f"{warm.descriptors} {end.descriptors}"]
    return tuple(map(str, cells)), faults


def main() -> None:
    """Run all lanes, print the table, and fail if something grew."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--calls", type=int, default=20_000, help="calls in all")
    parser.add_argument("--minutes", type=float, default=20, help="the longest that it may take")
    parser.add_argument("--only", nargs="+", choices=LANES, metavar="LANE", help="these lanes")
    options = parser.parse_args()
    deadline = time.monotonic() + 60 * options.minutes
    lanes = {key: lane for key, lane in available().items() if not options.only or key in options.only}
    shares = sum(lane.share for lane in lanes.values())
    rows, faults = [HEADINGS], []
    for name, lane in lanes.items():
        print(f"{name} ...", file=sys.stderr, flush=True)
        row, found = soaked(name, lane, options.calls * lane.share // shares, deadline)
        rows.append(row)
        faults += found
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    if time.monotonic() > deadline:
        faults.append(f"not all calls were made within {options.minutes:g} minutes")
    for fault in faults:
        print(f"! {fault}")
    sys.exit(1 if faults else 0)


main()
