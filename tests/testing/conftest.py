"""Fixtures for the tests of the fake server."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import requests

from mcp_sync._protocol.versions import LATEST_HANDSHAKE, LATEST_MODERN


@pytest.fixture(params=[LATEST_MODERN, LATEST_HANDSHAKE], ids=["modern", "legacy"])
def version(request: pytest.FixtureRequest) -> str:
    """The newest revision of either era."""
    return str(request.param)


@pytest.fixture
def session() -> Iterator[requests.Session]:
    """A plain HTTP client."""
    with requests.Session() as session:
        session.trust_env = False
        yield session
    # urllib3 closes idle connections only when their pool is collected.
    gc.collect()
