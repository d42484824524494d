"""Load on a site that several processes serve: many browsers at once, and what the processes have open."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple

PAUSE = 0.25  # seconds between two counts of descriptors


class Found(NamedTuple):
    """What came of it.

    Attributes:
        requests: How many there were.
        wrong: What was wrong with requests, each kind once.
        descriptors: How many were open at a time, in all processes that were looked at.
    """

    requests: int
    wrong: list[str]
    descriptors: list[int]

    @property
    def leaks(self) -> int:
        """How many more descriptors were open in the last third of the time than in the second, at most."""
        third = len(self.descriptors) // 3
        return max(self.descriptors[2 * third :]) - max(self.descriptors[third : 2 * third])


def press(visits: Sequence[Callable[[], str]], seconds: float, processes: Sequence[int]) -> Found:
    """Make requests as fast as it goes.

    Args:
        visits: What makes one request, and returns what was wrong with it; a thread for each.
        seconds: How long.
        processes: Whose descriptors are counted.
    """
    end = time.monotonic() + seconds
    is_over = threading.Event()

    def work(visit: Callable[[], str]) -> tuple[int, set[str]]:
        count, wrong = 0, set()
        while time.monotonic() < end:
            count += 1
            wrong.add(visit())
        return count, wrong

    def watch() -> list[int]:
        seen = []
        while not is_over.wait(PAUSE):
            seen.append(sum(map(_descriptors, processes)))
        return seen

    with ThreadPoolExecutor(len(visits) + 1) as pool:
        watching = pool.submit(watch)
        working = [pool.submit(work, visit) for visit in visits]
        try:
            done = [each.result(seconds + 60) for each in working]
        finally:
            is_over.set()
        wrong = set().union(*(each for _, each in done)) - {""}
        return Found(sum(count for count, _ in done), sorted(wrong), watching.result(60))


def processes_below(pid: int) -> list[int]:
    """Return the children of a process, and theirs."""
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        with suppress(OSError):
            if name.isdigit():
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as stat:
                    parents.setdefault(int(stat.read().rpartition(")")[2].split()[1]), []).append(int(name))
    found, todo = [], [pid]
    while todo:
        children = parents.get(todo.pop(), [])
        found += children
        todo += children
    return found


def _descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))
