"""Schemas and values of any kind: a verdict, in bounded time."""

from __future__ import annotations

import time
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_sync._protocol import schemas
from mcp_sync._protocol.schemas import Schema

from .shapes import JSON, SCALARS

REFS = st.sampled_from(
    ["#", "#/$defs/a", "#/$defs/b", "#/properties/a", "#a", "http://example.com/x", "x", "#/%zz"]
)
TYPES = st.sampled_from(["object", "array", "string", "integer", "number", "boolean", "null"])
PATTERNS = st.sampled_from(["^a*$", "(a+)+$", "[", "(?=a)b", r"\d{1000}", "a" * 6000, "(a|aa)+$"])
NAMED = st.sampled_from(["a", "b"])


def keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    by_name = st.dictionaries(NAMED, inner, max_size=2)
    return st.fixed_dictionaries(
        {},
        optional={
            "$ref": REFS,
            "$dynamicRef": REFS,
            "$schema": st.sampled_from(["http://json-schema.org/draft-07/schema#", "x"]),
            "$defs": by_name,
            "type": TYPES | st.lists(TYPES, max_size=2) | SCALARS,
            "properties": by_name | SCALARS,
            "patternProperties": st.dictionaries(PATTERNS, inner, max_size=1),
            "additionalProperties": inner,
            "unevaluatedProperties": inner,
            "items": inner,
            "allOf": st.lists(inner, max_size=3),
            "anyOf": st.lists(inner, max_size=3),
            "oneOf": st.lists(inner, max_size=3),
            "not": inner,
            "pattern": PATTERNS,
            "enum": JSON,
            "minimum": SCALARS,
            "uniqueItems": st.booleans(),
            "required": st.lists(NAMED, max_size=2) | SCALARS,
        },
    )


SCHEMAS: st.SearchStrategy[Any] = st.recursive(SCALARS | keywords(st.booleans()), keywords, max_leaves=6)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS | st.just("a" * 60 + "!"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMED, inner, max_size=2),
    max_leaves=12,
)


def checked(schema: Any, value: Any) -> Any:
    started = time.monotonic()
    with mock.patch.object(schemas, "MOST_STEPS", 20_000):
        fault = Schema(schema).check(value)
    assert time.monotonic() - started < 20
    assert fault is None or (isinstance(fault, str) and len(fault) < 2000)
    return fault


@given(SCHEMAS, VALUES)
def test_a_check_ends_with_a_verdict(schema: Any, value: Any) -> None:
    checked(schema, value)


def nested(depth: int, wrap: Any, inner: Any) -> Any:
    for _ in range(depth):
        inner = wrap(inner)
    return inner


@pytest.mark.parametrize("depth", [150, 5000])
@pytest.mark.parametrize("keyword", ["items", "additionalProperties", "not", "if"])
def test_a_schema_nested_deeply_is_checked_or_refused(keyword: str, depth: int) -> None:
    checked(nested(depth, lambda inner: {keyword: inner}, True), nested(150, lambda inner: [inner], 1))


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {"items": {"anyOf": [{"$ref": "#"}] * 20}},
        {"additionalProperties": {"$ref": "#"}, "items": {"oneOf": [{"$ref": "#"}, {"$ref": "#"}]}},
    ],
)
def test_references_in_a_circle_end(schema: Any) -> None:
    checked(schema, nested(15, lambda inner: [inner, {"a": inner}], 1))
