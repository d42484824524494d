"""What a user says about a server that is reached over HTTP with SSE."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from urllib.parse import urlsplit

from ..._concurrency.fork import no_fork
from ..._protocol.urls import origin
from .._base import Channel, Settings
from .._http.target import HTTPTarget


@dataclass(frozen=True, repr=False)
class LegacySSE(HTTPTarget):
    """A server that is reached over HTTP with SSE, the transport of revision 2024-11-05.

    For servers that have not moved on to Streamable HTTP. A `Client` that is given a URL finds out by
    itself what the server speaks. Source: specification 2024-11-05, "Transports".

    Args:
        url: Where the event stream is opened, often a path that ends with ``/sse``.
        headers, auth, session, verify, cert, proxies: As in `StreamableHTTP`. They go with the stream and
            with every message.

    Raises:
        UsageError: Something of it cannot work.
    """

    __hash__ = HTTPTarget.__hash__

    @property
    def handshake_first(self) -> bool:
        """Whether to begin with the handshake: yes, no revision without one knows this transport."""
        return True

    def identity(self) -> Hashable:
        """Return origin and path."""
        return ("sse", origin(self.url), urlsplit(self.url).path or "/")

    def channel(self, settings: Settings) -> Channel:
        """Make a new channel. Opens nothing."""
        with no_fork():
            from .channel import LegacySSEChannel

        return LegacySSEChannel(self, settings)
