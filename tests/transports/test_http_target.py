"""`StreamableHTTP`: what it takes, and what it shows."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import requests

from mcp_sync._protocol.headers import checked_headers
from mcp_sync.auth import OAuth
from mcp_sync.errors import UsageError
from mcp_sync.options import Limits, Retry, Timeouts
from mcp_sync.transports import StreamableHTTP
from mcp_sync.transports._base import Settings


@pytest.mark.parametrize(
    "url",
    [
        "",
        "mcp.example/mcp",
        "ftp://mcp.example/mcp",
        "ws://mcp.example/mcp",
        "http://",
        "http:///mcp",
        "https://mcp.example:port/mcp",
        "https://mcp.example:99999/mcp",
        "https://[::1/mcp",
        " https://mcp.example/mcp",
        "https://mcp.example/mcp\n",
        "https://mcp.example/\x00",
        None,
        b"https://mcp.example/mcp",
        5,
    ],
)
def test_a_url_that_cannot_work_is_refused(url: Any) -> None:
    with pytest.raises(UsageError):
        StreamableHTTP(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://h",
        "HTTPS://h/mcp",
        "http://[::1]:80/mcp",
        "https://u:p@h/mcp?x=1",
        "http://b\u00fccher.example/",
    ],
)
def test_other_urls_are_taken(url: str) -> None:
    assert StreamableHTTP(url).url == url


@pytest.mark.parametrize(
    "options",
    [
        {"headers": ["a"]},
        {"headers": {"X": "a\nb"}},
        {"headers": {"X": "a\r"}},
        {"headers": {"X": " a"}},
        {"headers": {"X": "\u2705"}},
        {"headers": {"X": 5}},
        {"headers": {5: "x"}},
        {"headers": {"X Y": "z"}},
        {"headers": {"X:": "z"}},
        {"headers": {"": "z"}},
        {"headers": {"X(Y)": "z"}},
        {"headers": {"\u00fc": "z"}},
        {"headers": {"Content-Length": "5"}},
        {"headers": {"transfer-encoding": "chunked"}},
        {"auth": "token"},
        {"auth": ("a",)},
        {"session": object()},
        {"verify": 1.5},
        {"cert": 5},
        {"proxies": "http://proxy"},
        {"session_id": "a b"},
        {"session_id": ""},
        {"auth": OAuth},
        {"session_id": 5},
    ],
)
def test_options_that_cannot_work_are_refused(options: Any) -> None:
    with pytest.raises(UsageError):
        StreamableHTTP("http://h/mcp", **options)


def test_a_host_that_no_name_server_can_know_is_refused_with_the_channel() -> None:
    target = StreamableHTTP("http://\u00fc" + "b" * 70 + ".example/mcp")
    with pytest.raises(UsageError):
        target.channel(Settings("test", Timeouts(), Limits(), Retry()))


def test_its_repr_shows_no_secret() -> None:
    target = StreamableHTTP(
        "https://user:word@h:8443/mcp?key=word#word",
        headers={"Authorization": "word"},
        auth=("a", "word"),
        proxies={"https": "http://a:word@proxy"},
        session_id="word",
    )
    assert repr(target) == "StreamableHTTP('https://h:8443/mcp')"


def test_an_error_about_the_url_shows_no_secret() -> None:
    with pytest.raises(UsageError) as caught:
        StreamableHTTP("ftp://user:word@h/mcp?key=word")
    assert "word" not in str(caught.value)


def test_its_identity_is_origin_and_path() -> None:
    here = StreamableHTTP("https://u:p@Mcp.Example/mcp?x=1", headers={"A": "b"}).identity()
    assert here == StreamableHTTP("https://mcp.example:443/mcp").identity()
    assert here != StreamableHTTP("https://mcp.example/other").identity()
    assert here != StreamableHTTP("http://mcp.example/mcp").identity()
    assert "u:p" not in repr(here)
    hash(here)


def test_it_is_a_value() -> None:
    one = StreamableHTTP("https://h/mcp", headers={"A": "b"})
    assert one == StreamableHTTP("https://h/mcp", headers={"A": "b"})
    assert one != StreamableHTTP("https://h/mcp", headers={"A": "c"})
    assert hash(one) == hash(StreamableHTTP("https://h/mcp", headers={"A": "b"}))
    with pytest.raises(AttributeError):
        one.url = "x"  # type: ignore[misc]


def test_headers_given_are_copied() -> None:
    headers = {"A": "b"}
    target = StreamableHTTP("https://h/mcp", headers=headers)
    headers["A"] = "\n"
    assert target.headers == {"A": "b"}


def test_headers_of_a_single_call_can_be_checked_alike() -> None:
    headers = {"X-A_b.1": "v w", "traceparent": ""}
    checked = checked_headers(headers)
    assert checked == headers
    assert checked is not headers
    assert checked_headers(None) is None
    for name in ("X Y", "X\nY", "X:", "Transfer-Encoding"):
        with pytest.raises(UsageError):
            checked_headers({name: "v"})


def test_a_session_is_taken() -> None:
    with requests.Session() as session:
        assert StreamableHTTP("https://h/mcp", session=session).session is session


def test_making_a_target_loads_no_http_library() -> None:
    code = (
        "import sys; from mcp_sync.transports import StreamableHTTP; StreamableHTTP('https://h/mcp');"
        "sys.exit(any(name in sys.modules for name in ('requests', 'urllib3', 'sseclient', 'http.client')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
