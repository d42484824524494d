"""What a sloppy or newer server sends is read as far as it can be."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest
from pydantic import ValidationError

from mcp_sync.types import (
    Annotations,
    CallToolResult,
    CompleteResult,
    CreateMessageRequestParams,
    DiscoverResult,
    GetPromptResult,
    Implementation,
    InitializeResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListTasksResult,
    ListToolsResult,
    ReadResourceResult,
    ResourceContents,
    ServerCapabilities,
    TextContent,
    Tool,
    UnknownContent,
)
from mcp_sync.types._lenient import first_problem

GOOD = {"name": "good", "inputSchema": {"type": "object"}}

ODD_SCHEMAS: list[Any] = [
    {},
    {"anyOf": [{"type": "object"}, {"type": "null"}]},
    {"type": "object", "required": None},
    {"type": "object", "properties": {"required": ["a"]}},
    {"type": ["object", "null"], "x-vendor": None},
    None,
    True,
    "not a schema",
    [],
]


@pytest.mark.parametrize("schema", ODD_SCHEMAS, ids=repr)
def test_an_odd_input_schema_is_kept_as_it_came(schema: Any) -> None:
    message = {"tools": [GOOD, {"name": "odd", "inputSchema": schema, "outputSchema": schema}]}
    result = ListToolsResult.model_validate(message)
    assert [tool.name for tool in result.tools] == ["good", "odd"]
    if schema is not None:
        assert result.tools[1].input_schema == schema
    assert result.tools[1].output_schema == schema
    assert result.tools[1].to_wire()["outputSchema"] == schema


def test_a_tool_without_an_input_schema_has_an_empty_one_that_is_not_sent_on() -> None:
    tool = Tool.model_validate({"name": "bare"})
    assert tool.input_schema == {}
    assert tool.to_wire() == {"name": "bare"}


UNUSABLE: list[tuple[type, str, Any]] = [
    (ListToolsResult, "tools", {"description": "no name", "inputSchema": {}}),
    (ListToolsResult, "tools", {"name": None}),
    (ListToolsResult, "tools", {"name": 5}),
    (ListToolsResult, "tools", None),
    (ListToolsResult, "tools", "text"),
    (ListToolsResult, "tools", []),
    (ListResourcesResult, "resources", {"name": "no address"}),
    (ListResourcesResult, "resources", {"name": "bad address", "uri": 1}),
    (ListResourcesResult, "resources", None),
    (ListResourceTemplatesResult, "resourceTemplates", {"name": "no template"}),
    (ListPromptsResult, "prompts", {"description": "no name"}),
    (ListPromptsResult, "prompts", None),
    (ListTasksResult, "tasks", {"status": "working"}),
]

GOOD_ENTRY: dict[str, dict[str, Any]] = {
    "tools": GOOD,
    "resources": {"uri": "x:y", "name": "good"},
    "resourceTemplates": {"uriTemplate": "x:{y}", "name": "good"},
    "prompts": {"name": "good"},
    "tasks": {"taskId": "1", "status": "working", "createdAt": "", "lastUpdatedAt": "", "ttl": None},
}


@pytest.mark.parametrize(("model", "key", "entry"), UNUSABLE)
def test_an_unusable_entry_is_dropped_with_a_warning_and_hides_no_other(
    model: Any, key: str, entry: Any, caplog: pytest.LogCaptureFixture
) -> None:
    good = GOOD_ENTRY[key]
    result = model.model_validate({key: [good, entry, good], "nextCursor": "c"})
    assert result.to_wire() == {key: [good, good], "nextCursor": "c"}
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("mcp_sync.types", logging.WARNING)
    assert " 1" in record.getMessage()


def test_the_warning_names_the_entry_and_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    ListResourcesResult.model_validate({"resources": [{"name": "Report", "mimeType": "text/plain"}]})
    ListToolsResult.model_validate({"tools": [{"title": "Search the web", "inputSchema": {}}]})
    first, second = (record.getMessage() for record in caplog.records)
    assert "resource 0" in first
    assert "'Report'" in first
    assert "uri" in first
    assert "required" in first
    assert "tool 0" in second
    assert "'Search the web'" in second
    assert "name: Field required" in second


def test_many_entries_of_no_use_are_told_in_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    result = ListToolsResult.model_validate({"tools": [{"title": f"t{n}"} for n in range(2000)] + [GOOD]})
    assert result.to_wire() == {"tools": [GOOD]}
    (record,) = caplog.records
    reason = "name: Field required"
    assert record.getMessage() == (
        f"dropped 2000 of 2001 tools: 0 (title 't0'): {reason}; 1 (title 't1'): {reason}; "
        f"2 (title 't2'): {reason}; ..."
    )


def test_a_list_of_nothing_but_rubbish_does_not_fit_and_is_given_up_early(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert ListToolsResult.model_validate({"tools": [{}] * 10_000}).tools == []
    caplog.clear()
    with pytest.raises(ValidationError) as caught:
        ListToolsResult.model_validate({"tools": [{}] * 200_000})
    assert first_problem(caught.value) == "tools.0.name: Field required"
    assert caplog.records == []


def test_a_warning_shows_no_more_than_a_part_of_untrusted_text(caplog: pytest.LogCaptureFixture) -> None:
    ListToolsResult.model_validate({"tools": [{"title": "x\n" * 10_000}]})
    (record,) = caplog.records
    assert len(record.getMessage()) < 300
    assert "\n" not in record.getMessage()


def test_good_lists_say_nothing(caplog: pytest.LogCaptureFixture) -> None:
    ListToolsResult.model_validate({"tools": [GOOD] * 3})
    assert caplog.records == []


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (ListToolsResult, {}),
        (ListToolsResult, {"tools": None}),
        (ListToolsResult, {"tools": {"name": "x"}}),
        (ListResourcesResult, {"nextCursor": "x"}),
        (ListPromptsResult, {}),
        (CallToolResult, {}),
        (CallToolResult, {"content": None}),
        (CallToolResult, {"content": "text"}),
        (ReadResourceResult, {}),
        (GetPromptResult, {}),
        (CompleteResult, {}),
        (InitializeResult, {}),
        (DiscoverResult, {}),
    ],
)
def test_a_result_without_its_main_part_is_an_error(model: Any, message: Any) -> None:
    with pytest.raises(ValidationError):
        model.model_validate(message)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("title", 5),
        ("title", None),
        ("description", ["a"]),
        ("annotations", "x"),
        ("annotations", {"readOnlyHint": "perhaps", "fooHint": 1}),
        ("icons", {}),
        ("icons", [{"no": "src"}]),
        ("icons", [None]),
        ("execution", 1),
        ("execution", {"taskSupport": "sometimes"}),
        ("outputSchema", [1]),
        ("_meta", "x"),
        ("_meta", None),
    ],
)
def test_a_descriptive_field_of_the_wrong_type_hides_nothing(
    field: str, value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    entry = {**GOOD, field: value}
    result = ListToolsResult.model_validate({"tools": [entry]})
    assert result.tools[0].name == "good"
    assert result.to_wire() == {"tools": [entry]}
    assert result.model_dump(mode="json", by_alias=True, exclude_unset=True) == {"tools": [entry]}
    assert caplog.records == []


@pytest.mark.parametrize(
    ("key", "entry"),
    [
        ("resources", {"uri": "x:y"}),
        ("resources", {"uri": "x:y", "name": None}),
        ("resources", {"uri": "x:y", "name": 7, "size": "big", "annotations": []}),
        ("resourceTemplates", {"uriTemplate": "x:{y}", "mimeType": 1}),
        ("prompts", {"name": "p", "arguments": [{"description": "no name"}]}),
        ("prompts", {"name": "p", "arguments": None, "icons": "x"}),
    ],
)
def test_other_lists_are_as_patient(key: str, entry: Any) -> None:
    models: dict[str, Any] = {
        "resources": ListResourcesResult,
        "resourceTemplates": ListResourceTemplatesResult,
        "prompts": ListPromptsResult,
    }
    result = models[key].model_validate({key: [entry]})
    if entry.get("name", "") is not None:
        assert result.to_wire() == {key: [entry]}


def test_a_resource_without_a_name_has_an_empty_one() -> None:
    (resource,) = ListResourcesResult.model_validate({"resources": [{"uri": "file:///a"}]}).resources
    assert (resource.uri, resource.name) == ("file:///a", "")


def test_addresses_are_kept_letter_by_letter() -> None:
    for uri in ("http://example.com", "HTTP://EXAMPLE.com/%7e", "custom:thing", "file:///a b"):
        message = {"contents": [{"uri": uri, "text": ""}]}
        assert ReadResourceResult.model_validate(message).contents[0].uri == uri


def test_nulls_for_optional_fields_are_tolerated_and_kept() -> None:
    message = {"content": [], "isError": None, "structuredContent": None, "_meta": None, "resultType": None}
    result = CallToolResult.model_validate(message)
    assert not result.is_error
    assert result.to_wire() == message
    page = {"tools": [], "nextCursor": None, "ttlMs": None, "cacheScope": None}
    listing = ListToolsResult.model_validate(page)
    assert listing.next_cursor is None
    assert listing.to_wire() == page


def test_structured_content_may_stand_alone() -> None:
    result = CallToolResult.model_validate({"structuredContent": {"n": 1}})
    assert result.content == []
    assert result.to_wire() == {"structuredContent": {"n": 1}}


@pytest.mark.parametrize("value", [{"a": None}, [1, None], "text", 0, 1.5, False, None])
def test_structured_content_is_any_json_value(value: Any) -> None:
    message = {"content": [], "structuredContent": value}
    result = CallToolResult.model_validate(message)
    assert result.structured_content == value
    assert result.to_wire() == message


@pytest.mark.parametrize(
    "block",
    [
        {"type": "video", "data": "x", "frames": [1, None]},
        {"type": "text"},
        {"type": "text", "text": 5},
        {"type": "text", "text": None},
        {"type": "image", "data": "x"},
        {"type": "resource", "resource": {"text": "no address"}},
        {"type": "resource_link", "name": "no address"},
        {"type": "tool_use", "id": "1", "name": "x", "input": {}},
        {"text": "no type"},
        {"type": 7},
        {},
    ],
    ids=repr,
)
def test_a_strange_content_block_stays_readable_and_hides_no_other(block: dict[str, Any]) -> None:
    message = {"content": [{"type": "text", "text": "a"}, block, {"type": "text", "text": "b"}]}
    result = CallToolResult.model_validate(message)
    strange = result.content[1]
    assert isinstance(strange, UnknownContent)
    for name, value in block.items():
        assert getattr(strange, name) == value
    assert result.to_wire() == message
    assert result.text == "a\nb"


def test_an_entry_that_is_no_block_is_dropped_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    result = CallToolResult.model_validate({"content": [None, "text", {"type": "text", "text": "a"}]})
    assert result.text == "a"
    (record,) = caplog.records
    assert re.fullmatch(
        "dropped 2 of 3 content blocks: 0: .* object.*; 1: .* object[^;]*", record.getMessage()
    )


def test_bad_annotations_do_not_cost_a_text_block_its_text() -> None:
    message = {
        "content": [
            {"type": "text", "text": "a", "annotations": "x"},
            {"type": "text", "text": "b", "annotations": {"priority": "high", "audience": ["robot"]}},
        ]
    }
    result = CallToolResult.model_validate(message)
    first, second = result.content
    assert isinstance(first, TextContent)
    assert isinstance(second, TextContent)
    assert isinstance(second.annotations, Annotations)
    assert result.text == "a\nb"
    assert result.to_wire() == message


def test_contents_of_a_kind_that_is_not_known_keep_their_fields() -> None:
    message = {"contents": [{"uri": "x:y", "stream": "z"}, {"uri": "x:y", "text": "a", "blob": "Yg=="}]}
    result = ReadResourceResult.model_validate(message)
    assert type(result.contents[0]) is ResourceContents
    assert result.text == "a"
    assert result.to_wire() == message


def test_capabilities_of_the_wrong_type_still_show_that_they_are_there() -> None:
    message = {"tools": True, "prompts": {"listChanged": 1}, "resources": [], "logging": None}
    capabilities = ServerCapabilities.model_validate(message)
    assert capabilities.tools
    assert capabilities.prompts
    assert capabilities.prompts.list_changed is True
    assert capabilities.logging is None


def test_a_server_that_does_not_introduce_itself_in_full_can_be_talked_to() -> None:
    message = {"protocolVersion": "1", "capabilities": {}, "serverInfo": {"name": "x", "icons": 5}}
    result = InitializeResult.model_validate(message)
    assert (result.server_info.name, result.server_info.version) == ("x", "")
    assert result.to_wire() == message
    assert Implementation.model_validate({}).to_wire() == {}


def test_a_sampling_request_keeps_odd_wishes() -> None:
    message = {
        "messages": [
            {"role": "system", "content": {"type": "text", "text": "a"}},
            {"role": "user", "content": [{"type": "text", "text": "b"}, {"type": "novel", "x": 1}]},
        ],
        "maxTokens": 10,
        "temperature": 0,
        "modelPreferences": {"hints": [{"name": 5}], "costPriority": "low"},
        "includeContext": "everything",
        "toolChoice": {"mode": "maybe"},
        "tools": [{"name": "t"}],
    }
    params = CreateMessageRequestParams.model_validate(message)
    assert [message.role for message in params.messages] == ["system", "user"]
    assert params.to_wire() == message
