"""A response whose body is still to be read: the moment it arrives, and never more than is admitted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import requests

from ..._concurrency.deadline import Deadline
from ..._protocol.striking import secrets_of
from ...errors import MessageTooLarge
from .._pieces import compacted
from .adapter.response import Answer
from .inflating import CHUNK, Inflater


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
