"""Chooses whether the authorization tests run, and starts the servers that they talk to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from .harness import AuthlibServer, Controlled, OidcProvider, ProtectedServer, Robot

HERE = f"{Path(__file__).parent}{os.sep}"
MAKERS = ("sdk1", "sdk2")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--authorization`, and `--race-seconds` for its long race."""
    parser.addoption(
        "--authorization", action="store_true", help="run the tests against authorization servers"
    )
    parser.addoption(
        "--race-seconds", type=float, default=6.0, help="how long each race for a refresh token takes"
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the authorization tests alone unless they were asked for: a skip would look like a result."""
    asked = config.getoption("--authorization", default=False) or os.environ.get("MCP_SYNC_AUTHORIZATION")
    return None if asked or collection_path.name == "conftest.py" else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the first test the time that the start of all servers takes on a busy machine."""
    for item in items:
        if str(item.path).startswith(HERE) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(150))


class World:
    """All servers, by name.

    Attributes:
        authlib: Authlib.
        tenant: Authlib, with a path in its issuer.
        oidc: node-oidc-provider.
        protected: The protected MCP servers, by maker and authorization server: ``authlib``, ``tenant``,
            ``oidc``, ``own`` (that of the SDK), ``old`` (the same without metadata of the resource) and
            ``bare`` (the same without any metadata).
        bound: One that wants tokens of node-oidc-provider that are bound to keys.
    """

    def __init__(self) -> None:
        with ThreadPoolExecutor(4) as pool:
            authlib, tenant = pool.submit(AuthlibServer), pool.submit(AuthlibServer, "/tenant")
            oidc = pool.submit(OidcProvider)
            self.authlib, self.tenant, self.oidc = authlib.result(), tenant.result(), oidc.result()
            named = {"authlib": self.authlib, "tenant": self.tenant, "oidc": self.oidc, "own": None}
            starting = {
                (maker, name): pool.submit(ProtectedServer, maker, server)
                for maker in MAKERS
                for name, server in named.items()
            }
            starting |= {
                (maker, name): pool.submit(ProtectedServer, maker, None, option)
                for maker in MAKERS
                for name, option in {"old": "--no-metadata", "bare": "--bare"}.items()
            }
            bound = pool.submit(ProtectedServer, "sdk2", self.oidc, "--dpop")
            self.protected = {key: server.result() for key, server in starting.items()}
            self.bound = bound.result()

    @property
    def all(self) -> list[Controlled]:
        """All of them."""
        return [self.authlib, self.tenant, self.oidc, self.bound, *self.protected.values()]


@pytest.fixture(scope="session", autouse=True)
def servers() -> Iterator[World]:
    """Start all servers; autouse, so that they are there before the guard against leaks looks."""
    world = World()
    try:
        yield world
    finally:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(Controlled.end, world.all))


@pytest.fixture
def world(servers: World) -> World:
    """Return the servers as new: with nothing counted, and with the usual settings."""
    for server in servers.all:
        server.tell(reset=True)
    return servers


@pytest.fixture
def robot() -> Iterator[Robot]:
    """Make a robot that has done all that it was asked for before the test ends."""
    made = Robot()
    yield made
    made.wait()
