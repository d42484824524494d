"""The requests of a client, as whole messages (all areas).

The client itself writes its requests as plain dicts. These models are for programs that handle whole
messages, such as gateways, recorders and tests; they stand apart so that nobody else has to load them.
"""

from __future__ import annotations

from typing import Any, Literal, Optional, Union

from mcp_sync.types.capabilities import ClientCapabilities
from mcp_sync.types.completion import (
    CompletionArgument,
    CompletionContext,
    PromptReference,
    ResourceTemplateReference,
)
from mcp_sync.types.lifecycle import Implementation
from mcp_sync.types.messages import Request, RequestParams, TaskAugmentedRequestParams
from mcp_sync.types.scalars import Cursor, LoggingLevel
from mcp_sync.types.subscriptions import SubscriptionFilter

__all__ = [
    "CallToolRequest",
    "CallToolRequestParams",
    "CompleteRequest",
    "CompleteRequestParams",
    "DiscoverRequest",
    "GetPromptRequest",
    "GetPromptRequestParams",
    "InitializeRequest",
    "InitializeRequestParams",
    "InputResponseRequestParams",
    "ListPromptsRequest",
    "ListResourceTemplatesRequest",
    "ListResourcesRequest",
    "ListToolsRequest",
    "PaginatedRequest",
    "PaginatedRequestParams",
    "ReadResourceRequest",
    "ReadResourceRequestParams",
    "ResourceRequestParams",
    "SetLevelRequest",
    "SetLevelRequestParams",
    "SubscribeRequest",
    "SubscribeRequestParams",
    "SubscriptionsListenRequest",
    "SubscriptionsListenRequestParams",
    "UnsubscribeRequest",
    "UnsubscribeRequestParams",
]


class PaginatedRequestParams(RequestParams):
    """Parameters of a list request (server/utilities/pagination).

    Attributes:
        cursor: Where to go on: the `next_cursor` of the page before. `None` asks for the first page.
    """

    cursor: Optional[Cursor] = None


class PaginatedRequest(Request):
    """Asks for one page of a list."""

    params: Optional[PaginatedRequestParams] = None


class InputResponseRequestParams(RequestParams):
    """Parameters of a request that may be repeated with answers (since 2026-07-28).

    Attributes:
        input_responses: The answer to each input request, under its key.
        request_state: The server's state, given back as it came.
    """

    input_responses: Optional[dict[str, Any]] = None
    request_state: Optional[str] = None


class InitializeRequestParams(RequestParams):
    """Parameters of `initialize`.

    Attributes:
        protocol_version: The newest revision that the client speaks.
        capabilities: What the client can do.
        client_info: Its software.
    """

    protocol_version: str
    capabilities: ClientCapabilities
    client_info: Implementation


class InitializeRequest(Request):
    """Begins a session (until 2025-11-25)."""

    method: Literal["initialize"] = "initialize"
    params: InitializeRequestParams


class DiscoverRequest(Request):
    """Asks what the server speaks and can do (since 2026-07-28)."""

    method: Literal["server/discover"] = "server/discover"
    params: Optional[RequestParams] = None


class ListToolsRequest(PaginatedRequest):
    """Asks for one page of the list of tools."""

    method: Literal["tools/list"] = "tools/list"


class CallToolRequestParams(InputResponseRequestParams, TaskAugmentedRequestParams):
    """Parameters of `tools/call`."""

    name: str
    arguments: Optional[dict[str, Any]] = None


class CallToolRequest(Request):
    """Calls a tool."""

    method: Literal["tools/call"] = "tools/call"
    params: CallToolRequestParams


class ListResourcesRequest(PaginatedRequest):
    """Asks for one page of the list of resources."""

    method: Literal["resources/list"] = "resources/list"


class ListResourceTemplatesRequest(PaginatedRequest):
    """Asks for one page of the list of resource templates."""

    method: Literal["resources/templates/list"] = "resources/templates/list"


class ResourceRequestParams(RequestParams):
    """Parameters of a request about one resource."""

    uri: str


class ReadResourceRequestParams(ResourceRequestParams, InputResponseRequestParams):
    """Parameters of `resources/read`."""


class ReadResourceRequest(Request):
    """Reads a resource."""

    method: Literal["resources/read"] = "resources/read"
    params: ReadResourceRequestParams


class SubscribeRequestParams(ResourceRequestParams):
    """Parameters of `resources/subscribe`."""


class SubscribeRequest(Request):
    """Asks to be told when a resource changes (until 2025-11-25)."""

    method: Literal["resources/subscribe"] = "resources/subscribe"
    params: SubscribeRequestParams


class UnsubscribeRequestParams(ResourceRequestParams):
    """Parameters of `resources/unsubscribe`."""


class UnsubscribeRequest(Request):
    """Ends a subscription (until 2025-11-25)."""

    method: Literal["resources/unsubscribe"] = "resources/unsubscribe"
    params: UnsubscribeRequestParams


class SubscriptionsListenRequestParams(RequestParams):
    """Parameters of `subscriptions/listen`.

    Attributes:
        notifications: What the client wants to be told.
    """

    notifications: SubscriptionFilter


class SubscriptionsListenRequest(Request):
    """Opens a stream of notifications (since 2026-07-28)."""

    method: Literal["subscriptions/listen"] = "subscriptions/listen"
    params: SubscriptionsListenRequestParams


class ListPromptsRequest(PaginatedRequest):
    """Asks for one page of the list of prompts."""

    method: Literal["prompts/list"] = "prompts/list"


class GetPromptRequestParams(InputResponseRequestParams):
    """Parameters of `prompts/get`."""

    name: str
    arguments: Optional[dict[str, str]] = None


class GetPromptRequest(Request):
    """Asks for a prompt with its arguments filled in."""

    method: Literal["prompts/get"] = "prompts/get"
    params: GetPromptRequestParams


class CompleteRequestParams(RequestParams):
    """Parameters of `completion/complete`.

    Attributes:
        ref: The prompt or resource template.
        argument: The argument to complete.
        context: What is filled in already.
    """

    ref: Union[PromptReference, ResourceTemplateReference]
    argument: CompletionArgument
    context: Optional[CompletionContext] = None


class CompleteRequest(Request):
    """Asks for suggestions."""

    method: Literal["completion/complete"] = "completion/complete"
    params: CompleteRequestParams


class SetLevelRequestParams(RequestParams):
    """Parameters of `logging/setLevel`."""

    level: LoggingLevel


class SetLevelRequest(Request):
    """Sets the lowest level that the server sends (until 2025-11-25)."""

    method: Literal["logging/setLevel"] = "logging/setLevel"
    params: SetLevelRequestParams
