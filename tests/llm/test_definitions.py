"""Tools in the formats of vendors, with names that they accept."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_sync import UsageError, types
from mcp_sync.llm import tool_definitions, tool_name, vendor_name

VENDORS = ["anthropic", "openai", "openai-chat", "gemini"]
PATTERNS = {
    "anthropic": r"[a-zA-Z0-9_-]{1,64}",
    "openai": r"[a-zA-Z0-9_-]{1,64}",
    "openai-chat": r"[a-zA-Z0-9_-]{1,64}",
    "gemini": r"[a-zA-Z_][a-zA-Z0-9_.-]{0,63}",
}


def tool(schema=None, name="search", description="Search the archive."):
    return types.Tool(name=name, description=description, input_schema=schema or {"type": "object"})


def parameters(schema, vendor, **options):
    (made,) = tool_definitions([tool(schema)], vendor, **options)
    return (
        made["functionDeclarations"][0]["parameters"]
        if vendor == "gemini"
        else made.get("input_schema", made.get("parameters"))
    )


QUERY = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}


def test_each_vendor_has_its_format():
    about = {"name": "search", "description": "Search the archive."}
    assert tool_definitions([tool(QUERY)], "anthropic") == [{**about, "input_schema": QUERY}]
    function = {**about, "parameters": QUERY, "strict": False}
    assert tool_definitions([tool(QUERY)], "openai") == [{"type": "function", **function}]
    assert tool_definitions([tool(QUERY)], "openai-chat") == [{"type": "function", "function": function}]
    declared = [{**about, "parameters": QUERY}]
    assert tool_definitions([tool(QUERY)], "gemini") == [{"functionDeclarations": declared}]
    assert tool_definitions([tool(QUERY)], "plain") == [{**about, "parameters": QUERY}]


NONSENSE = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 3),
        st.sampled_from(["", "object", "array", "string", "date-time", "#", "#/properties/a", "#/$defs/a"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ["type", "properties", "items", "$ref", "anyOf", "allOf", "enum", "const", "required", "a"]
                + ["format", "default", "additionalProperties", "$defs", "description", "title"]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("vendor", [*VENDORS, "plain"])
@settings(deadline=None)
@given(
    schema=st.dictionaries(
        st.sampled_from(
            ["properties", "$defs", "required", "anyOf", "allOf", "$ref", "items", "description"]
        ),
        NONSENSE,
    ),
    strict=st.booleans(),
)
def test_no_schema_of_one_tool_keeps_the_others_from_being_described(vendor, schema, strict):
    odd = types.Tool.model_construct(
        name="odd", description=None, title=None, input_schema={"type": "object", **schema}
    )
    made = tool_definitions([odd, tool(QUERY)], vendor, strict=strict)
    described = made[0]["functionDeclarations"] if vendor == "gemini" else made
    assert len(described) == 2


def test_a_tool_without_arguments_is_described_as_each_vendor_wants_it():
    empty = {"type": "object", "properties": {}}
    assert parameters(None, "anthropic") == empty
    assert parameters(None, "openai") == empty
    (made,) = tool_definitions([tool()], "gemini")
    assert "parameters" not in made["functionDeclarations"][0]
    assert tool_definitions([], "gemini") == []


@pytest.mark.parametrize("vendor", VENDORS)
@settings(deadline=None)
@given(name=st.one_of(st.text(max_size=100), st.from_regex(r"[a-z.]{60,70}_[0-9a-f]{10}", fullmatch=True)))
def test_every_name_is_accepted_and_leads_back(vendor, name):
    made = vendor_name(name, vendor)
    assert re.fullmatch(PATTERNS[vendor], made)
    assert tool_name(made, ["other", name, "a.b"], vendor) == name


def test_a_good_name_stays_and_needs_no_list_on_the_way_back():
    assert vendor_name("get_weather", "openai") == "get_weather"
    assert tool_name("get_weather", iter(()), "openai") == "get_weather"


def test_no_server_can_take_the_place_of_another_tool():
    taken = vendor_name("files/read", "openai")
    assert vendor_name(taken, "openai") != taken
    names = {vendor_name(name, "openai") for name in ("a.b", "a/b", "a b", "a_b", "A_b")}
    assert len(names) == 5


def test_a_name_that_no_tool_has_is_told():
    with pytest.raises(UsageError, match="no tool"):
        tool_name("files_0123456789", ["files"], "openai")
    with pytest.raises(UsageError, match="two tools"):
        tool_definitions([tool(), tool()], "openai")
    with pytest.raises(UsageError, match="there are: anthropic"):
        tool_definitions([], "nobody")


@pytest.mark.parametrize("tools", [types.ListToolsResult(tools=[]), None, "add", [{"name": "add"}], 5])
def test_what_are_no_tools_is_told(tools):
    with pytest.raises(UsageError, match=r"tools must be some such as list\(client\.tools\(\)\), not"):
        tool_definitions(tools, "openai")


ROOT_CHOICE = {
    "anyOf": [
        {
            "type": "object",
            "properties": {"id": {"type": "integer"}, "by": {"type": "string"}},
            "required": ["id"],
        },
        {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
    ]
}


@pytest.mark.parametrize("vendor", ["anthropic", "openai"])
def test_alternatives_at_the_top_are_put_together(vendor):
    made = parameters(ROOT_CHOICE, vendor)
    assert set(made) <= {"type", "properties", "required"}
    assert made["required"] == ["id"]
    assert made["properties"]["id"] == {"anyOf": [{"type": "integer"}, {"type": "string"}]}


def test_anthropic_gets_only_names_of_arguments_that_it_accepts():
    made = parameters(
        {"type": "object", "properties": {"a b": {}, "ok": {}}, "required": ["a b"]}, "anthropic"
    )
    assert all(re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", key) for key in made["properties"])
    assert made["required"] == [key for key in made["properties"] if key != "ok"]


def test_strict_schemas_require_everything_and_let_what_was_optional_be_null():
    schema = {
        "type": "object",
        "properties": {
            "q": {"type": "string", "minLength": 1, "default": "x"},
            "o": {"type": "object", "properties": {"n": {"$ref": "#/$defs/N"}}},
            "z": {"type": ["string", "null"]},
        },
        "required": ["q"],
        "$defs": {"N": {"type": "integer"}},
    }
    made = parameters(schema, "openai", strict=True)
    null = {"type": "null"}
    inner = {"anyOf": [{"$ref": "#/$defs/N"}, null]}
    nested = {"type": "object", "properties": {"n": inner}, "required": ["n"], "additionalProperties": False}
    assert made == {
        "type": "object",
        "properties": {
            "q": {"type": "string"},
            "o": {"anyOf": [nested, null]},
            "z": {"type": ["string", "null"]},
        },
        "required": ["q", "o", "z"],
        "additionalProperties": False,
        "$defs": {"N": {"type": "integer"}},
    }


@pytest.mark.parametrize(
    "value",
    [{}, True, {"type": "object"}, {"type": "object", "additionalProperties": {}}, {"oneOf": [QUERY]}],
)
def test_what_cannot_be_strict_is_not(value):
    schema = {"type": "object", "properties": {"value": value}}
    (made,) = tool_definitions([tool(schema)], "openai", strict=True)
    assert made["strict"] is False
    assert made["parameters"] == schema


def test_gemini_gets_no_references_and_no_words_that_it_does_not_know():
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "v": {"const": "a"}}}
    schema = {
        "type": "object",
        "properties": {
            "node": {"$ref": "#/$defs/Node"},
            "maybe": {
                "anyOf": [{"type": "integer", "exclusiveMinimum": 0}, {"type": "null"}],
                "default": None,
            },
            "either": {"oneOf": [{"type": "string", "format": "uri"}, {"type": "boolean"}]},
            "level": {"enum": [1, 2]},
            "list": {"type": "array"},
            "both": {"allOf": [{"type": "string"}, {"maxLength": 3}]},
        },
        "required": ["node", "nowhere"],
        "additionalProperties": False,
        "$defs": {"Node": node},
    }
    anything = [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]
    assert parameters(schema, "gemini") == {
        "type": "object",
        "properties": {
            "node": {
                "type": "object",
                "properties": {"next": {"type": "object"}, "v": {"type": "string", "enum": ["a"]}},
            },
            "maybe": {"type": "integer", "nullable": True},
            "either": {"anyOf": [{"type": "string"}, {"type": "boolean"}]},
            "level": {"type": "integer", "description": "One of: 1, 2"},
            "list": {"type": "array", "items": {"anyOf": anything}},
            "both": {"type": "string", "maxLength": 3},
        },
        "required": ["node"],
    }
