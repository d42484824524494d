"""Messages in a stream of bytes: one a line, ended by byte 0x0A and by nothing else."""

from __future__ import annotations

from typing import Optional

from .._pieces import compacted


class LineBuffer:
    """Cuts what was read into lines. For one thread at a time.

    Only byte 0x0A ends a line, since a message may hold any other character that Unicode takes for a
    line end. A carriage return before it does not count. The limit goes by the length of a line, not by
    how it happened to arrive.

    What was read is added to `pieces`, and an empty piece is the end of the stream. Each line stays at the
    head until it is dropped. A signal handler may raise in the middle of any method: the state changes in
    single steps, so that whoever comes next takes up where it was left.

    Args:
        limit: The longest line that is accepted, in bytes, without its end.
    """

    __slots__ = ("_limit", "_state")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        # The pieces not cut yet, of which only the last may hold line ends; the complete lines, the first
        # one last; and whether a line was too long.
        self._state: tuple[list[bytes], list[bytes], bool] = ([], [], False)

    @property
    def pieces(self) -> list[bytes]:
        """Where to add one piece, when `head` has nothing left."""
        return self._state[0]

    @property
    def overflown(self) -> bool:
        """Whether a line was too long. It and what follows are dropped."""
        return self._state[2]

    @property
    def ended(self) -> bool:
        """Whether there is no more to come: the end of the stream, or a line that is too long."""
        pieces, _, overflown = self._state
        return overflown or (bool(pieces) and not pieces[-1])

    def head(self) -> Optional[bytes]:
        """Return the first complete line, or ``None`` if there is none."""
        pieces, lines, _ = self._state
        if pieces and not lines:
            self._cut()
            lines = self._state[1]
        return lines[-1] if lines else None

    def drop(self) -> None:
        """Drop the line at the head."""
        self._state[1].pop()

    def _cut(self) -> None:
        pieces = self._state[0]
        last = pieces[-1]
        end = last.rfind(b"\n")
        if end < 0:
            self._without_line_end(pieces)
            return
        lines = last[:end].split(b"\n")
        if len(pieces) > 1:
            # Joined once, when the line is complete: adding up piece by piece would take quadratic time.
            lines[0] = b"".join([*pieces[:-1], lines[0]])
        rest = [last[end + 1 :]] if end + 1 < len(last) else []
        overflown = False
        # All of them together are within the limit, as a rule: then there is no need to look at each.
        if len(lines[0]) + len(last) > self._limit:
            admitted = self._count_admitted(lines)
            overflown = admitted < len(lines) or self._is_too_long(sum(map(len, rest)))
            del lines[admitted:]
        lines.reverse()
        self._state = ([] if overflown else rest, lines, overflown)

    def _without_line_end(self, pieces: list[bytes]) -> None:
        size = sum(map(len, pieces))
        if self._is_too_long(size):
            self._state = ([], [], True)
        elif not pieces[-1] and len(pieces) > 1:
            # The stream has ended in a line, which may be complete even so.
            self._state = ([b""], [b"".join(pieces)], False)
        else:
            self._state = (compacted(pieces, size), [], False)

    def _is_too_long(self, size: int) -> bool:
        # One byte more may be a carriage return.
        return size > self._limit + 1

    def _count_admitted(self, lines: list[bytes]) -> int:
        for index, line in enumerate(lines):
            if len(line) - line.endswith(b"\r") > self._limit:
                return index
        return len(lines)
