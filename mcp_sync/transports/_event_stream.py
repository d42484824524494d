"""Server-sent events, one after the other, the moment each is complete."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Optional, cast

from sseclient import SSEClient

from ..errors import MessageTooLarge

_BOM = b"\xef\xbb\xbf"


class EventStream:
    """Events out of the chunks of a response body.

    sseclient-py parses the events, and this class feeds it with complete ones alone, in linear time. It
    mends what that parser leaves open: a byte order mark, line ends of any mix, events that carry only
    ``id`` or ``retry``, the unfinished last event, and bytes that are no UTF-8.

    Args:
        chunks: The body, however it is cut.
        limit: The most bytes that an event may have.

    Attributes:
        last_id: The last event id so far, ``""`` when there was none.
        retry: The milliseconds until a reconnection, if the server named them.
        count: How many events there were, those without data included.
    """

    def __init__(self, chunks: Iterable[bytes], limit: int) -> None:
        self._chunks = chunks
        self._limit = limit
        self.last_id = ""
        self.retry: Optional[int] = None
        self.count = 0

    def __iter__(self) -> Iterator[str]:
        """Yield the data of each event of the type ``message`` that has some."""
        for event in SSEClient(self._events()).events():
            if event.event == "message" and event.data:
                yield cast(str, event.data)

    def _events(self) -> Iterator[bytes]:
        """Yield complete events with data as the parser wants them."""
        for block in self._blocks():
            self.count += 1
            lines = block.split(b"\n")
            has_data = False
            for line in lines:
                field, _, value = line.partition(b":")
                if field == b"data":
                    has_data = True
                elif field == b"id":
                    self._take_id(value)
                elif field == b"retry":
                    self._take_retry(value)
            if has_data:
                yield _valid(block) + b"\n\n"

    def _take_id(self, value: bytes) -> None:
        if b"\0" not in value:
            self.last_id = value[value.startswith(b" ") :].decode("utf-8", "replace")

    def _take_retry(self, value: bytes) -> None:
        digits = value[value.startswith(b" ") :]
        if digits.isdigit() and len(digits) < 16:
            self.retry = int(digits)

    def _blocks(self) -> Iterator[bytes]:
        """Yield what stands between blank lines, with line feeds as the only line ends."""
        parts: list[bytes] = []
        size = 0
        first = True
        for chunk in self._lines():
            if b"\n\n" not in chunk and not (chunk[:1] == b"\n" and parts and parts[-1].endswith(b"\n")):
                parts.append(chunk)
                size += len(chunk)
                self._check(size)
                continue
            parts.append(chunk)
            *blocks, tail = b"".join(parts).split(b"\n\n")
            parts, size = [tail], len(tail)
            for block in blocks:
                self._check(len(block))
                if first:
                    first, block = False, block.removeprefix(_BOM)
                if block.strip(b"\n"):
                    yield block

    def _lines(self) -> Iterator[bytes]:
        """Yield the chunks with every line end turned into a line feed."""
        after_cr = False
        for chunk in self._chunks:
            if after_cr and chunk.startswith(b"\n"):
                chunk = chunk[1:]
                after_cr = False
            if not chunk:
                continue
            after_cr = chunk.endswith(b"\r")
            if b"\r" in chunk:
                chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            yield chunk

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise MessageTooLarge(
                f"the message is larger than {self._limit} bytes (Limits.message_bytes)",
                limit=self._limit,
                request_sent=True,
            )


def _valid(block: bytes) -> bytes:
    """Replace what is no UTF-8."""
    if block.isascii():
        return block
    try:
        block.decode()
    except UnicodeDecodeError:
        return block.decode("utf-8", "replace").encode()
    return block
