"""Attributes by both names; copying, pickling, comparing."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from mcp_sync.types import (
    CallToolResult,
    ListToolsResult,
    TextContent,
    Tool,
    UnknownRequest,
    parse_server_request,
)

MESSAGE: dict[str, Any] = {
    "content": [{"type": "text", "text": "a", "x": 1}, {"type": "novel", "y": None}],
    "structuredContent": {"n": None},
    "isError": True,
    "_meta": {"k": 1},
    "vendor": 2,
}


def test_attributes_can_be_read_by_their_camel_case_names() -> None:
    result: Any = CallToolResult.model_validate(MESSAGE)
    assert result.isError is result.is_error is True
    assert result.structuredContent == result.structured_content == {"n": None}
    assert result._meta == result.meta == {"k": 1}
    tool: Any = Tool(name="t", input_schema={"type": "object"})
    assert tool.inputSchema == {"type": "object"}
    assert tool.outputSchema is None
    assert ListToolsResult.model_validate({"tools": [], "nextCursor": "c"}).nextCursor == "c"  # type: ignore[attr-defined]


def test_attributes_can_be_set_by_their_camel_case_names() -> None:
    result: Any = CallToolResult.model_validate(MESSAGE)
    result.isError = False
    assert result.is_error is False
    assert result.to_wire() == {**MESSAGE, "isError": False}


def test_models_can_be_built_by_either_name() -> None:
    snake = Tool(name="t", input_schema={}, output_schema={"a": 1}, meta={"k": 1})
    camel = Tool(name="t", inputSchema={}, outputSchema={"a": 1}, _meta={"k": 1})
    assert snake == camel
    assert snake.to_wire() == camel.to_wire()
    assert (
        Tool.model_validate({"name": "t", "input_schema": {}, "output_schema": {"a": 1}, "meta": {"k": 1}})
        == camel
    )


@pytest.mark.parametrize("name", ["isErrr", "is_errr", "_private", "__wrapped__", "inputSchema"])
def test_a_name_that_is_not_there_is_an_ordinary_attribute_error(name: str) -> None:
    result = CallToolResult.model_validate(MESSAGE)
    with pytest.raises(AttributeError, match=name):
        getattr(result, name)
    assert not hasattr(result, name)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_models_survive_pickling(protocol: int) -> None:
    result = CallToolResult.model_validate(MESSAGE)
    again = pickle.loads(pickle.dumps(result, protocol))
    assert again == result
    assert again.to_wire() == MESSAGE
    assert again.isError is True


def test_models_survive_copying() -> None:
    result = CallToolResult.model_validate(MESSAGE)
    for again in (copy.copy(result), copy.deepcopy(result), result.model_copy(deep=True)):
        assert again == result
        assert again.to_wire() == MESSAGE
    changed = result.model_copy(update={"is_error": False})
    assert changed.to_wire() == {**MESSAGE, "isError": False}


def test_private_attributes_survive_pickling() -> None:
    request = parse_server_request({"jsonrpc": "2.0", "id": 1, "method": "roots/list", "params": 5})
    assert isinstance(request, UnknownRequest)
    again = pickle.loads(pickle.dumps(request))
    assert again.problem == request.problem
    assert again.problem


def test_a_built_model_equals_the_same_model_received() -> None:
    assert TextContent(text="a") == TextContent.model_validate({"type": "text", "text": "a"})
    assert TextContent(text="a") != TextContent(text="b")


def test_a_model_of_the_user_can_extend_ours() -> None:
    class MyTool(Tool):
        cost_per_call: float = 0.0

    tool = MyTool.model_validate({"name": "t", "inputSchema": {}, "costPerCall": 2.5})
    assert tool.cost_per_call == 2.5
    assert tool.costPerCall == 2.5  # type: ignore[attr-defined]
    assert tool.to_wire() == {"name": "t", "inputSchema": {}, "costPerCall": 2.5}
