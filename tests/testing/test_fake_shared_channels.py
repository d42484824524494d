"""The fake server on channels that all messages of a client share: HTTP+SSE and WebSocket."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any, Protocol

import pytest
import requests
import websocket
from plain_peer import Message, modern_meta, text_of

from mcp_sync._protocol.versions import HANDSHAKE_VERSIONS, LATEST_HANDSHAKE, LATEST_MODERN
from mcp_sync.testing import FakeServer, HTTPEndpoint, ToolContext


class Wire(Protocol):
    """A client's end of a channel."""

    def send(self, message: Any) -> None: ...

    def read(self) -> Any: ...


class SSEWire:
    """A stream that is read, and POSTs beside it."""

    def __init__(self, endpoint: HTTPEndpoint, session: requests.Session) -> None:
        headers = {"Accept": "text/event-stream"}
        self.session = session
        self.response = session.get(endpoint.url, headers=headers, stream=True, timeout=20)
        self.lines = (line.decode() for line in self.response.iter_lines(chunk_size=1))
        assert next(self.lines) == "event: endpoint"
        self.target = endpoint.url.rsplit("/", 1)[0] + next(self.lines).partition("data: ")[2]

    def send(self, message: Any) -> None:
        assert self.session.post(self.target, json=message, timeout=20).status_code == 202

    def read(self) -> Any:
        return json.loads(next(line for line in self.lines if line.startswith("data: "))[len("data: ") :])


class SocketWire:
    """A WebSocket."""

    def __init__(self, opened: websocket.WebSocket) -> None:
        self.socket = opened

    def send(self, message: Any) -> None:
        self.socket.send(json.dumps(message))

    def read(self) -> Any:
        return json.loads(self.socket.recv())


def connect(endpoint: HTTPEndpoint) -> websocket.WebSocket:
    return websocket.create_connection(endpoint.url, timeout=20, subprotocols=["mcp"], http_no_proxy=["*"])


@contextlib.contextmanager
def connected(kind: str, server: FakeServer, session: requests.Session) -> Iterator[Wire]:
    if kind == "sse":
        with server.serve_sse() as endpoint:
            wire = SSEWire(endpoint, session)
            with wire.response:
                yield wire
    else:
        with server.serve_websocket() as endpoint, contextlib.ExitStack() as stack:
            opened = connect(endpoint)
            # Its ``close`` leaves the socket open when the peer has closed first.
            stack.callback(opened.shutdown)
            yield SocketWire(opened)


def request(number: int, method: str, **params: Any) -> Message:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def initialize(version: str = LATEST_HANDSHAKE) -> Message:
    capabilities = {"elicitation": {}}
    return request(1, "initialize", protocolVersion=version, capabilities=capabilities, clientInfo={})


def greet(context: ToolContext) -> str:
    return f"Hello {context.elicit('Name?')['content']['name']}"


@pytest.mark.parametrize("kind", ["sse", "websocket"])
def test_a_client_with_a_handshake_is_served(kind: str, session: requests.Session) -> None:
    server = FakeServer(tools=[greet])
    with connected(kind, server, session) as wire:
        wire.send(initialize(HANDSHAKE_VERSIONS[-1]))
        assert wire.read()["result"]["protocolVersion"] == HANDSHAKE_VERSIONS[-1]
        wire.send(request(2, "tools/call", name="greet"))
        question = wire.read()
        assert question["method"] == "elicitation/create"
        wire.send(request(3, "ping"))
        assert wire.read() == {"jsonrpc": "2.0", "id": 3, "result": {}}
        result = {"action": "accept", "content": {"name": "Ann"}}
        wire.send({"jsonrpc": "2.0", "id": question["id"], "result": result})
        assert text_of(wire.read()["result"]) == "Hello Ann"
        server.tools_changed()
        assert wire.read()["method"] == "notifications/tools/list_changed"


