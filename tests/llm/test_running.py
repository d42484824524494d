"""Calls of models: read, run, and their results told."""

from __future__ import annotations

import base64
import json
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from mcp_sync import Client, InMemory, UsageError, types
from mcp_sync.llm import ToolCall, run_tool_calls, tool_calls, tool_result, tool_results, vendor_name
from mcp_sync.testing import FakeServer, FakeTool

PNG = base64.b64encode(b"\x89PNG...").decode()
VENDORS = ["anthropic", "openai", "openai-chat", "gemini", "plain"]


def said(vendor: str, *calls: tuple[str, str, Any]) -> Any:
    """Make the response of a vendor that wants these calls: id, name, arguments."""
    made = {
        "anthropic": lambda id, name, args: {"type": "tool_use", "id": id, "name": name, "input": args},
        "openai": lambda id, name, args: {
            "type": "function_call", "call_id": id, "name": name, "arguments": json.dumps(args)},
        "openai-chat": lambda id, name, args: {
            "id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(args)}},
        "gemini": lambda id, name, args: {"functionCall": {"id": id, "name": name, "args": args}},
        "plain": lambda id, name, args: {"id": id, "name": name, "arguments": args},
    }[vendor]  # fmt: skip
    items = [made(*call) for call in calls]
    return {
        "anthropic": {"role": "assistant", "content": [{"type": "text", "text": "Let me see."}, *items]},
        "openai": {"output": [{"type": "reasoning"}, *items]},
        "openai-chat": {"choices": [{"message": {"role": "assistant", "tool_calls": items}}]},
        "gemini": {"candidates": [{"content": {"parts": [{"text": "Let me see."}, *items]}}]},
        "plain": items,
    }[vendor]


def add(a: int, b: int = 1) -> dict:
    return {"sum": a + b}


def fail() -> dict:
    raise ValueError("the disk is full")


@pytest.fixture
def server() -> FakeServer:
    return FakeServer(tools={"add": add, "math.add": add, "fail": fail})


@pytest.fixture
def client(server):
    with Client(InMemory(server)) as client:
        yield client


@pytest.mark.parametrize("vendor", VENDORS)
def test_calls_are_read_from_a_response_in_full_or_in_part(vendor):
    response = said(vendor, ("1", "add", {"a": 1}), ("2", "fail", {}))
    wanted = [ToolCall("1", "add", {"a": 1}), ToolCall("2", "fail", {})]
    assert tool_calls(response, vendor) == wanted
    assert tool_calls(SimpleNamespace(model_dump=lambda: response), vendor) == wanted
    inner = {"anthropic": "content", "openai": "output"}.get(vendor)
    if inner:
        assert tool_calls(response[inner], vendor) == wanted
    assert tool_calls([], vendor) == []


def test_the_bare_calls_of_gemini_are_read_too():
    assert tool_calls([{"id": None, "name": "add", "args": {"a": 1}}], "gemini") == [
        ToolCall("", "add", {"a": 1})
    ]


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize("parallel", [1, 3])
def test_calls_are_run_and_one_that_fails_harms_no_other(client, vendor, parallel):
    calls = [("1", "fail", {}), ("2", vendor_name("math.add", vendor), {"a": 2}), ("3", "nothing", {})]
    results = run_tool_calls(client, said(vendor, *calls), vendor=vendor, parallel=parallel, timeout=10)
    first, second, third = map(json.dumps, results)
    assert "the disk is full" in first
    assert '"sum' in second.replace("\\", "")
    assert "rror" in third


def test_results_tell_errors_apart(client):
    def outcome(vendor: str) -> Any:
        return run_tool_calls(client, said(vendor, ("7", "fail", {})), vendor=vendor)[0]

    assert outcome("anthropic")["is_error"] is True
    assert outcome("openai")["output"].startswith("Error: ")
    assert outcome("openai-chat")["content"].startswith("Error: ")
    assert "disk" in outcome("gemini")["functionResponse"]["response"]["error"]
    assert outcome("plain")["is_error"] is True


def test_arguments_that_are_no_json_are_an_error_result_and_no_call(client, server):
    call = {"type": "function_call", "call_id": "1", "name": "add", "arguments": '{"a": '}
    (result,) = run_tool_calls(client, [call], vendor="openai")
    assert result["output"].startswith("Error: the arguments are no JSON")
    (result,) = run_tool_calls(client, [{**call, "arguments": "[1]"}], vendor="openai")
    assert "no JSON object" in result["output"]
    assert not server.received("tools/call")


def test_only_tools_that_were_offered_are_called(client, server):
    offered = [tool for tool in client.tools() if tool.name == "add"]
    response = said("openai", ("1", "fail", {}), ("2", "add", {"a": 1}))
    first, second = run_tool_calls(client, response, vendor="openai", tools=offered)
    assert first["output"] == "Error: there is no tool 'fail'"
    assert second["output"] == '{"sum": 2}'
    assert [call["params"]["name"] for call in server.received("tools/call")] == ["add"]


def test_nulls_that_mean_not_given_are_left_out_and_names_of_arguments_lead_back():
    schema = {
        "type": "object",
        "properties": {
            "a b": {"type": "integer"},
            "o": {
                "type": "object",
                "properties": {"x": {"type": "string"}, "y": {"type": ["string", "null"]}},
            },
            "n": {"type": "string"},
        },
        "required": ["a b"],
    }
    echo = FakeTool(lambda **given: {"given": given}, name="echo", input_schema=schema)
    with Client(InMemory(FakeServer(tools=[echo]))) as client:
        tools = list(client.tools())
        from mcp_sync.llm import tool_definitions

        (definition,) = tool_definitions(tools, "anthropic")
        odd = next(iter(definition["input_schema"]["properties"]))
        arguments = {odd: 1, "o": {"x": None, "y": None}, "n": None}
        (result,) = run_tool_calls(client, said("anthropic", ("1", "echo", arguments)), vendor="anthropic")
    text = result["content"][0]["text"]
    assert json.loads(text) == {"given": {"a b": 1, "o": {"y": None}}}


def test_calls_run_at_the_same_time_and_their_results_keep_the_order():
    meeting = threading.Barrier(3, timeout=20)

    def meet(number: int) -> str:
        meeting.wait()
        return f"number {number}"

    calls = [(str(number), "meet", {"number": number}) for number in range(3)]
    with Client(InMemory(FakeServer(tools=[meet]))) as client:
        results = run_tool_calls(client, said("openai", *calls), vendor="openai", parallel=3)
    assert [result["output"] for result in results] == ["number 0", "number 1", "number 2"]
    assert [result["call_id"] for result in results] == ["0", "1", "2"]


@pytest.mark.parametrize(
    "options",
    [
        {"parallel": 0},
        {"raise_on_error": True},
        {"result_type": int},
        {"vendor": "nobody"},
        {"tools": ["add"]},
    ],
)
def test_options_that_make_no_sense_are_refused(client, options):
    with pytest.raises(UsageError):
        run_tool_calls(client, [], **{"vendor": "openai", **options})


# --- what results become -----------------------------------------------------------------------------------


def result(*blocks: Any, **more: Any) -> types.CallToolResult:
    return types.CallToolResult.model_validate({"content": list(blocks), **more})


CALL = ToolCall("c1", "show", {})
TEXT = {"type": "text", "text": "hello"}
IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}
SOUND = {"type": "audio", "data": PNG, "mimeType": "audio/wav"}
PDF = {"type": "resource", "resource": {"uri": "a://b.pdf", "blob": PNG, "mimeType": "application/pdf"}}
NOTE = {"type": "resource", "resource": {"uri": "a://note", "text": "a note"}}
LINK = {"type": "resource_link", "uri": "a://c", "name": "c"}


