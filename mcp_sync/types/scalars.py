"""Names for plain values: identifiers, cursors, levels, metadata objects and their keys."""

from __future__ import annotations

from typing import Any, Literal, Union

__all__ = [
    "CLIENT_CAPABILITIES_META_KEY",
    "CLIENT_INFO_META_KEY",
    "LOG_LEVEL_META_KEY",
    "PROTOCOL_VERSION_META_KEY",
    "RELATED_TASK_META_KEY",
    "SERVER_INFO_META_KEY",
    "SUBSCRIPTION_ID_META_KEY",
    "Cursor",
    "IconTheme",
    "IncludeContext",
    "JSONArray",
    "JSONObject",
    "JSONValue",
    "LoggingLevel",
    "MetaObject",
    "NotificationMetaObject",
    "Number",
    "ProgressToken",
    "RequestId",
    "RequestMetaObject",
    "ResultMetaObject",
    "ResultType",
    "Role",
    "StopReason",
    "SubscriptionsListenResultMetaObject",
    "TaskStatus",
]

RequestId = Union[int, str]
"""Identifies one request of one peer (basic)."""

ProgressToken = Union[int, str]
"""Ties progress notifications to a request (basic/utilities/progress)."""

Cursor = str
"""Position in a list that comes in pages; opaque (server/utilities/pagination)."""

Number = Union[int, float]
"""A JSON number; an integer stays an integer."""

Role = Literal["user", "assistant"]
"""Who speaks in a conversation."""

LoggingLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
"""Severity of a log message, lowest first, as in RFC 5424 (server/utilities/logging)."""

IncludeContext = Literal["none", "thisServer", "allServers"]
"""What context of other servers a sampling request asks for; anything but `none` is deprecated."""

IconTheme = Literal["light", "dark"]
"""The background that an icon is drawn for."""

TaskStatus = Literal["working", "input_required", "completed", "failed", "cancelled"]
"""State of a task (basic/utilities/tasks of 2025-11-25)."""

StopReason = str
"""Why a model stopped: `endTurn`, `stopSequence`, `maxTokens`, `toolUse`, or a provider's own word."""

ResultType = str
"""Kind of a result: `complete`, `input_required`, or the word of an extension. Absent means `complete`."""

JSONValue = Any
"""Any JSON value."""

JSONObject = dict[str, Any]
"""A JSON object."""

JSONArray = list[Any]
"""A JSON array."""

MetaObject = dict[str, Any]
"""Contents of a `_meta` field: keys with a reverse-DNS prefix and a slash, values of any kind (basic)."""

RequestMetaObject = MetaObject
"""`_meta` of a request. May hold `progressToken`, and the keys below since 2026-07-28."""

NotificationMetaObject = MetaObject
"""`_meta` of a notification. Names its subscription, where it belongs to one."""

ResultMetaObject = MetaObject
"""`_meta` of a result. May name the server's software."""

SubscriptionsListenResultMetaObject = ResultMetaObject
"""`_meta` of the result that ends a subscription."""

PROTOCOL_VERSION_META_KEY = "io.modelcontextprotocol/protocolVersion"
CLIENT_INFO_META_KEY = "io.modelcontextprotocol/clientInfo"
CLIENT_CAPABILITIES_META_KEY = "io.modelcontextprotocol/clientCapabilities"
LOG_LEVEL_META_KEY = "io.modelcontextprotocol/logLevel"
SERVER_INFO_META_KEY = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_ID_META_KEY = "io.modelcontextprotocol/subscriptionId"
RELATED_TASK_META_KEY = "io.modelcontextprotocol/related-task"
