"""WebSocket frames, however they arrive."""

from __future__ import annotations

import struct
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mcp_sync.transports._websocket.frames import FrameBuffer

from .shapes import cut, damaged

CONTROL = 0x8


@st.composite
def frames(draw: Any) -> bytes:
    """Return frames as a server may send them, or nearly so."""
    payload = draw(st.binary(max_size=12) | st.just(b"x" * 130))
    opcode = draw(st.sampled_from([0, 1, 1, 2, 8, 9, 10]))
    final = draw(st.sampled_from([0x80, 0x80, 0]))
    if draw(st.booleans()) and len(payload) < 126:
        return bytes([final | opcode, len(payload)]) + payload
    return struct.pack("!BBH", final | opcode, 126, len(payload)) + payload


STREAMS = st.lists(frames(), max_size=6).map(b"".join)


def ours(pieces: list[bytes], limit: int) -> tuple[list[tuple[int, bytes]], str]:
    buffer = FrameBuffer(limit)
    found = []
    for piece in [*pieces, b""]:
        if buffer.ended:
            break
        buffer.pieces.append(piece)
        while (received := buffer.head()) is not None:
            found.append((received.opcode, received.payload))
            buffer.drop()
    assert buffer.ended
    return found, type(buffer.fault).__name__


@given(cut(STREAMS | damaged(STREAMS)), st.integers(1, 150))
def test_frames_do_not_depend_on_how_they_arrive(example: tuple[bytes, list[bytes]], limit: int) -> None:
    data, pieces = example
    found, fault = ours(pieces, limit)
    assert (found, fault) == ours([bytes([byte]) for byte in data], limit)
    assert all(len(payload) <= limit for opcode, payload in found if not opcode & CONTROL)


@given(st.lists(st.tuples(st.binary(max_size=200), st.integers(1, 4)), max_size=4), st.data())
def test_messages_in_parts_come_out_whole(messages: list[tuple[bytes, int]], data: Any) -> None:
    stream = b""
    for payload, count in messages:
        step = len(payload) // count + 1
        parts = [payload[start : start + step] for start in range(0, max(len(payload), 1), step)]
        for index, part in enumerate(parts):
            first = (0x80 if index == len(parts) - 1 else 0) | (0 if index else 1)
            stream += struct.pack("!BBH", first, 126, len(part)) + part
            stream += bytes([0x89, 0]) * data.draw(st.integers(0, 1))
    _, pieces = data.draw(cut(st.just(stream)))
    found, fault = ours(pieces, 1000)
    assert [payload for opcode, payload in found if opcode == 1] == [payload for payload, _ in messages]
    assert fault == "NoneType"
