"""For tests of what uses MCP: fake servers, recorded ones, and WSGI applications in the same process.

`FakeServer` answers as any revision of the protocol does; `Cassette` records a real server and replays it;
`WSGITarget` calls an application; `FakeAuthorizationServer` gives tokens; `NotificationCollector` keeps what
a server sends unasked. With pytest there are fixtures for them (`mcp_sync.testing.pytest_plugin`).

Names load when they are used: a demo server needs no recorder, and a test run perhaps none of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._concurrency.lazy import lazy

if TYPE_CHECKING:
    from ..transports._wsgi import WSGITarget
    from ._authorization import FakeAuthorizationServer
    from ._cassette import Cassette
    from ._catalog import FakePrompt, FakeResource, FakeTool
    from ._collector import NotificationCollector
    from ._context import ClientError, ToolContext
    from ._faults import Fault, FaultPlan
    from ._http import HTTPEndpoint, HTTPReply, HTTPRequest
    from ._recorder import Recorder
    from ._replay import Replay, UnmatchedRequest
    from ._rpc import RpcError
    from ._server import FakeServer
    from ._skills import FakeSkill
    from ._subscriptions import Listening
    from ._tasks import FakeTask

__all__ = [
    "Cassette",
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
    "NotificationCollector",
    "Recorder",
    "Replay",
    "RpcError",
    "ToolContext",
    "UnmatchedRequest",
    "WSGITarget",
]

_HOMES = {
    "Cassette": "_cassette",
    "ClientError": "_context",
    "FakeAuthorizationServer": "_authorization",
    "FakePrompt": "_catalog",
    "FakeResource": "_catalog",
    "FakeServer": "_server",
    "FakeSkill": "_skills",
    "FakeTask": "_tasks",
    "FakeTool": "_catalog",
    "Fault": "_faults",
    "FaultPlan": "_faults",
    "HTTPEndpoint": "_http",
    "HTTPReply": "_http",
    "HTTPRequest": "_http",
    "Listening": "_subscriptions",
    "NotificationCollector": "_collector",
    "Recorder": "_recorder",
    "Replay": "_replay",
    "RpcError": "_rpc",
    "ToolContext": "_context",
    "UnmatchedRequest": "_replay",
    "WSGITarget": ".transports._wsgi",
}

__getattr__, __dir__ = lazy(__name__, _HOMES)
