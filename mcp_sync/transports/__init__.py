"""Targets: where a server is, as frozen values; and the context managers of the official SDK.

Names load when they are used; a transport's libraries load when a connection is made.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .._concurrency.fork import hold_off

    with hold_off():
        value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
