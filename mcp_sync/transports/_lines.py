"""Messages in a stream of bytes: one a line, ended by byte 0x0A and by nothing else."""

from __future__ import annotations


class LineBuffer:
    """Cuts chunks into lines. For one thread.

    Only byte 0x0A ends a line, since a message may hold any other character that Unicode takes for a
    line end. A carriage return before it does not count. The limit goes by the length of a line, not by
    how it happened to arrive.

    Args:
        limit: The longest line that is accepted, in bytes, without its end.

    Attributes:
        overflown: Whether a line was longer than that. Nothing is taken in from then on.
    """

    __slots__ = ("_limit", "_parts", "_size", "overflown")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self.overflown = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take in a chunk; return the lines that it completes, up to one that is too long."""
        if self.overflown:
            return []
        end = chunk.rfind(b"\n")
        if end < 0:
            self._keep(chunk)
            return []
        lines = chunk[:end].split(b"\n")
        if self._parts:
            # Joined once, when the line is complete: adding each chunk to a string would take quadratic time.
            self._parts.append(lines[0])
            lines[0] = b"".join(self._parts)
            self._parts, self._size = [], 0
        # No line can be longer than all of them together, which is told without looking at each.
        if len(chunk) + len(lines[0]) > self._limit:
            lines = self._admitted(lines)
        if end + 1 < len(chunk) and not self.overflown:
            self._keep(chunk[end + 1 :])
        return lines

    def rest(self) -> bytes:
        """Return the line that the stream ended in, empty if it ended after one."""
        rest, self._parts = b"".join(self._parts), []
        return b"" if self.overflown else rest

    def _keep(self, part: bytes) -> None:
        self._parts.append(part)
        self._size += len(part)
        # One more than the limit, for a carriage return.
        if self._size > self._limit + 1:
            self._overflow()

    def _admitted(self, lines: list[bytes]) -> list[bytes]:
        for index, line in enumerate(lines):
            if len(line) - line.endswith(b"\r") > self._limit:
                self._overflow()
                return lines[:index]
        return lines

    def _overflow(self) -> None:
        self.overflown = True
        self._parts = []
