"""Servers that send more than a client takes: an error that names the limit, and a client that can go on."""

from __future__ import annotations

import functools
import gzip
import itertools
import json
import sys
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable, Optional

import pytest
import requests

from mcp_sync import Client, Limits, Stdio, StreamableHTTP, transports
from mcp_sync.errors import (
    ConnectionLost,
    InvalidMessage,
    MCPError,
    MessageTooLarge,
)
from mcp_sync.testing import FakeServer, HTTPReply, HTTPRequest

MIB = 1 << 20
SMALL = Limits(message_bytes=MIB)
SECONDS = 20.0
JSON, EVENTS = {"Content-Type": "application/json"}, {"Content-Type": "text/event-stream"}

Intercept = Callable[[HTTPRequest], Optional[HTTPReply]]


def hello() -> str:
    return "hello"


def once(reply: HTTPReply) -> Intercept:
    """Answer the first call of a tool with ``reply``, in which ``ID`` stands for the id of the call."""
    left = [reply]

    def intercept(request: HTTPRequest) -> Optional[HTTPReply]:
        if not left or b'"tools/call"' not in request.body:
            return None
        number = str(json.loads(request.body)["id"]).encode()
        status, headers, body = left.pop()
        return HTTPReply(status, headers, body.replace(b'"ID"', number.ljust(4)))

    return intercept


@contextmanager
def http_client(
    reply: HTTPReply, limits: Limits = SMALL, versions: str = "modern", **options: Any
) -> Iterator[Client]:
    """A client whose first call of a tool gets ``reply``."""
    server = FakeServer(tools=[hello], versions=versions)
    settings = {"limits": limits, "timeout": SECONDS}
    with server.serve_http(intercept=once(reply)) as endpoint:
        target = StreamableHTTP(endpoint.url, **options)
        with Client(target, **settings) as client:
            yield client


def failure(client: Client, **options: Any) -> MCPError:
    """Return what the next call raises; the one after it has to succeed."""
    with pytest.raises(MCPError) as caught:
        client.call_tool("hello", **options)
    assert client.call_tool("hello").text == "hello"
    return caught.value


# --- the size of a message ---------------------------------------------------------------------------------

ZEROS = 64 * 10**6


@functools.cache
def bomb(coding: str, head: bytes = b"") -> bytes:
    """Return 64 MB of zeros, in some 60 kB."""
    plain = head + bytes(ZEROS)
    return gzip.compress(plain) if coding == "gzip" else zlib.compress(plain)


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
@pytest.mark.parametrize("through", ["ours", "session"])
@pytest.mark.parametrize("kind", ["json", "events"])
def test_a_body_that_swells_is_given_up_early(kind: str, through: str, coding: str) -> None:
    head = b"data: " if kind == "events" else b""
    fields = {**(EVENTS if kind == "events" else JSON), "Content-Encoding": coding}
    body = bomb(coding, head)
    assert len(body) < 100_000
    with requests.Session() as session:
        options = {"session": session} if through == "session" else {}
        with http_client(HTTPReply(200, fields, body), **options) as client:
            client.list_tools()
            tracemalloc.start()
            try:
                error = failure(client)
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
    assert isinstance(error, MessageTooLarge)
    assert error.limit == MIB
    assert "Limits.message_bytes" in str(error)
    assert peak < 8 * MIB


def test_a_body_of_the_limit_is_taken() -> None:
    answer = json.dumps({"jsonrpc": "2.0", "id": "ID", "result": {"content": []}}).encode()
    answer += b" " * (MIB - len(answer))
    with http_client(HTTPReply(200, JSON, answer)) as client:
        client.list_tools()
        assert client.call_tool("hello").content == []


def test_a_body_of_one_byte_more_is_not() -> None:
    with http_client(HTTPReply(200, JSON, b" " * (MIB + 1))) as client:
        assert "Limits.message_bytes" in str(failure(client))


