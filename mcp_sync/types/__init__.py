"""Models of the Model Context Protocol, all revisions from 2024-11-05 to 2026-07-28 in one set.

Attributes are snake_case, JSON is camelCase. What a server sends is read leniently: unknown fields and
unknown kinds of content are kept. `to_wire()` gives the dict for `json.dumps`.

Names are resolved on first use, so that a program loads only the areas that it needs.
"""

# ruff: noqa: F403

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mcp_sync._concurrency.fork import no_fork

if TYPE_CHECKING:
    from mcp_sync.types._base import WireModel as WireModel
    from mcp_sync.types.capabilities import *
    from mcp_sync.types.client_requests import *
    from mcp_sync.types.codes import *
    from mcp_sync.types.completion import *
    from mcp_sync.types.content import *
    from mcp_sync.types.elicitation import *
    from mcp_sync.types.errors import *
    from mcp_sync.types.forms import *
    from mcp_sync.types.input_required import *
    from mcp_sync.types.jsonrpc import *
    from mcp_sync.types.legacy import Annotated as Annotated
    from mcp_sync.types.lifecycle import *
    from mcp_sync.types.logging import *
    from mcp_sync.types.messages import *
    from mcp_sync.types.metadata import *
    from mcp_sync.types.notifications import *
    from mcp_sync.types.parsing import *
    from mcp_sync.types.prompts import *
    from mcp_sync.types.resources import *
    from mcp_sync.types.responses import *
    from mcp_sync.types.roots import *
    from mcp_sync.types.sampling import *
    from mcp_sync.types.scalars import *
    from mcp_sync.types.subscriptions import *
    from mcp_sync.types.tasks import *
    from mcp_sync.types.tools import *
    from mcp_sync.types.unions import *

