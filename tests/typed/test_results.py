"""Results of tools as values of a type that the caller names."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any, Optional

import pytest
import typing_extensions
from pydantic import BaseModel

from mcp_sync import Client, InMemory, OutputInvalid, ToolFailed, UsageError, types
from mcp_sync.testing import FakeServer


class Weather(BaseModel):
    city: str
    degrees: float


@dataclasses.dataclass
class Point:
    x: int
    y: int


class Hit(typing_extensions.TypedDict):
    title: str


class Holder(BaseModel):
    result: int


class Envelope(BaseModel):
    result: Any


class Loose(BaseModel):
    note: str = "nothing"


def call(value: Any, kind: Any, **options: Any) -> Any:
    """Call a tool that returns a value, as structured content unless it is a text or a result."""
    made = value.to_wire() if isinstance(value, types.CallToolResult) else value
    with Client(InMemory(FakeServer(tools={"tool": lambda: made}))) as client:
        return client.call_tool("tool", result_type=kind, **options)


def structured(value: Any, meta: Optional[dict[str, Any]] = None) -> types.CallToolResult:
    return types.CallToolResult(content=[], structured_content=value, meta=meta)


@pytest.mark.parametrize(
    ("value", "kind", "wanted"),
    [
        ({"city": "Graz", "degrees": 3}, Weather, Weather(city="Graz", degrees=3.0)),
        ({"x": 1, "y": 2}, Point, Point(1, 2)),
        ({"title": "a"}, Hit, {"title": "a"}),
        ({"result": [1, 2]}, list[int], [1, 2]),
        ({"result": {"x": 1, "y": 2}}, Point, Point(1, 2)),
        ({"result": {"note": "kept"}}, Loose, Loose(note="kept")),
        ({"result": 5}, Holder, Holder(result=5)),
        ({"result": {"result": 5}}, Holder, Holder(result=5)),
        ({"result": 5}, dict[str, int], {"result": 5}),
        ({"result": None}, Optional[int], None),
    ],
)
def test_structured_content_becomes_a_value_of_the_type(value, kind, wanted):
    assert call(structured(value), kind) == wanted


def test_a_type_with_such_a_field_takes_the_whole_unless_the_server_says_that_it_wrapped():
    value = {"result": {"result": 7}}
    assert call(structured(value), Envelope) == Envelope(result={"result": 7})
    assert call(structured(value, {"fastmcp": {"wrap_result": True}}), Envelope) == Envelope(result=7)


def test_a_mark_of_the_server_says_that_the_value_is_wrapped():
    marked = structured({"result": {"result": 7}}, {"fastmcp": {"wrap_result": True}})
    assert call(marked, dict[str, int]) == {"result": 7}


@pytest.mark.parametrize(("text", "kind", "wanted"), [("hello", str, "hello"), ("[1, 2]", list[int], [1, 2])])
def test_without_structured_content_the_text_is_taken(text, kind, wanted):
    assert call(text, kind) == wanted


def test_a_value_of_another_type_is_an_error_that_says_where_and_keeps_the_result():
    with pytest.raises(OutputInvalid, match=r"tool is no Weather: degrees: .*number") as caught:
        call(structured({"city": "Graz", "degrees": "cold"}), Weather)
    assert caught.value.result.structured_content["degrees"] == "cold"
    assert pickle.loads(pickle.dumps(caught.value)).result == caught.value.result


def test_a_tool_that_fails_has_no_value():
    failed = types.CallToolResult(content=[types.TextContent(text="no such city")], is_error=True)
    with pytest.raises(ToolFailed, match="no such city"):
        call(failed, Weather)


@pytest.mark.parametrize("kind", [object(), "Unheard"])
def test_what_is_no_type_is_refused_before_the_tool_is_called(kind):
    server = FakeServer(tools={"tool": lambda: "x"})
    with (
        Client(InMemory(server)) as client,
        pytest.raises(UsageError, match=r"^result_type cannot be [^\n]+$"),
    ):
        client.call_tool("tool", result_type=kind)
    assert not server.received("tools/call")
