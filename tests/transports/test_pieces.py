"""Messages that arrive two bytes at a time cost little more than others."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Iterator
from typing import Any, Callable

import pytest

from mcp_sync.transports._event_stream import EventStream
from mcp_sync.transports._http.reply import joined
from mcp_sync.transports._pieces import compacted
from mcp_sync.transports._stdio.lines import LineBuffer
from mcp_sync.transports._websocket.frames import FrameBuffer

COUNT = 50_000
SIZE = 2 * COUNT
LIMIT = 1 << 20


def pairs() -> Iterator[bytes]:
    """Yield pieces of two bytes, each an object of its own."""
    for _ in range(COUNT):
        yield bytes(bytearray(b"xy"))


def test_few_pieces_are_left_alone() -> None:
    pieces = [b"x" * 100] * 64
    assert compacted(pieces, 6400) is pieces


def test_many_pieces_become_one() -> None:
    assert compacted([b"xy"] * 100, 200) == [b"xy" * 100]


@pytest.mark.parametrize("read", [lambda: joined(pairs(), LIMIT), lambda: list(EventStream(pairs(), LIMIT))])
def test_a_body_in_tiny_pieces_takes_little_more_than_its_size(read: Callable[[], Any]) -> None:
    read()
    tracemalloc.start()
    try:
        read()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5 * SIZE


def test_a_line_in_tiny_pieces_is_not_counted_over_and_over_again() -> None:
    buffer = LineBuffer(LIMIT)
    for piece in pairs():
        buffer.state[0].append(piece)
        assert buffer.complete() == []
        assert len(buffer.state[0]) < 200
    buffer.state[0].append(b"\n")
    assert buffer.complete() == [b"xy" * COUNT]


def test_a_frame_in_tiny_pieces_is_not_counted_over_and_over_again() -> None:
    buffer = FrameBuffer(LIMIT, struct.pack("!BBQ", 0x81, 127, SIZE))
    for piece in pairs():
        assert buffer.head() is None
        assert len(buffer.pieces) < 200
        buffer.pieces.append(piece)
    received = buffer.head()
    assert received is not None
    assert received.payload == b"xy" * COUNT
