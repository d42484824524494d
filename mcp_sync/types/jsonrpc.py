"""JSON-RPC envelopes (basic).

The client reads and writes envelopes as plain dicts; these models are for programs that handle whole
messages, such as gateways and tests.
"""

from __future__ import annotations

from typing import Any, Optional, Union

from mcp_sync.types._base import WireModel
from mcp_sync.types.messages import Notification, Request, Result
from mcp_sync.types.scalars import RequestId

__all__ = [
    "JSONRPC_VERSION",
    "Error",
    "ErrorData",
    "JSONRPCBatchRequest",
    "JSONRPCBatchResponse",
    "JSONRPCError",
    "JSONRPCErrorResponse",
    "JSONRPCMessage",
    "JSONRPCNotification",
    "JSONRPCRequest",
    "JSONRPCResponse",
    "JSONRPCResultResponse",
]

JSONRPC_VERSION = "2.0"


class ErrorData(WireModel):
    """Why a request failed. A callback may return one to refuse a request of the server.

    Attributes:
        code: Kind of the error, see `mcp_sync.types.codes`.
        message: One short sentence.
        data: Anything else that the sender wants to tell.
    """

    code: int
    message: str
    data: Any = None


Error = ErrorData


class JSONRPCRequest(Request):
    """A request with its identifier."""

    id: RequestId
    params: Optional[dict[str, Any]] = None


class JSONRPCNotification(Notification):
    """A notification of any method."""

    params: Optional[dict[str, Any]] = None


class JSONRPCResultResponse(WireModel):
    """The answer to a request that succeeded."""

    jsonrpc: str = "2.0"
    id: RequestId
    result: Result


class JSONRPCErrorResponse(WireModel):
    """The answer to a request that failed.

    Attributes:
        id: The request; `None` when the peer could not read it.
    """

    jsonrpc: str = "2.0"
    id: Optional[RequestId] = None
    error: ErrorData


JSONRPCError = JSONRPCErrorResponse
JSONRPCResponse = Union[JSONRPCResultResponse, JSONRPCErrorResponse]
JSONRPCBatchRequest = list[Union[JSONRPCRequest, JSONRPCNotification]]
"""Several messages in one, only in revision 2025-03-26."""
JSONRPCBatchResponse = list[JSONRPCResponse]
"""Several answers in one, only in revision 2025-03-26."""
JSONRPCMessage = Union[JSONRPCRequest, JSONRPCNotification, JSONRPCResultResponse, JSONRPCErrorResponse]
