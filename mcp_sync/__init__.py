"""The blocking Python client for the Model Context Protocol (MCP).

>>> from mcp_sync import Client
>>> with Client(["python", "server.py"]) as client:
...     for tool in client.tools():
...         print(tool.name)

Names load when they are used, so that importing this package costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from . import (
        apps,
        auth,
        cache,
        elicitation,
        errors,
        futures,
        logs,
        otel,
        skills,
        stats,
        streaming,
        tasks,
        testing,
        trace,
        tracing,
        transports,
        types,
    )
    from ._concurrency.cancel import CancelToken
    from .auth import BearerToken, ClientCredentials, OAuth
    from .client import Client
    from .config import load_config
    from .errors import (
        AccessDenied,
        AnswerInvalid,
        AppRejected,
        AuthError,
        AuthorizationRequired,
        CallCancelled,
        CallTimeout,
        ClientClosed,
        ConnectFailed,
        ConnectionLost,
        DigestMismatch,
        EnvelopeRejected,
        FolderRefused,
        Forked,
        HeaderMismatch,
        HTTPStatusError,
        InputRequired,
        InputRoundsExceeded,
        InsufficientScope,
        InternalError,
        InvalidHandle,
        InvalidMessage,
        InvalidParams,
        InvalidRequest,
        InvalidResult,
        IssuerMismatch,
        MCPError,
        MessageTooLarge,
        MethodNotFound,
        MissingClientCapability,
        NegotiationFailed,
        NotSupported,
        OutputInvalid,
        ParseError,
        ProtocolError,
        RegistrationFailed,
        RemoteError,
        ResourceNotFound,
        SessionExpired,
        SkillRejected,
        TaskGone,
        TokenRequestFailed,
        ToolFailed,
        TransportError,
        UnsafeURL,
        UnsupportedProtocolVersion,
        UrlElicitationRequired,
        UsageError,
    )
    from .group import ClientGroup
    from .handlers import CallbackContext, progress
    from .options import UNSET, CacheOptions, Limits, Retry, Timeouts
    from .session import ClientSession
    from .subscriptions import (
        PromptsChanged,
        ResourcesChanged,
        ResourceUpdated,
        Resync,
        Subscription,
        ToolsChanged,
    )
    from .tasks import TaskHandle, TaskState
    from .transports import (
        InMemory,
        LegacySSE,
        Stdio,
        StreamableHTTP,
        WebSocket,
        sse_client,
        stdio_client,
        streamablehttp_client,
        websocket_client,
    )

__all__ = [
    "UNSET",
    "AccessDenied",
    "AnswerInvalid",
    "AppRejected",
    "AuthError",
    "AuthorizationRequired",
    "BearerToken",
    "CacheOptions",
    "CallCancelled",
    "CallTimeout",
    "CallbackContext",
    "CancelToken",
    "Client",
    "ClientClosed",
    "ClientCredentials",
    "ClientGroup",
    "ClientSession",
    "ConnectFailed",
    "ConnectionLost",
    "DigestMismatch",
    "EnvelopeRejected",
    "FolderRefused",
    "Forked",
    "HTTPStatusError",
    "HeaderMismatch",
    "InMemory",
    "InputRequired",
    "InputRoundsExceeded",
    "InsufficientScope",
    "InternalError",
    "InvalidHandle",
    "InvalidMessage",
    "InvalidParams",
    "InvalidRequest",
    "InvalidResult",
    "IssuerMismatch",
    "LegacySSE",
    "Limits",
    "MCPError",
    "MessageTooLarge",
    "MethodNotFound",
    "MissingClientCapability",
    "NegotiationFailed",
    "NotSupported",
    "OAuth",
    "OutputInvalid",
    "ParseError",
    "PromptsChanged",
    "ProtocolError",
    "RegistrationFailed",
    "RemoteError",
    "ResourceNotFound",
    "ResourceUpdated",
    "ResourcesChanged",
    "Resync",
    "Retry",
    "SessionExpired",
    "SkillRejected",
    "Stdio",
    "StreamableHTTP",
    "Subscription",
    "TaskGone",
    "TaskHandle",
    "TaskState",
    "Timeouts",
    "TokenRequestFailed",
    "ToolFailed",
    "ToolsChanged",
    "TransportError",
    "UnsafeURL",
    "UnsupportedProtocolVersion",
    "UrlElicitationRequired",
    "UsageError",
    "WebSocket",
    "__version__",
    "apps",
    "auth",
    "cache",
    "elicitation",
    "errors",
    "futures",
    "load_config",
    "logs",
    "otel",
    "progress",
    "skills",
    "sse_client",
    "stats",
    "stdio_client",
    "streamablehttp_client",
    "streaming",
    "tasks",
    "testing",
    "trace",
    "tracing",
    "transports",
    "types",
    "websocket_client",
]

_SUBMODULES = (
    *("apps", "auth", "cache", "elicitation", "errors", "futures", "logs", "otel", "skills", "stats"),
    *("streaming", "tasks", "testing", "trace", "tracing", "transports", "types"),
)
_HOMES = {
    "CancelToken": "_concurrency.cancel",
    "Client": "client",
    "ClientGroup": "group",
    "ClientSession": "session",
    "load_config": "config",
    "CallbackContext": "handlers",
    "progress": "handlers",
    "UNSET": "options",
    "CacheOptions": "options",
    "Limits": "options",
    "Retry": "options",
    "Timeouts": "options",
    "BearerToken": "auth",
    "ClientCredentials": "auth",
    "OAuth": "auth",
    "PromptsChanged": "subscriptions",
    "ResourceUpdated": "subscriptions",
    "ResourcesChanged": "subscriptions",
    "Resync": "subscriptions",
    "Subscription": "subscriptions",
    "ToolsChanged": "subscriptions",
    "TaskHandle": "tasks",
    "TaskState": "tasks",
    "InMemory": "transports",
    "LegacySSE": "transports",
    "Stdio": "transports",
    "StreamableHTTP": "transports",
    "WebSocket": "transports",
    "sse_client": "transports",
    "stdio_client": "transports",
    "streamablehttp_client": "transports",
    "websocket_client": "transports",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ._concurrency.fork import no_fork

    with no_fork():
        if name in _SUBMODULES:
            return importlib.import_module(f".{name}", __name__)
        value = getattr(importlib.import_module(f".{_HOMES.get(name, 'errors')}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
