"""Views for users, and the trace context, with a server of the official SDK that checks tokens."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mcp_sync import BearerToken, Client, HTTPStatusError

from .harness import HttpServer
from .install import venv_python

SCRIPT = Path(__file__).parent / "servers" / "sdk2users_server.py"
TRACE_PARENT = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"
pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    server = HttpServer.printing_its_port([str(venv_python("sdk2")), "-W", "ignore", str(SCRIPT), "http"])
    yield server.url()
    server.end()


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_many_users_call_side_by_side_each_with_his_own_token(url: str, mode: str) -> None:
    client = Client(url, mode=mode, timeout=30)

    def ask(number: int) -> bool:
        name = f"user{number % 5}"
        with client.for_principal(name, auth=BearerToken(f"token-{name}")) as view:
            return [view.call_tool("whoami").text for _ in range(3)] == [name] * 3

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(40)))
    with pytest.raises(HTTPStatusError) as refused:
        client.for_principal("nobody").call_tool("whoami")
    assert refused.value.status == 401
    client.close()


def test_the_server_gets_the_trace_context(url: str) -> None:
    auth = BearerToken("token-alice")
    with Client(url, auth=auth, tracing=lambda: {"traceparent": TRACE_PARENT}, timeout=30) as client:
        assert client.call_tool("trace_parent").text == TRACE_PARENT
