"""Targets: where a server is, as frozen values; and the context managers of the official SDK.

Names load when they are used; a transport's libraries load when a connection is made.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._http.target import StreamableHTTP
    from ._memory import InMemory
    from ._opened import OpenedTransport, stdio_client, streamablehttp_client
    from ._stdio.target import Stdio

__all__ = ["InMemory", "OpenedTransport", "Stdio", "StreamableHTTP", "stdio_client", "streamablehttp_client"]

_HOMES = {
    "InMemory": "_memory",
    "OpenedTransport": "_opened",
    "Stdio": "_stdio.target",
    "StreamableHTTP": "_http.target",
    "stdio_client": "_opened",
    "streamablehttp_client": "_opened",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
