"""Server-sent events, one after the other, each the moment that it is complete."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Optional, Union

from sseclient import SSEClient

from ..errors import MessageTooLarge
from ._pieces import compacted

_BOM = b"\xef\xbb\xbf"
_LARGE = 65536
JUNK_LENGTH = 100
# An hour. What is longer is a mistake, and what is much longer no clock can wait.
_LONGEST_RETRY = 3_600_000
_DATA, _ID, _RETRY = b"data", b"id", b"retry"
_ONE_LINE = re.compile(rb"(?:event: ?message\n)?data: ?([^\n]*)")
_KNOWN = (b"", b"event", _DATA, _ID, _RETRY)


class EventStream:
    """The events in the chunks of a response body.

    sseclient-py parses them, and this class feeds it with complete ones, in linear time. It mends what
    that parser leaves open: a byte order mark, line ends of any mix, events that carry only ``id`` or
    ``retry``, an unfinished last event, bytes that are no UTF-8. What comes out does not depend on how
    the body is cut into chunks.

    Args:
        chunks: The body.
        limit: The most bytes that an event may have.
        kinds: The types of the events whose data is wanted.

    Attributes:
        kind: The type of the last event that had data.
        last_id: The event id that counts at the moment, ``""`` for none.
        retry: The milliseconds before a reconnection, if the server named them; at most an hour.
        junk: The start of the first thing that is no event: no known field, or cut off by the end.
    """

    def __init__(self, chunks: Iterable[bytes], limit: int, kinds: tuple[str, ...] = ("message",)) -> None:
        self._chunks = chunks
        self._limit = limit
        self._kinds = kinds
        self.kind = ""
        self._slot = [b""]
        self._parsed = SSEClient(_content(self._slot)).events()
        self.last_id = ""
        self.retry: Optional[int] = None
        self.junk = b""

    def __iter__(self) -> Iterator[Union[str, bytes]]:
        """Yield the data of each event: ``""`` if it has none, or is of a type that is not wanted.

        Raises:
            MessageTooLarge: An event is larger than the limit.
        """
        for block in self._blocks():
            plain = _ONE_LINE.fullmatch(block)
            if plain is not None and "message" in self._kinds:
                # Most events: there is nothing to parse.
                self.kind = "message"
                yield plain[1]
            elif len(block) >= _LARGE:
                yield self._large(block)
            elif self._take_fields(block):
                yield self._parse(block)
            else:
                if not self.junk:
                    self._note_junk(line for line in block.split(b"\n") if _field(line) not in _KNOWN)
                yield ""

    def _note_junk(self, lines: Iterable[bytes]) -> None:
        self.junk = b"\n".join(line for line in lines if line and not line.startswith(b":"))[:JUNK_LENGTH]

    def _parse(self, block: bytes) -> str:
        self._slot[0] = _as_utf8(block) + b"\n\n"
        event = next(self._parsed)
        self.kind = event.event
        return event.data if event.event in self._kinds else ""

    def _large(self, block: bytes) -> bytes:
        """Parse an event by hand: sseclient-py copies each about eight times."""
        data = []
        kind = "message"
        for line in block.split(b"\n"):
            if line.startswith(b"data:"):
                data.append(line[6:] if line.startswith(b" ", 5) else line[5:])
            elif line == _DATA:
                data.append(b"")
            elif line.startswith(b"event:"):
                kind = line[6:].removeprefix(b" ").decode("utf-8", "replace") or "message"
            else:
                self._take_fields(line)
        self.kind = kind
        if kind not in self._kinds:
            return b""
        return data[0] if len(data) == 1 else b"\n".join(data)

    def _take_fields(self, block: bytes) -> bool:
        """Take ``id`` and ``retry``, which the parser drops without data; return whether there is data."""
        has_data = False
        for line in block.split(b"\n"):
            field, _, value = line.partition(b":")
            if field == _DATA:
                has_data = True
            elif field == _ID:
                self._take_id(value)
            elif field == _RETRY:
                self._take_retry(value)
        return has_data

    def _take_id(self, value: bytes) -> None:
        if b"\0" not in value:
            self.last_id = value[value.startswith(b" ") :].decode("utf-8", "replace")

    def _take_retry(self, value: bytes) -> None:
        digits = value[value.startswith(b" ") :]
        if digits.isdigit() and len(digits) < 16:
            self.retry = min(int(digits), _LONGEST_RETRY)

    def _blocks(self) -> Iterator[bytes]:
        """Yield what stands between blank lines."""
        parts: list[bytes] = []
        size = 0
        is_first = True
        for chunk in self._with_line_feeds():
            if parts and chunk.startswith(b"\n") and parts[-1].endswith(b"\n"):
                # The blank line lies across the border. Put it into this chunk.
                parts[-1], chunk = parts[-1][:-1], b"\n" + chunk
            *blocks, tail = chunk.split(b"\n\n")
            for block in blocks:
                if parts:
                    parts.append(block)
                    block, parts, size = b"".join(parts), [], 0
                self._check(len(block))
                if is_first:
                    is_first, block = False, block.removeprefix(_BOM)
                if block.strip(b"\n"):
                    yield block
            if tail:
                parts.append(tail)
                size += len(tail)
                self._check(size)
                parts = compacted(parts, size)
        if parts and not self.junk:
            rest = b"".join(parts).removeprefix(_BOM if is_first else b"")
            self._note_junk(rest[:_LARGE].split(b"\n"))

    def _with_line_feeds(self) -> Iterator[bytes]:
        """Yield the chunks with a line feed for each line end: CR LF, LF, or CR."""
        after_cr = False
        for chunk in self._chunks:
            # A line that ended with the CR of the last chunk is not ended again by the LF of this one.
            if after_cr and chunk.startswith(b"\n"):
                chunk = chunk[1:]
                after_cr = False
            if chunk:
                after_cr = chunk.endswith(b"\r")
                if b"\r" in chunk:
                    chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
                yield chunk

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise MessageTooLarge(
                f"an event is larger than {self._limit} bytes (Limits.message_bytes)",
                limit=self._limit,
                request_sent=True,
            )


def _field(line: bytes) -> bytes:
    return line.partition(b":")[0]


def _content(slot: list[bytes]) -> Iterator[bytes]:
    # No method: a stream that refers to itself would be left to the garbage collector.
    while True:
        yield slot[0]


def _as_utf8(block: bytes) -> bytes:
    """Replace what is no UTF-8."""
    if block.isascii():
        return block
    try:
        block.decode()
    except UnicodeDecodeError:
        return block.decode("utf-8", "replace").encode()
    return block
