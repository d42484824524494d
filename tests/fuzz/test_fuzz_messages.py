"""Messages of any kind: read leniently, told apart, and never a reason to crash."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_sync import Client, InMemory
from mcp_sync._protocol import codec, kinds
from mcp_sync.errors import InvalidMessage, MCPError
from mcp_sync.testing import FakeServer

from .shapes import JSON, SCALARS, damaged, tokens

IDS = SCALARS | st.lists(st.integers(), max_size=1)
MEMBERS = {
    "jsonrpc": st.just("2.0") | SCALARS,
    "id": IDS,
    "method": st.sampled_from(["ping", "notifications/progress", "tools/call"]) | SCALARS,
    "params": JSON,
    "result": JSON,
    "error": JSON | st.fixed_dictionaries({"code": SCALARS, "message": JSON, "data": JSON}),
}
MESSAGES = st.fixed_dictionaries({}, optional=MEMBERS)
TEXTS = tokens(
    b"{", b"}", b"[", b"]", b'"', b":", b",", b"null", b"NaN", b"-Infinity", b"1e999", b"\\ud800", b"\\udc00",
    b"\\\\", b'{"id":1,', b'"result":{}', b"\xef\xbb\xbf", b"\xff", b" ", b"[" * 300, b"9" * 5000,
)  # fmt: skip


@given(TEXTS | damaged(MESSAGES.map(lambda message: json.dumps(message).encode())))
def test_what_is_no_json_is_an_invalid_message_and_nothing_else(data: bytes) -> None:
    try:
        message = codec.decode(data)
    except InvalidMessage as error:
        message, fault = None, str(error)
    else:
        fault = ""
        kinds.classify(message)
    assert len(fault) < 1000
    assert not (fault and _is_json(data))


def _is_json(data: bytes) -> bool:
    """Whether the standard library reads it, and it is neither nested deeply nor holds a huge number."""
    if b"[" * 150 in data or b"9" * 4000 in data:
        return False
    try:
        json.loads(data.decode())
    except (ValueError, RecursionError):
        return False
    return True


@given(JSON)
def test_what_is_written_can_be_read_and_is_the_same(value: Any) -> None:
    data = codec.encode({"value": value})
    assert b"\n" not in data
    assert codec.decode(data) == json.loads(data) == {"value": value}


@given(MESSAGES | JSON)
def test_every_message_is_of_some_kind(message: Any) -> None:
    kind = kinds.classify(message)
    assert kind in kinds.Kind
    if kind is kinds.RESPONSE:
        outcome = kinds.outcome(message)
        assert not isinstance(outcome, str) or len(outcome) < 1000
        kinds.as_id(message.get("id"))
        if message.get("error") is not None:
            assert isinstance(outcome, (str, kinds.ErrorParts))


CONTENT = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["text", "image", "resource", "x"]) | SCALARS,
        "text": JSON,
        "uri": JSON,
    },
)
RESULTS = JSON | st.fixed_dictionaries(
    {},
    optional={
        "resultType": st.sampled_from(["complete", "input_required"]) | SCALARS,
        "content": st.lists(CONTENT | JSON, max_size=3) | JSON,
        "contents": st.lists(CONTENT | JSON, max_size=3) | JSON,
        "messages": JSON,
        "tools": st.lists(st.fixed_dictionaries({"name": SCALARS, "inputSchema": JSON}) | JSON, max_size=3),
        "structuredContent": JSON,
        "isError": SCALARS,
        "nextCursor": SCALARS,
        "inputRequests": JSON,
        "requestState": SCALARS,
        "_meta": JSON,
    },
)


@pytest.fixture(scope="module", params=["modern", "legacy"])
def peers(request: pytest.FixtureRequest) -> Any:
    server = FakeServer(versions=request.param)
    client = Client(InMemory(server), elicitation_callback=lambda context, params: {"action": "decline"})
    yield server, client.open()
    client.close()


@given(result=RESULTS, method=st.sampled_from(["tools/call", "tools/list", "resources/read", "prompts/get"]))
def test_a_result_of_any_shape_is_a_result_or_an_error_of_ours(peers: Any, result: Any, method: str) -> None:
    server, client = peers
    server.on(method, lambda message: result if isinstance(result, dict) else {"value": result}, raw=True)
    verbs = {
        "tools/call": lambda: client.call_tool("x", timeout=10),
        "tools/list": lambda: client.list_tools(timeout=10),
        "resources/read": lambda: client.read_resource("x:y", timeout=10),
        "prompts/get": lambda: client.get_prompt("x", timeout=10),
    }
    try:
        verbs[method]()
    except MCPError:
        pass


@given(message=MESSAGES | JSON)
def test_a_message_of_any_shape_beside_the_answer_harms_no_call(peers: Any, message: Any) -> None:
    server, client = peers

    def answer(request: Any, context: Any) -> dict[str, Any]:
        context._exchange.send(message)
        return {"content": []}

    server.on("tools/call", answer)
    if isinstance(message, dict) and kinds.classify(message) is kinds.RESPONSE:
        return  # It may well be the answer.
    assert client.call_tool("x", timeout=10).content == []
