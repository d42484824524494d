"""Headers that mirror the arguments of a tool: which annotations count, and how a value is written."""

from __future__ import annotations

import enum
import string
import sys
from typing import Any

import pytest
from pydantic import BaseModel

from mcp_sync._protocol.param_headers import (
    InvalidParamHeader,
    ParamHeader,
    compile_param_headers,
    param_headers,
)
from mcp_sync.errors import UsageError

# --- x-mcp-header: annotations ---------------------------------------------------------------------------


def tool(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def test_a_schema_without_annotations_gives_nothing() -> None:
    schema = tool(a={"type": "string"}, b={"type": "array", "items": {"type": "object"}})
    assert compile_param_headers(schema) == ()


@pytest.mark.parametrize(
    "schema", [None, True, [], "x", 5, {}, {"properties": None}, {"properties": {"a": 1}}]
)
def test_a_schema_of_any_other_shape_gives_nothing(schema: Any) -> None:
    assert compile_param_headers(schema) == ()


@pytest.mark.parametrize("kind", ["string", "integer", "boolean"])
def test_the_three_primitive_types_can_be_annotated(kind: str) -> None:
    schema = tool(region={"type": kind, "x-mcp-header": "Region"})
    assert compile_param_headers(schema) == (ParamHeader("Mcp-Param-Region", ("region",)),)


def test_nested_properties_can_be_annotated() -> None:
    schema = tool(
        region={"type": "string", "x-mcp-header": "Region"},
        where=tool(tenant=tool(id={"type": "integer", "x-mcp-header": "Tenant-Id"})),
    )
    assert compile_param_headers(schema) == (
        ParamHeader("Mcp-Param-Region", ("region",)),
        ParamHeader("Mcp-Param-Tenant-Id", ("where", "tenant", "id")),
    )


@pytest.mark.parametrize(
    "name", ["properties", "items", "$ref", "x-mcp-header", "default", "anyOf", "a/b", "", "a.b", "type"]
)
def test_properties_may_be_named_like_keywords(name: str) -> None:
    schema = {"properties": {name: {"type": "string", "x-mcp-header": "H"}}}
    assert compile_param_headers(schema) == (ParamHeader("Mcp-Param-H", (name,)),)


def test_data_within_a_schema_is_no_annotation() -> None:
    data = {"x-mcp-header": "", "properties": {"a": {"x-mcp-header": "A"}}}
    schema = tool(a={"type": "object", "default": data, "examples": [data], "enum": [data], "const": data})
    assert compile_param_headers(schema) == ()


def test_every_character_of_a_token_is_allowed() -> None:
    token = "!#$%&'*+-.^_`|~" + string.digits + string.ascii_letters
    schema = tool(a={"type": "string", "x-mcp-header": token})
    assert compile_param_headers(schema)[0].name == "Mcp-Param-" + token


@pytest.mark.parametrize(
    "token",
    [
        "",
        " ",
        "My Region",
        "Region:Primary",
        "Région",
        "Region\t1",
        "a\r\nb",
        "a\n",
        "a\x00",
        'a"b',
        "a/b",
        "a(b)",
        "a,b",
        "a=b",
        "a[b]",
        "a{b}",
        "a@b",
        "a\\b",
        "a;b",
        "a<b>",
        "a?b",
        "a\x7f",
        None,
        5,
        True,
        ["A"],
        {"a": 1},
    ],
)
def test_a_name_that_is_no_token_is_refused(token: Any) -> None:
    with pytest.raises(InvalidParamHeader, match=r"^#/properties/value: x-mcp-header"):
        compile_param_headers(tool(value={"type": "string", "x-mcp-header": token}))


@pytest.mark.parametrize(
    "kind",
    ["number", "object", "array", "null", "nonsense", ["string"], ["string", "null"], None, 5, {"a": 1}],
)
def test_any_other_type_is_refused(kind: Any) -> None:
    with pytest.raises(InvalidParamHeader, match="needs the type string, integer or boolean"):
        compile_param_headers(tool(value={"type": kind, "x-mcp-header": "Value"}))


def test_a_missing_type_is_refused() -> None:
    with pytest.raises(InvalidParamHeader, match="not a missing one"):
        compile_param_headers(tool(value={"x-mcp-header": "Value"}))


@pytest.mark.parametrize(("first", "second"), [("Region", "Region"), ("MyField", "myfield")])
def test_a_name_taken_twice_is_refused_whatever_its_case(first: str, second: str) -> None:
    schema = tool(
        a={"type": "string", "x-mcp-header": first}, b=tool(c={"type": "integer", "x-mcp-header": second})
    )
    with pytest.raises(InvalidParamHeader, match="is taken by #/properties/a already"):
        compile_param_headers(schema)


ANNOTATED = {"type": "string", "x-mcp-header": "Deep"}
HOLDER = {"type": "object", "properties": {"deep": ANNOTATED}}
ELSEWHERE = [
    *[
        {keyword: child}
        for child in (ANNOTATED, HOLDER)
        for keyword in (
            "items",
            "additionalItems",
            "unevaluatedItems",
            "contains",
            "additionalProperties",
            "unevaluatedProperties",
            "propertyNames",
            "not",
            "if",
            "then",
            "else",
            "contentSchema",
        )
    ],
    *[
        {keyword: [{"type": "string"}, child]}
        for child in (ANNOTATED, HOLDER)
        for keyword in ("anyOf", "oneOf", "allOf", "prefixItems", "items")
    ],
    *[
        {keyword: {"x": child}}
        for child in (ANNOTATED, HOLDER)
        for keyword in ("$defs", "definitions", "patternProperties", "dependentSchemas", "dependencies")
    ],
]


@pytest.mark.parametrize("elsewhere", ELSEWHERE)
@pytest.mark.parametrize("wrap", [lambda it: it, lambda it: tool(a=it), lambda it: {"anyOf": [tool(a=it)]}])
def test_an_annotation_anywhere_but_on_a_chain_of_properties_is_refused(elsewhere: Any, wrap: Any) -> None:
    with pytest.raises(InvalidParamHeader, match="reached through properties alone"):
        compile_param_headers(wrap(elsewhere))


def test_an_annotation_on_the_root_is_refused() -> None:
    with pytest.raises(InvalidParamHeader, match=r"^#: "):
        compile_param_headers({"type": "string", "x-mcp-header": "Root"})


def test_an_annotation_behind_a_reference_is_refused() -> None:
    schema = {**tool(a={"$ref": "#/$defs/a"}), "$defs": {"a": ANNOTATED}}
    with pytest.raises(InvalidParamHeader, match=r"^#/\$defs/a: "):
        compile_param_headers(schema)


def test_the_complaint_points_to_the_place() -> None:
    with pytest.raises(InvalidParamHeader) as caught:
        compile_param_headers(tool(**{"a/b": {"anyOf": [{}, {"items": ANNOTATED}]}}))
    assert caught.value.reason.startswith("#/properties/a~1b/anyOf/1/items: ")
    assert isinstance(caught.value, ValueError)


def test_a_very_deep_schema_is_walked_without_recursion() -> None:
    depth = sys.getrecursionlimit() * 3
    schema: dict[str, Any] = {"type": "string", "x-mcp-header": "Deep"}
    for _ in range(depth):
        schema = {"items": schema}
    with pytest.raises(InvalidParamHeader, match="reached through properties alone"):
        compile_param_headers(schema)


# --- x-mcp-header: values --------------------------------------------------------------------------------

REGION = (ParamHeader("Mcp-Param-Region", ("region",)),)
NESTED = (ParamHeader("Mcp-Param-Id", ("tenant", "id")),)


class Color(str, enum.Enum):
    RED = "red"


class Size(enum.IntEnum):
    BIG = 3


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("us-west1", "us-west1"),
        ("", ""),
        ("é", "=?base64?w6k=?="),
        (" x", "=?base64?IHg=?="),
        (True, "true"),
        (False, "false"),
        (42, "42"),
        (-7, "-7"),
        (0, "0"),
        (42.0, "42"),
        (-0.0, "0"),
        (1.5, "1.5"),
        (2**53 - 1, "9007199254740991"),
        (-(2**53) + 1, "-9007199254740991"),
        (Color.RED, "red"),
        (Size.BIG, "3"),
    ],
)
def test_a_value_is_written_as_the_body_has_it(value: Any, text: str) -> None:
    headers = param_headers(REGION, {"region": value})
    assert headers == {"Mcp-Param-Region": text}
    assert type(headers["Mcp-Param-Region"]) is str


