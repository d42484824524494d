from __future__ import annotations

import copy
from typing import Any

import pytest

from mcp_sync._protocol.form_defaults import fill_defaults

CHOICES = {"type": "string", "enum": ["Red", "Green"]}
TITLED = {"type": "string", "oneOf": [{"const": "#F00", "title": "Red"}, {"const": "#0F0", "title": "Green"}]}
SEVERAL = {"type": "array", "items": {"type": "string", "enum": ["Red", "Green", "Blue"]}}
SEVERAL_TITLED = {"type": "array", "items": {"anyOf": [{"const": "#F00", "title": "Red"}]}}


def form(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields}


@pytest.mark.parametrize(
    ("field", "default"),
    [
        ({"type": "string"}, "user@example.com"),
        ({"type": "string", "format": "email"}, ""),
        ({"type": "number"}, 1.5),
        ({"type": "number"}, 50),
        ({"type": "integer"}, 50),
        ({"type": "integer"}, 50.0),
        ({"type": "boolean"}, False),
        ({"type": "boolean"}, True),
        (CHOICES, "Green"),
        ({**CHOICES, "enumNames": ["R", "G"]}, "Red"),
        (TITLED, "#0F0"),
        (SEVERAL, ["Red", "Blue"]),
        (SEVERAL, []),
        (SEVERAL_TITLED, ["#F00"]),
    ],
)
def test_a_default_fills_a_field_that_was_left_out(field: dict[str, Any], default: Any) -> None:
    filled = fill_defaults(form(a={**field, "default": default}), {"b": 1})
    assert filled == {"a": default, "b": 1}
    assert type(filled["a"]) is type(default)


@pytest.mark.parametrize(
    ("field", "default"),
    [
        ({"type": "string"}, 5),
        ({"type": "string"}, None),
        ({"type": "string"}, ["a"]),
        ({"type": "number"}, "5"),
        ({"type": "number"}, True),
        ({"type": "integer"}, 1.5),
        ({"type": "integer"}, float("inf")),
        ({"type": "integer"}, False),
        ({"type": "boolean"}, 0),
        ({"type": "boolean"}, "true"),
        (CHOICES, "Blue"),
        (TITLED, "Red"),
        (SEVERAL, "Red"),
        (SEVERAL, ["Red", "Pink"]),
        (SEVERAL, [1]),
        (SEVERAL_TITLED, ["Red"]),
        ({"type": "object"}, {}),
        ({"type": "null"}, None),
        ({"type": ["string"]}, "a"),
        ({}, "a"),
    ],
)
def test_a_default_that_its_field_does_not_admit_is_ignored(field: dict[str, Any], default: Any) -> None:
    assert fill_defaults(form(a={**field, "default": default}), {}) == {}


@pytest.mark.parametrize("given", ["mine", "", None, 0, False, []])
def test_what_the_answer_holds_is_kept(given: Any) -> None:
    assert fill_defaults(form(a={"type": "string", "default": "theirs"}), {"a": given}) == {"a": given}


def test_a_field_without_default_is_not_invented_even_if_it_is_required() -> None:
    schema = {**form(a={"type": "string"}, b={"type": "boolean"}), "required": ["a", "b"]}
    assert fill_defaults(schema, {}) == {}


def test_no_answer_at_all_is_filled_as_well() -> None:
    assert fill_defaults(form(a={"type": "integer", "default": 3}), None) == {"a": 3}


def test_neither_the_answer_nor_the_schema_is_changed_or_shared() -> None:
    schema = form(a={**SEVERAL, "default": ["Red"]})
    before = copy.deepcopy(schema)
    content: dict[str, Any] = {}
    filled = fill_defaults(schema, content)
    filled["a"].append("Green")
    assert content == {}
    assert schema == before


@pytest.mark.parametrize(
    "schema",
    [None, [], "x", {}, {"properties": None}, {"properties": []}, form(a=None), form(a=[]), form(a="x")],
)
def test_a_malformed_schema_is_passed_over(schema: Any) -> None:
    assert fill_defaults(schema, {"b": 1}) == {"b": 1}


@pytest.mark.parametrize("items", [None, [], {"type": "string"}, {"enum": "Red"}, {"anyOf": ["Red"]}])
def test_malformed_choices_break_nothing(items: Any) -> None:
    filled = fill_defaults(form(a={"type": "array", "items": items, "default": ["Red"]}), None)
    assert filled in ({}, {"a": ["Red"]})