# Submodule -> its public names; a test compares this table with their __all__.
_NAMES = {
    "_base": "WireModel",
    "capabilities": (
        "Capability ClientCapabilities ClientTasksCapability ClientTasksRequestsCapability "
        "CompletionsCapability ElicitationCapability FormElicitationCapability LoggingCapability "
        "PromptsCapability ResourcesCapability RootsCapability SamplingCapability "
        "SamplingContextCapability SamplingToolsCapability ServerCapabilities ServerTasksCapability "
        "ServerTasksRequestsCapability TasksCallCapability TasksCancelCapability "
        "TasksCreateElicitationCapability TasksCreateMessageCapability TasksElicitationCapability "
        "TasksListCapability TasksSamplingCapability TasksToolsCapability ToolsCapability "
        "UrlElicitationCapability"
    ),
    "client_requests": (
        "CallToolRequest CallToolRequestParams CompleteRequest CompleteRequestParams DiscoverRequest "
        "GetPromptRequest GetPromptRequestParams InitializeRequest InitializeRequestParams "
        "InputResponseRequestParams ListPromptsRequest ListResourceTemplatesRequest ListResourcesRequest "
        "ListToolsRequest PaginatedRequest PaginatedRequestParams ReadResourceRequest "
        "ReadResourceRequestParams ResourceRequestParams SetLevelRequest SetLevelRequestParams "
        "SubscribeRequest SubscribeRequestParams SubscriptionsListenRequest "
        "SubscriptionsListenRequestParams UnsubscribeRequest UnsubscribeRequestParams"
    ),
    "codes": (
        "CONNECTION_CLOSED HEADER_MISMATCH INTERNAL_ERROR INVALID_PARAMS INVALID_REQUEST METHOD_NOT_FOUND "
        "MISSING_REQUIRED_CLIENT_CAPABILITY PARSE_ERROR REQUEST_TIMEOUT RESOURCE_NOT_FOUND "
        "UNSUPPORTED_PROTOCOL_VERSION URL_ELICITATION_REQUIRED"
    ),
    "completion": (
        "CompleteResult Completion CompletionArgument CompletionContext PromptReference ResourceReference "
        "ResourceTemplateReference"
    ),
    "content": (
        "AudioContent Content ContentBlock EmbeddedResource ImageContent ResourceLink SamplingContent "
        "SamplingMessageContentBlock TextContent ToolResultContent ToolUseContent UnknownContent"
    ),
    "elicitation": (
        "ElicitCompleteNotification ElicitCompleteNotificationParams ElicitRequest "
        "ElicitRequestFormParams ElicitRequestParams ElicitRequestURLParams ElicitRequestedSchema "
        "ElicitResult ElicitationCompleteNotification ElicitationCompleteNotificationParams"
    ),
    "errors": (
        "ElicitationRequiredErrorData HeaderMismatchError InternalError InvalidParamsError "
        "InvalidRequestError MethodNotFoundError MissingRequiredClientCapabilityError "
        "MissingRequiredClientCapabilityErrorData ParseError URLElicitationRequiredError "
        "UnsupportedProtocolVersionError UnsupportedProtocolVersionErrorData"
    ),
    "forms": (
        "BooleanSchema EnumItems EnumOption EnumSchema LegacyTitledEnumSchema MultiSelectEnumSchema "
        "NumberSchema PrimitiveSchemaDefinition SingleSelectEnumSchema StringSchema TitledEnumItems "
        "TitledMultiSelectEnumSchema TitledSingleSelectEnumSchema UntitledMultiSelectEnumSchema "
        "UntitledSingleSelectEnumSchema"
    ),
    "input_required": "InputRequest InputRequests InputRequiredResult InputResponse InputResponses",
    "jsonrpc": (
        "Error ErrorData JSONRPCBatchRequest JSONRPCBatchResponse JSONRPCError JSONRPCErrorResponse "
        "JSONRPCMessage JSONRPCNotification JSONRPCRequest JSONRPCResponse JSONRPCResultResponse "
        "JSONRPC_VERSION"
    ),
    "legacy": "Annotated",
    "lifecycle": ("DiscoverResult Implementation InitializeResult InitializedNotification PingRequest"),
    "logging": "LoggingMessageNotification LoggingMessageNotificationParams",
    "messages": (
        "CacheableResult EmptyResult Notification NotificationParams PaginatedResult Request "
        "RequestParams Result TaskAugmentedRequestParams TaskMetadata UnknownNotification UnknownRequest"
    ),
    "metadata": "Annotations BaseMetadata Icon Icons",
    "notifications": (
        "CancelledNotification CancelledNotificationParams ProgressNotification ProgressNotificationParams"
    ),
    "parsing": "parse_notification parse_server_request",
    "prompts": (
        "GetPromptResult ListPromptsResult Prompt PromptArgument PromptListChangedNotification PromptMessage"
    ),
    "resources": (
        "BlobResourceContents ListResourceTemplatesResult ListResourcesResult ReadResourceResult Resource "
        "ResourceContents ResourceListChangedNotification ResourceTemplate ResourceUpdatedNotification "
        "ResourceUpdatedNotificationParams TextResourceContents"
    ),
    "responses": (
        "CallToolResultResponse CompleteResultResponse DiscoverResultResponse GetPromptResultResponse "
        "ListPromptsResultResponse ListResourceTemplatesResultResponse ListResourcesResultResponse "
        "ListToolsResultResponse ReadResourceResultResponse SubscriptionsListenResultResponse"
    ),
    "roots": "ListRootsRequest ListRootsResult Root RootsListChangedNotification",
    "sampling": (
        "CreateMessageRequest CreateMessageRequestParams CreateMessageResult CreateMessageResultWithTools "
        "ModelHint ModelPreferences SamplingMessage ToolChoice"
    ),
    "scalars": (
        "CLIENT_CAPABILITIES_META_KEY CLIENT_INFO_META_KEY Cursor IconTheme IncludeContext JSONArray "
        "JSONObject JSONValue LOG_LEVEL_META_KEY LoggingLevel MetaObject NotificationMetaObject Number "
        "PROTOCOL_VERSION_META_KEY ProgressToken RELATED_TASK_META_KEY RequestId RequestMetaObject "
        "ResultMetaObject ResultType Role SERVER_INFO_META_KEY SUBSCRIPTION_ID_META_KEY StopReason "
        "SubscriptionsListenResultMetaObject TaskStatus"
    ),
    "subscriptions": (
        "SubscriptionFilter SubscriptionsAcknowledgedNotification "
        "SubscriptionsAcknowledgedNotificationParams SubscriptionsListenResult"
    ),
    "tasks": (
        "CancelTaskRequest CancelTaskRequestParams CancelTaskResult CreateTaskResult "
        "GetTaskPayloadRequest GetTaskPayloadRequestParams GetTaskPayloadResult GetTaskRequest "
        "GetTaskRequestParams GetTaskResult ListTasksRequest ListTasksRequestParams ListTasksResult "
        "RelatedTaskMetadata Task TaskStatusNotification TaskStatusNotificationParams"
    ),
    "tools": (
        "CallToolResult ListToolsResult Tool ToolAnnotations ToolExecution ToolListChangedNotification"
    ),
    "unions": ("ClientNotification ClientRequest ClientResult ServerNotification ServerRequest ServerResult"),
}
_HOME = {name: submodule for submodule, names in _NAMES.items() for name in names.split()}

if not TYPE_CHECKING:
    # Type checkers take the names from the star imports above; a computed list would hide them.
    # At run time a star import must not replace typing.Annotated.
    __all__ = sorted(_HOME.keys() - {"Annotated"})


def __getattr__(name: str) -> Any:
    submodule = _HOME.get(name)
    if submodule is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with no_fork():
        value = getattr(import_module(f"{__name__}.{submodule}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
