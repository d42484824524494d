from __future__ import annotations

import socket
import subprocess
import sys
import threading
from typing import Any

import pytest

from mcp_sync._protocol import schemas
from mcp_sync._protocol.schemas import Schema

UNUSABLE = "the output schema cannot be used: "


def check(schema: Any, value: Any) -> Any:
    return Schema(schema).check(value)


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a schema check opened a socket")

    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


# --- verdicts --------------------------------------------------------------------------------------------

ORDER = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}}},
    "required": ["n"],
    "$defs": {"line": {"type": "object", "properties": {"a/b": {"type": "string"}}}},
}


@pytest.mark.parametrize(
    "value", [{"n": 1}, {"n": 1.0, "lines": []}, {"n": 1, "lines": [{"a/b": "x"}], "z": 0}]
)
def test_a_value_that_matches_has_no_fault(value: Any) -> None:
    assert check(ORDER, value) is None


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"n": "1"}, "/n: '1' is not of type 'integer'"),
        ({"n": True}, "/n: True is not of type 'integer'"),
        ({}, "the value: 'n' is a required property"),
        (None, "the value: None is not of type 'object'"),
        ({"n": 1, "lines": [{"a/b": "x"}, {"a/b": 3}]}, "/lines/1/a~1b: 3 is not of type 'string'"),
    ],
)
def test_a_fault_names_the_place_and_the_reason(value: Any, reason: str) -> None:
    assert check(ORDER, value) == reason


def test_a_fault_is_short_however_large_the_value() -> None:
    reason = check({"type": "integer"}, "x" * 1_000_000)
    assert reason.startswith("the value: 'xxx")
    assert len(reason) < 500


def test_the_fault_within_a_choice_is_told() -> None:
    reason = check({"anyOf": [{"type": "string"}, {"type": "object", "required": ["q"]}]}, {"z": 1})
    assert reason == "the value: 'q' is a required property"


@pytest.mark.parametrize("form", ["date", "date-time", "email", "uri", "uuid", "ipv4", "regex", "unknown"])
def test_formats_are_not_asserted(form: str) -> None:
    assert check({"type": "string", "format": form}, "(nothing of the kind") is None


def test_an_empty_schema_admits_everything() -> None:
    assert check({}, {"anything": [1]}) is None


def test_one_schema_serves_many_values_and_is_prepared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = Schema(ORDER)
    assert schema.check({"n": 1}) is None
    monkeypatch.setattr(schemas, "_prepared", None)
    assert schema.check({"n": "1"}) is not None
    assert schema.check({"n": 2}) is None


def test_threads_may_share_a_schema() -> None:
    schema = Schema(ORDER)
    barrier = threading.Barrier(8)
    wrong: list[Any] = []

    def work(number: int) -> None:
        barrier.wait()
        for _ in range(20):
            good, bad = schema.check({"n": number}), schema.check({"n": str(number)})
            if good is not None or bad != f"/n: '{number}' is not of type 'integer'":
                wrong.append((good, bad))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# --- dialects --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dialect",
    [
        "https://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2020-12/schema#",
        "http://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "http://json-schema.org/draft-07/schema#",
        "http://json-schema.org/draft-07/schema",
        "https://json-schema.org/draft-07/schema#",
        "http://json-schema.org/draft-06/schema#",
        "http://json-schema.org/draft-04/schema#",
        "http://json-schema.org/draft-03/schema#",
    ],
)
def test_known_dialects_are_honoured(dialect: str) -> None:
    schema = {"$schema": dialect, "type": "object", "properties": {"n": {"type": "integer"}}}
    assert check(schema, {"n": 1}) is None
    assert check(schema, {"n": "1"}) == "/n: '1' is not of type 'integer'"


def test_the_default_dialect_is_2020_12() -> None:
    schema = {"prefixItems": [{"type": "string"}], "items": False}
    assert check(schema, ["a"]) is None
    assert check(schema, [1]) == "/0: 1 is not of type 'string'"
    assert check({**schema, "$schema": "http://json-schema.org/draft-07/schema#"}, [1]) is not None
    assert check({"items": [{"type": "string"}]}, ["a"]).startswith(UNUSABLE)
    assert (
        check({"items": [{"type": "string"}], "$schema": "http://json-schema.org/draft-07/schema#"}, ["a"])
        is None
    )


@pytest.mark.parametrize(
    "dialect", ["http://example.com/my-dialect", "", "https://json-schema.org/draft/next/schema"]
)
def test_an_unknown_dialect_is_named_as_not_supported(dialect: str) -> None:
    assert check({"$schema": dialect, "type": "string"}, "x") == (
        f"{UNUSABLE}its dialect {dialect} is not supported"
    )


