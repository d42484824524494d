"""Targets: where a server is, as frozen values; and the context managers of the official SDK.

Names load when they are used; a transport's libraries load when a connection is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._concurrency.lazy import lazy

if TYPE_CHECKING:
    from ._http.target import StreamableHTTP
    from ._legacy_sse.target import LegacySSE
    from ._memory import InMemory
    from ._opened import OpenedTransport, sse_client, stdio_client, streamablehttp_client, websocket_client
    from ._stdio.target import Stdio
    from ._websocket.target import WebSocket

__all__ = [
    "InMemory",
    "LegacySSE",
    "OpenedTransport",
    "Stdio",
    "StreamableHTTP",
    "WebSocket",
    "sse_client",
    "stdio_client",
    "streamablehttp_client",
    "websocket_client",
]

_HOMES = {
    "InMemory": "_memory",
    "LegacySSE": "_legacy_sse.target",
    "OpenedTransport": "_opened",
    "Stdio": "_stdio.target",
    "StreamableHTTP": "_http.target",
    "WebSocket": "_websocket.target",
    "sse_client": "_opened",
    "stdio_client": "_opened",
    "streamablehttp_client": "_opened",
    "websocket_client": "_opened",
}

__getattr__, __dir__ = lazy(__name__, _HOMES)
