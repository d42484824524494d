"""Successful responses, as whole messages (all areas).

The client hands out results without their envelope. These models are for programs that handle whole
messages, such as gateways, recorders and tests; they stand apart so that nobody else has to load them.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar, Union

from pydantic import Discriminator, Tag

from mcp_sync.types.completion import CompleteResult
from mcp_sync.types.input_required import InputRequiredResult
from mcp_sync.types.jsonrpc import JSONRPCResultResponse
from mcp_sync.types.lifecycle import DiscoverResult
from mcp_sync.types.prompts import GetPromptResult, ListPromptsResult
from mcp_sync.types.resources import ListResourcesResult, ListResourceTemplatesResult, ReadResourceResult
from mcp_sync.types.subscriptions import SubscriptionsListenResult
from mcp_sync.types.tools import CallToolResult, ListToolsResult

__all__ = [
    "CallToolResultResponse",
    "CompleteResultResponse",
    "DiscoverResultResponse",
    "GetPromptResultResponse",
    "ListPromptsResultResponse",
    "ListResourceTemplatesResultResponse",
    "ListResourcesResultResponse",
    "ListToolsResultResponse",
    "ReadResourceResultResponse",
    "SubscriptionsListenResultResponse",
]

R = TypeVar("R")


def _kind(result: Any) -> str:
    if isinstance(result, dict):
        kind = result.get("resultType", result.get("result_type"))
    else:
        kind = getattr(result, "result_type", None)
    return "input" if kind == "input_required" else "done"


_DoneOrInput = Annotated[
    Union[Annotated[R, Tag("done")], Annotated[InputRequiredResult, Tag("input")]],
    Discriminator(_kind),
]


class DiscoverResultResponse(JSONRPCResultResponse):
    """Response to `server/discover`."""

    result: DiscoverResult


class ListToolsResultResponse(JSONRPCResultResponse):
    """Response to `tools/list`."""

    result: ListToolsResult


class CallToolResultResponse(JSONRPCResultResponse):
    """Response to `tools/call`."""

    result: _DoneOrInput[CallToolResult]


class ListResourcesResultResponse(JSONRPCResultResponse):
    """Response to `resources/list`."""

    result: ListResourcesResult


class ListResourceTemplatesResultResponse(JSONRPCResultResponse):
    """Response to `resources/templates/list`."""

    result: ListResourceTemplatesResult


class ReadResourceResultResponse(JSONRPCResultResponse):
    """Response to `resources/read`."""

    result: _DoneOrInput[ReadResourceResult]


class ListPromptsResultResponse(JSONRPCResultResponse):
    """Response to `prompts/list`."""

    result: ListPromptsResult


class GetPromptResultResponse(JSONRPCResultResponse):
    """Response to `prompts/get`."""

    result: _DoneOrInput[GetPromptResult]


class CompleteResultResponse(JSONRPCResultResponse):
    """Response to `completion/complete`."""

    result: CompleteResult


class SubscriptionsListenResultResponse(JSONRPCResultResponse):
    """Response to `subscriptions/listen`, when the server ends it."""

    result: SubscriptionsListenResult
