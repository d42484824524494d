"""Server-sent events, one after the other, each the moment that it is complete."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Optional

from sseclient import SSEClient

from ..errors import MessageTooLarge

_BOM = b"\xef\xbb\xbf"
_DATA, _ID, _RETRY = b"data", b"id", b"retry"


class EventStream:
    """The events in the chunks of a response body.

    sseclient-py parses them, and this class feeds it with complete ones, in linear time. It mends what
    that parser leaves open: a byte order mark, line ends of any mix, events that carry only ``id`` or
    ``retry``, an unfinished last event, bytes that are no UTF-8. What comes out does not depend on how
    the body is cut into chunks.

    Args:
        chunks: The body.
        limit: The most bytes that an event may have.

    Attributes:
        last_id: The event id that counts at the moment, ``""`` for none.
        retry: The milliseconds before a reconnection, if the server named them.
        count: How many events there were so far, with and without data.
    """

    def __init__(self, chunks: Iterable[bytes], limit: int) -> None:
        self._chunks = chunks
        self._limit = limit
        self._block = b""
        self._parsed = SSEClient(self._source()).events()
        self.last_id = ""
        self.retry: Optional[int] = None
        self.count = 0

    def __iter__(self) -> Iterator[str]:
        """Yield the data of each event: ``""`` if it has none, or is of another type than ``message``.

        Raises:
            MessageTooLarge: An event is larger than the limit.
        """
        for block in self._blocks():
            self.count += 1
            if not self._take_fields(block):
                yield ""
                continue
            self._block = _as_utf8(block) + b"\n\n"
            event = next(self._parsed)
            self._block = b""
            yield event.data if event.event == "message" else ""

    def _source(self) -> Iterator[bytes]:
        while True:
            yield self._block

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
            self.retry = int(digits)

    def _blocks(self) -> Iterator[bytes]:
        """Yield what stands between blank lines."""
        parts: list[bytes] = []
        size = 0
        is_first = True
        for chunk in self._with_line_feeds():
            parts.append(chunk)
            size += len(chunk)
            if b"\n\n" in chunk or (chunk[0] == 10 and len(parts) > 1 and parts[-2].endswith(b"\n")):
                *blocks, tail = b"".join(parts).split(b"\n\n")
                parts, size = [tail] if tail else [], len(tail)
                for block in blocks:
                    self._check(len(block))
                    if is_first:
                        is_first, block = False, block[len(_BOM) :] if block.startswith(_BOM) else block
                    if block.strip(b"\n"):
                        yield block
            self._check(size)

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


def _as_utf8(block: bytes) -> bytes:
    """Replace what is no UTF-8."""
    if block.isascii():
        return block
    try:
        block.decode()
    except UnicodeDecodeError:
        return block.decode("utf-8", "replace").encode()
    return block
