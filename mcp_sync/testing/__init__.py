"""Servers for tests: `FakeServer` answers as any revision of the protocol does, in the same process."""

from __future__ import annotations

from ._catalog import FakePrompt, FakeResource, FakeTool
from ._context import ClientError, ToolContext
from ._rpc import RpcError
from ._server import FakeServer

__all__ = [
    "ClientError",
    "FakePrompt",
    "FakeResource",
    "FakeServer",
    "FakeTool",
    "RpcError",
    "ToolContext",
]
