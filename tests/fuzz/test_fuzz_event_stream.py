"""Event streams against a plain reading of the WHATWG's rules (HTML, section 9.2.6)."""

from __future__ import annotations

import re
from typing import NamedTuple, Optional
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_sync.errors import MessageTooLarge
from mcp_sync.transports import _event_stream
from mcp_sync.transports._event_stream import EventStream

from .shapes import cut, tokens

LIMIT = 1 << 20
HOUR = 3_600_000
STREAMS = tokens(
    b"data", b"data: ", b"data:", b"id: ", b"id", b"retry: ", b"event: ", b"event: message", b":", b" ",
    b"\n", b"\n", b"\r", b"\r\n", b"\n\n", b"\r\n\r\n", b"x", b"1000", b"99999999999999999", b"\xef\xbb\xbf",
    b"\0", b"\xe2\x9c\x85", b"\xe2\x9c", b"\xc2\x85", b"\xe2\x80\xa8", b"{}",
)  # fmt: skip


class Read(NamedTuple):
    """What a stream brought."""

    messages: list[str]
    last_id: str
    retry: Optional[int]


def reference(body: bytes) -> Read:
    """Read a stream as the standard describes it.

    Two things are ours: a ``retry`` counts with its event, not before it, and not beyond an hour.
    """
    text = body.decode("utf-8", "replace").removeprefix("\ufeff")
    *lines, _ = re.split("\r\n|\n|\r", text)
    messages: list[str] = []
    last_id, retry = "", None
    data, kind, new_id, new_retry = "", "", None, None
    for line in lines:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line:
            last_id = last_id if new_id is None else new_id
            retry = retry if new_retry is None else new_retry
            if data and kind in ("", "message"):
                messages.append(data[:-1])
            data, kind, new_id, new_retry = "", "", None, None
        elif field == "data":
            data += value + "\n"
        elif field == "event":
            kind = value
        elif field == "id" and "\0" not in value:
            new_id = value
        elif field == "retry" and re.fullmatch("[0-9]{1,15}", value):
            new_retry = min(int(value), HOUR)
    return Read([message for message in messages if message], last_id, retry)


def ours(pieces: list[bytes], limit: int = LIMIT) -> Read:
    stream = EventStream(pieces, limit)
    found = [data if isinstance(data, str) else data.decode("utf-8", "replace") for data in stream]
    return Read([data for data in found if data], stream.last_id, stream.retry)


@pytest.mark.parametrize("large", [1, _event_stream._LARGE], ids=["by hand", "by the library"])
@given(cut(STREAMS))
def test_a_stream_reads_as_the_standard_says_however_it_is_cut(
    large: int, example: tuple[bytes, list[bytes]]
) -> None:
    body, pieces = example
    with mock.patch.object(_event_stream, "_LARGE", large):
        assert ours(pieces) == ours([body] if body else []) == reference(body)


def limited(pieces: list[bytes], limit: int) -> Optional[Read]:
    try:
        return ours(pieces, limit)
    except MessageTooLarge:
        return None


@given(cut(STREAMS), st.integers(1, 20))
def test_the_limit_of_an_event_depends_on_the_cuts_by_no_more_than_a_blank_line(
    example: tuple[bytes, list[bytes]], limit: int
) -> None:
    body, pieces = example
    found = [limited([bytes([byte]) for byte in body], most) for most in (limit - 1, limit, limit + 1)]
    assert limited(pieces, limit) in found