# --- unusable schemas ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "schema",
    [
        None,
        [],
        "x",
        True,
        {"$schema": 5},
        {"type": "nope"},
        {"type": ["string", 5]},
        {"properties": 5},
        {"properties": {"a": 5}},
        {"required": "a"},
        {"required": [1]},
        {"minLength": "a"},
        {"minimum": None},
        {"enum": 5},
        {"pattern": 5},
        {"pattern": "("},
        {"anyOf": []},
        {"anyOf": {}},
        {"$ref": 5},
        {"$ref": "#/nowhere"},
        {"$ref": "#nowhere"},
        {"$dynamicRef": "#nowhere"},
        {"$defs": 5, "$ref": "#/$defs/a"},
        {"multipleOf": 0},
        {"$schema": "http://json-schema.org/draft-04/schema#", "type": 5},
    ],
)
def test_a_broken_schema_gives_a_reason_and_never_an_exception(schema: Any) -> None:
    value = Schema(schema)
    reasons = {value.check("x"), value.check("x")}
    assert len(reasons) == 1
    assert str(reasons.pop()).startswith(UNUSABLE)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "http://127.0.0.1:9/x.json"},
        {"$ref": "https://example.com/x.json#/a"},
        {"$ref": "file:///etc/passwd"},
        {"$ref": "other.json"},
        {"$id": "https://example.com/a.json", "$ref": "b.json"},
        {"$dynamicRef": "https://example.com/x.json"},
        {"anyOf": [{"$ref": "https://example.com/x.json"}, {}]},
        {"not": {"$ref": "https://example.com/x.json"}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "ftp://example.com/x.json"}}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "https://example.com/x.json"},
        {"$schema": "http://json-schema.org/draft-04/schema#", "$ref": "https://example.com/x.json"},
    ],
)
def test_a_reference_to_another_document_is_neither_fetched_nor_taken_as_permissive(schema: Any) -> None:
    reason = check(schema, {})
    assert reason.startswith(UNUSABLE + "it refers to ")
    assert reason.endswith("which it does not hold")


@pytest.mark.parametrize(
    "schema",
    [
        {"$id": "http://x/y.json", "$defs": {"a": {"$anchor": "foo", "type": "string"}}, "$ref": "#foo"},
        {"$id": "http://x/y.json", "$defs": {"a": {"$id": "z.json", "type": "string"}}, "$ref": "z.json"},
        {"$id": "http://x/y.json", "$defs": {"a": {"type": "string"}}, "$ref": "http://x/y.json#/$defs/a"},
        {
            "$schema": "https://json-schema.org/draft-07/schema",
            "definitions": {"a": {"type": "string"}},
            "$ref": "#/definitions/a",
        },
    ],
)
def test_references_within_the_document_are_followed(schema: Any) -> None:
    assert check(schema, "x") is None
    assert check(schema, 1) == "the value: 1 is not of type 'string'"


def test_the_meta_schema_is_at_hand_without_a_network() -> None:
    schema = {"$ref": "https://json-schema.org/draft/2020-12/schema"}
    assert check(schema, {"type": "object"}) is None
    assert check(schema, {"type": "objt"}) is not None


# --- bounds ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {"$schema": "http://json-schema.org/draft-07/schema#", "allOf": [{"$ref": "#"}]},
        {"$dynamicAnchor": "x", "$dynamicRef": "#x"},
        {"unevaluatedProperties": False, "$ref": "#"},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    ],
)
def test_a_reference_to_itself_gives_a_reason(schema: Any) -> None:
    assert "nested too deeply" in check(schema, {})


def doubling(levels: int, **more: Any) -> dict[str, Any]:
    """Build a schema of some levels that takes two to the power of them steps."""
    definitions: dict[str, Any] = {
        f"d{level}": {"allOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2, **more} for level in range(levels)
    }
    definitions[f"d{levels}"] = {"type": "integer"}
    return {"$defs": definitions, "$ref": "#/$defs/d0", **more}


@pytest.mark.parametrize("more", [{}, {"$schema": "https://json-schema.org/draft/2020-12/schema"}])
def test_a_schema_that_multiplies_its_work_runs_out_of_steps(
    more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schemas, "MOST_STEPS", 20_000)
    schema = Schema(doubling(40, **more))
    assert schema.check(1) == "the value was not checked to the end: that takes too many steps"
    assert Schema(doubling(5, **more)).check(1) is None


def test_a_value_with_too_many_parts_runs_out_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "MOST_STEPS", 5_000)
    schema = Schema({"items": {"type": "integer"}})
    assert schema.check([1] * 1_000) is None
    assert "too many steps" in str(schema.check([1] * 10_000))
    assert schema.check([1] * 1_000) is None


