"""Compressed bodies: undone as they arrive, in bounded steps."""

from __future__ import annotations

import zlib
from typing import Callable, Optional, Union

from ...errors import InvalidMessage

# How many bytes are read, or inflated, at a time.
CHUNK = 262_144
# What follows the end of a gzip member is copied, so a piece must be small next to thousands of members.
_PIECE = 16_384


class Truncated(OSError):
    """The body ended in the middle."""


class Inflater:
    """Undoes gzip and deflate step by step, so that nothing has to wait for the next step.

    urllib3 does it too, but each of its versions in another way, and some hold back what they have.

    Args:
        coding: The value of ``Content-Encoding``.
    """

    CODINGS = ("gzip", "x-gzip", "deflate")

    def __init__(self, coding: str) -> None:
        self._coding = coding.lower()
        self._is_gzip = self._coding != "deflate"
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)
        self._rest: Union[bytes, memoryview] = b""
        # What came before the second byte, which tells whether there is a frame; then ``None``.
        self._first: Optional[bytes] = b""

    def next(self, read: Callable[[], bytes], check: Callable[[], None]) -> bytes:
        """Return the next bytes, reading compressed ones until there are some; ``b""`` at the end.

        Args:
            read: Returns compressed bytes, ``b""`` at the end.
            check: Called before each step but the first after a read: what one read brings may inflate to a
                thousand times as much. What it raises ends the reading.

        Raises:
            InvalidMessage: The coding is another one.
        """
        if self._coding not in self.CODINGS:
            raise InvalidMessage(f"the body has the Content-Encoding {self._coding[:40]!r}, unknown here")
        while True:
            if self._rest:
                check()
            else:
                data = read()
                self._rest = memoryview(data) if len(data) > _PIECE else data
            if not self._rest:
                if self._first != b"" and not self._inflate.eof:
                    raise Truncated("the compressed body ended early")
                return b""
            plain = self._step()
            if plain:
                return plain

    def _step(self) -> bytes:
        """Undo the next piece of the rest."""
        rest = self._rest
        data, self._rest = (rest, b"") if len(rest) <= _PIECE else (rest[:_PIECE], rest[_PIECE:])
        if self._inflate.eof:
            if not self._is_gzip or not bytes(data).strip(b"\0"):
                return b""  # padding
            self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
        plain = self._decompress(data)
        left = self._inflate.unconsumed_tail or self._inflate.unused_data
        if left:
            self._rest = rest[len(rest) - len(self._rest) - len(left) :]
        return plain

    def _decompress(self, data: Union[bytes, memoryview]) -> bytes:
        try:
            plain = self._inflate.decompress(data, CHUNK)
        except zlib.error:
            if self._is_gzip or self._first is None:
                raise
            self._inflate = zlib.decompressobj(-zlib.MAX_WBITS)  # Some send deflate without its frame.
            plain = self._inflate.decompress(self._first + data, CHUNK)
        self._first = bytes(data) if self._first == b"" and len(data) == 1 else None
        return plain
