"""Generated modules: small cases, hostile ones, and any schema at all."""

from __future__ import annotations

import ast
import importlib.util
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_sync import Client, InMemory, OutputInvalid, UsageError
from mcp_sync.testing import FakeServer, FakeTool
from mcp_sync.typed import OMITTED, generate_stubs

from .stubs import load, mypy, signature_of, stubs, tool

NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "id": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        ({"type": "string"}, "str"),
        ({"type": "number"}, "float"),
        ({"type": ["string", "null"]}, "t.Optional[str]"),
        ({"type": "string", "nullable": True}, "t.Optional[str]"),
        ({"enum": ["a", "b", None]}, 't.Optional[t.Literal["a", "b"]]'),
        ({"const": 3}, "t.Literal[3]"),
        ({"enum": [1.5, "a"]}, "t.Union[float, str]"),
        ({"type": "array", "items": {"type": "integer"}}, "t.List[int]"),
        ({"type": "object", "additionalProperties": {"type": "boolean"}}, "t.Dict[str, bool]"),
        (
            {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
            "t.Optional[t.Union[str, int]]",
        ),
        ({"allOf": [{"type": "string"}, {"minLength": 1}]}, "str"),
        ({"$ref": "#/$defs/Level"}, 't.Literal["low", "high"]'),
        ({"$ref": "#/$defs/Loop"}, "t.List[t.Any]"),
        ({"$ref": "#/$defs/Node"}, "SearchNode"),
        ({"$ref": "https://example.com/other.json"}, "t.Any"),
        ({"$ref": "#/$defs/nowhere"}, "t.Any"),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, "SearchQ"),
        ({"oneOf": [NODE, {"type": "string"}]}, "t.Union[SearchQ, str]"),
        (True, "t.Any"),
        ({}, "t.Any"),
        ({"type": "wrong"}, "t.Any"),
        ({"type": 3}, "t.Any"),
    ],
)
def test_each_kind_of_schema_has_its_type(schema, wanted):
    definitions = {
        "Level": {"enum": ["low", "high"]},
        "Loop": {"type": "array", "items": {"$ref": "#/$defs/Loop"}},
        "Node": NODE,
    }
    text = stubs(tool({"q": schema}, ["q"], **{"$defs": definitions}))
    assert signature_of(text) == f"def search( self, *, q: {wanted}, ) -> CallToolResult"


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        ({"type": "integer", "default": 10}, "q: int = 10"),
        ({"type": "string", "default": 'a"b'}, 'q: str = "a\\"b"'),
        ({"type": "string", "default": None}, "q: t.Union[str, Omitted] = OMITTED"),
        ({"type": ["string", "null"], "default": None}, "q: t.Optional[str] = None"),
        ({"enum": ["a", "b"], "default": "b"}, 'q: t.Literal["a", "b"] = "b"'),
        ({"enum": ["a", "b"], "default": "c"}, 'q: t.Union[t.Literal["a", "b"], Omitted] = OMITTED'),
        (
            {"type": "array", "items": {"type": "string"}, "default": []},
            "q: t.Union[t.List[str], Omitted] = OMITTED",
        ),
        ({"type": "string"}, "q: t.Union[str, Omitted] = OMITTED"),
    ],
)
def test_what_may_be_left_out_has_the_default_of_the_schema_or_is_not_sent(schema, wanted):
    assert f" {wanted}, )" in signature_of(stubs(tool({"q": schema})))


def test_objects_become_classes_with_what_may_be_missing_marked():
    inner = {"type": "object", "properties": {"n": {"type": "integer"}, "max-items": {}}, "required": ["n"]}
    text = stubs(
        tool({"where": {"type": "object", "properties": {"a": inner, "b": {"type": "string"}}}}, ["where"])
    )
    assert "class SearchWhere(te.TypedDict):\n    a: te.NotRequired[SearchWhereA]\n" in text
    assert '"max-items": te.NotRequired["t.Any"],' in text
    assert '"n": te.Required["int"],' in text


