"""What the conversations with an authorization server consist of.

A conversation is a generator: it yields a `Fetch`, and is sent the `Answer`, or thrown what went wrong; or it
yields a `Pause` or a `Learned`, and is sent nothing. In the end it returns its outcome. It does no I/O and
reads no clock, so that a test drives it with plain values.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Optional, TypeVar, Union

from ._records import ClientRecord

T = TypeVar("T")


@dataclass(frozen=True)
class Fetch:
    """Send one HTTP request.

    Attributes:
        purpose: What it is for, in words for an error: "the metadata of the authorization server".
        url: Where to.
        method: The HTTP method.
        headers: Its headers.
        form: A body as ``application/x-www-form-urlencoded``.
        json: A body as JSON.
    """

    purpose: str
    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    form: Optional[Mapping[str, str]] = field(default=None, repr=False)
    json: Optional[Mapping[str, Any]] = field(default=None, repr=False)


@dataclass(frozen=True)
class Pause:
    """Wait, because the authorization server asks for it.

    Attributes:
        seconds: How long.
    """

    seconds: float


@dataclass(frozen=True)
class Learned:
    """Keep what has turned out about this client.

    Attributes:
        client: The client, with the method by which it could authenticate.
    """

    client: ClientRecord


@dataclass(frozen=True)
class Answer:
    """What came back. Whatever fails before that is thrown in as an `AuthError`.

    Attributes:
        status: The HTTP status.
        headers: Its headers, with names in lower case.
        body: Its body, cut off where it is longer than any honest answer.
        url: Where it came from, in the end.
    """

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    url: str


Step = Union[Fetch, Pause, Learned]
Conversation = Generator[Step, Answer, T]
