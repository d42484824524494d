"""The fake server on a pair of byte streams."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from typing import IO, Any

import pytest
from plain_peer import Message, modern_meta, text_of

from mcp_sync._protocol.versions import LATEST_HANDSHAKE
from mcp_sync.testing import FakeServer, ToolContext


class Pipes:
    """A fake server in a thread, at the other end of two pipes."""

    def __init__(self, server: FakeServer) -> None:
        self.server = server
        there, self.sink = _pipe()
        self.source, back = _pipe()
        self._thread = threading.Thread(target=self._serve, args=(server, there, back))
        self._thread.start()

    @staticmethod
    def _serve(server: FakeServer, source: IO[bytes], sink: IO[bytes]) -> None:
        with source, sink:
            server.serve_stdio(source, sink)

    def write(self, line: bytes) -> None:
        self.sink.write(line + b"\n")

    def send(self, method: str, request_id: Any = None, **params: Any) -> None:
        message: Message = {"jsonrpc": "2.0", "method": method, "params": params}
        if request_id is not None:
            message = {**message, "id": request_id}
            params["_meta"] = {**modern_meta(), **params.get("_meta", {})}
        self.write(json.dumps(message).encode())

    def read(self) -> Any:
        return json.loads(self.source.readline())

    def close(self) -> None:
        self.sink.close()
        self._thread.join(20)
        self.source.close()
        assert not self._thread.is_alive()


def _pipe() -> tuple[IO[bytes], IO[bytes]]:
    read, write = os.pipe()
    return open(read, "rb"), open(write, "wb", buffering=0)


gates = {"started": threading.Event(), "open": threading.Event()}


def slow(context: ToolContext) -> str:
    gates["started"].set()
    while not gates["open"].is_set():
        if context.cancelled.wait(0.01):
            gates["cancelled"].set()
            return "cancelled"
    return "slow"


@pytest.fixture
def pipes() -> Iterator[Pipes]:
    gates.update(started=threading.Event(), open=threading.Event(), cancelled=threading.Event())
    pipes = Pipes(FakeServer(tools={"slow": slow, "quick": lambda: "quick"}))
    yield pipes
    pipes.close()


def test_a_slow_request_holds_nothing_up(pipes: Pipes) -> None:
    pipes.send("tools/call", 1, name="slow")
    pipes.send("tools/call", 2, name="quick")
    pipes.send("tools/list", "three")
    assert {pipes.read()["id"], pipes.read()["id"]} == {2, "three"}
    gates["open"].set()
    assert text_of(pipes.read()["result"]) == "slow"


def test_a_cancelled_request_gets_no_answer(pipes: Pipes) -> None:
    pipes.send("tools/call", 1, name="slow")
    pipes.send("notifications/cancelled", requestId=1)
    assert gates["cancelled"].wait(20)
    pipes.send("tools/call", 2, name="quick")
    assert pipes.read()["id"] == 2


def test_the_end_of_the_input_cancels_what_is_in_flight(pipes: Pipes) -> None:
    pipes.send("tools/call", 1, name="slow")
    assert gates["started"].wait(20)
    pipes.close()
    assert gates["cancelled"].is_set()


def test_blank_lines_are_skipped_and_rubbish_is_a_parse_error(pipes: Pipes) -> None:
    for line in (b"", b"  \r", b"{rubbish"):
        pipes.write(line)
    error = pipes.read()
    assert (error["id"], error["error"]["code"]) == (None, -32700)


def test_a_result_that_is_not_json_becomes_an_error(pipes: Pipes) -> None:
    pipes.server.on("odd", lambda message: {"set": {1, 2}})
    pipes.send("odd", 1)
    assert pipes.read()["error"]["code"] == -32603


def test_text_is_sent_as_it_is_and_a_lone_surrogate_escaped(pipes: Pipes) -> None:
    pipes.server.on("text", lambda message: {"text": message["params"]["text"]})
    for number, text in enumerate(["Gr\u00fc\u00dfe \u2028", "\ud800"]):
        pipes.send("text", number, text=text)
        line = pipes.source.readline()
        assert json.loads(line)["result"]["text"] == text
        assert (text.encode("utf-8", "surrogatepass") in line) is (number == 0)


def test_notifications_of_the_server_reach_a_client_with_a_handshake() -> None:
    server = FakeServer()
    pipes = Pipes(server)
    params = {"protocolVersion": LATEST_HANDSHAKE, "capabilities": {}}
    pipes.write(json.dumps({"id": 1, "method": "initialize", "params": params}).encode())
    assert pipes.read()["result"]["protocolVersion"] == LATEST_HANDSHAKE
    server.tools_changed()
    assert pipes.read()["method"] == "notifications/tools/list_changed"
    pipes.close()


def test_a_client_that_no_longer_reads_does_no_harm(pipes: Pipes) -> None:
    pipes.source.close()
    for number in range(3):
        pipes.send("tools/list", number)