def test_anthropic_gets_blocks():
    (made,) = tool_result(result(TEXT, IMAGE, PDF, SOUND), CALL, "anthropic")
    assert made["tool_use_id"] == "c1"
    text, image, document, sound = made["content"]
    assert text == TEXT
    assert image["source"] == {"type": "base64", "media_type": "image/png", "data": PNG}
    assert (document["type"], document["source"]["media_type"]) == ("document", "application/pdf")
    assert (sound["type"], sound["text"]) == ("text", "[audio, audio/wav, 9 bytes: not shown]")


def test_an_error_for_anthropic_holds_nothing_but_text():
    (made,) = tool_result(result(IMAGE, isError=True), CALL, "anthropic")
    assert [block["type"] for block in made["content"]] == ["text"]
    assert made["is_error"] is True
    (made,) = tool_result(result(isError=True), CALL, "anthropic")
    assert made["content"][0]["text"]


def test_responses_get_a_text_or_a_list():
    assert tool_result(result(TEXT, NOTE, LINK), CALL, "openai") == [
        {"type": "function_call_output", "call_id": "c1", "output": "hello\na://note\na note\n[c: a://c]"}
    ]
    (made,) = tool_result(result(TEXT, IMAGE, PDF), CALL, "openai")
    assert [block["type"] for block in made["output"]] == ["input_text", "input_image", "input_file"]
    assert made["output"][1]["image_url"] == f"data:image/png;base64,{PNG}"


def test_images_of_chat_completions_come_from_the_user_when_all_tools_have_answered():
    made = tool_results([(CALL, result(TEXT, IMAGE)), (CALL, result(TEXT))], "openai-chat")
    assert [message["role"] for message in made] == ["tool", "tool", "user"]
    assert made[1] == {"role": "tool", "tool_call_id": "c1", "content": "hello"}
    assert made[2]["content"][1]["image_url"]["url"].startswith("data:image/png;base64,")


def test_gemini_gets_an_object_and_parts():
    (made,) = tool_result(result(TEXT, IMAGE), CALL, "gemini")
    response = made["functionResponse"]
    assert (response["id"], response["name"], response["response"]) == ("c1", "show", {"output": "hello"})
    assert response["parts"] == [{"inlineData": {"mimeType": "image/png", "data": PNG}}]
    (made,) = tool_result(result(TEXT, structuredContent={"a": 1}), CALL._replace(id=""), "gemini")
    assert made == {"functionResponse": {"name": "show", "response": {"output": {"a": 1}}}}


def test_structured_content_is_told_where_there_is_no_text():
    (made,) = tool_result(result(structuredContent={"a": "é"}), CALL, "openai")
    assert made["output"] == '{"a": "é"}'


@pytest.mark.parametrize("vendor", VENDORS)
def test_what_a_server_may_send_is_always_told(vendor):
    odd = [
        {**IMAGE, "data": "!!!"},
        {**IMAGE, "data": "-_8"},
        {"type": "dance"},
        {"type": "text", "text": " "},
    ]
    made = tool_result(result(*odd, {**IMAGE, "mimeType": "image/svg+xml"}), CALL, vendor)
    text = json.dumps(made)
    if vendor != "plain":
        assert "cannot be decoded" in text
        assert "data:image/svg" not in text