def test_methods_return_what_the_output_schema_says():
    wrapped = {
        "title": "addOutput",
        "type": "object",
        "properties": {"result": {"type": "integer"}},
        "required": ["result"],
    }
    plain = {
        "type": "object",
        "properties": {"hits": {"type": "array", "items": {"type": "string"}}},
        "required": ["hits"],
    }
    text = stubs(tool(name="add", output=wrapped), tool(name="search", output=plain))
    assert "-> int:" in text
    assert "-> SearchResult:" in text


def test_the_module_calls_tools_and_checks_what_they_return():
    def add(a: int, b: int = 5, tags: list = ()) -> dict:
        return {"sum": a + b if a else "none"}

    sums = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
    fake = FakeServer(tools=[FakeTool(add, output_schema=sums)])
    with Client(InMemory(fake), validation="off") as client:
        made = load(generate_stubs(client)).Tools(client, timeout=5)
        assert made.add(a=1) == {"sum": 6}
        with pytest.raises(OutputInvalid, match="sum"):
            made.add(a=0)
    sent = fake.received("tools/call")[0]["params"]["arguments"]
    assert sent == {"a": 1, "b": 5}
    assert repr(OMITTED) == "OMITTED"


def test_a_recursive_class_is_understood_when_it_is_used():
    output = {"$ref": "#/$defs/Node", "$defs": {"Node": NODE}}
    answer = {"id": 1, "next": {"id": 2}}
    fake = FakeServer(tools=[FakeTool(lambda: answer, name="walk", output_schema=output)])
    with Client(InMemory(fake)) as client:
        assert load(generate_stubs(client)).Tools(client).walk() == answer


def test_an_option_that_the_module_decides_is_refused():
    with pytest.raises(UsageError, match="result_type"):
        load(stubs(tool())).Tools(None, result_type=int)


def test_the_order_of_the_tools_makes_no_difference():
    tools = [tool({"q": NODE}, name=name) for name in ("a.b", "a-b", "a_b", "z", "A B", "ab", "")]
    text = stubs(*tools)
    for seed in range(5):
        random.Random(seed).shuffle(tools)
        assert stubs(*tools) == text


def test_no_two_tools_and_no_two_arguments_share_a_name():
    names = [
        "a.b",
        "a-b",
        "a_b",
        "class",
        "class_",
        "self",
        "",
        "日本",
        "🙂",
        "str",
        "t",
        "Tools",
        "__init__",
        "_call",
        "1st",
    ]
    text = stubs(*(tool({each: {} for each in names}, names, name=each) for each in names))
    methods = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
    assert len({method.name for method in methods}) == len(names)
    for method in methods:
        assert len({argument.arg for argument in method.args.kwonlyargs}) == len(names)
        assert not method.name.startswith("_")


