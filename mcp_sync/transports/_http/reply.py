"""The body of a response: taken the moment it arrives, decompressed, and never more than is admitted."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any, Callable, NamedTuple, Optional, Protocol, Union

import requests

from ..._concurrency.deadline import Deadline
from ..._protocol.striking import secrets_of
from ...errors import InvalidMessage, MessageTooLarge
from .._pieces import compacted
from .adapter.response import Answer

CHUNK = 262_144
# What follows the end of a gzip member is copied, so a piece must be small next to thousands of members.
_PIECE = 16_384


class Truncated(OSError):
    """The body ended in the middle."""


class Reply(Protocol):
    """A response whose body is still to be read."""

    status: int
    headers: Any
    url: str

    def is_authorized(self) -> bool:
        """Whether the request carried credentials."""

    def secrets(self) -> list[str]:
        """Return what was secret of the request, which no error may repeat."""

    def read1(self) -> bytes:
        """Return what is at hand, or wait for some of it; ``b""`` at the end."""

    def read(self, limit: int) -> bytes:
        """Return the whole body.

        Raises:
            MessageTooLarge: It has more than ``limit`` bytes.
        """

    def hurry(self, deadline: Deadline) -> None:
        """Bound what is still to be read by another deadline."""

    def release(self) -> None:
        """Give the connection back; a rest of the body is taken when the connection is needed again."""

    def close(self) -> None:
        """Close the connection, unless it was given back."""


class Ended(NamedTuple):
    """How an event stream ended that brought no answer.

    Attributes:
        last_id: The last event id, ``""`` if there was none.
        retry: The milliseconds before it may be taken up again, if the server named them.
        messages: How many messages it brought.
        fault: What broke it, ``None`` for an orderly end.
        junk: The start of what it brought and is no message.
        stray: The id of the last answer that it brought, as it is shown.
        is_final: Whether it is of no use to ask for the rest.
    """

    last_id: str
    retry: Optional[int]
    messages: int
    fault: Optional[Exception]
    junk: bytes = b""
    stray: str = ""
    is_final: bool = False


def media_type(reply: Reply) -> str:
    """Return the media type of a response in lower case, ``""`` if it names none."""
    kind: str = reply.headers.get("content-type") or ""
    return kind.partition(";")[0].strip().lower()


class DirectReply:
    """A response of our adapter, read from the connection itself."""

    def __init__(self, answer: Answer) -> None:
        self.status = answer.status_code
        self.headers = answer.headers
        self.url = answer.url
        self._answer = answer
        self._head = answer.head
        coding = answer.headers.get("content-encoding")
        self._inflate = Inflater(coding) if coding is not None and coding.lower() != "identity" else None

    def is_authorized(self) -> bool:
        """Whether the request carried credentials."""
        return is_authorized(self._answer)

    def secrets(self) -> list[str]:
        """Return what was secret of the request."""
        return secrets_in(self._answer.request)

    def read1(self) -> bytes:
        """Return what is at hand, or wait for some of it; ``b""`` at the end."""
        if self._inflate is None:
            return self._head.read1(CHUNK)
        return self._inflate.next(self._compressed, self._check)

    def _compressed(self) -> bytes:
        return self._head.read1(CHUNK)

    def _check(self) -> None:
        if self._answer.held is not None:
            self._answer.held.check()

    def read(self, limit: int) -> bytes:
        """Return the whole body, of at most ``limit`` bytes."""
        head = self._head
        if self._inflate is None and head.length is not None:
            if head.length > limit:
                raise too_large(limit)
            return head.read()
        return joined(iter(self.read1, b""), limit)

    def hurry(self, deadline: Deadline) -> None:
        """Bound what is still to be read by another deadline."""
        if self._answer.held is not None:
            self._answer.held.hurry(deadline)

    def release(self) -> None:
        """Give the connection back."""
        self._answer.release()

    def detach(self) -> tuple[Any, bytes]:
        """Take the socket over, and what has been read behind the head."""
        return self._answer.detach()

    def close(self) -> None:
        """Close the connection."""
        self._answer.abort()


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


def is_authorized(response: requests.Response) -> bool:
    """Whether the request of a response carried credentials."""
    return "authorization" in (getattr(response.request, "headers", None) or {})


def secrets_in(request: Any) -> list[str]:
    """Return what was secret of a request."""
    return secrets_of(getattr(request, "headers", None) or {}, getattr(request, "url", None) or "")


def joined(chunks: Iterator[bytes], limit: int) -> bytes:
    """Put a body together, of at most ``limit`` bytes."""
    parts: list[bytes] = []
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > limit:
            raise too_large(limit)
        parts.append(chunk)
        parts = compacted(parts, size)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def too_large(limit: int) -> MessageTooLarge:
    """Say that a message is larger than the limit."""
    return MessageTooLarge(
        f"the message is larger than {limit} bytes (Limits.message_bytes)", limit=limit, request_sent=True
    )
