"""Chooses whether the interop tests run, and starts the servers that they talk to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from .harness import Endpoint, Harness, HttpServer
from .install import venv_python

HERE = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--interop`."""
    parser.addoption("--interop", action="store_true", help="run the tests against servers of other makers")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the interop tests alone unless they were asked for: a skip would look like a result."""
    asked = config.getoption("--interop", default=False) or os.environ.get("MCP_SYNC_INTEROP")
    return None if asked or collection_path.name == "conftest.py" else True


@pytest.fixture(scope="session")
def http_servers() -> Iterator[dict[str, HttpServer]]:
    """Keep the HTTP servers that were started, by name, and end each by its process."""
    started: dict[str, HttpServer] = {}
    try:
        yield started
    finally:
        for server in started.values():
            server.end()


def _python_harness(endpoint: Endpoint, http_servers: dict[str, HttpServer]) -> Iterator[Harness]:
    command = [
        str(venv_python(endpoint.maker)),
        "-W",
        "ignore",
        str(HERE / "servers" / f"{endpoint.maker}_server.py"),
    ]
    if endpoint.transport == "stdio":
        harness = Harness.over_stdio(endpoint, [*command, "stdio"])
    else:
        if endpoint.maker not in http_servers:
            http_servers[endpoint.maker] = HttpServer.printing_its_port([*command, "http"])
        harness = Harness.over_http(endpoint, http_servers[endpoint.maker])
    with harness.client:
        yield harness


@pytest.fixture(scope="session")
def python_sdk(request: pytest.FixtureRequest, http_servers: dict[str, HttpServer]) -> Iterator[Harness]:
    """Connect one client to the endpoint that a test is parametrized with; an endpoint's tests share it."""
    yield from _python_harness(request.param, http_servers)


@pytest.fixture
def harness(python_sdk: Harness) -> Harness:
    """Return the shared harness with nothing recorded."""
    python_sdk.reset()
    return python_sdk
