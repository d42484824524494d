"""Strategies that several tests use."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
)
JSON: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def tokens(*known: bytes, junk: int = 3) -> st.SearchStrategy[bytes]:
    """Bytes put together from words of a format, with a little of anything in between."""
    return st.lists(st.sampled_from(known) | st.binary(max_size=junk), max_size=40).map(b"".join)


@st.composite
def damaged(draw: Any, whole: st.SearchStrategy[bytes]) -> bytes:
    """Return bytes of which a part was replaced by others."""
    data: bytes = draw(whole)
    start = draw(st.integers(0, len(data)))
    end = draw(st.integers(start, min(len(data), start + 8)))
    return data[:start] + draw(st.binary(max_size=6)) + data[end:]


@st.composite
def cut(draw: Any, whole: st.SearchStrategy[bytes]) -> tuple[bytes, list[bytes]]:
    """Return bytes as a whole, and in pieces."""
    data: bytes = draw(whole)
    places = sorted(draw(st.sets(st.integers(1, max(1, len(data) - 1)), max_size=8))) if data else []
    edges = [0, *places, len(data)]
    return data, [piece for piece in (data[a:b] for a, b in zip(edges, edges[1:])) if piece]


class Pieces(io.RawIOBase):
    """A file that gives one piece at each read."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        super().__init__()
        self._pieces = list(pieces)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._pieces:
            return 0
        piece = self._pieces.pop(0)
        taken, rest = piece[: len(buffer)], piece[len(buffer) :]
        if rest:
            self._pieces.insert(0, rest)
        buffer[: len(taken)] = taken
        return len(taken)