@pytest.mark.parametrize("kind", ["sse", "websocket"])
def test_a_client_that_hangs_up_cancels_what_is_in_flight(kind: str, session: requests.Session) -> None:
    started, cancelled = threading.Event(), threading.Event()

    def slow(context: ToolContext) -> None:
        started.set()
        if context.cancelled.wait(20):
            cancelled.set()

    with connected(kind, FakeServer(tools=[slow]), session) as wire:
        wire.send(initialize())
        wire.read()
        wire.send(request(2, "tools/call", name="slow"))
        assert started.wait(20)
    assert cancelled.wait(20)


def test_the_url_for_messages_belongs_to_its_stream(session: requests.Session) -> None:
    with FakeServer().serve_sse() as endpoint:
        base = endpoint.url.rsplit("/", 1)[0]
        assert session.post(f"{base}/messages?session_id=nope", json={}, timeout=20).status_code == 404
        assert session.post(f"{base}/messages", json={}, timeout=20).status_code == 404
        assert session.post(endpoint.url, json={}, timeout=20).status_code == 405
        assert session.get(endpoint.url, headers={"Accept": "x/y"}, timeout=20).status_code == 406


def test_a_websocket_client_without_a_handshake_is_served(session: requests.Session) -> None:
    with connected("websocket", FakeServer(tools=[greet]), session) as wire:
        assert isinstance(wire, SocketWire)
        assert wire.socket.subprotocol == "mcp"
        params = {"name": "greet", "_meta": modern_meta(version=LATEST_MODERN)}
        wire.send(request(1, "tools/call", **params))
        assert wire.read()["result"]["resultType"] == "input_required"


@pytest.mark.parametrize("size", [0, 125, 126, 65535, 65536, 300_000])
def test_messages_of_any_length_pass_a_websocket(size: int, session: requests.Session) -> None:
    server = FakeServer()
    server.on("echo", lambda message: {"text": message["params"]["text"]})
    with connected("websocket", server, session) as wire:
        wire.send(request(1, "echo", text="x" * size))
        assert wire.read()["result"]["text"] == "x" * size


def test_fragments_and_pings_are_understood(session: requests.Session) -> None:
    with connected("websocket", FakeServer(), session) as wire:
        assert isinstance(wire, SocketWire)
        text = json.dumps(request(1, "ping"))
        wire.socket.send_frame(websocket.ABNF.create_frame(text[:5], websocket.ABNF.OPCODE_TEXT, fin=0))
        wire.socket.ping("are you there?")
        opcode, frame = wire.socket.recv_data_frame(control_frame=True)
        assert (opcode, frame.data) == (websocket.ABNF.OPCODE_PONG, b"are you there?")
        wire.socket.send_frame(websocket.ABNF.create_frame(text[5:], websocket.ABNF.OPCODE_CONT, fin=1))
        assert wire.read()["id"] == 1
        wire.send([])
        assert wire.read()["error"]["code"] == -32600


def test_a_close_frame_is_answered(session: requests.Session) -> None:
    with connected("websocket", FakeServer(), session) as wire:
        assert isinstance(wire, SocketWire)
        wire.socket.send_close(1000, b"bye")
        opcode, frame = wire.socket.recv_data_frame(control_frame=True)
        assert (opcode, frame.data[2:]) == (websocket.ABNF.OPCODE_CLOSE, b"bye")


def test_a_connection_that_breaks_off_in_a_frame_does_no_harm(session: requests.Session) -> None:
    with connected("websocket", FakeServer(), session) as wire:
        assert isinstance(wire, SocketWire)
        wire.socket.sock.sendall(b"\x81\xfe\x01")
        wire.socket.sock.shutdown(socket.SHUT_RDWR)


def test_a_plain_request_to_a_websocket_is_told_to_upgrade(session: requests.Session) -> None:
    with FakeServer().serve_websocket() as endpoint:
        url = endpoint.url.replace("ws://", "http://")
        assert session.get(url, timeout=20).status_code == 426
