"""Fixtures for the tests of the fake server."""

from __future__ import annotations

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
    answers: list[requests.Response] = []
    with requests.Session() as session:
        session.trust_env = False
        session.hooks["response"].append(lambda answer, **_: answers.append(answer))
        yield session
        for answer in answers:
            answer.close()
        # To close the session leaves idle connections to the garbage collector, which takes long.
        for adapter in session.adapters.values():
            pools = adapter.poolmanager.pools
            for key in list(pools.keys()):
                pools[key].close()
