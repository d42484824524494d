"""What a URL of ``http`` or ``https`` stands for, until it is known which transport the server speaks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from .._protocol.urls import public_url
from ._http.target import StreamableHTTP
from ._legacy_sse.target import LegacySSE


@dataclass(frozen=True, repr=False)
class ServerURL(StreamableHTTP):
    """A server that is reached over Streamable HTTP, or over HTTP with SSE if that is all it speaks.

    Which one is settled when a client opens (`negotiation.negotiate`).
    """

    __hash__ = StreamableHTTP.__hash__

    def __repr__(self) -> str:
        return repr(public_url(self.url))

    def fallback(self) -> Optional[LegacySSE]:
        """Return the same server over HTTP with SSE; a session cannot be taken up there."""
        if self.session_id is not None:
            return None
        return LegacySSE(
            self.url,
            headers=self.headers,
            auth=self.auth,
            session=self.session,
            verify=self.verify,
            cert=self.cert,
            proxies=self.proxies,
        )
