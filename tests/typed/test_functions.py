"""``client.tool``: tools as functions."""

from __future__ import annotations

import gc
import inspect
import weakref

import pytest

from mcp_sync import Client, InMemory
from mcp_sync.testing import FakeServer, FakeTool


def search(query: str, limit: int = 10) -> dict:
    """Search the archive."""
    return {"hits": [query] * limit}


@pytest.fixture
def server() -> FakeServer:
    return FakeServer(tools={"search": search, "odd name": search, "list": search, "class": search})


@pytest.fixture
def client(server):
    with Client(InMemory(server)) as client:
        yield client


def test_a_tool_is_called_with_its_arguments_by_name(client):
    assert client.tool.search(query="x", limit=2).structured_content == {"hits": ["x", "x"]}


def test_it_has_the_signature_and_the_docstring_of_the_tool(client):
    assert str(inspect.signature(client.tool.search)) == "(*, query: str, limit: int = 10) -> CallToolResult"
    assert inspect.getdoc(client.tool.search).startswith("Search the archive.")
    assert client.tool.search.__name__ == "search"


def test_interpreters_see_the_names_of_the_tools(client):
    assert {"search", "odd_name", "list", "class_"} <= set(dir(client.tool))
    assert sorted(client.tool) == ["class", "list", "odd name", "search"]
    assert len(client.tool) == 4
    assert "odd name" in client.tool


@pytest.mark.parametrize("name", ["odd name", "search", "class"])
def test_any_name_works_in_brackets(client, server, name):
    client.tool[name](query="x")
    assert server.received("tools/call")[0]["params"]["name"] == name


def test_names_that_are_no_identifiers_have_a_near_one(client, server):
    client.tool.odd_name(query="x")
    client.tool.class_(query="x")
    assert [call["params"]["name"] for call in server.received("tools/call")] == ["odd name", "class"]


def test_a_missing_name_is_an_error_of_python(client):
    with pytest.raises(AttributeError, match="no tool 'nothing'"):
        _ = client.tool.nothing
    with pytest.raises(KeyError):
        client.tool["nothing"]


def test_what_notebooks_look_for_costs_no_request(client, server):
    assert not hasattr(client.tool, "_repr_png_")
    assert not hasattr(client.tool, "__wrapped__")
    assert not server.received("tools/list")


def test_tools_are_listed_once_and_again_for_a_new_name(client, server):
    client.tool.search(query="x")
    client.tool.search(query="x")
    assert len(server.received("tools/list")) == 1
    server.add_tool(search, "newer")
    client.tool.newer(query="x")
    assert len(server.received("tools/list")) == 2


def test_wrong_arguments_are_an_error_before_anything_is_sent(client, server):
    with pytest.raises(TypeError, match="no argument 'querry'; it has: query, limit"):
        client.tool.search(querry="x")
    with pytest.raises(TypeError, match="needs query"):
        client.tool.search(limit=1)
    with pytest.raises(TypeError, match="takes its arguments by name: query, limit"):
        client.tool.search("x")
    assert not server.received("tools/call")


def test_options_of_a_call_do_not_get_in_the_way_of_arguments(client):
    typed = client.tool.search.with_options(timeout=5, result_type=dict[str, list[str]])
    assert typed(query="x", limit=1) == {"hits": ["x"]}


def test_arguments_with_odd_names_have_near_ones():
    schema = {
        "type": "object",
        "properties": {"max-items": {"type": "integer"}, "from": {"type": "string"}, "self": {}},
        "required": ["self"],
        "additionalProperties": False,
    }
    tool = FakeTool(lambda **arguments: {"got": arguments}, name="odd", input_schema=schema)
    with Client(InMemory(FakeServer(tools=[tool]))) as client:
        assert list(inspect.signature(client.tool.odd).parameters) == ["self_", "max_items", "from_"]
        got = client.tool.odd(self_=1, max_items=2, **{"from": "a"}).structured_content
    assert got == {"got": {"self": 1, "max-items": 2, "from": "a"}}


def test_no_argument_gets_in_the_way_of_the_others_that_a_tool_takes():
    names = ("arguments", "more_arguments")
    schema = {"type": "object", "properties": {name: {} for name in names}, "additionalProperties": True}
    tool = FakeTool(lambda **arguments: {"got": arguments}, name="open", input_schema=schema)
    with Client(InMemory(FakeServer(tools=[tool]))) as client:
        *declared, rest = inspect.signature(client.tool.open).parameters.values()
        assert [each.name for each in declared] == list(names)
        assert rest.kind is inspect.Parameter.VAR_KEYWORD
        assert client.tool.open(arguments=1, x=2).structured_content == {"got": {"arguments": 1, "x": 2}}


def test_help_for_a_tool_cannot_drive_a_terminal():
    text = "a\x1b]0;title\x07\u202eb"
    schema = {"type": "object", "properties": {"x": {"type": "string", "description": text, "default": text}}}
    tool = FakeTool(lambda x="": "called", name=text, description=text, input_schema=schema)
    with Client(InMemory(FakeServer(tools=[tool]))) as client:
        found = client.tool[text]
        shown = [inspect.getdoc(found), found.__name__, repr(found), str(inspect.signature(found))]
        assert not set("\x1b\x07\u202e") & set("".join(shown))
        assert found().text == "called"


def test_the_tools_do_not_keep_a_client_alive(server):
    client = Client(InMemory(server))
    client.tool.search(query="x")
    client.close()
    alive = weakref.ref(client)
    gc.disable()
    try:
        del client
        assert alive() is None
    finally:
        gc.enable()
