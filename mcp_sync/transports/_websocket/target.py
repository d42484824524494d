"""What a user says about a server that is reached over WebSocket."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Optional, Union
from urllib.parse import urlsplit

from ..._concurrency.fork import no_fork
from ..._protocol.urls import origin, public_url
from ...errors import UsageError
from ...options import check_seconds
from .._base import Channel, Settings
from .._http.target import HTTPTarget, check_url

_SCHEMES = {"ws": "http", "wss": "https"}
# The handshake sets them.
_OURS = ("connection", "upgrade")


@dataclass(frozen=True)
class WebSocket:
    """A server that is reached over WebSocket.

    The specification has no such transport; servers on the official Python SDK 1.x offer it. The
    subprotocol ``mcp`` is asked for and insisted upon. Proxies of the environment, ``REQUESTS_CA_BUNDLE``
    and ``~/.netrc`` count as they do for `StreamableHTTP`: ``ws`` goes by what is set for ``http``, ``wss``
    by what is set for ``https``.

    Args:
        url: Where the server listens: ``ws://host/path`` or ``wss://host/path``.
        headers: Headers of the handshake.
        auth: Any authorization of requests, for the handshake: an ``AuthBase`` object, another callable,
            or a pair of user name and password.
        verify: As in requests: ``False``, or the path of a CA bundle; with ``True`` the usual one.
        cert: As in requests: the path of a client certificate, or a pair of certificate and key.
        proxies: As in requests, by ``http`` (for ``ws``) and ``https`` (for ``wss``).
        ping_interval: Seconds of silence after which the server is asked for a sign of life. If none comes
            for as long again, the connection counts as lost. ``None`` to never ask: for servers that answer
            nothing while they are busy.

    Raises:
        UsageError: Something of it cannot work.
    """

    url: str
    headers: Optional[Mapping[str, str]] = field(default=None, repr=False)
    auth: Any = field(default=None, repr=False)
    verify: Union[bool, str] = field(default=True, repr=False)
    cert: Union[str, tuple[str, str], None] = field(default=None, repr=False)
    proxies: Optional[Mapping[str, str]] = field(default=None, repr=False)
    ping_interval: Optional[float] = field(default=20.0, repr=False)

    def __post_init__(self) -> None:
        check_url(self.url, tuple(_SCHEMES))
        object.__setattr__(self, "headers", self.as_http().headers)
        for name in self.headers or ():
            if name.lower() in _OURS or name.lower().startswith("sec-websocket-"):
                raise UsageError(f"header {name} belongs to the handshake, and cannot be given")
        check_seconds("ping_interval", self.ping_interval)
        if self.ping_interval is not None and not 0 < self.ping_interval < math.inf:
            raise UsageError("ping_interval must be more than 0 and finite, or None")

    def __hash__(self) -> int:
        return hash(self.url)

    def __repr__(self) -> str:
        return f"WebSocket({public_url(self.url)!r})"

    def as_http(self) -> HTTPTarget:
        """Return where and how the handshake is sent, which is a request of HTTP."""
        scheme, rest = self.url.split(":", 1)
        return HTTPTarget(
            f"{_SCHEMES[scheme.lower()]}:{rest}",
            headers=self.headers,
            auth=self.auth,
            verify=self.verify,
            cert=self.cert,
            proxies=self.proxies,
        )

    def identity(self) -> Hashable:
        """Return origin and path."""
        http = self.as_http().url
        return ("websocket", origin(http), urlsplit(http).path or "/")

    def channel(self, settings: Settings) -> Channel:
        """Make a new channel. Opens nothing."""
        with no_fork():
            from .channel import WebSocketChannel

        return WebSocketChannel(self, settings)
