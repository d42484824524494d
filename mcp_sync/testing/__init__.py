"""Servers for tests: `FakeServer` answers as any revision of the protocol does, in the same process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._catalog import FakePrompt, FakeResource, FakeTool
from ._context import ClientError, ToolContext
from ._faults import Fault, FaultPlan
from ._rpc import RpcError
from ._server import FakeServer
from ._skills import FakeSkill
from ._subscriptions import Listening
from ._tasks import FakeTask

if TYPE_CHECKING:
    from ._http import HTTPEndpoint, HTTPReply, HTTPRequest

__all__ = [
    "ClientError",
    "FakePrompt",
    "FakeResource",
    "FakeServer",
    "FakeSkill",
    "FakeTask",
    "FakeTool",
    "Fault",
    "FaultPlan",
    "HTTPEndpoint",
    "HTTPReply",
    "HTTPRequest",
    "Listening",
    "RpcError",
    "ToolContext",
]


_LAZY = ("HTTPEndpoint", "HTTPReply", "HTTPRequest")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


def __getattr__(name: str) -> Any:
    # The HTTP server of the standard library costs the demo server a third of its start, and it needs none.
    if name in _LAZY:
        from . import _http

        return getattr(_http, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
