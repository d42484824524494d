"""Which messages go from client to server and back (all revisions together)."""

from __future__ import annotations

from typing import Union

from mcp_sync.types.client_requests import (
    CallToolRequest,
    CompleteRequest,
    DiscoverRequest,
    GetPromptRequest,
    InitializeRequest,
    ListPromptsRequest,
    ListResourcesRequest,
    ListResourceTemplatesRequest,
    ListToolsRequest,
    ReadResourceRequest,
    SetLevelRequest,
    SubscribeRequest,
    SubscriptionsListenRequest,
    UnsubscribeRequest,
)
from mcp_sync.types.completion import CompleteResult
from mcp_sync.types.elicitation import ElicitationCompleteNotification, ElicitRequest, ElicitResult
from mcp_sync.types.input_required import InputRequiredResult
from mcp_sync.types.lifecycle import DiscoverResult, InitializedNotification, InitializeResult, PingRequest
from mcp_sync.types.logging import LoggingMessageNotification
from mcp_sync.types.messages import EmptyResult, UnknownNotification, UnknownRequest
from mcp_sync.types.notifications import CancelledNotification, ProgressNotification
from mcp_sync.types.prompts import GetPromptResult, ListPromptsResult, PromptListChangedNotification
from mcp_sync.types.resources import (
    ListResourcesResult,
    ListResourceTemplatesResult,
    ReadResourceResult,
    ResourceListChangedNotification,
    ResourceUpdatedNotification,
)
from mcp_sync.types.roots import ListRootsRequest, ListRootsResult, RootsListChangedNotification
from mcp_sync.types.sampling import CreateMessageRequest, CreateMessageResult
from mcp_sync.types.subscriptions import SubscriptionsAcknowledgedNotification, SubscriptionsListenResult
from mcp_sync.types.tasks import (
    CancelTaskRequest,
    CancelTaskResult,
    CreateTaskResult,
    GetTaskPayloadRequest,
    GetTaskPayloadResult,
    GetTaskRequest,
    GetTaskResult,
    ListTasksRequest,
    ListTasksResult,
    TaskStatusNotification,
)
from mcp_sync.types.tools import CallToolResult, ListToolsResult, ToolListChangedNotification

__all__ = [
    "ClientNotification",
    "ClientRequest",
    "ClientResult",
    "ServerNotification",
    "ServerRequest",
    "ServerResult",
]

ClientRequest = Union[
    PingRequest,
    InitializeRequest,
    DiscoverRequest,
    CompleteRequest,
    SetLevelRequest,
    GetPromptRequest,
    ListPromptsRequest,
    ListResourcesRequest,
    ListResourceTemplatesRequest,
    ReadResourceRequest,
    SubscribeRequest,
    UnsubscribeRequest,
    SubscriptionsListenRequest,
    CallToolRequest,
    ListToolsRequest,
    GetTaskRequest,
    GetTaskPayloadRequest,
    ListTasksRequest,
    CancelTaskRequest,
]

ClientNotification = Union[
    CancelledNotification,
    ProgressNotification,
    InitializedNotification,
    RootsListChangedNotification,
    TaskStatusNotification,
]

ClientResult = Union[
    CreateMessageResult,
    ListRootsResult,
    ElicitResult,
    GetTaskResult,
    ListTasksResult,
    CancelTaskResult,
    CreateTaskResult,
    GetTaskPayloadResult,
    EmptyResult,
]

ServerRequest = Union[
    PingRequest,
    CreateMessageRequest,
    ListRootsRequest,
    ElicitRequest,
    GetTaskRequest,
    GetTaskPayloadRequest,
    ListTasksRequest,
    CancelTaskRequest,
    UnknownRequest,
]

ServerNotification = Union[
    CancelledNotification,
    ProgressNotification,
    LoggingMessageNotification,
    ResourceUpdatedNotification,
    ResourceListChangedNotification,
    ToolListChangedNotification,
    PromptListChangedNotification,
    ElicitationCompleteNotification,
    TaskStatusNotification,
    SubscriptionsAcknowledgedNotification,
    UnknownNotification,
]

ServerResult = Union[
    InitializeResult,
    DiscoverResult,
    CompleteResult,
    GetPromptResult,
    ListPromptsResult,
    ListResourceTemplatesResult,
    ListResourcesResult,
    ReadResourceResult,
    CallToolResult,
    ListToolsResult,
    InputRequiredResult,
    GetTaskResult,
    ListTasksResult,
    CancelTaskResult,
    CreateTaskResult,
    SubscriptionsListenResult,
    GetTaskPayloadResult,
    EmptyResult,
]
