"""Lets tasks be looked at more often than a real server would like."""

from __future__ import annotations

import pytest

from mcp_sync._protocol import recovery
from mcp_sync.tasks import _following, _many, _pace

LEAST = 0.001


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the waits whose length is ours."""
    for module in (_pace, _following, _many):
        monkeypatch.setattr(module, "LEAST", LEAST)
    monkeypatch.setattr(recovery, "_LONGEST_LOOK", LEAST)
    monkeypatch.setattr(recovery, "_LEAST_LOOK", LEAST)
    monkeypatch.setattr(_pace, "_FIRST", LEAST)
    monkeypatch.setattr(_pace, "_GROWN", LEAST)
