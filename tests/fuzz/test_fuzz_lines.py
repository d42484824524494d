"""Lines of a server's output, however they arrive."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mcp_sync.transports._stdio.lines import LineBuffer

from .shapes import cut, tokens

OUTPUT = tokens(b"\n", b"\n", b"\r\n", b"\r", b"{}", b"abcdefgh", b"\xe2\x80\xa8", b"\0", junk=6)


def reference(data: bytes, limit: int) -> tuple[list[bytes], bool]:
    """Cut a whole output into lines; one byte more than the limit may be a carriage return."""
    *complete, rest = data.split(b"\n")
    admitted = []
    for line in complete:
        if len(line) - line.endswith(b"\r") > limit:
            return admitted, True
        if line:
            admitted.append(line)
    if len(rest) > limit + 1:
        return admitted, True
    return [*admitted, rest] if rest else admitted, False


def ours(pieces: list[bytes], limit: int) -> tuple[list[bytes], bool]:
    buffer = LineBuffer(limit)
    lines = []
    for piece in [*pieces, b""]:
        buffer.state[0].append(piece)
        complete = buffer.complete()
        while complete:
            lines.append(complete.pop())
        if buffer.complete() is None:
            break
    assert buffer.complete() is None
    return lines, buffer.overflown


@given(cut(OUTPUT), st.integers(0, 30))
def test_lines_do_not_depend_on_how_they_arrive(example: tuple[bytes, list[bytes]], limit: int) -> None:
    data, pieces = example
    assert ours(pieces, limit) == reference(data, limit)