def test_a_schema_that_is_too_large_is_refused_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = Schema({"properties": {f"p{number}": {"type": "string"} for number in range(1_000)}})
    monkeypatch.setattr(schemas, "MOST_STEPS", 1_000)
    assert "too many steps" in str(schema.check({}))
    monkeypatch.undo()
    assert "too many steps" in str(schema.check({}))


def test_the_check_gives_up_when_its_time_is_over() -> None:
    asked = []

    def expired() -> bool:
        asked.append(1)
        return len(asked) == 3

    schema = Schema({"items": {"type": "integer"}})
    assert schema.check([1] * 100_000, expired=expired) == (
        "the value was not checked to the end: no time is left"
    )
    assert schema.check([1]) is None


class Loud(int):
    """A number that counts how often it was shown."""

    shown = 0

    def __repr__(self) -> str:
        Loud.shown += 1
        return "1"


@pytest.mark.parametrize(
    "rule",
    [
        {"type": "string"},
        {"enum": [1, 2]},
        {"enum": [[Loud(1)] * 1_000]},
        {"const": [Loud(1)] * 1_000},
        {"not": {}},
        {"not": {"not": {"const": [Loud(1)] * 1_000}}},
        {"oneOf": [{}, {"default": [Loud(1)] * 1_000}]},
        {"anyOf": [{"type": "string"}] * 2},
        {"minProperties": 5},
        {"maxProperties": 0},
        {"properties": {"many": False}},
        {"properties": {"many": {"items": False}}},
        {"properties": {"many": {"prefixItems": [True], "items": False}}},
        {"properties": {"many": {"maxItems": 1}}},
        {"unevaluatedProperties": False},
        {"additionalProperties": False},
    ],
    ids=lambda rule: next(iter(rule)),
)
def test_no_more_is_shown_of_a_value_than_the_reason_holds(rule: Any) -> None:
    Loud.shown = 0
    schema = Schema({"properties": {"v": {"allOf": [rule] * 60}}})
    reason = schema.check({"v": {"many": [Loud(1)] * 1_000}})
    assert reason is not None
    assert reason.startswith("/v")
    assert len(reason) < 500
    assert Loud.shown < 60 * 400


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"items": {"title": "anything"}}, [1] * 10_000),
        ({"const": [[1]] * 10_000}, [[1]] * 10_000),
        ({"enum": [[1] * 5_000 + [2], [1] * 5_001]}, [1] * 5_001),
        ({"uniqueItems": True}, [[1] * 10_000]),
        ({"anyOf": [{"required": [str(number) for number in range(2_000)]}, {}]}, {}),
    ],
    ids=["parts without a rule", "a constant", "a choice", "one large item", "many errors"],
)
def test_the_clock_is_looked_at_whatever_takes_long(schema: Any, value: Any) -> None:
    asked: list[bool] = []
    prepared = Schema(schema)
    assert prepared.check(value) is None
    assert prepared.check(value, expired=lambda: bool(asked.append(True))) is None
    assert len(asked) >= 8


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        (True, True, True),
        (None, None, True),
        (None, False, False),
        ("1", 1, False),
        ([1, [2]], [1.0, [2]], True),
        ([1], [True], False),
        ([1], [1, 2], False),
        ({"a": [1]}, {"a": [1]}, True),
        ({"a": 1}, {"b": 1}, False),
        ({"a": 1}, {"a": 1, "b": 1}, False),
        ({}, [], False),
    ],
)
def test_values_are_compared_as_json_is(one: Any, other: Any, same: bool) -> None:
    for schema in ({"const": one}, {"enum": ["x", one]}):
        assert (check(schema, other) is None) is same


def test_a_preparation_that_ran_out_of_time_is_done_again() -> None:
    schema = Schema({"properties": {f"p{number}": {"type": "string"} for number in range(200)}})
    assert "no time is left" in str(schema.check({}, expired=lambda: True))
    assert schema.check({}) is None


def test_a_deep_schema_is_usable_though_its_meta_schema_is_too_deep_for_it() -> None:
    schema: dict[str, Any] = {"type": "integer"}
    value: Any = "x"
    for _ in range(60):
        schema = {"properties": {"a": schema}}
        value = {"a": value}
    assert check(schema, {"a": {}}) is None
    assert str(check(schema, value)).endswith("'x' is not of type 'integer'")


