"""What the race tests share."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture
def tiny_switches() -> Iterator[None]:
    """Have the interpreter switch threads as often as it can."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)
