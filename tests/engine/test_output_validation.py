"""Structured output against the tool's output schema: a warning, an error, or nothing."""

from __future__ import annotations

import logging

import pytest

from mcp_sync import Client
from mcp_sync.errors import OutputInvalid, ToolFailed, UsageError

from .scripted import DuplexTarget, modern, text

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TOOLS = [
    {"name": "count", "inputSchema": {"type": "object"}, "outputSchema": SCHEMA},
    {"name": "plain", "inputSchema": {"type": "object"}},
]
GOOD = text("1", structuredContent={"n": 1})
WRONG = text("x", structuredContent={"n": "1"})
MISSING = text("nothing structured")
FAILED = text("it broke", isError=True)
FAILED_WRONG = text("it broke", isError=True, structuredContent={"why": "it did"})


def calling(result, listed=True, **options):
    target = DuplexTarget(
        modern(tools_list=lambda request: {"tools": TOOLS}, tools_call=lambda request: result)
    )
    client = Client(target, **options).open()
    if listed:
        client.list_tools()
    return client, target


@pytest.mark.parametrize("mode", ["warn", "strict", "off"])
@pytest.mark.parametrize("result", [FAILED, FAILED_WRONG], ids=["text only", "structured"])
def test_what_a_failing_tool_returns_is_never_validated(mode, result, caplog):
    client, _ = calling(result, validation=mode)
    with caplog.at_level(logging.WARNING):
        returned = client.call_tool("count")
    assert returned.is_error
    assert returned.text == "it broke"
    assert returned.structured_content == result.get("structuredContent")
    assert not caplog.records
    client.close()


@pytest.mark.parametrize("result", [WRONG, MISSING], ids=["wrong type", "missing"])
def test_by_default_a_fault_is_warned_of_and_the_result_returned(result, caplog):
    client, _ = calling(result)
    with caplog.at_level(logging.WARNING):
        assert client.call_tool("count").text == result["content"][0]["text"]
    assert "count" in caplog.text
    client.close()


@pytest.mark.parametrize("result", [WRONG, MISSING], ids=["wrong type", "missing"])
def test_strictly_a_fault_is_an_error_that_carries_the_whole_result(result):
    client, _ = calling(result, validation="strict")
    with pytest.raises(OutputInvalid, match="count") as caught:
        client.call_tool("count")
    assert caught.value.result.structured_content == result.get("structuredContent")
    assert caught.value.result.text == result["content"][0]["text"]
    client.close()


@pytest.mark.parametrize("result", [WRONG, MISSING, GOOD])
def test_switched_off_nothing_is_looked_at(result, caplog):
    client, _ = calling(result, validation="off")
    client.call_tool("count")
    assert not caplog.records
    client.close()


def test_a_call_may_have_its_own_mode():
    client, _ = calling(WRONG, validation="off")
    with pytest.raises(OutputInvalid):
        client.call_tool("count", validation="strict")
    client.close()
    client, _ = calling(WRONG, validation="strict")
    assert client.call_tool("count", validation="off").structured_content == {"n": "1"}
    client.close()


def test_an_unknown_mode_is_refused():
    with pytest.raises(UsageError, match="strict"):
        Client(DuplexTarget(), validation="hard")
    client, target = calling(GOOD)
    with pytest.raises(UsageError, match="strict"):
        client.call_tool("count", validation="hard")
    assert target.now.received("tools/call") == []
    client.close()


def test_good_output_passes_in_every_mode(caplog):
    for mode in ("warn", "strict", "off"):
        client, _ = calling(GOOD, validation=mode)
        assert client.call_tool("count").structured_content == {"n": 1}
        client.close()
    assert not caplog.records


def test_a_tool_that_was_never_listed_is_not_validated_and_not_listed_for_it():
    client, target = calling(WRONG, listed=False, validation="strict")
    assert client.call_tool("count").structured_content == {"n": "1"}
    assert target.now.received("tools/list") == []
    client.close()


def test_a_tool_without_an_output_schema_may_return_anything():
    client, _ = calling(WRONG, validation="strict")
    assert client.call_tool("plain").structured_content == {"n": "1"}
    client.close()


def test_a_schema_that_has_changed_counts_as_soon_as_it_is_listed():
    tools = [dict(TOOLS[0])]
    target = DuplexTarget(
        modern(tools_list=lambda request: {"tools": tools}, tools_call=lambda request: WRONG)
    )
    with Client(target, validation="strict") as client:
        client.list_tools()
        with pytest.raises(OutputInvalid):
            client.call_tool("count")
        tools[0]["outputSchema"] = {"type": "object"}
        client.list_tools()
        client.call_tool("count")


@pytest.mark.parametrize(
    "schema", [{"type": "nonsense"}, {"$ref": "https://example.invalid/x"}, {"$schema": "urn:x"}], ids=repr
)
def test_a_schema_that_cannot_be_used_is_a_fault_and_never_another_exception(schema, caplog):
    tools = [{**TOOLS[0], "outputSchema": schema}]
    target = DuplexTarget(
        modern(tools_list=lambda request: {"tools": tools}, tools_call=lambda request: GOOD)
    )
    with Client(target) as client:
        client.list_tools()
        assert client.call_tool("count").structured_content == {"n": 1}
        assert "count" in caplog.text
        with pytest.raises(OutputInvalid):
            client.call_tool("count", validation="strict")


def test_a_failing_tool_raises_only_where_that_was_asked_for():
    client, _ = calling(FAILED)
    assert client.call_tool("count").is_error
    with pytest.raises(ToolFailed, match="it broke") as caught:
        client.call_tool("count", raise_on_error=True)
    assert caught.value.result.is_error
    client.close()
