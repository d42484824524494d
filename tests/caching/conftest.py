"""What the tests of the cache share."""

from __future__ import annotations

import pytest

from mcp_sync._engine import cache, cache_shelf


class Clock:
    """The wall clock of the cache, which stands still unless it is moved."""

    def __init__(self) -> None:
        self.time = 1_000_000.0

    def __call__(self) -> float:
        return self.time

    def move(self, seconds: float) -> None:
        self.time += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (cache, cache_shelf):
        monkeypatch.setattr(module, "now", clock)
    return clock
