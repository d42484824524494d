"""Protected MCP servers on the official SDK, behind authorization servers of other makes; a user of a site.

Each framework has a `Site` of its own beside its tests.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import pytest
from authorization.harness import AuthlibServer, OidcProvider, ProtectedServer, Robot
from authorization.users import make_expired
from interop.install import home

from mcp_sync import BearerToken, Client, HTTPStatusError

NEEDED = ("sdk1", "sdk2", "node", "authlib", "oidc-provider")
PAIRS = [(maker, name) for maker in ("sdk1", "sdk2") for name in ("authlib", "oidc")]


class Site(ABC):
    """A site, as a browser in which one user is logged in sees it.

    Attributes:
        url: The protected MCP server.
    """

    url: str

    @abstractmethod
    def page(self, text: str) -> tuple[int, str]:
        """Load the page that calls the tool ``echo``; return its status and what it says."""

    @abstractmethod
    def connect(self) -> str:
        """Begin to connect; return where the browser is sent."""

    @abstractmethod
    def come_back(self, url: str) -> int:
        """Follow the redirect of the authorization server; return the status of the answer."""

    @abstractmethod
    def disconnect(self) -> int:
        """Give the grant back; return the status."""

    @abstractmethod
    def vault(self) -> Any:
        """Return what keeps the grant of the user."""

    def grant(self) -> Any:
        """Return the grant that is kept, ``None`` if there is none."""
        kept = self.vault().grant(self.url)
        return None if kept is None else kept.grant

    def expire(self) -> None:
        """Have the site believe that its token has expired."""
        make_expired(self.vault(), self.url)


class Parts(NamedTuple):
    """One protected MCP server and its authorization server."""

    authorization: Any
    server: ProtectedServer


@contextmanager
def parts(maker: str, name: str) -> Iterator[Parts]:
    """Have both run while the block runs."""
    missing = [each for each in NEEDED if not (home() / f"{each}.installed").exists()]
    if missing:
        pytest.fail(f"this test needs python -m tests.interop.install {' '.join(missing)}")
    with ExitStack() as stack:
        authorization = AuthlibServer() if name == "authlib" else OidcProvider()
        stack.callback(authorization.end)
        server = ProtectedServer(maker, authorization)
        stack.callback(server.end)
        yield Parts(authorization, server)


def walk(site: Site, found: Parts) -> None:
    """Connect, call, refresh, disconnect, as a user of the site."""
    assert site.page("x")[0] in (302, 303)
    away = site.connect()
    assert away.startswith(found.authorization.origin)
    assert site.come_back(consent(away)) in (302, 303)
    assert [site.page(text) for text in "ab"] == [(200, "a"), (200, "b")]

    first = site.grant()
    site.expire()
    assert site.page("c") == (200, "c")
    second = site.grant()
    assert second.access_token != first.access_token

    assert site.disconnect() in (302, 303)
    assert site.grant() is None
    assert site.page("d")[0] in (302, 303)
    # It was given back, not only forgotten.
    old = Client(found.server.url, auth=BearerToken(second.access_token))
    with pytest.raises(HTTPStatusError) as refused, old:
        old.call_tool("echo", {"text": "e"}, timeout=20)
    assert refused.value.status == 401


def consent(url: str) -> str:
    """Agree to everything; return where the browser is sent then."""
    answer = Robot().visit(url, follow=False)
    assert answer.is_redirect, answer.text
    return str(answer.headers["location"])
