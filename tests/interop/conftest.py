"""Chooses whether the interop tests run, and starts the servers that they talk to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_sync import Client, transports

from .harness import Endpoint, Harness, HttpServer
from .install import venv_python

HERE = Path(__file__).parent
PARTS = {
    "listen": hasattr(Client, "listen"),
    "resume": hasattr(Client, "resume"),
    "legacy SSE": hasattr(transports, "LegacySSE"),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--interop`."""
    parser.addoption("--interop", action="store_true", help="run the tests against servers of other makers")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the interop tests alone unless they were asked for: a skip would look like a result."""
    asked = config.getoption("--interop", default=False) or os.environ.get("MCP_SYNC_INTEROP")
    return None if asked or collection_path.name == "conftest.py" else True


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark of tests that wait for a part of the client."""
    config.addinivalue_line("markers", "needs(part): runs as soon as the client has this part")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect, visibly, the tests of those parts that the client does not have yet."""
    waiting = [item for item in items for mark in item.iter_markers("needs") if not PARTS[mark.args[0]]]
    if waiting:
        config.hook.pytest_deselected(items=waiting)
        items[:] = [item for item in items if item not in waiting]


@pytest.fixture(scope="session")
def http_servers() -> Iterator[dict[str, HttpServer]]:
    """Keep the HTTP servers that were started, by name, and end each by its process."""
    started: dict[str, HttpServer] = {}
    try:
        yield started
    finally:
        for server in started.values():
            server.end()


@pytest.fixture(scope="session")
def python_sdk(request: pytest.FixtureRequest, http_servers: dict[str, HttpServer]) -> Iterator[Harness]:
    """Connect one client to the endpoint that a test is parametrized with; an endpoint's tests share it."""
    endpoint: Endpoint = request.param
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


@pytest.fixture
def harness(python_sdk: Harness) -> Harness:
    """Return the shared harness with nothing recorded."""
    python_sdk.reset()
    return python_sdk
