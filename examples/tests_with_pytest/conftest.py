"""The server that the tests of an application run against."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_sync.testing import FakeServer, ToolContext


def search(context: ToolContext, query: str, limit: int = 10) -> dict[str, Any]:
    """Search the archive."""
    context.log("info", f"searching {query}")
    return {"hits": [f"{query} {number}" for number in range(limit)]}


@pytest.fixture
def mcp_server() -> FakeServer:
    """Replaces the empty server of the plugin."""
    return FakeServer(tools=[search])


@pytest.fixture
def mcp_client_options() -> dict[str, Any]:
    """What `mcp_client` is made with."""
    return {"log_level": "info", "timeout": 10}
