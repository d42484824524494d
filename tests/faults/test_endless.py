"""Servers that never stop sending: a call ends in its time, whatever comes."""

from __future__ import annotations

import gzip
import itertools
import json
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mcp_sync import Client, Limits, Stdio, StreamableHTTP, Timeouts
from mcp_sync.errors import CallTimeout, ConnectionLost, MCPError
from mcp_sync.testing import FakeServer, ToolContext
from mcp_sync.transports import LegacySSE, WebSocket

TIMEOUT = 0.25
# A machine may be busy, but no call may be so after its time: its thread's own time is what counts, and that
# with room, since threads that share a core slow each other down.
IN_TIME = TIMEOUT + 1.0

OK = b"HTTP/1.1 200 OK\r\n"
EVENTS = OK + b"Content-Type: text/event-stream\r\n\r\n"
CHUNKS = OK + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
PACKED = OK + b"Content-Type: text/event-stream\r\nContent-Encoding: gzip\r\n\r\n"
NOTE = json.dumps(
    {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "error", "data": 1}}
)

FLOODS = {
    "interim responses": (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
    "other interim responses": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "lines of an interim response": (b"HTTP/1.1 100 Continue\r\n", b"A: b\r\n"),
    "headers": (OK, b"A: b\r\n"),
    "a header": (OK + b"A: ", b"b" * 100),
    "a status line": (b"HTTP/1.1 200 ", b"OK" * 50),
    "a size of a chunk": (CHUNKS, b"0" * 100),
    "an extension of a chunk": (CHUNKS + b"1;", b"a" * 100),
    "small chunks": (CHUNKS, b"1\r\n \r\n" * 20),
    "trailers": (CHUNKS + b"0\r\n", b"A: b\r\n"),
    "comments": (EVENTS, b": still here\n\n"),
    "blank lines": (EVENTS, b"\n\n\n"),
    "packed blank lines": (PACKED, gzip.compress(b"\n" * (1 << 23))),
    "packed nothing": (PACKED, gzip.compress(b"")),
    "a packed body of nothing": (OK + b"Content-Encoding: gzip\r\n\r\n", gzip.compress(b"")),
    "a comment": (EVENTS + b":", b"a" * 100),
    "events without data": (EVENTS, b"id: 1\n\n"),
    "notifications": (EVENTS, b"data: " + NOTE.encode() + b"\n\n"),
    "no messages": (EVENTS, b"data: <html>\n\n"),
    "answers to other calls": (EVENTS, b'data: {"jsonrpc":"2.0","id":99999,"result":{}}\n\n'),
}


@contextmanager
def flooding(head: bytes, unit: bytes) -> Iterator[str]:
    """A server that answers each request by ``head`` and then ``unit`` for ever; yields its URL."""
    ended = threading.Event()
    threads = []

    def flood(peer: socket.socket) -> None:
        with peer:
            try:
                peer.recv(65536)
                peer.sendall(head)
                while not ended.is_set():
                    peer.sendall(unit * 50)
            except OSError:
                pass  # The client has hung up.

    def accept() -> None:
        while not ended.is_set():
            peer, _ = listener.accept()
            threads.append(threading.Thread(target=flood, args=(peer,)))
            threads[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        threads.append(threading.Thread(target=accept))
        threads[0].start()
        try:
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            ended.set()
            socket.create_connection(("127.0.0.1", port)).close()
            for thread in threads:
                thread.join(10)


@pytest.mark.parametrize("flood", FLOODS)
def test_a_call_ends_in_time_whatever_comes_over_http(flood: str) -> None:
    limits = Limits(message_bytes=1 << 20, queue_length=100)
    with flooding(*FLOODS[flood]) as url:
        target = StreamableHTTP(url)
        with Client(target, mode="2026-07-28", limits=limits, logging_callback=lambda params: None) as client:
            started = time.thread_time()
            with pytest.raises(MCPError) as caught:
                client.call_tool("x", timeout=TIMEOUT)
            assert time.thread_time() - started < IN_TIME
    assert isinstance(caught.value, (CallTimeout, ConnectionLost)) or "Limits" in str(caught.value)


FLOODER = """
import os, sys
unit = {unit!r}
while True:
    os.write({descriptor}, unit * 50)
"""


@pytest.mark.parametrize(
    ("descriptor", "unit"),
    [(1, NOTE.encode() + b"\n"), (1, b"<html>\n"), (1, b"\n"), (2, b"warning\n"), (2, b"x")],
)
def test_a_call_ends_in_time_whatever_a_process_writes(descriptor: int, unit: bytes) -> None:
    code = FLOODER.format(unit=unit, descriptor=descriptor)
    client = Client(
        Stdio(sys.executable, ["-S", "-c", code]),
        mode="2026-07-28",
        limits=Limits(queue_length=100),
        timeouts=Timeouts(close=0.5),
        logging_callback=lambda params: None,
    )
    with client:
        started = time.thread_time()
        with pytest.raises(CallTimeout):
            client.call_tool("x", timeout=TIMEOUT)
        assert time.thread_time() - started < IN_TIME


def flood(context: ToolContext) -> str:
    """Write to the log for ever."""
    while not context.cancelled.is_set():
        context.log("error", "once more")
    return "never"


@pytest.mark.parametrize("way", ["serve_http", "serve_websocket", "serve_sse"])
def test_a_flood_of_one_call_keeps_no_other_from_its_answer(way: str) -> None:
    make = {"serve_http": StreamableHTTP, "serve_websocket": WebSocket, "serve_sse": LegacySSE}[way]
    server = FakeServer(tools={"flood": flood, "hello": lambda: "hello"}, versions="all")
    limits = Limits(queue_length=100)
    with getattr(server, way)() as endpoint:
        client = Client(make(endpoint.url), limits=limits, logging_callback=lambda params: None)
        with client:
            client.call_tool("hello", timeout=20)
            late: list[float] = []
            flooded = threading.Thread(target=_call_flood, args=(client, late))
            flooded.start()
            texts = {client.call_tool("hello", timeout=20).text for _ in range(5)}
            flooded.join()
    assert texts == {"hello"}
    assert late[0] < IN_TIME


def _call_flood(client: Client, late: list[float]) -> None:
    started = time.thread_time()
    try:
        client.call_tool("flood", timeout=TIMEOUT)
    except CallTimeout:
        late.append(time.thread_time() - started)


def test_a_list_of_pages_without_an_end_stops_when_nobody_goes_on() -> None:
    numbers = itertools.count()
    server = FakeServer()
    server.on("tools/list", lambda message: {"tools": [], "nextCursor": str(next(numbers))})
    with server.serve_http() as endpoint, Client(endpoint.url, limits=Limits(pages=3)) as client:
        with pytest.raises(MCPError, match=r"Limits\.pages"):
            list(client.tools())
        assert len(server.received("tools/list")) == 3
