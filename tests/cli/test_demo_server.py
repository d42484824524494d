"""The demo server as a child process: what it offers, what it loads, how it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import pytest

from mcp_sync._protocol.versions import LATEST_HANDSHAKE, LATEST_MODERN

COMMAND = [sys.executable, "-m", "mcp_sync.cli.demo_server"]
META = {
    "io.modelcontextprotocol/protocolVersion": LATEST_MODERN,
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
}


class Child:
    """A running demo server."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] = subprocess.Popen(
            COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.number = 0

    def send(self, method: str, **params: Any) -> int:
        self.number += 1
        self.write({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        return self.number

    def write(self, message: Any) -> None:
        _open(self.process.stdin).write(json.dumps(message).encode() + b"\n")
        _open(self.process.stdin).flush()

    def read(self) -> Any:
        return json.loads(_open(self.process.stdout).readline())

    def result(self, method: str, **params: Any) -> Any:
        self.send(method, **params)
        return self.read()["result"]

    def call(self, name: str, **arguments: Any) -> Any:
        return self.result("tools/call", name=name, arguments=arguments, _meta=META)

    def end(self) -> tuple[int, bytes, bytes]:
        """Close the input and return exit code and remaining output."""
        out, err = self.process.communicate(timeout=20)
        return self.process.returncode, out, err


def _open(stream: Any) -> IO[bytes]:
    assert stream is not None
    return stream  # type: ignore[no-any-return]


@contextmanager
def running() -> Iterator[Child]:
    child = Child()
    try:
        yield child
    finally:
        if child.process.poll() is None:
            child.process.kill()
        child.process.communicate()


@pytest.fixture
def child() -> Iterator[Child]:
    with running() as child:
        yield child


def test_it_shows_each_feature_on_a_modern_revision(child: Child) -> None:
    assert child.result("server/discover", _meta=META)["supportedVersions"] == [LATEST_MODERN]
    tools = child.result("tools/list", _meta=META)["tools"]
    assert [tool["name"] for tool in tools] == ["add", "countdown", "greet", "fail"]
    assert "outputSchema" in tools[0]
    assert child.call("add", a=1, b=2.5)["structuredContent"] == {"sum": 3.5}
    assert child.call("fail")["isError"] is True
    for uri, text in (("demo://readme", "# Demo server"), ("demo://notes/a", "note 'a'")):
        (contents,) = child.result("resources/read", uri=uri, _meta=META)["contents"]
        assert text in contents["text"]
    prompt = child.result("prompts/get", name="review", arguments={"code": "x = 1"}, _meta=META)
    assert "x = 1" in prompt["messages"][0]["content"]["text"]


def test_it_asks_for_a_name_by_an_input_round(child: Child) -> None:
    first = child.call("greet")
    assert first["resultType"] == "input_required"
    answers = {key: {"action": "accept", "content": {"name": "Ann"}} for key in first["inputRequests"]}
    state = first["requestState"]
    last = child.result(
        "tools/call", name="greet", arguments={}, inputResponses=answers, requestState=state, _meta=META
    )
    assert last["content"][0]["text"] == "Hello, Ann!"


def test_another_process_goes_on_with_its_question(child: Child) -> None:
    first = child.call("greet")
    answers = {key: {"action": "accept", "content": {"name": "Ann"}} for key in first["inputRequests"]}
    state = first["requestState"]
    with running() as other:
        last = other.result(
            "tools/call", name="greet", arguments={}, inputResponses=answers, requestState=state, _meta=META
        )
    assert last["content"][0]["text"] == "Hello, Ann!"


def test_it_asks_for_a_name_by_a_request_on_a_legacy_revision(child: Child) -> None:
    capabilities = {"elicitation": {}}
    child.result("initialize", protocolVersion=LATEST_HANDSHAKE, capabilities=capabilities, clientInfo={})
    child.write({"jsonrpc": "2.0", "method": "notifications/initialized"})
    child.send("tools/call", name="greet", arguments={})
    question = child.read()
    assert question["method"] == "elicitation/create"
    child.write({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}})
    assert child.read()["result"]["content"][0]["text"] == "Hello, whoever you are!"


def test_a_countdown_reports_progress_while_others_are_answered(child: Child) -> None:
    meta = {**META, "progressToken": "t"}
    slow = child.send("tools/call", name="countdown", arguments={"steps": 2, "delay": 30}, _meta=meta)
    assert child.call("add", a=1, b=1)["structuredContent"] == {"sum": 2}
    child.write({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": slow}})
    quick = child.send("tools/call", name="countdown", arguments={"steps": 2, "delay": 0}, _meta=meta)
    messages = [child.read() for _ in range(3)]
    assert [message.get("params", {}).get("progress") for message in messages] == [1, 2, None]
    assert messages[2]["id"] == quick
    assert messages[2]["result"]["content"][0]["text"] == "liftoff"


def test_it_ends_cleanly_when_its_input_ends(child: Child) -> None:
    child.send("tools/call", name="countdown", arguments={"delay": 30}, _meta=META)
    assert child.end() == (0, b"", b"")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows ends a process without asking it")
def test_it_ends_cleanly_on_sigterm(child: Child) -> None:
    child.send("tools/call", name="countdown", arguments={"delay": 30}, _meta=META)
    child.call("add", a=1, b=1)
    child.process.send_signal(signal.SIGTERM)
    assert child.process.wait(timeout=20) == 0
    assert child.end() == (0, b"", b"")


def test_it_loads_nothing_but_the_standard_library_and_little_of_that() -> None:
    code = "import sys, mcp_sync.cli.demo_server as demo; demo.build(); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=20
    )
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "mcp_sync" in loaded
    assert not loaded & {
        "pydantic",
        "pydantic_core",
        "requests",
        "urllib3",
        "jsonschema",
        "websocket",
        "click",
    }
    assert not loaded & {"asyncio", "http", "email", "ssl", "socketserver"}
