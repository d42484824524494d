"""How tools of the fake server ask the client: by requests with a handshake, by input rounds without."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import requests
from plain_peer import Message, Peer, text_of
from test_fake_http import Wire

from mcp_sync._protocol.versions import LATEST_HANDSHAKE, LATEST_MODERN
from mcp_sync.testing import ClientError, FakeServer, ToolContext

ANN = {"action": "accept", "content": {"name": "Ann"}}
runs: list[str] = []


def greet(context: ToolContext, greeting: str = "Hello") -> str:
    runs.append("greet")
    first = context.elicit("Your name?", {"type": "object", "properties": {"name": {"type": "string"}}})
    second = context.elicit("Sure?")
    return f"{greeting} {first['content']['name']}, {second['action']}"


def answering(peer: Peer, answer: Any) -> list[Message]:
    """Have another thread answer each request of the server, as a client over a connection does."""
    asked: list[Message] = []

    def reply(message: Message) -> None:
        if "id" not in message:
            return
        asked.append(message)
        response = {"jsonrpc": "2.0", "id": message["id"], **answer(message)}
        thread = threading.Thread(target=peer.deliver, args=(response,))
        thread.start()
        thread.join()

    peer.on_send = reply
    return asked


# --- with a handshake ------------------------------------------------------------------------------------


def test_a_legacy_tool_asks_by_requests_of_the_server() -> None:
    peer = Peer(FakeServer(tools=[greet]), LATEST_HANDSHAKE)
    asked = answering(peer, lambda message: {"result": ANN})
    assert text_of(peer.call("greet")) == "Hello Ann, accept"
    assert [message["method"] for message in asked] == ["elicitation/create"] * 2
    assert asked[0]["params"]["message"] == "Your name?"
    assert asked[0]["id"] != asked[1]["id"]


def test_sampling_roots_and_urls_are_asked_for_too() -> None:
    def many(context: ToolContext) -> dict[str, Any]:
        return {
            "sampled": context.sample({"messages": [], "maxTokens": 1}),
            "roots": context.list_roots(),
            "visited": context.elicit_url("Pay", "https://example.com/pay"),
        }

    results = {
        "sampling/createMessage": {"model": "m"},
        "roots/list": {"roots": [{"uri": "file:///x"}]},
        "elicitation/create": {"action": "accept"},
    }
    peer = Peer(FakeServer(tools=[many]), LATEST_HANDSHAKE)
    asked = answering(peer, lambda message: {"result": results[message["method"]]})
    assert peer.call("many")["structuredContent"] == {
        "sampled": {"model": "m"},
        "roots": [{"uri": "file:///x"}],
        "visited": {"action": "accept"},
    }
    assert asked[2]["params"]["mode"] == "url"
    assert asked[2]["params"]["elicitationId"]


def test_an_error_of_the_client_can_be_caught_or_becomes_a_result_with_is_error() -> None:
    def careful(context: ToolContext) -> str:
        try:
            context.elicit("Name?")
        except ClientError as error:
            return f"{error.code} {error.message} {error.data}"
        return "no error"

    peer = Peer(FakeServer(tools=[greet, careful]), LATEST_HANDSHAKE)
    answering(peer, lambda message: {"error": {"code": -1, "message": "no", "data": "d"}})
    assert text_of(peer.call("careful")) == "-1 no d"
    assert peer.call("greet") == {"content": [{"type": "text", "text": "no (-1)"}], "isError": True}


def test_the_wait_for_an_answer_is_bounded() -> None:
    result = Peer(FakeServer(tools=[greet], answer_timeout=0.01), LATEST_HANDSHAKE).call("greet")
    assert result["isError"] is True
    assert "did not answer elicitation/create in time" in text_of(result)


def test_a_cancelled_request_ends_the_wait_for_an_answer() -> None:
    peer = Peer(FakeServer(tools=[greet]), LATEST_HANDSHAKE)
    message = peer.message("tools/call", name="greet")
    peer.on_send = lambda sent: peer.tell("notifications/cancelled", requestId=message["id"])
    assert peer.deliver(message) is None


def test_a_client_that_declared_nothing_is_not_asked() -> None:
    legacy = Peer(FakeServer(tools=[greet]), LATEST_HANDSHAKE, capabilities={})
    assert "elicitation" in legacy.error("tools/call", name="greet")["message"]
    modern = Peer(FakeServer(tools=[greet]), LATEST_MODERN, capabilities={})
    error = modern.error("tools/call", name="greet")
    assert (error["code"], error["data"]) == (-32021, {"requiredCapabilities": {"elicitation": {}}})


# --- without one -----------------------------------------------------------------------------------------


def test_a_modern_tool_is_run_again_until_it_has_all_answers() -> None:
    peer = Peer(FakeServer(tools=[greet]), LATEST_MODERN)
    runs.clear()
    first = peer.call("greet", greeting="Hi")
    assert first["resultType"] == "input_required"
    ((key, request),) = first["inputRequests"].items()
    assert request["method"] == "elicitation/create"
    params = {"name": "greet", "arguments": {"greeting": "Hi"}}
    second = peer.result(
        "tools/call", **params, inputResponses={key: ANN}, requestState=first["requestState"]
    )
    ((other_key, other),) = second["inputRequests"].items()
    assert other_key != key
    assert other["params"]["message"] == "Sure?"
    last = peer.result(
        "tools/call",
        **params,
        inputResponses={other_key: {"action": "decline"}},
        requestState=second["requestState"],
    )
    assert text_of(last) == "Hi Ann, decline"
    assert (len(runs), peer.sent) == (3, [])


def test_an_answer_that_is_missing_is_asked_for_again() -> None:
    peer = Peer(FakeServer(tools=[greet]), LATEST_MODERN)
    first = peer.call("greet")
    again = peer.result("tools/call", name="greet", arguments={}, requestState=first["requestState"])
    assert again["inputRequests"] == first["inputRequests"]


def test_several_questions_can_go_into_one_round(version: str) -> None:
    def ask(context: ToolContext) -> dict[str, Any]:
        elicit = {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}}
        return {"got": context.ask_all({"a": elicit, "b": {"method": "roots/list", "params": {}}})}

    peer = Peer(FakeServer(tools=[ask]), version)
    results = {"a": {"action": "cancel"}, "b": {"roots": []}}
    if version == LATEST_MODERN:
        first = peer.call("ask")
        assert list(first["inputRequests"]) == ["a", "b"]
        result = peer.result(
            "tools/call",
            name="ask",
            arguments={},
            inputResponses=results,
            requestState=first["requestState"],
        )
    else:
        answering(
            peer, lambda message: {"result": results["b" if message["method"] == "roots/list" else "a"]}
        )
        result = peer.call("ask")
    assert result["structuredContent"] == {"got": results}


@pytest.mark.parametrize("method", ["resources/read", "prompts/get"])
def test_resources_and_prompts_can_ask_too(method: str) -> None:
    def name(context: ToolContext) -> str:
        return str(context.elicit("Name?")["content"]["name"])

    server = FakeServer(resources={"demo://x": name}, prompts={"x": name})
    peer = Peer(server, LATEST_MODERN)
    named = {"uri": "demo://x"} if method == "resources/read" else {"name": "x"}
    first = peer.result(method, **named)
    assert "ttlMs" not in first
    responses = dict.fromkeys(first["inputRequests"], ANN)
    last = peer.result(method, **named, inputResponses=responses, requestState=first["requestState"])
    assert "Ann" in str(last)


def altered(state: str) -> str:
    return state[:-1] + ("A" if state[-1] != "A" else "B")


@pytest.mark.parametrize("alter", [altered, lambda state: "", lambda state: 7, lambda state: "é" * 99])
def test_a_state_that_the_client_has_altered_is_refused(alter: Any) -> None:
    peer = Peer(FakeServer(tools=[greet]), LATEST_MODERN)
    state = alter(peer.call("greet")["requestState"])
    error = peer.error("tools/call", name="greet", arguments={}, requestState=state)
    assert (error["code"], "requestState" in error["message"]) == (-32602, True)


def test_a_state_of_another_request_or_another_server_is_refused() -> None:
    peer = Peer(FakeServer(tools=[greet]), LATEST_MODERN)
    state = peer.call("greet")["requestState"]
    other = {"name": "greet", "arguments": {"greeting": "Bye"}, "requestState": state}
    assert peer.error("tools/call", **other)["code"] == -32602
    stranger = Peer(FakeServer(tools=[greet]), LATEST_MODERN)
    assert stranger.error("tools/call", name="greet", arguments={}, requestState=state)["code"] == -32602


@pytest.mark.parametrize("responses", [None, 3, {"input-1": 12345}])
def test_answers_that_are_none_are_refused(responses: Any) -> None:
    peer = Peer(FakeServer(tools=[greet]), LATEST_MODERN)
    error = peer.error("tools/call", name="greet", arguments={}, inputResponses=responses)
    assert (error["code"], "inputResponses" in error["message"]) == (-32602, True)


def test_a_state_is_of_no_use_to_anybody_else(session: requests.Session) -> None:
    server = FakeServer(tools=[greet], principal=lambda headers: headers.get("authorization"))
    with server.serve_http() as endpoint:
        wire = Wire(endpoint, session)
        first = wire.modern("tools/call", name="greet", arguments={}).json()["result"]
        again = {"name": "greet", "arguments": {}, "requestState": first["requestState"]}
        assert wire.modern("tools/call", **again).json()["result"]["resultType"] == "input_required"
        wire.headers["Authorization"] = "Bearer other"
        assert wire.modern("tools/call", **again).json()["error"]["code"] == -32602


def test_a_function_sees_the_headers_of_its_request(session: requests.Session, version: str) -> None:
    def who(context: ToolContext) -> str:
        return context.headers.get("authorization", "nobody")

    server = FakeServer(tools=[who])
    with server.serve_http() as endpoint:
        wire = Wire(endpoint, session)
        wire.initialize()
        wire.headers["Authorization"] = "Bearer mine"
        post = wire.modern if version == LATEST_MODERN else lambda method, **params: wire.post(method, params)
        assert text_of(post("tools/call", name="who").json()["result"]) == "Bearer mine"
    assert text_of(Peer(server, version).call("who")) == "nobody"
