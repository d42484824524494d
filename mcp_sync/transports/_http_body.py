"""The body of a response: taken the moment it arrives, decompressed, and never more than is admitted."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any, Optional, Protocol

import requests

from ..errors import MessageTooLarge
from ._http_exchange import Exchange
from ._http_response import Answer

_CHUNK = 262_144


class Truncated(OSError):
    """The body ended in the middle."""


class Reply(Protocol):
    """A response whose body is still to be read."""

    status: int
    headers: Any
    url: str

    def read1(self) -> bytes:
        """Return what is at hand, or wait for some of it; ``b""`` at the end."""

    def read(self, limit: int) -> bytes:
        """Return the whole body.

        Raises:
            MessageTooLarge: It has more than ``limit`` bytes.
        """

    def release(self) -> None:
        """Give the connection back; a rest of the body is taken when the connection is needed again."""

    def close(self) -> None:
        """Close the connection."""


class DirectReply:
    """A response of our adapter, read from the connection itself."""

    def __init__(self, answer: Answer) -> None:
        self.status = answer.status_code
        self.headers = answer.headers
        self.url = answer.url
        self._head = answer.head
        self._held: Any = answer.held
        coding = answer.headers.get("content-encoding")
        self._inflate = Inflater(coding) if coding and coding.lower() != "identity" else None

    def read1(self) -> bytes:
        """Return what is at hand, or wait for some of it; ``b""`` at the end."""
        if self._inflate is None:
            return self._head.read1(_CHUNK)
        return self._inflate.next(lambda: self._head.read1(_CHUNK))

    def read(self, limit: int) -> bytes:
        """Return the whole body, of at most ``limit`` bytes."""
        head = self._head
        if self._inflate is None and head.length is not None:
            if head.length > limit:
                raise too_large(limit)
            return head.read()
        return joined(iter(self.read1, b""), limit)

    def release(self) -> None:
        """Give the connection back."""
        held, self._held = self._held, None
        if held is not None:
            held.pool._put_conn(held)

    def close(self) -> None:
        """Close the connection."""
        held, self._held = self._held, None
        if held is not None:
            held.close()


class Inflater:
    """Undoes gzip and deflate step by step, so that nothing has to wait for the next step.

    urllib3 does it too, but each of its versions in another way, and some hold back what they have.

    Args:
        coding: The value of ``Content-Encoding``.

    Raises:
        Truncated: It is none of those.
    """

    def __init__(self, coding: str) -> None:
        if coding.lower() not in ("gzip", "x-gzip", "deflate"):
            raise Truncated(f"Content-Encoding {coding[:40]!r} was not asked for")
        self._is_gzip = coding.lower() != "deflate"
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)
        self._rest = b""
        self._is_started = False

    def next(self, read: Any) -> bytes:
        """Return the next bytes, reading compressed ones until there are some; ``b""`` at the end."""
        while True:
            data = self._rest or read()
            self._rest = b""
            if not data:
                if self._is_started and not self._inflate.eof:
                    raise Truncated("the compressed body ended early")
                return b""
            if self._inflate.eof:
                if not self._is_gzip or not data.strip(b"\0"):
                    continue  # padding
                self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
            plain = self._step(data)
            self._rest = self._inflate.unconsumed_tail or self._inflate.unused_data
            if plain:
                return plain

    def _step(self, data: bytes) -> bytes:
        try:
            plain = self._inflate.decompress(data, _CHUNK)
        except zlib.error:
            if self._is_started or self._is_gzip:
                raise
            self._inflate = zlib.decompressobj(-zlib.MAX_WBITS)  # Some send deflate without its frame.
            plain = self._inflate.decompress(data, _CHUNK)
        self._is_started = True
        return plain


def joined(chunks: Iterator[bytes], limit: int) -> bytes:
    """Put a body together, of at most ``limit`` bytes."""
    parts = []
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > limit:
            raise too_large(limit)
        parts.append(chunk)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def too_large(limit: int) -> MessageTooLarge:
    """Say that a message is larger than the limit."""
    return MessageTooLarge(
        f"the message is larger than {limit} bytes (Limits.message_bytes)", limit=limit, request_sent=True
    )


class SessionReply:
    """A response of a session that the user brought, or of a hook."""

    def __init__(self, response: requests.Response, exchange: Exchange) -> None:
        self.status = response.status_code
        self.headers = response.headers
        self.url = response.url
        self._response = response
        self._exchange = exchange
        self._sock = _socket_of(response.raw)
        self._consumed: Optional[bytes] = response.content if response._content_consumed else None  # type: ignore[attr-defined]
        if self._sock is not None:
            exchange.publish(self._sock)
        coding = response.headers.get("content-encoding", "").lower()
        self._inflate = Inflater(coding) if coding in ("gzip", "x-gzip", "deflate") else None

    def read1(self) -> bytes:
        """Return what is at hand, or wait for some of it; ``b""`` at the end."""
        if self._consumed is not None:
            data, self._consumed = self._consumed, b""
            return data
        if self._inflate is None:
            return self._raw()
        return self._inflate.next(self._raw)

    def _raw(self) -> bytes:
        if self._sock is not None:
            left = self._exchange.deadline.remaining()
            self._sock.settimeout(max(left, 1e-6) if left is not None else None)
        source = self._response.raw
        inner = getattr(source, "_fp", None)
        reader = inner if hasattr(inner, "read1") else source
        if hasattr(reader, "read1"):
            return bytes(reader.read1(_CHUNK))
        return bytes(reader.read(_CHUNK))

    def read(self, limit: int) -> bytes:
        """Return the whole body, of at most ``limit`` bytes."""
        return joined(iter(self.read1, b""), limit)

    def release(self) -> None:
        """Give the connection back, or close it where something is left to read."""
        self._exchange.withdraw()
        self._response.close()

    def close(self) -> None:
        """Close the connection."""
        self._exchange.withdraw()
        self._response.raw.close()


def _socket_of(raw: Any) -> Any:
    """Dig the socket out of urllib3's response, where there is one."""
    for path in (("_connection", "sock"), ("_fp", "fp", "raw", "_sock")):
        item = raw
        for name in path:
            item = getattr(item, name, None)
        if item is not None and hasattr(item, "settimeout"):
            return item
    return None
