"""A call that ran out of time is never sent again, whatever a session of the user would do."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from requests.adapters import HTTPAdapter
from transports.http_server import PATIENCE, ScriptedServer, Turn
from urllib3.util.retry import Retry as TheirRetry

from mcp_sync import CallTimeout, Client, MCPError, Retry, Timeouts, UsageError
from mcp_sync.transports import StreamableHTTP

from .spy_server import answer


class Slow:
    """A server whose tool does not answer, and which counts the calls."""

    def __init__(self) -> None:
        self.calls: list[Turn] = []
        self.cancelled: list[Any] = []
        self.given_up = threading.Event()
        self.told = threading.Event()

    def __call__(self, turn: Turn) -> None:
        """Answer everything but the tool."""
        message = turn.message if turn.body else {}
        if message.get("params", {}).get("name") == "slow":
            self.calls.append(turn)
            if turn.wait_for_close():
                self.given_up.set()
        elif message.get("method") == "notifications/cancelled":
            self.cancelled.append(message["params"]["requestId"])
            turn.accepted()
            self.told.set()
        else:
            answer(turn)


@pytest.fixture(params=["ours", "the users session", "one that repeats"])
def options(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """Return the options of a target."""
    if request.param == "ours":
        yield {}
        return
    with requests.Session() as session:
        if request.param == "one that repeats":
            # Where nothing was sent.
            repeating = TheirRetry(None, connect=3, read=0, status=0, other=0, backoff_factor=0)
            session.mount("http://", HTTPAdapter(max_retries=repeating))
        yield {"session": session}
    gc.collect()  # The error of requests and its connection hold each other.


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_tool_that_takes_too_long_runs_once(mode: str, options: dict[str, Any]) -> None:
    slow = Slow()
    with ScriptedServer(slow) as server:
        target = StreamableHTTP(server.url, **options)
        with Client(target, mode=mode, retry=Retry()) as client:
            client.open()
            with pytest.raises(CallTimeout, match="did not end within"):
                client.call_tool("slow", timeout=0.4)
            assert client.call_tool("echo", {"text": "goes on"}).text == "goes on"
            if mode == "legacy":
                assert slow.told.wait(PATIENCE), "the server was not told"
        assert slow.given_up.wait(PATIENCE)
        assert len(slow.calls) == 1
        assert len(slow.cancelled) == (1 if mode == "legacy" else 0)


def test_an_opening_that_takes_too_long_is_not_cancelled(options: dict[str, Any]) -> None:
    """``initialize`` must not be."""
    methods: list[str] = []

    def script(turn: Turn) -> None:
        methods.append(turn.message["method"] if turn.body else turn.method)
        turn.wait_for_close()

    with ScriptedServer(script) as server:
        quick = Timeouts(close=0.5)  # A session of the user reads on until the server ends.
        client = Client(StreamableHTTP(server.url, **options), mode="legacy", timeouts=quick)
        while not methods:  # On a busy machine the time may be over before anything is sent.
            with pytest.raises(MCPError):
                client.open(timeout=0.5)
        client.close()
    assert methods == ["initialize"]


@pytest.mark.parametrize(
    ("repeating", "is_refused"),
    [
        (TheirRetry(total=3, allowed_methods=None), True),
        (TheirRetry(total=3, allowed_methods=["POST", "GET"], status_forcelist=[503]), True),
        (TheirRetry(read=2, total=None, allowed_methods=["POST"]), True),
        (TheirRetry(total=3, read=0, allowed_methods=["POST"], status_forcelist=[503]), True),
        (TheirRetry(total=3, read=0, allowed_methods=["POST"], status=0), True),
        (TheirRetry(total=3), True),
        (3, True),
        (TheirRetry(total=3, other=0), False),
        (TheirRetry(None, connect=3, read=0, status=0, other=0), False),
        (TheirRetry(None, connect=3, read=0, status=0, other=0, allowed_methods=None), False),
        (TheirRetry(total=0, allowed_methods=None), False),
        (TheirRetry(total=False, allowed_methods=None), False),
        (0, False),
    ],
)
def test_a_session_that_would_send_a_tool_call_again_is_refused(repeating: Any, is_refused: bool) -> None:
    with requests.Session() as session:
        session.mount("https://", HTTPAdapter(max_retries=repeating))
        if is_refused:
            with pytest.raises(UsageError, match="a tool could run twice"):
                StreamableHTTP("https://example.com/mcp", session=session)
        else:
            StreamableHTTP("https://example.com/mcp", session=session)
        StreamableHTTP("http://example.com/mcp", session=session)  # Another adapter.


@pytest.mark.parametrize(
    "prefix", ["https://example.com/messages", "https://example.com", "https://", "HTTPS://"]
)
def test_any_adapter_for_the_server_counts(prefix: str) -> None:
    with requests.Session() as session:
        session.mount(prefix, HTTPAdapter(max_retries=3))
        session.mount("https://other.example/", HTTPAdapter(max_retries=3))
        with pytest.raises(UsageError, match="a tool could run twice"):
            StreamableHTTP("https://example.com:443/mcp", session=session)
        if "example" in prefix:
            StreamableHTTP("https://third.example/mcp", session=session)