def test_a_schema_and_a_value_of_thousands_of_levels_give_a_reason() -> None:
    schema: dict[str, Any] = {"type": "integer"}
    value: Any = 1
    for _ in range(5_000):
        schema = {"properties": {"a": schema}}
        value = {"a": value}
    assert "nested too deeply" in check(schema, value)
    assert "nested too deeply" in check({"properties": {"a": {"$ref": "#"}}}, value)


# --- regular expressions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        ("^[a-z]+$", "abc", "abc1"),
        ("b", "abc", "ac"),
        ("^a$", "a", "a\n"),
        (r"^\d{4}-\d\d$", "2026-07", "2026-7"),
        (r"^\p{L}+$", "é世", "1"),
        (r"^\/a\/b$", "/a/b", "ab"),
        (r"^(a+)+$", "a" * 60, "a" * 60 + "!"),
        (r"^(a|a)*$", "a" * 60, "a" * 60 + "!"),
        (r"^(.*a){20}b$", "a" * 30 + "b", "a" * 60),
    ],
)
def test_patterns_are_asserted_in_linear_time(pattern: str, good: str, bad: str) -> None:
    assert check({"pattern": pattern}, good) is None
    assert check({"pattern": pattern}, bad) == f"the value: {bad!r} does not match {pattern!r}"
    assert check({"pattern": pattern}, 5) is None


@pytest.mark.parametrize("pattern", [r"^(?=a)(a+)+$", r"^(a+)+\1$", r"^(?!b)(a|a)*$"])
def test_a_pattern_that_only_backtracking_can_match_is_not_asserted(pattern: str) -> None:
    assert check({"pattern": pattern}, "a" * 60 + "!") is None


def test_a_pattern_is_not_asserted_on_a_very_long_text() -> None:
    assert check({"pattern": "^a+$"}, "b" * 8_193) is None
    assert check({"pattern": "^a+$"}, "b" * 8_192) is not None


NAMES = {"properties": {"n": {"type": "integer"}}, "patternProperties": {"^x-": {"type": "string"}}}


@pytest.mark.parametrize("keyword", ["additionalProperties", "unevaluatedProperties"])
def test_patterns_for_names_count_for_the_names_that_are_left(keyword: str) -> None:
    schema = {**NAMES, keyword: False}
    assert check(schema, {"n": 1, "x-a": "1"}) is None
    assert check(schema, {"n": 1, "x-a": 1}) == "/x-a: 1 is not of type 'string'"
    assert "'b'" in check(schema, {"n": 1, "b": 1})
    assert check({**NAMES, keyword: {"type": "null"}}, {"b": None}) is None
    assert check({**NAMES, keyword: {"type": "null"}}, {"b": 1}) is not None


def test_additional_properties_without_patterns_are_told_as_ever() -> None:
    reason = check({"properties": {"n": {}}, "additionalProperties": False}, {"b": 1})
    assert reason == "the value: Additional properties are not allowed ('b' was unexpected)"


@pytest.mark.parametrize("keyword", ["additionalProperties", "unevaluatedProperties"])
@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(?=a)(a+)+$", "a*a*a*a*a*a*a*b"])
def test_a_pattern_for_names_cannot_stop_the_process(keyword: str, pattern: str) -> None:
    schema = {"patternProperties": {pattern: {"type": "integer"}}, keyword: False}
    Schema(schema).check({"a" * 5_000 + "!": 1, "a" * 40: 1})


# --- keywords of our own ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", [[], [1], [1, True, "1", None, [1], {"a": 1}], [{"a": 1, "b": 2}, {"a": 2, "b": 1}]]
)
def test_items_that_differ_are_unique(value: Any) -> None:
    assert check({"uniqueItems": True}, value) is None


@pytest.mark.parametrize(
    "value", [[1, 1], [1, 1.0], [{"a": 1, "b": 2}, {"b": 2.0, "a": 1}], [[1], [1]], ["a", 2, "a"]]
)
def test_items_that_are_equal_are_not_unique(value: Any) -> None:
    assert check({"uniqueItems": True}, value) == f"the value: item {len(value) - 1} repeats an earlier one"
    assert check({"uniqueItems": False}, value) is None


def test_many_objects_are_compared_in_little_time() -> None:
    assert check({"uniqueItems": True}, [{"a": number} for number in range(20_000)]) is None


# --- imports ---------------------------------------------------------------------------------------------


def test_jsonschema_is_imported_by_the_first_check_and_not_before() -> None:
    program = """
import sys
from mcp_sync._protocol.schemas import Schema
schema = Schema({"type": "string"})
assert "jsonschema" not in sys.modules and "referencing" not in sys.modules
assert schema.check("x") is None
assert "jsonschema" in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=50)
