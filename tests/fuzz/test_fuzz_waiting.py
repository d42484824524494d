"""Envelopes, forms and URLs of any kind: a verdict of the right class, and nothing else."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mcp_sync import AnswerInvalid, EnvelopeRejected, InputRequired, UnsafeURL, types
from mcp_sync._envelope import KIND, VERSION, seal
from mcp_sync._protocol.forms import read_fields
from mcp_sync.elicitation import check_url, form_fields, validate_answer

from .shapes import JSON, SCALARS

ENVELOPE = {
    "kind": KIND,
    "version": VERSION,
    "id": "1",
    "created_at": 1,
    "server": {"key": "k"},
    "revision": "2026-07-28",
    "method": "tools/call",
    "params": {"name": "x", "arguments": {}},
    "meta": {},
    "requests": {"k": {"method": "roots/list"}},
    "state": "s",
    "principal": None,
    "credentials": None,
}
KINDS = st.sampled_from(["string", "integer", "number", "boolean", "array", "object", "null"])
WORDS = st.sampled_from(["a", "b", "1", "true", "", "2024-01-01", "a@b"])


def fields(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    options = st.lists(
        st.fixed_dictionaries({}, optional={"const": SCALARS, "title": SCALARS}) | SCALARS, max_size=3
    )
    return st.fixed_dictionaries(
        {},
        optional={
            "type": KINDS | st.lists(KINDS, max_size=2) | SCALARS,
            "enum": st.lists(WORDS | SCALARS, max_size=3) | SCALARS,
            "enumNames": st.lists(WORDS, max_size=3) | SCALARS,
            "oneOf": options | st.lists(inner, max_size=2),
            "anyOf": options | st.lists(inner, max_size=2),
            "allOf": st.lists(inner, max_size=2),
            "items": inner,
            "$ref": st.sampled_from(["#/properties/a", "#/$defs/a", "#", "x"]),
            "default": JSON,
            "format": st.sampled_from(["email", "uri", "date", "date-time", "x"]) | SCALARS,
            "pattern": st.sampled_from(["a", "(", "(a+)+$"]) | SCALARS,
            "minimum": SCALARS,
            "maxLength": SCALARS,
            "minItems": SCALARS,
            "title": SCALARS,
        },
    )


FIELD = st.recursive(SCALARS, fields, max_leaves=6)
SCHEMA = JSON | st.fixed_dictionaries(
    {"properties": st.dictionaries(st.sampled_from("abc"), FIELD, max_size=3)},
    optional={"required": st.lists(st.sampled_from("abc"), max_size=2) | JSON, "$defs": JSON},
)


def is_read(data: Any, key: Any = None) -> bool:
    try:
        InputRequired.from_json(data, key=key)
    except EnvelopeRejected:
        return False
    return True


@given(JSON | st.text() | st.binary())
def test_nothing_is_taken_for_an_envelope(data):
    assert not is_read(data)


@given(st.sampled_from(sorted(ENVELOPE)), JSON)
def test_no_member_can_be_exchanged(name, value):
    sealed = seal(ENVELOPE, "secret")
    is_same = json.dumps(value) == json.dumps(ENVELOPE[name])
    assert is_read({**sealed, name: value}, "secret") == (is_same or _equal(value, ENVELOPE[name]))


def _equal(one: Any, other: Any) -> bool:
    # 1.0 counts as 1, as databases have it.
    return type(one) is float and type(other) is int and one == other


@given(st.sampled_from(sorted(ENVELOPE)), JSON)
def test_an_envelope_that_was_sealed_with_anything_in_it_is_read_or_refused(name, value):
    is_read(seal({**ENVELOPE, name: value}, None))


@given(SCHEMA, st.dictionaries(st.sampled_from("abc"), WORDS | JSON, max_size=3), st.booleans())
def test_what_was_filled_in_fits_or_is_told_by_fields(schema, values, html):
    if not isinstance(schema, dict):
        assert read_fields(schema) == ()
        return
    form = types.ElicitRequestFormParams(message="?", requested_schema=schema)
    for field in form_fields(form):
        assert isinstance(field.title, str)
    faults: dict[str, str] = {"": ""}
    try:
        json.dumps(validate_answer(form, values, html=html))
    except AnswerInvalid as wrong:
        faults = wrong.faults
    assert faults
    assert all(isinstance(fault, str) for fault in faults.values())


@given(
    st.text(max_size=30)
    | st.builds("https://{}".format, st.text(max_size=30))
    | st.builds("https://{}/{}".format, st.text("xn-.ab\u00fc\u4e2d@:[]1", max_size=20), st.text(max_size=5))
)
def test_a_url_is_safe_in_ascii_or_not_at_all(url):
    try:
        page = check_url(url)
    except UnsafeURL:
        return
    assert page.url.isascii()
    assert page.url.startswith(("https://", "http://"))
    assert page.host in page.url
    assert "@" not in page.url.split("/")[2]