HOSTILE = [
    '"""\nimport os\nos.system("boom")\n"""',
    "\\",
    'end with a quote"',
    '""" + boom() + """',
    "a\r\nb\x00c\x0cd\u2028e\u202ef\ud800",
    "\\N{BULLET} \\x00 \\u12",
    "'); boom(); ('",
    '\\"""; boom()',
    "{boom()} %s {0}",
    "line\\\nnext",
    "   \n\t \n",
    "# type: ignore\n#!boom",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_of_a_server_becomes_code(text):
    made = stubs(
        tool(
            {
                text: {"enum": [text, "x"], "description": text, "default": text},
                "o": {"type": "object", "description": text, "properties": {text: {"const": text}}},
            },
            [text, text + "2"],
            name=text,
            description=text,
            output={"type": "object", "description": text, "properties": {text: {"$ref": text}}},
        )
    )
    tree = ast.parse(made)
    assert not [
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and "boom" in ast.dump(node.func)
    ]
    kinds = {type(node) for node in tree.body}
    assert kinds <= {ast.Expr, ast.ImportFrom, ast.Import, ast.ClassDef, ast.Assign, ast.AnnAssign}
    constants = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    assert text in constants
    load(made)


def test_fields_do_not_hide_the_names_of_types():
    text = stubs(tool({"o": {"type": "object", "properties": {"str": {"type": "string"}, "SearchO": NODE}}}))
    assert 'SearchO = te.TypedDict(\n    "SearchO",' in text
    assert '"str": te.NotRequired["str"],' in text


def test_a_schema_that_holds_itself_with_something_beside_it_ends():
    again = {
        "$ref": "#/$defs/A",
        "properties": {"x": {"type": "string"}, "y": {"$ref": "#/$defs/A", "title": 1}},
    }
    a = {"type": "object", "properties": {"one": again, "two": again}}
    text = stubs(tool({"q": {**again, "required": ["x"]}}, **{"$defs": {"A": a}}))
    assert len(text) < 4_000


def test_a_schema_that_grows_without_bound_is_cut():
    doubling: dict[str, Any] = {"d0": {"type": "string"}}
    for number in range(1, 60):
        ref = {"$ref": f"#/$defs/d{number - 1}"}
        doubling[f"d{number}"] = {"anyOf": [{"type": "array", "items": ref}, {"allOf": [ref, ref]}]}
    deep: Any = {"type": "string"}
    for _ in range(300):
        deep = {"type": "array", "items": deep}
    text = stubs(tool({"a": {"$ref": "#/$defs/d59"}, "b": deep}, **{"$defs": doubling}))
    assert len(text) < 50_000


# --- any schema at all --------------------------------------------------------------------------------------

texts = st.one_of(
    st.sampled_from(
        ["a", "b", "class", "int", "t", "max-items", "é", '"', "self", "", "Search", "CallToolResult"]
    ),
    st.text(max_size=5),
)
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), texts)
refs = st.sampled_from([{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}, {"$ref": "#"}, {"$ref": "#/nowhere"}])
leaves = st.one_of(
    st.sampled_from([{"type": kind} for kind in ("string", "integer", "number", "boolean", "null")]),
    st.builds(lambda values: {"enum": values}, st.lists(scalars, max_size=4)),
    st.builds(lambda value: {"const": value}, scalars),
    st.builds(lambda value: {"type": "string", "default": value}, scalars),
    st.booleans(),
    refs,
)


def larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(inner, min_size=1, max_size=3)
    properties = st.dictionaries(texts, inner, max_size=4)
    return st.one_of(
        st.builds(lambda items: {"type": "array", "items": items}, inner),
        st.builds(lambda key, parts: {key: parts}, st.sampled_from(["anyOf", "oneOf", "allOf"]), some),
        st.builds(
            lambda properties, required, more: {
                "type": "object",
                "properties": properties,
                "required": required,
                **more,
            },
            properties,
            st.lists(texts, max_size=3),
            st.sampled_from([{}, {"additionalProperties": False}, {"additionalProperties": True}]),
        ),
        st.builds(lambda value: {"type": "object", "additionalProperties": value}, inner),
        st.builds(lambda ref, properties: {**ref, "properties": properties}, refs, properties),
    )


schemas = st.recursive(leaves, larger, max_leaves=12)
tools = st.builds(
    lambda name, about, properties, required, a, b, output: tool(
        properties, required, name=name, description=about,
        output=output if isinstance(output, dict) else None, **{"$defs": {"A": a, "B": b}}
    ),
    texts, st.one_of(st.none(), st.text(max_size=20)), st.dictionaries(texts, schemas, max_size=4),
    st.lists(texts, max_size=3), schemas, schemas, schemas,
)  # fmt: skip
collected: list[str] = []


@given(st.lists(tools, min_size=1, max_size=3, unique_by=lambda each: each.name))
def test_any_schema_makes_a_module_that_python_can_load(listed):
    text = stubs(*listed)
    load(text)
    if len(collected) < 60:
        collected.append(text)


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
@pytest.mark.heavy
@pytest.mark.timeout(300)
def test_mypy_accepts_what_any_schema_and_what_a_hostile_server_makes(tmp_path):
    collected.clear()
    test_any_schema_makes_a_module_that_python_can_load()
    names = ["list", "str", "dict", "int", "property", "t", "Search", "SearchResult", "Any", "type"]
    whole = {"type": "object", "properties": dict.fromkeys(names, NODE)}
    odd = stubs(
        *(
            tool({each: {"type": "array", "items": whole} for each in names}, names, name=name, output=whole)
            for name in names
        )
    )
    hostile = [stubs(tool({text: {"enum": [text]}}, name=text, description=text)) for text in HOSTILE]
    said = mypy(tmp_path, [odd, *hostile, *collected])
    assert said.startswith("Success"), said[:3000]
