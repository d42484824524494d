"""Values of headers, and those that name the method and its object."""

from __future__ import annotations

import base64
import random
import string
from typing import Any

import pytest

from mcp_sync._protocol.headers import encode_header_value, standard_headers
from mcp_sync._protocol.methods import spec_of
from mcp_sync.errors import UsageError


def decoded(value: str) -> str:
    """Read a value as the specification has a server do it."""
    if value.startswith("=?base64?") and value.endswith("?=") and len(value) >= 11:
        return base64.b64decode(value[9:-2], validate=True).decode()
    return value


# --- values ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("us-west1", "us-west1"),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
    ],
)
def test_the_examples_of_the_specification(text: str, value: str) -> None:
    assert encode_header_value(text) == value


@pytest.mark.parametrize(
    "text", ["", "a", "us west 1", "~", "!", "a  b", "=?base64?open", "shut?=", "=?BASE64?x?=", "file:///a b"]
)
def test_visible_ascii_with_spaces_inside_stays_as_it_is(text: str) -> None:
    assert encode_header_value(text) == text


@pytest.mark.parametrize(
    "text",
    [
        " ",
        " a",
        "a ",
        "\t",
        "\ta",
        "a\tb",
        "a\r\nX-Evil: 1",
        "a\x00b",
        "a\x7fb",
        "é",
        "\u2028",
        "😀",
        "=?base64??=",
        "=?base64?=",
    ],
)
def test_all_else_is_wrapped_and_reads_back_the_same(text: str) -> None:
    value = encode_header_value(text)
    assert value.startswith("=?base64?")
    assert value.endswith("?=")
    assert decoded(value) == text


def test_no_text_can_break_out_of_its_header() -> None:
    source = random.Random(7)
    letters = string.printable + "=?base64\x00\x7f\x80é世😀"
    for _ in range(5000):
        text = "".join(source.choice(letters) for _ in range(source.randrange(12)))
        value = encode_header_value(text)
        assert all(" " <= letter <= "~" for letter in value)
        assert value == value.strip()
        assert decoded(value) == text


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(UsageError, match="lone surrogate"):
        encode_header_value("\ud800")


# --- Mcp-Method and Mcp-Name -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "params", "headers"),
    [
        ("tools/call", {"name": "add"}, {"Mcp-Method": "tools/call", "Mcp-Name": "add"}),
        ("prompts/get", {"name": "é"}, {"Mcp-Method": "prompts/get", "Mcp-Name": "=?base64?w6k=?="}),
        (
            "resources/read",
            {"uri": "file:///projects/config.json"},
            {"Mcp-Method": "resources/read", "Mcp-Name": "file:///projects/config.json"},
        ),
        ("tools/list", {"name": "x"}, {"Mcp-Method": "tools/list"}),
        ("server/discover", None, {"Mcp-Method": "server/discover"}),
        ("tools/call", None, {"Mcp-Method": "tools/call"}),
        ("tools/call", {"name": 7}, {"Mcp-Method": "tools/call"}),
        ("resources/subscribe", {"uri": "a:b"}, {"Mcp-Method": "resources/subscribe"}),
    ],
)
def test_method_and_name_are_mirrored(method: str, params: Any, headers: dict[str, str]) -> None:
    assert standard_headers(method, params, spec_of(method).name_param) == headers


@pytest.mark.parametrize("method", ["", "a\r\nX: 1", "méthode", " a", "=?base64?YQ==?="])
def test_a_method_that_no_header_can_carry_is_refused(method: str) -> None:
    with pytest.raises(UsageError, match="cannot be sent over HTTP"):
        standard_headers(method, None)
