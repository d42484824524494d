"""Thousands of calls to servers that fail at every step: each gets its own result or an error, in time.

``MCP_SYNC_FAULT_CALLS`` sets the number of calls (default 3000), ``MCP_SYNC_FAULT_SEED`` repeats a run.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mcp_sync import Client, Retry, Timeouts, transports
from mcp_sync.errors import ClientClosed, MCPError, UsageError

from .lanes import LANES, Tally, served

pytestmark = pytest.mark.heavy

CALLS = int(os.environ.get("MCP_SYNC_FAULT_CALLS", "3000"))
SEED = os.environ.get("MCP_SYNC_FAULT_SEED") or str(random.SystemRandom().randrange(10**6))
THREADS = 8
SLACK = 0.25
SHARES = sum(lane.share for lane in LANES.values())
TIMEOUTS = Timeouts(connect=2, probe=0.3, open=3, silence=5, total=10, close=2)


class Lateness(threading.Thread):
    """Measures how much later than it asked for a thread of this process wakes up, at worst."""

    def __init__(self) -> None:
        super().__init__(name="lateness")
        self._done = threading.Event()
        self.worst = 0.0

    def run(self) -> None:
        while not self._done.is_set():
            started = time.monotonic()
            self._done.wait(0.01)
            self.worst = max(self.worst, time.monotonic() - started - 0.01)

    def __enter__(self) -> Lateness:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._done.set()
        self.join()


class Run:
    """The calls of eight threads with one client."""

    def __init__(self, client: Client, seed: str) -> None:
        self.client = client
        self.chance = random.Random(seed)
        # One entry a call: its nonce, its result or error, and how much later than its timeout it ended.
        self.outcomes: list[tuple[str, Any, float]] = []

    def go(self, count: int) -> None:
        """Make the calls."""
        timeouts = [self.chance.choice((0.25, 0.5, 1.0)) for _ in range(count)]
        work = list(enumerate(timeouts))
        threads = [threading.Thread(target=self._work, args=(work,)) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _work(self, work: list[tuple[int, float]]) -> None:
        while True:
            try:
                number, timeout = work.pop()
            except IndexError:
                return
            nonce = f"n{number}"
            started = time.monotonic()
            try:
                outcome: Any = self.client.call_tool("work", {"nonce": nonce}, timeout=timeout).text
            except Exception as error:
                outcome = error
            self.outcomes.append((nonce, outcome, time.monotonic() - started - timeout))


def faults_of(run: Run, ran: Counter[str], late: float) -> list[str]:
    """Say what went wrong with each call that did not end as it should."""
    found = []
    for nonce, outcome, over in run.outcomes:
        if isinstance(outcome, Exception):
            if not isinstance(outcome, MCPError) or isinstance(outcome, (UsageError, ClientClosed)):
                found.append(f"{nonce}: not an error of this library: {outcome!r}")
            if getattr(outcome, "request_sent", None) is False and ran[nonce]:
                found.append(f"{nonce}: ran, but is said not to have been sent: {outcome!r}")
        elif outcome != f"did {nonce}" or ran[nonce] != 1:
            found.append(f"{nonce}: got {outcome!r}, and ran {ran[nonce]} times")
        if ran[nonce] > 1:
            found.append(f"{nonce}: ran {ran[nonce]} times, and ended with {outcome!r}")
        if over > SLACK + 3 * late:
            found.append(f"{nonce}: ended {over:.2f} s after its time, with {outcome!r}")
    return found


def recovers(client: Client) -> bool:
    """Whether the client can be used again once the server is well, within three calls."""
    for attempt in range(3):
        try:
            return client.call_tool("work", {"nonce": f"calm{attempt}"}, timeout=10).text != ""
        except MCPError as error:
            print("after the faults:", repr(error))
    return False


@pytest.mark.timeout(60 + CALLS // 10)
@pytest.mark.parametrize("name", LANES)
def test_each_call_to_a_faulty_server_gets_its_result_or_an_error_in_time(name: str, tmp_path: Path) -> None:
    lane = LANES[name]
    if not hasattr(transports, lane.target):
        pytest.skip(f"there is no {lane.target}")
    count = CALLS * lane.share // SHARES
    tally = Tally(tmp_path)
    seed = f"{SEED} {name}"
    print(f"MCP_SYNC_FAULT_SEED={SEED}")
    with served(name, seed, tally) as (target, calm), Lateness() as lateness:
        client = Client(target, timeouts=TIMEOUTS, retry=Retry(backoff=0.01))
        try:
            run = Run(client, seed)
            run.go(count)
            calm()
            assert recovers(client)
        finally:
            client.close()
    assert len(run.outcomes) == count
    print(f"threads woke up to {lateness.worst:.3f} s too late")
    assert faults_of(run, tally.ran(), lateness.worst) == []
    right = sum(isinstance(outcome, str) for _, outcome, _ in run.outcomes)
    kinds = Counter(type(outcome).__name__ for _, outcome, _ in run.outcomes)
    print(kinds)
    assert right > count // 10
    assert len(kinds) > 1