def test_an_event_without_an_end_is_given_up() -> None:
    with http_client(HTTPReply(200, EVENTS, b"data: x\n" * (MIB // 4))) as client:
        error = failure(client)
    assert isinstance(error, MessageTooLarge)
    assert "Limits.message_bytes" in str(error)


SERVER = """
from mcp_sync.testing import FakeServer
FakeServer(tools={"hello": lambda: "hello", "flood": lambda: "x" * 2**21}).serve_stdio()
"""


@pytest.mark.parametrize("way", ["stdio", "serve_websocket", "serve_sse"])
def test_a_message_that_is_too_large_costs_a_shared_channel_which_is_opened_anew(way: str) -> None:
    server = FakeServer(tools={"hello": hello, "flood": lambda: "x" * (2 * MIB)}, versions="all")
    if way == "stdio":
        _check_flood(Stdio(sys.executable, ["-c", SERVER]))
        return
    with getattr(server, way)() as endpoint:
        make = transports.WebSocket if way == "serve_websocket" else transports.LegacySSE
        _check_flood(make(endpoint.url))


def _check_flood(target: Any) -> None:
    with Client(target, limits=SMALL, timeout=SECONDS) as client:
        with pytest.raises(MessageTooLarge, match=r"Limits\.message_bytes") as caught:
            client.call_tool("flood")
        assert caught.value.limit == MIB
        assert client.call_tool("hello").text == "hello"


# --- the depth of a message --------------------------------------------------------------------------------


def deep(levels: int) -> bytes:
    return b'{"jsonrpc":"2.0","id":"ID","result":{"content":[],"x":' + b"[" * levels + b"]" * levels + b"}}"


def test_a_message_nested_too_deeply_is_named_so() -> None:
    with http_client(HTTPReply(200, JSON, deep(300))) as client:
        client.list_tools()
        error = failure(client)
    assert isinstance(error, InvalidMessage)
    assert "nested deeper than 200 levels" in str(error)


def test_an_event_nested_too_deeply_is_named_so() -> None:
    with http_client(HTTPReply(200, EVENTS, b"data: " + deep(300) + b"\n\n")) as client:
        client.list_tools()
        assert "nested deeper than 200 levels" in str(failure(client))


def test_a_message_nested_less_deeply_is_taken() -> None:
    with http_client(HTTPReply(200, JSON, deep(150))) as client:
        client.list_tools()
        assert client.call_tool("hello").content == []


# --- the length of an integer ------------------------------------------------------------------------------

# The answer to the second call of the tool is right.
LONG = """
import json, sys
answers = [b'{"content":[],"n":' + b"9" * 4301 + b"}", b'{"content":[]}']
for line in sys.stdin:
    message = json.loads(line)
    result = b'{"supportedVersions":["2026-07-28"]}'
    if message["method"] == "tools/call":
        result = answers.pop(0)
    sys.stdout.buffer.write(b'{"jsonrpc":"2.0","id":%d,"result":%s}\\n' % (message["id"], result))
    sys.stdout.flush()
"""


def test_an_integer_too_long_fails_its_call_at_once_on_a_shared_channel() -> None:
    with Client(Stdio(sys.executable, ["-c", LONG]), mode="2026-07-28", timeout=SECONDS) as client:
        with pytest.raises(InvalidMessage, match=r"^tools/call: .+: what arrived is .*4300 digits"):
            client.call_tool("hello")
        assert client.call_tool("hello").content == []


# --- the head of a response --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({f"X-{number}": "y" for number in range(120)}, "100 headers"),
        ({"X": "y" * 70_000}, "65536 bytes"),
    ],
)
def test_a_head_that_is_too_large_is_named_so(fields: dict[str, str], words: str) -> None:
    with http_client(HTTPReply(200, {**JSON, **fields}, b"{}")) as client:
        error = failure(client)
    assert isinstance(error, ConnectionLost)
    assert error.request_sent is True
    assert words in str(error)


def test_events_without_an_end_and_without_a_message_last_as_long_as_the_call_may() -> None:
    with http_client(HTTPReply(200, EVENTS, b": nothing\n\n" * 100_000)) as client:
        error = failure(client)
    assert isinstance(error, ConnectionLost)


# --- how often and how many --------------------------------------------------------------------------------


def test_pages_without_an_end_are_given_up() -> None:
    server = FakeServer(tools=[hello])
    numbers = itertools.count()
    server.on("tools/list", lambda message: {"tools": [], "nextCursor": str(next(numbers))})
    with Client(transports.InMemory(server), limits=Limits(pages=5)) as client:
        with pytest.raises(MCPError, match=r"Limits\.pages"):
            list(client.tools())
        assert client.call_tool("hello").text == "hello"


def test_input_rounds_without_an_end_are_given_up() -> None:
    server = FakeServer(tools=[hello], versions="modern")
    request = {
        "method": "elicitation/create",
        "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}},
    }
    answer = {"resultType": "input_required", "inputRequests": {"a": request}}
    server.on("prompts/get", lambda message: answer)
    with Client(
        transports.InMemory(server),
        limits=Limits(input_rounds=3),
        elicitation_callback=lambda context, params: {"action": "decline"},
    ) as client:
        with pytest.raises(MCPError, match=r"4 times \(Limits\.input_rounds\)"):
            client.get_prompt("x")
        assert client.call_tool("hello").text == "hello"


def test_an_answer_nested_too_deeply_on_a_shared_channel_fails_its_own_call_and_no_other() -> None:
    value: Any = 1
    for _ in range(300):
        value = [value]
    server = FakeServer(tools={"hello": hello, "deep": lambda: {"value": value}}, versions="all")
    seen: list[Any] = []
    with server.serve_websocket() as endpoint:
        client = Client(transports.WebSocket(endpoint.url), message_handler=seen.append)
        with client:
            with pytest.raises(InvalidMessage, match=r"tools/call: .* nested deeper than 200 levels"):
                client.call_tool("deep", timeout=20)
            assert client.call_tool("hello").text == "hello"
    assert [str(item) for item in seen if isinstance(item, InvalidMessage)] == [
        "what arrived is nested deeper than 200 levels"
    ]
