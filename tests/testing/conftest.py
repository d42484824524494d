"""Fixtures for the tests of the fake server."""

from __future__ import annotations

import pytest

from mcp_sync._protocol.versions import LATEST_HANDSHAKE, LATEST_MODERN


@pytest.fixture(params=[LATEST_MODERN, LATEST_HANDSHAKE], ids=["modern", "legacy"])
def version(request: pytest.FixtureRequest) -> str:
    """The newest revision of either era."""
    return str(request.param)
