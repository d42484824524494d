"""An authorization server, and an MCP server that it protects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

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
