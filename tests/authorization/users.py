"""Users of the authorization tests, and what they hold."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from mcp_sync import Client
from mcp_sync.auth import LoopbackBrowser, OAuth

CALLBACK = "http://127.0.0.1:9/signed-in"  # Nobody listens there: the test takes the answer itself.


def echo(client: Client, text: str = "hello") -> str:
    """Make a call that takes no more than the usual scope."""
    return client.call_tool("echo", {"text": text}, timeout=30).text


def by_robot(robot: Any, **options: Any) -> OAuth:
    """Make an OAuth whose user is a robot."""
    return OAuth(interaction=LoopbackBrowser(open=robot, timeout=30), **options)


def silent(store: Any, **options: Any) -> OAuth:
    """Make an OAuth that has nobody to ask, and only what a store holds."""
    return OAuth(store=store, interactive=False, **options)


def query(url: str) -> dict[str, str]:
    """Return the parameters of a URL."""
    return dict(parse_qsl(urlsplit(url).query))


def make_expired(vault: Any, url: str) -> str:
    """Have a store say that the token has expired; return that token."""
    held = vault.grant(url)
    assert held is not None
    old = replace(held.grant, expires_at=time.time() - 1)
    assert vault.keep_grant(url, old, held.version)
    return str(old.access_token)
