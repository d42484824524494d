"""Servers for tests: `FakeServer` answers as any revision of the protocol does, in the same process."""

from __future__ import annotations

import importlib
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
    from ..transports._wsgi import WSGITarget
    from ._authorization import FakeAuthorizationServer
    from ._http import HTTPEndpoint, HTTPReply, HTTPRequest

__all__ = [
    "ClientError",
    "FakeAuthorizationServer",
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
    "WSGITarget",
]

# What needs more than the demo server, whose start the HTTP server of the standard library alone would make a
# third longer.
_LAZY = {
    "FakeAuthorizationServer": "._authorization",
    "HTTPEndpoint": "._http",
    "HTTPReply": "._http",
    "HTTPRequest": "._http",
    "WSGITarget": "..transports._wsgi",
}


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .._concurrency.fork import hold_off

    with hold_off():
        value = getattr(importlib.import_module(_LAZY[name], __name__), name)
    globals()[name] = value
    return value
