"""Chooses whether the deployment tests run, and starts the servers that they talk to."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from transports.http_server import ScriptedServer

from .spied import Spied, meeting


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--deployment`."""
    parser.addoption("--deployment", action="store_true", help="run the tests of real deployments")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the deployment tests alone unless they were asked for: a skip would look like a result."""
    asked = config.getoption("--deployment", default=False) or os.environ.get("MCP_SYNC_DEPLOYMENT")
    return None if asked or collection_path.name == "conftest.py" else True


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    """Make a certificate authority that nobody else knows."""
    return trustme.CA()


@pytest.fixture(scope="session")
def bundle(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the path of the authority's certificate."""
    path = str(tmp_path_factory.mktemp("authority") / "ca.pem")
    authority.cert_pem.write_to_path(path)
    return path


@pytest.fixture(scope="session")
def server_tls(authority: trustme.CA) -> ssl.SSLContext:
    """Return what a server for ``localhost`` needs."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    return context


@pytest.fixture
def spied() -> Iterator[Spied]:
    """Start a server that notes which process sends what on which connection."""
    script = meeting()
    with ScriptedServer(script) as server:
        yield Spied(server)
