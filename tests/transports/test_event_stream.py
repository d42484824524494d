"""Events out of a byte stream, as the WHATWG defines them."""

from __future__ import annotations

import json
import time
from typing import Any, Optional, Union

import pytest

from mcp_sync.errors import MessageTooLarge
from mcp_sync.transports._event_stream import EventStream

KINDS = ["", "event: message\n", "event:\n", "event: endpoint\n", "event: other\n"]
CHECK, KANJI, EMOJI = "\u2705", "\u5165", "\U0001f600"


def parse(*chunks: bytes, limit: int = 1 << 20) -> list[str]:
    return [as_text(data) for data in EventStream(chunks, limit)]


def as_text(data: Union[str, bytes]) -> str:
    return data if isinstance(data, str) else data.decode("utf-8", "replace")


def parsed_with_state(chunks: Any) -> tuple[list[str], str, Optional[int]]:
    stream = EventStream(chunks, 1 << 20)
    data = [as_text(item) for item in stream]
    return data, stream.last_id, stream.retry


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"data: 1\n\n", ["1"]),
        (b"data:1\n\n", ["1"]),
        (b"data:  1\n\n", [" 1"]),
        (b"data: 1\r\n\r\n", ["1"]),
        (b"data: 1\r\r", ["1"]),
        (b"data: 1\n\r\ndata: 2\n\r\n", ["1", "2"]),
        (b"data: 1\r\n\ndata: 2\r\n\n", ["1", "2"]),
        (b"data: 1\n\rdata: 2\n\r", ["1", "2"]),
        (b"data: 1\r\n\rdata: 2\r\n\r", ["1", "2"]),
        (b"data: 1\ndata: 2\ndata\ndata: 3\n\n", ["1\n2\n\n3"]),
        (b"event: message\ndata: 1\nid: 4\nretry: 5\n\n", ["1"]),
        (b"event: other\ndata: 1\n\ndata: 2\n\n", ["", "2"]),
        (b"event:\ndata: 1\n\n", ["1"]),
        (b": comment\n\ndata: 1\n\n", ["", "1"]),
        (b"data: 1\n: comment\n\n", ["1"]),
        (b"\n\n\ndata: 1\n\n\n\n\ndata: 2\n\n", ["1", "2"]),
        (b"unknown: x\ndata: 1\nnothing\n\n", ["1"]),
        (b"data\n\n", [""]),
        (b"data:\n\n", [""]),
        (b"id: 7\n\n", [""]),
        (b"data: a:b: c\n\n", ["a:b: c"]),
    ],
)
def test_events_are_framed_as_the_standard_says(body: bytes, expected: list[str]) -> None:
    assert parse(body) == expected


def test_a_byte_order_mark_is_dropped() -> None:
    assert parse(b'\xef\xbb\xbfdata: {"a": 1}\n\ndata: 2\n\n') == ['{"a": 1}', "2"]


def test_only_the_first_byte_order_mark_is_dropped() -> None:
    assert parse(b"data: 1\n\n\xef\xbb\xbfdata: 2\n\ndata: 3\n\n") == ["1", "", "3"]


def test_an_unfinished_event_is_dropped() -> None:
    assert parse(b'data: 1\n\ndata: {"a"') == ["1"]
    assert parse(b"data: 1\n\ndata: 2\n") == ["1"]


def test_bytes_that_are_no_utf8_are_replaced() -> None:
    assert parse(b"data: a\xff\xfeb\n\ndata: c\n\n") == ["a\ufffd\ufffdb", "c"]


def test_other_line_ends_of_unicode_stay_in_the_data() -> None:
    text = f"{CHECK}\x85\u2028\u2029\x0b\x0c\x1c{KANJI}"
    assert parse(f"data: {text}\n\n".encode()) == [text]


@pytest.mark.parametrize(
    ("body", "last_id", "retry"),
    [
        (b"id: 1\ndata:\n\n", "1", None),
        (b"id: 1\n\n", "1", None),
        (b"retry: 250\n\n", "", 250),
        (b"id: 1\nretry: 250\ndata: x\n\ndata: y\n\n", "1", 250),
        (b"id: 1\n\nid: 2\n\n: end\n\n", "2", None),
        (b"id: 1\n\nid\n\n", "", None),
        (b"id: 1\n\nid: 2\x003\n\n", "1", None),
        (b"retry: 1\n\nretry: soon\n\nretry: -1\n\nretry: 1.5\n\nretry:\n\n", "", 1),
        (b"id: 1\n\nid: 2", "1", None),
        ("id: \u00e9\n\n".encode(), "\u00e9", None),
    ],
)
def test_ids_and_delays_count_without_data_too(body: bytes, last_id: str, retry: Optional[int]) -> None:
    _, found_id, found_retry = parsed_with_state([body])
    assert (found_id, found_retry) == (last_id, retry)


