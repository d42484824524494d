"""Load on a site that several processes serve: many browsers at once, and what the processes keep open."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlsplit

import requests

PATIENCE = 30.0  # seconds in which a process answers, and in which it has closed what it does not keep


class Found(NamedTuple):
    """What came of it.

    Attributes:
        requests: How many there were.
        wrong: What was wrong with requests, each kind once.
    """

    requests: int
    wrong: list[str]


def press(visits: Sequence[Callable[[], str]], seconds: float) -> Found:
    """Make requests as fast as it goes.

    Args:
        visits: What makes one request, and returns what was wrong with it; a thread for each.
        seconds: How long.
    """
    end = time.monotonic() + seconds

    def work(visit: Callable[[], str]) -> tuple[int, set[str]]:
        count, wrong = 0, set()
        while time.monotonic() < end:
            count += 1
            wrong.add(visit())
        return count, wrong

    with ThreadPoolExecutor(len(visits)) as pool:
        working = [pool.submit(work, visit) for visit in visits]
        done = [each.result(seconds + 60) for each in working]
    wrong = set().union(*(each for _, each in done)) - {""}
    return Found(sum(count for count, _ in done), sorted(wrong))


class Descriptors:
    """What the workers of a site keep open, beside the connections of its visitors.

    Those come and go as the visitors please, and the system deals them out unevenly. The first count is made
    when each worker has answered, and nobody asks for anything; so is the second one.

    Args:
        url: A page of the site that tells the process which answers.
        count: How many processes there are.

    Attributes:
        workers: Their ids.
    """

    def __init__(self, url: str, count: int) -> None:
        self._port = urlsplit(url).port
        self.workers: set[int] = set()
        until = time.monotonic() + PATIENCE
        with requests.Session() as session:
            session.trust_env = False
            session.headers["Connection"] = "close"  # Any worker may take the next one.
            while len(self.workers) < count:
                self.workers.add(int(session.get(url, timeout=PATIENCE).text))
                assert time.monotonic() < until, f"only these workers answer: {self.workers}"
        self._before = {worker: self._open(worker) for worker in self.workers}

    def grown(self, most: Mapping[str, int]) -> dict[int, dict[str, int]]:
        """Return what workers keep open now that nobody asks for anything, beyond what they may.

        Args:
            most: How many they may have beside those they had: files by their paths, connections as
                `to_port` says, or as ``socket`` if they have no port.
        """
        until = time.monotonic() + PATIENCE
        while True:
            more = {
                worker: self._open(worker) - before - Counter(most) for worker, before in self._before.items()
            }
            found = {worker: dict(each) for worker, each in more.items() if each}
            if not found or time.monotonic() > until:
                return found
            time.sleep(0.05)

    def _open(self, worker: int) -> Counter[str]:
        ports, names = _ports(worker), []
        for descriptor in os.listdir(f"/proc/{worker}/fd"):
            with suppress(OSError):  # Closed meanwhile.
                names.append(os.readlink(f"/proc/{worker}/fd/{descriptor}"))
        # Again, as a connection may have come between the two.
        ports.update(_ports(worker))
        found: Counter[str] = Counter()
        for name in names:
            here, there = ports.get(name, (None, None))
            if here is None:
                found[name.partition(":[")[0]] += 1
            elif here != self._port:
                found[to_port(there)] += 1
        return found


def to_port(port: int | None) -> str:
    """Name the connections to a server at a port."""
    return f"connection to port {port}"


def _ports(pid: int) -> dict[str, tuple[int, int]]:
    """Return the own port and the other one of each TCP socket in sight of a process."""
    found = {}
    for name in ("tcp", "tcp6"):
        with suppress(FileNotFoundError), open(f"/proc/{pid}/net/{name}") as table:
            for line in list(table)[1:]:
                words = line.split()
                here, there = (int(word.rpartition(":")[2], 16) for word in words[1:3])
                found[f"socket:[{words[9]}]"] = (here, there)
    return found
