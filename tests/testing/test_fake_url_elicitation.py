"""Pages that the user has to visit, and rounds without questions, in plain messages."""

from __future__ import annotations

from typing import Any

import pytest
import requests
from plain_peer import Message, Peer, text_of, validate
from test_fake_http import Wire, events

from mcp_sync._protocol.versions import HANDSHAKE_VERSIONS, LATEST_HANDSHAKE, LATEST_MODERN
from mcp_sync.testing import FakeServer, ToolContext

URL = "https://example.com/connect"
FORMS_ONLY = {"elicitation": {}}


def files(context: ToolContext) -> str:
    """List files, once the user has connected the account."""
    context.require_url("Connect your account", URL, "connect-1")
    return "files"


def test_a_call_is_refused_until_the_page_has_been_visited() -> None:
    server = FakeServer(tools=[files])
    peer = Peer(server, LATEST_HANDSHAKE)
    error = peer.error("tools/call", name="files")
    assert error["code"] == -32042
    assert error["data"]["elicitations"] == [
        {"mode": "url", "message": "Connect your account", "url": URL, "elicitationId": "connect-1"}
    ]
    validate(LATEST_HANDSHAKE, "ElicitRequestURLParams", error["data"]["elicitations"][0])
    server.complete_elicitation("connect-1")
    validate(LATEST_HANDSHAKE, "ElicitationCompleteNotification", peer.sent[0])
    assert peer.sent[0]["params"] == {"elicitationId": "connect-1"}
    assert text_of(peer.call("files")) == "files"


def test_only_the_client_that_was_asked_is_told(session: requests.Session) -> None:
    server = FakeServer(tools=[files])
    bystander = Peer(server, LATEST_HANDSHAKE)
    with server.serve_http() as endpoint:
        wire = Wire(endpoint, session)
        capabilities = {"elicitation": {"url": {}}}
        response = wire.post(
            "initialize", {"protocolVersion": LATEST_HANDSHAKE, "capabilities": capabilities}
        )
        wire.headers["Mcp-Session-Id"] = response.headers["Mcp-Session-Id"]
        assert wire.post("tools/call", {"name": "files"}).json()["error"]["code"] == -32042
        with wire.get() as stream:
            server.complete_elicitation("connect-1")
            told = next(events(stream))[1]
    assert told["method"] == "notifications/elicitation/complete"
    assert bystander.sent == []


def test_without_a_handshake_the_page_is_asked_for_in_a_round() -> None:
    peer = Peer(FakeServer(tools=[files]), LATEST_MODERN)
    asked = peer.call("files")
    [(key, request)] = asked["inputRequests"].items()
    assert request["params"] == {"mode": "url", "message": "Connect your account", "url": URL}
    result = peer.result(
        "tools/call",
        name="files",
        arguments={},
        inputResponses={key: {"action": "accept"}},
        requestState=asked["requestState"],
    )
    assert text_of(result) == "files"


@pytest.mark.parametrize(
    ("version", "capabilities", "code"),
    [
        (LATEST_MODERN, FORMS_ONLY, -32021),
        (LATEST_HANDSHAKE, FORMS_ONLY, -32600),
        (HANDSHAKE_VERSIONS[1], FORMS_ONLY, -32600),
        (LATEST_HANDSHAKE, {}, -32600),
    ],
)
def test_a_client_that_declared_no_pages_is_not_asked(version: str, capabilities: Message, code: int) -> None:
    error = Peer(FakeServer(tools=[files]), version, capabilities).error("tools/call", name="files")
    assert error["code"] == code
    assert error["data"] == {"requiredCapabilities": {"elicitation": {"url": {}}}}


def test_a_client_that_declared_only_pages_gets_no_form() -> None:
    def form(context: ToolContext) -> str:
        return str(context.elicit("Name?"))

    peer = Peer(FakeServer(tools=[form]), LATEST_MODERN, {"elicitation": {"url": {}}})
    assert peer.error("tools/call", name="form")["code"] == -32021


# --- rounds ----------------------------------------------------------------------------------------------


def patient(context: ToolContext) -> str:
    context.come_again()
    context.come_again()
    return "at last"


@pytest.mark.parametrize("method", ["tools/call", "prompts/get", "resources/read"])
def test_a_round_may_have_a_state_and_no_question(method: str) -> None:
    server = FakeServer(tools=[patient], prompts=[patient], resources={"demo://x": patient})
    peer = Peer(server, LATEST_MODERN)
    named: dict[str, Any] = {"uri": "demo://x"} if method == "resources/read" else {"name": "patient"}
    first = peer.result(method, **named)
    second = peer.result(method, **named, requestState=first["requestState"])
    for round_ in (first, second):
        assert (round_["resultType"], "inputRequests" in round_) == ("input_required", False)
        validate(LATEST_MODERN, "InputRequiredResult", round_)
    assert first["requestState"] != second["requestState"]
    assert "at last" in str(peer.result(method, **named, requestState=second["requestState"]))


def test_with_a_handshake_there_are_no_rounds() -> None:
    assert text_of(Peer(FakeServer(tools=[patient]), LATEST_HANDSHAKE).call("patient")) == "at last"


def test_the_state_can_be_left_out() -> None:
    def greet(context: ToolContext) -> str:
        return str(context.elicit("Name?")["action"])

    peer = Peer(FakeServer(tools=[greet], request_state=False), LATEST_MODERN)
    first = peer.call("greet")
    assert "requestState" not in first
    responses = {key: {"action": "decline"} for key in first["inputRequests"]}
    assert (
        text_of(peer.result("tools/call", name="greet", arguments={}, inputResponses=responses)) == "decline"
    )