BODIES = [
    f"data: {EMOJI}{CHECK}\n\nid: {KANJI}\r\ndata: b\r\n\r\ndata: c\r\rdata: d\n\r\nretry: 9\n\n".encode(),
    b"\xef\xbb\xbfevent: message\r\nid: 1\r\ndata: 1\r\ndata: 2\r\n\r\n: ping\r\n\r\ndata: 3\r\n\r\n",
    b"\r\n\r\ndata: 1\r\n\rdata: 2\n\n\n\r\r\ndata: \xff\xf0\x9f\n\ndata: cut",
    b"data: 1\n\ndata: 2\n\n\n\nid: 3\n\n",
]


@pytest.mark.parametrize("body", BODIES)
def test_the_result_does_not_depend_on_a_border_between_chunks(body: bytes) -> None:
    whole = parsed_with_state([body])
    for cut in range(len(body) + 1):
        assert parsed_with_state([body[:cut], body[cut:]]) == whole, cut
        assert parsed_with_state([body[:cut], b"", body[cut:]]) == whole, cut


@pytest.mark.parametrize("body", BODIES)
def test_the_result_does_not_depend_on_any_two_borders(body: bytes) -> None:
    whole = parsed_with_state([body])
    for first in range(len(body) + 1):
        for second in range(first, len(body) + 1):
            assert parsed_with_state([body[:first], body[first:second], body[second:]]) == whole


@pytest.mark.parametrize("body", BODIES)
def test_single_bytes_give_the_same_result(body: bytes) -> None:
    assert parsed_with_state([bytes([byte]) for byte in body]) == parsed_with_state([body])


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_an_event_comes_with_its_blank_line_and_waits_for_nothing_more(line_end: bytes) -> None:
    def chunks() -> Any:
        yield b"data: 1" + line_end
        assert seen == []
        yield line_end
        assert seen == ["1"]
        yield b"data: 2" + line_end + line_end
        assert seen == ["1", "2"]

    seen: list[Any] = []
    for data in EventStream(chunks(), 1 << 20):
        seen.append(as_text(data))
    assert seen == ["1", "2"]


def test_large_and_small_events_are_read_alike() -> None:
    fields = "event: message\nid: 5\nretry: 6\ndata: a\ndata\ndata:b\n: no\n"
    filler = "".join(f"data: {'x' * 1000}{EMOJI}\n" for _ in range(100))
    expected = "a\n\nb\n" + "\n".join([f"{'x' * 1000}{EMOJI}"] * 100)
    data, last_id, retry = parsed_with_state([f"{fields}{filler}\n".encode()])
    assert (data, last_id, retry) == ([expected], "5", 6)
    other = f"event: other\n{filler}\n".encode()
    assert parse(other) == [""]


def test_an_event_above_the_limit_is_refused_before_it_is_complete() -> None:
    def chunks() -> Any:
        while True:
            yield b"data: " + b"x" * 100

    with pytest.raises(MessageTooLarge) as caught:
        list(EventStream(chunks(), 1000))
    assert caught.value.limit == 1000


def test_many_events_may_exceed_the_limit_together() -> None:
    assert parse(*[b"data: 123\n\n"] * 1000, limit=20) == ["123"] * 1000
    assert parse(b"data: 123\n\n" * 1000, limit=20) == ["123"] * 1000


def test_time_grows_with_the_size_and_not_with_its_square() -> None:
    def seconds(size: int) -> float:
        body = b"data: " + json.dumps("x" * size).encode() + b"\n\n"
        chunks = [body[i : i + 1024] for i in range(0, len(body), 1024)]
        started = time.process_time()
        assert len(list(EventStream(chunks, 1 << 30))) == 1
        return time.process_time() - started

    small = min(seconds(1_000_000) for _ in range(3))
    large = min(seconds(8_000_000) for _ in range(3))
    assert large < 40 * small + 0.05


@pytest.mark.parametrize("size", [1, 100_000])
def test_events_of_other_types_are_seen_where_they_are_wanted(size: int) -> None:
    text = "x" * size
    body = "".join(f"{kind}data: {text}{number}\n\n" for number, kind in enumerate(KINDS)).encode()
    stream = EventStream([body], 1 << 20, ("message", "endpoint"))
    seen = [(stream.kind, as_text(data)) for data in stream]
    kinds = ["message", "message", "message", "endpoint", "other"]
    wanted = [f"{text}{number}" if kind != "other" else "" for number, kind in enumerate(kinds)]
    assert seen == list(zip(kinds, wanted))
