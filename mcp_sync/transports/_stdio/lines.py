"""Messages in a stream of bytes: one a line, ended by byte 0x0A and by nothing else."""

from __future__ import annotations

from typing import Optional

from .._pieces import compacted


class LineBuffer:
    """Cuts what was read into lines, and drops empty ones. For one thread at a time.

    Only byte 0x0A ends a line, since a message may hold any other character that Unicode takes for a
    line end. A carriage return before it does not count. The limit goes by the length of a line, not by
    how it happened to arrive.

    What was read is added to the pieces, and an empty piece is the end of the stream. A signal handler may
    raise in the middle of any method: the state changes in single steps, so that whoever comes next takes up
    where it was left.

    Args:
        limit: The longest line that is accepted, in bytes, without its end.

    Attributes:
        state: The pieces not cut yet, to which one is added when no complete line is left; the complete
            lines, the first one last; and whether a line was too long: it and what follows are dropped.
    """

    __slots__ = ("_limit", "state")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        # Of the pieces only the last may hold line ends.
        self.state: tuple[list[bytes], list[bytes], bool] = ([], [], False)

    @property
    def overflown(self) -> bool:
        """Whether a line was too long."""
        return self.state[2]

    @property
    def ended(self) -> bool:
        """Whether the stream has ended: in the line that is left, if there is one."""
        return self.state[0] == [b""]

    def complete(self) -> Optional[list[bytes]]:
        """Return the complete lines, the first one last, or ``None`` if there will be no more of them.

        Whoever is done with a line takes it off the end of that very list.
        """
        pieces, lines, overflown = self.state
        if pieces and not lines:
            self._cut(pieces)
            pieces, lines, overflown = self.state
        if not lines and (overflown or (pieces and not pieces[-1])):
            return None
        return lines

    def _cut(self, pieces: list[bytes]) -> None:
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
        # Without the blank ones, of which a chunk may hold tens of thousands.
        lines = list(filter(None, reversed(lines)))
        self.state = ([] if overflown else rest, lines, overflown)

    def _without_line_end(self, pieces: list[bytes]) -> None:
        size = sum(map(len, pieces))
        if self._is_too_long(size):
            self.state = ([], [], True)
        elif not pieces[-1] and len(pieces) > 1:
            # The stream has ended in a line, which may be complete even so.
            self.state = ([b""], [b"".join(pieces)], False)
        else:
            self.state = (compacted(pieces, size), [], False)

    def _is_too_long(self, size: int) -> bool:
        # One byte more may be a carriage return.
        return size > self._limit + 1

    def _count_admitted(self, lines: list[bytes]) -> int:
        for index, line in enumerate(lines):
            if len(line) - line.endswith(b"\r") > self._limit:
                return index
        return len(lines)
