"""`WebSocket`: what it takes, what it shows, and how it is chosen."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import pytest

import mcp_sync
from mcp_sync import Client
from mcp_sync.client import make_target
from mcp_sync.errors import UsageError
from mcp_sync.transports import StreamableHTTP, WebSocket, websocket_client


@pytest.mark.parametrize(
    "url",
    [
        "",
        "mcp.example/ws",
        "http://mcp.example/ws",
        "ws://",
        "ws:///ws",
        "wss://mcp.example:port/ws",
        "wss://[::1/ws",
        " ws://mcp.example/ws",
        "ws://mcp.example/\x00",
        None,
        b"ws://mcp.example/ws",
    ],
)
def test_a_url_that_cannot_work_is_refused(url: Any) -> None:
    with pytest.raises(UsageError):
        WebSocket(url)


@pytest.mark.parametrize("url", ["ws://h", "WSS://h/ws", "ws://[::1]:80/ws", "wss://u:p@h/ws?x=1"])
def test_other_urls_are_taken(url: str) -> None:
    assert WebSocket(url).url == url


@pytest.mark.parametrize(
    "options",
    [
        {"headers": {"X": "a\nb"}},
        {"headers": {"Content-Length": "5"}},
        {"headers": {"Upgrade": "h2c"}},
        {"headers": {"connection": "close"}},
        {"headers": {"Sec-WebSocket-Protocol": "chat"}},
        {"auth": "token"},
        {"verify": 1.5},
        {"cert": 5},
        {"proxies": "http://proxy"},
        {"ping_interval": 0},
        {"ping_interval": -1},
        {"ping_interval": "20"},
        {"ping_interval": math.inf},
        {"ping_interval": math.nan},
    ],
)
def test_options_that_cannot_work_are_refused(options: Any) -> None:
    with pytest.raises(UsageError):
        WebSocket("ws://h/ws", **options)


def test_its_repr_and_its_errors_show_no_secret() -> None:
    target = WebSocket(
        "wss://user:word@h:8443/ws?key=word#word",
        headers={"Authorization": "word"},
        auth=("a", "word"),
        proxies={"https": "http://a:word@proxy"},
    )
    assert repr(target) == "WebSocket('wss://h:8443/ws')"
    with pytest.raises(UsageError) as caught:
        WebSocket("ftp://user:word@h/ws?key=word")
    assert "word" not in str(caught.value)


def test_its_identity_is_origin_and_path() -> None:
    here = WebSocket("wss://u:p@Mcp.Example/ws?x=1", headers={"A": "b"}).identity()
    assert here == WebSocket("wss://mcp.example:443/ws").identity()
    assert here != WebSocket("wss://mcp.example/other").identity()
    assert here != WebSocket("ws://mcp.example/ws").identity()
    assert here != StreamableHTTP("https://mcp.example/ws").identity()
    assert "u:p" not in repr(here)
    hash(here)


def test_it_is_a_value() -> None:
    one = WebSocket("wss://h/ws", headers={"A": "b"})
    assert one == WebSocket("wss://h/ws", headers={"A": "b"})
    assert one != WebSocket("wss://h/ws", headers={"A": "c"})
    assert hash(one) == hash(WebSocket("wss://h/ws", headers={"A": "b"}))
    with pytest.raises(AttributeError):
        one.url = "x"  # type: ignore[misc]


def test_headers_given_are_copied() -> None:
    headers = {"A": "b"}
    target = WebSocket("wss://h/ws", headers=headers)
    headers["A"] = "\n"
    assert target.headers == {"A": "b"}


@pytest.mark.parametrize("url", ["ws://h/ws", "WSS://h/ws"])
def test_a_client_chooses_it_by_the_url(url: str) -> None:
    target = make_target(url, {"headers": {"A": "b"}, "auth": ("u", "p")})
    assert target == WebSocket(url, headers={"A": "b"}, auth=("u", "p"))


@pytest.mark.parametrize("option", ["session", "session_id"])
def test_what_belongs_to_http_is_refused(option: str) -> None:
    with pytest.raises(UsageError, match=f"{option} belongs to an HTTP URL"):
        Client("ws://h/ws", mode="legacy", **{option: "x"})  # type: ignore[arg-type]


def test_it_is_public_and_can_be_opened_like_the_others() -> None:
    assert mcp_sync.WebSocket is WebSocket
    with mcp_sync.websocket_client("ws://h/ws", headers={"A": "b"}) as transport:
        assert repr(transport) == "WebSocket('ws://h/ws')"
    with pytest.raises(UsageError), websocket_client("http://h/ws"):
        pass


def test_making_a_target_loads_no_library() -> None:
    code = (
        "import sys; from mcp_sync.transports import WebSocket; WebSocket('ws://h/ws');"
        "sys.exit(any(name in sys.modules for name in ('requests', 'urllib3', 'websocket', 'http.client')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
