"""What passes between the protocol and a transport."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Optional


class Frame(NamedTuple):
    """One encoded message.

    Attributes:
        body: The message as UTF-8 JSON, without a line end.
        method: The method of a request or notification, empty for a response.
        headers: HTTP headers that go with it; other transports leave them out.
        resume_from: The event id after which the response stream of an earlier request is taken up; the
            message itself is not sent then (legacy Streamable HTTP).
    """

    body: bytes
    method: str = ""
    headers: Mapping[str, str] = {}
    resume_from: str = ""


@dataclass(frozen=True)
class Wire:
    """What a channel has to know of the protocol revision, once it is negotiated.

    Attributes:
        version_header: Value of ``MCP-Protocol-Version`` on every HTTP request, ``None`` for none.
        sessions: Whether the server may hand out ``Mcp-Session-Id``.
        get_stream: Whether to open the standalone GET stream (legacy, and somebody listens).
        resumable: Whether a broken response stream is taken up with ``Last-Event-ID``.
    """

    version_header: Optional[str] = None
    sessions: bool = False
    get_stream: bool = False
    resumable: bool = False
