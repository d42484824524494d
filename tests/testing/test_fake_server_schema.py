"""Whatever the fake server sends is valid by the official schema of the revision that it is sent in."""

from __future__ import annotations

from typing import Any

import pytest
from plain_peer import Message, Peer, validate

from mcp_sync._protocol.versions import HANDSHAKE_VERSIONS, LATEST_MODERN, TRAITS
from mcp_sync.testing import FakeServer, FakeTool, ToolContext


def add(a: int, b: float = 1) -> dict[str, float]:
    """Add two numbers."""
    return {"sum": a + b}


def fail() -> None:
    raise ValueError("no")


def noisy(context: ToolContext) -> str:
    context.progress(1, 2, "half")
    context.log("error", {"x": 1}, logger="l")
    return "done"


def ask(context: ToolContext) -> str:
    return str(context.elicit("Name?", {"type": "object", "properties": {"name": {"type": "string"}}}))


def review(code: str) -> str:
    """Review code."""
    return code


def server() -> FakeServer:
    schema = {"type": "object", "properties": {"sum": {"type": "number"}}}
    return FakeServer(
        tools=[FakeTool(add, output_schema=schema), fail, noisy, ask],
        resources={"demo://text": "t", "demo://bytes": b"b", "demo://notes/{name}": lambda name: name},
        prompts=[review],
        instructions="Be kind.",
        complete=lambda *_: ["x"],
        page_size=2,
    )


REQUESTS: list[tuple[str, str, Message]] = [
    ("ListToolsResult", "tools/list", {}),
    ("CallToolResult", "tools/call", {"name": "add", "arguments": {"a": 1}}),
    ("CallToolResult", "tools/call", {"name": "fail"}),
    ("ListResourcesResult", "resources/list", {}),
    ("ListResourceTemplatesResult", "resources/templates/list", {}),
    ("ReadResourceResult", "resources/read", {"uri": "demo://text"}),
    ("ReadResourceResult", "resources/read", {"uri": "demo://bytes"}),
    ("ReadResourceResult", "resources/read", {"uri": "demo://notes/a"}),
    ("ListPromptsResult", "prompts/list", {}),
    ("GetPromptResult", "prompts/get", {"name": "review", "arguments": {"code": "x"}}),
    (
        "CompleteResult",
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "review"}, "argument": {"name": "code", "value": ""}},
    ),
]


@pytest.mark.parametrize("version", TRAITS)
@pytest.mark.parametrize(("name", "method", "params"), REQUESTS)
def test_every_result_is_valid(version: str, name: str, method: str, params: Message) -> None:
    validate(version, name, Peer(server(), version).result(method, **params))


def test_the_results_of_negotiation_are_valid() -> None:
    validate(LATEST_MODERN, "DiscoverResult", Peer(server(), LATEST_MODERN).result("server/discover"))
    for version in HANDSHAKE_VERSIONS:
        peer = Peer(server(), version)
        result = peer.result("initialize", protocolVersion=version, capabilities={}, clientInfo={})
        validate(version, "InitializeResult", result)


def test_notifications_are_valid() -> None:
    for version in TRAITS:
        peer = Peer(server(), version)
        meta = {"progressToken": 1, "io.modelcontextprotocol/logLevel": "debug"}
        peer.call("noisy", _meta=meta)
        progress, log = peer.sent
        validate(version, "ProgressNotification", progress)
        validate(version, "LoggingMessageNotification", log)
        validate(version, "ServerNotification", log)


def test_a_request_for_input_is_valid() -> None:
    validate(LATEST_MODERN, "InputRequiredResult", Peer(server(), LATEST_MODERN).call("ask"))


def test_requests_of_the_server_are_valid() -> None:
    for version in HANDSHAKE_VERSIONS:
        if "form" in TRAITS[version].elicitation_modes:
            peer = Peer(server(), version)
            peer.server.answer_timeout = 0
            peer.call("ask")
            validate(version, "ElicitRequest", peer.sent[-1])


@pytest.mark.parametrize(
    ("name", "meta", "capabilities"),
    [
        ("UnsupportedProtocolVersionError", {"io.modelcontextprotocol/protocolVersion": "2099-01-01"}, None),
        ("MissingRequiredClientCapabilityError", {}, {}),
    ],
)
def test_the_errors_of_the_modern_era_are_valid(name: str, meta: Message, capabilities: Any) -> None:
    peer = Peer(server(), LATEST_MODERN, capabilities)
    validate(LATEST_MODERN, name, peer.request("tools/call", _meta=meta, name="ask"))
