"""An authorization server, and an MCP server that it protects."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Callable

import pytest

from .oauth_server import OAuthServer, protected


@pytest.fixture
def server() -> Iterator[OAuthServer]:
    """Run an authorization server."""
    with OAuthServer() as server:
        yield server


@pytest.fixture
def endpoint(server: OAuthServer) -> Iterator[Any]:
    """Run an MCP server that wants a token of the authorization server."""
    with protected(server) as endpoint:
        yield endpoint


@pytest.fixture
def set_forward(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Give what sets the clock of all bounds forward, by seconds, so that nobody has to wait."""
    leaps = [0.0]
    monkeypatch.setattr("mcp_sync._concurrency.deadline._now", lambda: time.monotonic() + sum(leaps))
    return leaps.append