@pytest.mark.parametrize("arguments", [None, {}, {"region": None}, {"other": "x"}])
def test_an_absent_or_null_value_has_no_header(arguments: Any) -> None:
    assert param_headers(REGION, arguments) == {}


@pytest.mark.parametrize("value", [["a"], {"a": 1}, ("a",), object()])
def test_a_value_that_is_not_primitive_has_no_header(value: Any) -> None:
    assert param_headers(REGION, {"region": value}) == {}


@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({"tenant": {"id": 7}}, {"Mcp-Param-Id": "7"}),
        ({"tenant": {"id": None}}, {}),
        ({"tenant": {}}, {}),
        ({"tenant": None}, {}),
        ({"tenant": "x"}, {}),
        ({"tenant": [{"id": 7}]}, {}),
        ({"id": 7}, {}),
        ({"tenant.id": 7}, {}),
    ],
)
def test_a_value_is_read_at_its_exact_path(arguments: Any, headers: dict[str, str]) -> None:
    assert param_headers(NESTED, arguments) == headers


def test_a_model_on_the_path_is_read_as_it_is_sent() -> None:
    class Tenant(BaseModel):
        id: int

    assert param_headers(NESTED, {"tenant": Tenant(id=7)}) == {"Mcp-Param-Id": "7"}


@pytest.mark.parametrize("value", [2**53, -(2**53), 10**30, 1e20])
def test_an_integer_that_a_float_cannot_hold_is_refused(value: Any) -> None:
    with pytest.raises(UsageError, match="argument region is too large an integer"):
        param_headers(REGION, {"region": value})


def test_a_property_named_method_does_not_touch_the_standard_header() -> None:
    compiled = compile_param_headers(tool(m={"type": "string", "x-mcp-header": "Method"}))
    assert param_headers(compiled, {"m": "x"}) == {"Mcp-Param-Method": "x"}
