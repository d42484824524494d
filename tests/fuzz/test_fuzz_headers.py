"""Headers that are made of arguments, checked for the user, or read from a server."""

from __future__ import annotations

import base64
import email.utils
import math
from datetime import datetime, timezone
from http.client import HTTPConnection
from typing import Any, Optional

from hypothesis import given
from hypothesis import strategies as st

from mcp_sync._protocol import headers, param_headers
from mcp_sync.errors import UsageError
from mcp_sync.transports._http.errors import retry_after

from .shapes import JSON

TEXTS = st.text(max_size=20) | st.text("=?base64 \t\r\n\0é~!", max_size=20).map(
    lambda text: f"=?base64?{text}?="
)


def decoded(value: str) -> str:
    if value.startswith("=?base64?") and value.endswith("?="):
        return base64.b64decode(value[9:-2], validate=True).decode()
    return value


@given(TEXTS | st.text())
def test_a_value_survives_its_way_through_a_header(text: str) -> None:
    value = headers.encode_header_value(text)
    assert value == value.strip()
    assert value.isascii()
    assert value.isprintable()
    assert decoded(value) == text


@given(
    st.dictionaries(st.text(max_size=6) | st.sampled_from(["X-A", "content-length"]), TEXTS, max_size=3)
    | JSON
)
def test_headers_of_a_user_are_refused_or_can_be_sent(given_headers: Any) -> None:
    try:
        checked = headers.checked_headers(given_headers)
    except UsageError:
        return
    connection = HTTPConnection("localhost")
    connection.putrequest("GET", "/")
    for name, value in (checked or {}).items():
        connection.putheader(name, value)  # It refuses what cannot be sent.
        value.encode("latin-1")
    assert checked == given_headers


SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    JSON
    | st.fixed_dictionaries(
        {"type": st.sampled_from(["string", "integer"]), "x-mcp-header": st.text(max_size=4)}
    ),
    lambda inner: st.dictionaries(
        st.sampled_from(["properties", "items", "$defs", "anyOf", "a"]), inner, max_size=3
    ),
    max_leaves=8,
)


@given(SCHEMAS, JSON)
def test_annotations_of_any_shape_are_taken_or_refused(schema: Any, arguments: Any) -> None:
    try:
        compiled = param_headers.compile_param_headers(schema)
        built = param_headers.param_headers(compiled, arguments)
    except (param_headers.InvalidParamHeader, UsageError):
        return
    assert all(value.isascii() and value.isprintable() for value in built.values())


DATES = st.datetimes(timezones=st.just(timezone.utc)).map(
    lambda moment: email.utils.format_datetime(moment, usegmt=True)
)


@given(
    st.none()
    | st.text(max_size=30)
    | st.integers().map(str)
    | DATES
    | st.just("9" * 400)
    | st.from_regex(
        r"[A-Z][a-z]{2}, [0-9]{1,3} [A-Z][a-z]{2} [0-9]{1,6} [0-9]{2}:[0-9]{2}:[0-9]{2} [-+A-Z0-9]{3,5}"
    )
)
def test_retry_after_is_a_number_of_seconds_or_nothing(value: Optional[str]) -> None:
    seconds = retry_after(value)
    assert seconds is None or (seconds >= 0 and math.isfinite(seconds))
    if value is not None and value.isascii() and value.isdigit() and len(value) < 10:
        assert seconds == min(int(value), 365 * 24 * 3600)


def test_a_date_is_told_as_seconds_from_now() -> None:
    past = email.utils.format_datetime(datetime(2000, 1, 1, tzinfo=timezone.utc), usegmt=True)
    assert retry_after(past) == 0.0
