"""What goes out: exact, with unknown fields, without what was never said."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from enum import Enum
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from mcp_sync.types import (
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ClientCapabilities,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    ErrorData,
    ListRootsResult,
    ListToolsResult,
    LoggingMessageNotificationParams,
    ProgressNotification,
    Prompt,
    Resource,
    Root,
    SamplingMessage,
    ServerCapabilities,
    Task,
    TextContent,
    Tool,
    ToolAnnotations,
    ToolResultContent,
    UnknownContent,
)

NEWER: dict[str, Any] = {
    "name": "t",
    "inputSchema": {"type": "object", "properties": {"a": {"default": None}}},
    "icons": [{"src": "data:,", "sizes": ["any"], "x-shape": "round"}],
    "execution": {"taskSupport": "optional", "queue": "slow"},
    "_meta": {"com.example/a": None},
    "annotations": {"readOnlyHint": True, "fooHint": {"deep": [None]}},
    "x-acme": {"snake_case": 1, "camelCase": 2},
    "nothing": None,
}


def test_unknown_fields_are_readable_and_survive() -> None:
    tool = Tool.model_validate(NEWER)
    assert tool.to_wire() == NEWER
    assert getattr(tool, "x-acme") == NEWER["x-acme"]
    assert tool.annotations
    assert tool.annotations.fooHint == {"deep": [None]}  # type: ignore[attr-defined]


def test_unknown_fields_of_results_and_capabilities_survive() -> None:
    result = {"content": [], "_meta": {"k": None}, "vendor": {"a": None}, "next_thing": [1]}
    assert CallToolResult.model_validate(result).to_wire() == result
    listing = {"tools": [NEWER], "total_count": 1, "extra": None}
    assert ListToolsResult.model_validate(listing).to_wire() == listing
    capabilities = {"experimental": {"x": {"y": None}}, "extensions": {"a/b": {}}, "novel": {"z": 1}}
    assert ServerCapabilities.model_validate(capabilities).to_wire() == capabilities
    assert ClientCapabilities.model_validate(capabilities).to_wire() == capabilities


def test_fields_that_were_never_set_are_left_out() -> None:
    assert Tool(name="t", input_schema={}).to_wire() == {"name": "t", "inputSchema": {}}
    assert TextContent(text="a").to_wire() == {"type": "text", "text": "a"}


def test_none_given_in_python_means_not_given() -> None:
    tool = Tool(name="t", input_schema={}, title=None, annotations=ToolAnnotations(title=None))
    assert tool.to_wire() == {"name": "t", "inputSchema": {}, "annotations": {}}
    result = CreateMessageResult(content=TextContent(text="a"), model="m", stop_reason=None, meta=None)
    assert "stopReason" not in result.to_wire()
    assert "_meta" not in result.to_wire()
    assert ErrorData(code=1, message="m", data=None).to_wire() == {"code": 1, "message": "m"}


def test_none_that_is_assigned_means_not_given() -> None:
    tool = Tool.model_validate(NEWER)
    tool.annotations = None
    tool.title = "T"
    assert "annotations" not in tool.to_wire()
    assert tool.to_wire()["title"] == "T"


def test_none_inside_the_data_of_the_user_survives() -> None:
    params = CallToolRequestParams(name="t", arguments={"a": None, "b": [None, {"c": None}]})
    assert params.to_wire() == {"name": "t", "arguments": {"a": None, "b": [None, {"c": None}]}}
    assert LoggingMessageNotificationParams(level="info", data=None).to_wire() == {
        "level": "info",
        "data": None,
    }
    assert Task(task_id="1", status="working", ttl=None).to_wire() == {
        "taskId": "1",
        "status": "working",
        "ttl": None,
    }


def test_constants_are_sent_although_nobody_sets_them() -> None:
    request = CallToolRequest(id=1, params=CallToolRequestParams(name="t"))
    assert request.to_wire() == {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "t"},
    }
    assert request.model_dump(by_alias=True, exclude_unset=True) == request.to_wire()
    assert TextContent.model_validate({"text": "a"}).to_wire() == {"type": "text", "text": "a"}
    assert CreateMessageResult(content=TextContent(text="a"), model="m").to_wire()["role"] == "assistant"
    assert ElicitRequestURLParams(message="m", url="u:").to_wire()["mode"] == "url"
    assert "mode" not in ElicitRequestFormParams(message="m", requested_schema={}).to_wire()


def test_values_of_python_become_json() -> None:
    class Colour(Enum):
        RED = "red"

    class Point(BaseModel):
        x: int

    moment = datetime(2026, 1, 2, tzinfo=timezone.utc)
    arguments = {"when": moment, "colour": Colour.RED, "point": Point(x=1), "pair": (1, 2)}
    wire = CallToolRequestParams(name="t", arguments=arguments).to_wire()
    assert json.loads(json.dumps(wire["arguments"])) == {
        "when": "2026-01-02T00:00:00Z",
        "colour": "red",
        "point": {"x": 1},
        "pair": [1, 2],
    }


def test_numbers_keep_their_kind() -> None:
    message = {"method": "notifications/progress", "params": {"progressToken": 2**60, "progress": 2**60 + 1}}
    wire = ProgressNotification.model_validate(message).to_wire()
    assert json.dumps(wire["params"]) == json.dumps(message["params"])


def test_a_model_of_a_subclass_is_sent_in_full() -> None:
    class Mine(TextContent):
        mood: str

    result = CallToolResult(content=[Mine(text="a", mood="good")])
    assert result.to_wire()["content"] == [{"type": "text", "text": "a", "mood": "good"}]


@pytest.mark.parametrize(
    "build",
    [
        lambda: Tool(name="t"),
        lambda: Tool(name="t", input_schema={}, title=5),
        lambda: Tool(name="t", input_schema=[]),
        lambda: Tool(name="t", input_schema={}, annotations="x"),
        lambda: Resource(uri="x:y"),
        lambda: Prompt(),
        lambda: TextContent(text=5),
        lambda: CallToolResult(content=[{"type": "text"}]),
        lambda: CallToolResult(content=["text"]),
        lambda: CallToolResult(structured_content={}),
        lambda: ListToolsResult(tools=[{"title": "no name"}]),
        lambda: ListToolsResult(tools=[{"name": "t", "inputSchema": {}, "title": 5}]),
        lambda: CreateMessageResult(content=TextContent(text="a")),
        lambda: CreateMessageResult(role="system", content=TextContent(text="a"), model="m"),
        lambda: CreateMessageResult(content="text", model="m"),
        lambda: ElicitResult(action="maybe"),
        lambda: ElicitResult(action="accept", content={"a": {"nested": 1}}),
        lambda: ListRootsResult(roots=[Root(uri=5)]),
        lambda: ErrorData(code="x", message="m"),
        lambda: SamplingMessage(role="user", content={"type": "text", "txt": "a"}),
    ],
)
def test_what_is_built_in_python_is_checked_in_full(build: Any) -> None:
    with pytest.raises(ValidationError):
        build()


def test_blocks_of_an_unknown_kind_can_be_built_too() -> None:
    block = UnknownContent(type="video", data="x")
    by_hand = ToolResultContent(tool_use_id="1", content=[block, {"type": "novel", "a": 1}])
    assert by_hand.to_wire()["content"] == [{"type": "video", "data": "x"}, {"type": "novel", "a": 1}]


def test_answers_are_comfortable_to_make() -> None:
    assert CreateMessageResult.from_text("hi", model="m").to_wire() == {
        "role": "assistant",
        "content": {"type": "text", "text": "hi"},
        "model": "m",
        "stopReason": "endTurn",
    }
    assert ElicitResult.accept({"a": 1, "b": ["x"], "c": True}).to_wire() == {
        "action": "accept",
        "content": {"a": 1, "b": ["x"], "c": True},
    }
    assert ElicitResult.decline().to_wire() == {"action": "decline"}
    assert ElicitResult.cancel().to_wire() == {"action": "cancel"}
    root = Root.from_path("/tmp/a b", name="work")
    assert root.to_wire() == {"uri": "file:///tmp/a%20b", "name": "work"}


def test_errors_of_what_is_built_in_python_speak_of_fields_only() -> None:
    with pytest.raises(ValidationError) as caught:
        CallToolResult(
            content=[TextContent(text="a"), {"type": "text", "text": 5}, {"type": "image"}],
            is_error="perhaps",
        )
    problems = {".".join(map(str, error["loc"])): error["msg"] for error in caught.value.errors()}
    assert problems == {
        "content.1.text.text": "Input should be a valid string",
        "content.2.image.data": "Field required",
        "content.2.image.mimeType": "Field required",
        "is_error": "Input should be a valid boolean, unable to interpret input",
    }


def test_a_missing_field_of_what_is_built_in_python_is_named() -> None:
    with pytest.raises(ValidationError) as caught:
        ListToolsResult(tools=[{"title": "{braces}"}])
    assert [(error["type"], error["loc"]) for error in caught.value.errors()] == [
        ("missing", ("tools", 0, "name")),
        ("missing", ("tools", 0, "input_schema")),
    ]
