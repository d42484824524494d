"""What a decoded message is for, and how its id and its error are read."""

from __future__ import annotations

import math
from typing import Any

import pytest

from mcp_sync._protocol.kinds import (
    INVALID,
    NOTIFICATION,
    REQUEST,
    RESPONSE,
    ErrorParts,
    Kind,
    as_id,
    classify,
    error_parts,
    outcome,
)

# --- classify and as_id ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ({"jsonrpc": "2.0", "id": 1, "result": {}}, RESPONSE),
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": ""}}, RESPONSE),
        ({"id": 1, "result": {}}, RESPONSE),
        ({"id": "1", "result": None}, RESPONSE),
        ({"id": None, "error": {}}, RESPONSE),
        ({"error": {}}, RESPONSE),
        ({"result": {}}, RESPONSE),
        ({"jsonrpc": "2.0", "id": 1}, RESPONSE),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping"}, REQUEST),
        ({"id": "a", "method": "ping", "params": {}}, REQUEST),
        ({"id": 0, "method": "ping"}, REQUEST),
        ({"id": "", "method": "ping"}, REQUEST),
        ({"jsonrpc": "2.0", "method": "notifications/progress"}, NOTIFICATION),
        ({"method": "x", "result": {}}, NOTIFICATION),
        ({"id": None, "method": "ping"}, INVALID),
        ({"id": True, "method": "ping"}, INVALID),
        ({"id": 1.5, "method": "ping"}, INVALID),
        ({"id": [], "method": "ping"}, INVALID),
        ({"id": 1, "method": None}, INVALID),
        ({"id": 1, "method": 7}, INVALID),
        ({"jsonrpc": "2.0"}, INVALID),
        ({}, INVALID),
        ([], INVALID),
        ([{"id": 1, "result": {}}], INVALID),
        (None, INVALID),
        ("ping", INVALID),
        (1, INVALID),
    ],
)
def test_the_kind_of_a_message_is_told(message: Any, kind: Kind) -> None:
    assert classify(message) is kind


@pytest.mark.parametrize(
    ("raw", "number"),
    [
        (0, 0),
        (1, 1),
        (2**60, 2**60),
        (1.0, 1),
        ("1", 1),
        ("0", 0),
        ("281474976710656", 2**48),
        (True, None),
        (False, None),
        (None, None),
        (1.5, None),
        (math.nan, None),
        (math.inf, None),
        (1e300, None),
        ("01", None),
        (" 1", None),
        ("1 ", None),
        ("+1", None),
        ("1.0", None),
        ("1_0", None),
        ("１", None),
        ("", None),
        ("abc", None),
        ("9" * 5000, None),
        ([1], None),
        ({}, None),
    ],
)
def test_the_id_of_an_answer_is_matched_leniently_but_never_guessed(raw: Any, number: Any) -> None:
    found = as_id(raw)
    assert found == number
    assert found is None or type(found) is int


# --- responses -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        {"id": 1, "result": {}},
        {"id": 1, "result": []},
        {"id": 1, "result": {}, "error": None},
        {"id": 1, "error": {"code": -32601, "message": "no"}},
        {"id": 1, "error": {"code": -32601}},
        {"id": 1, "error": {"code": "-32601", "message": None}},
        {"id": 1, "error": {"code": -32601.0, "message": "no"}, "result": None},
        {"id": 1, "error": {"code": -32601, "message": "no"}, "result": {}},
    ],
)
def test_a_response_that_can_be_used_has_no_fault(message: dict[str, Any]) -> None:
    assert outcome(message) == error_parts(message)


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"jsonrpc": "2.0", "id": 1}, "neither a result nor an error"),
        ({"id": 1, "error": None}, "neither a result nor an error"),
        ({"id": 1, "result": None}, "result of the response is null"),
        ({"id": 1, "result": None, "error": None}, "result of the response is null"),
        ({"id": 1, "error": "boom"}, "an error without a code: 'boom'"),
        ({"id": 1, "error": {}}, "an error without a code: {}"),
        ({"id": 1, "error": {"message": "boom"}}, "boom"),
        ({"id": 1, "error": {"code": None}}, "an error without a code"),
        ({"id": 1, "error": {"code": True}}, "an error without a code"),
        ({"id": 1, "error": {"code": "ENOENT"}}, "an error without a code"),
        ({"id": 1, "error": [], "result": {}}, "an error without a code"),
    ],
)
def test_a_response_that_cannot_be_used_has_a_fault(message: dict[str, Any], words: str) -> None:
    fault = outcome(message)
    assert isinstance(fault, str)
    assert words in fault


def test_a_fault_shows_no_more_than_the_beginning_of_the_error() -> None:
    fault = outcome({"id": 1, "error": "x" * 10_000})
    assert isinstance(fault, str)
    assert len(fault) < 300


@pytest.mark.parametrize(
    ("error", "parts"),
    [
        ({"code": -32602, "message": "bad", "data": {"a": 1}}, ErrorParts(-32602, "bad", {"a": 1})),
        ({"code": "-32602", "message": "bad"}, ErrorParts(-32602, "bad", None)),
        ({"code": 5.0}, ErrorParts(5, "", None)),
        ({"code": 5, "message": None}, ErrorParts(5, "", None)),
        ({"code": 5, "message": ["a"]}, ErrorParts(5, "['a']", None)),
        ({"message": "bad"}, None),
        ("bad", None),
        (None, None),
    ],
)
def test_the_parts_of_an_error_are_read_leniently(error: Any, parts: Any) -> None:
    assert error_parts({"id": 1, "error": error}) == parts


def test_a_result_has_no_error_parts() -> None:
    assert error_parts({"id": 1, "result": {}}) is None
