"""A real browser walks through the pages of the authorization server and comes back to the loopback port."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_sync import Client
from mcp_sync.auth import LoopbackBrowser, OAuth

from .browser import Browser
from .conftest import World
from .users import echo

pytestmark = pytest.mark.interop


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    """Start a browser with a profile of its own."""
    started = Browser(tmp_path / "profile")
    try:
        yield started
    finally:
        started.end()


@pytest.mark.parametrize("name", ["authlib", "oidc"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_browser_brings_the_answer_and_shows_that_it_has_arrived(
    world: World, browser: Browser, name: str, host: str
) -> None:
    """It asks for an icon as well, opens connections ahead, and prefers IPv6 for localhost."""
    url = world.protected["sdk2", name].url
    oauth = OAuth(interaction=LoopbackBrowser(open=browser, host=host, timeout=40))
    with Client(url, auth=oauth) as client:
        assert echo(client) == "hello"
    browser.end()
    assert "The answer has arrived" in browser.last_page
    assert oauth.status().state == "valid"
