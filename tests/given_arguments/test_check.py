"""Arguments against the input schema of their tool."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_sync import UsageError
from mcp_sync._given_arguments.check import check_arguments

ADDRESS = {
    "type": "object",
    "properties": {
        "street": {"type": "string"},
        "lines": {
            "type": "array",
            "items": {"properties": {"no": {"type": "integer"}}, "required": ["no", "text"]},
        },
    },
    "required": ["street"],
    "additionalProperties": False,
}
SCHEMA = {
    "type": "object",
    "$defs": {"Address": ADDRESS},
    "properties": {
        "n": {"type": "integer", "minimum": 0},
        "colour": {"enum": ["red", "green"]},
        "one": {"const": 1},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "text": {"oneOf": [{"type": "string", "pattern": "^a"}, {"type": "string", "pattern": "^b"}]},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
        "address": {"$ref": "#/$defs/Address"},
        "code": {"type": ["string", "null"], "pattern": "^[0-9]+$"},
        "never": False,
    },
    "minProperties": 1,
}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"n": "5"}, 'n: "5" is not of type integer'),
        ({"n": True}, "n: true is not of type integer"),
        ({"n": -1}, "n: -1 does not match minimum 0"),
        ({"n": 10**70 + 0.5}, None),
        ({"colour": "blue"}, 'colour: "blue" is none of "red", "green"'),
        ({"one": 2}, "one: 2 is none of 1"),
        ({"maybe": "x"}, 'maybe: "x" is not of type integer or null'),
        ({"maybe": True}, "maybe: true is not of type integer or null"),
        (
            {"text": "c"},
            'text: "c" does not match oneOf [{"type": "string", "pattern": "^a"}, {"type": "string", ',
        ),
        ({"tags": ["a", 2]}, "tags[1]: 2 is not of type string"),
        ({"tags": ["a", "b", "c"]}, "tags: the list does not match maxItems 2"),
        ({"tags": {}}, "tags: the object is not of type array"),
        ({"address": {}}, "address: missing: street"),
        ({"address": {"street": "a", "stret": "b"}}, "address.stret: no such argument; did you mean street?"),
        ({"address": {"street": "a", "b": 1}}, "address.b: no such argument; there are: street, lines"),
        ({"address": {"street": "a", "lines": [{}]}}, "address.lines[0]: missing: no, text"),
        ({"code": "x" * 200}, 'code: a text of 200 characters does not match pattern "^[0-9]+$"'),
        ({"never": 1}, "a value is not wanted there"),
        ({}, "the arguments: the object does not match minProperties 1"),
    ],
)
def test_what_does_not_match_is_told_in_one_line_with_what_is_wanted(arguments: Any, told: Any) -> None:
    if told is None:
        check_arguments(arguments, SCHEMA)
        return
    with pytest.raises(UsageError) as raised:
        check_arguments(arguments, SCHEMA)

    assert str(raised.value).startswith(told)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        ({"api_key": {"type": "integer"}}, {"api_key": "geheim"}),
        ({"auth": {"properties": {"secret": {"maxLength": 2}}}}, {"auth": {"secret": "geheim"}}),
        ({"pin": {"maximum": 5}}, {"pin": 7359}),
        ({"a": {"format": "password", "maxLength": 2}}, {"a": "geheim"}),
        ({"a": {"writeOnly": True, "enum": ["x"]}}, {"a": "geheim"}),
        ({"a": {"maxLength": 2}}, {"a": "Bearer geheim-und-lang"}),
        ({"tokens": {"items": {"type": "integer"}}}, {"tokens": ["geheim"]}),
    ],
)
def test_no_secret_is_told(schema: Any, arguments: Any) -> None:
    with pytest.raises(UsageError, match=r"the value (is not of type|does not match|is none of)") as raised:
        check_arguments(arguments, {"properties": schema})

    assert "geheim" not in str(raised.value)
    assert "7359" not in str(raised.value)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"type": "wrong"}}, "required": ["b"]},
        {"properties": {"a": {"$ref": "http://127.0.0.1:9/schema"}}},
        {"properties": {"a": {"$ref": "#/$defs/Missing"}}},
        {"$schema": "https://example.com/dialect", "required": ["b"]},
        {"properties": {"a": {"pattern": "("}}},
        {"properties": 5, "required": ["b"]},
    ],
)
def test_a_schema_that_is_broken_refuses_nothing(schema: Any) -> None:
    check_arguments({"a": "x"}, schema)


def test_what_a_server_wants_cannot_drive_a_terminal() -> None:
    schema = {"properties": {"a": {"enum": ["\x9b31m", "\x1b[31m", "\u202e"]}}}

    with pytest.raises(UsageError) as raised:
        check_arguments({"a": "x"}, schema)

    assert str(raised.value).isprintable()
