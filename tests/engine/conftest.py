"""What all tests of the engine share."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_sync import Client, InMemory
from mcp_sync.testing import FakeServer


@pytest.fixture(scope="session", autouse=True)
def what_loads_late_is_loaded() -> None:
    """Have what the first call loads count for no timeout, whichever test comes first."""

    def work() -> str:
        return "done"

    for versions in ("modern", "legacy"):
        with Client(InMemory(FakeServer([work], versions=versions))) as client:
            client.call_tool("work")


class Clock:
    """The clock of all deadlines, which goes on only when it is told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: Any) -> Clock:
    """Stop the clock. Waits still take their time: a thread that sleeps does not see it go on."""
    stopped = Clock()
    monkeypatch.setattr("mcp_sync._concurrency.deadline._now", stopped)
    return stopped
