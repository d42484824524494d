"""Errors of the specification, as they look on the wire (basic).

The codes are in `mcp_sync.types.codes`. The exceptions that a call raises are in `mcp_sync.errors`.
"""

from __future__ import annotations

from typing import Literal

from mcp_sync.types._base import WireModel
from mcp_sync.types.capabilities import ClientCapabilities
from mcp_sync.types.elicitation import ElicitRequestURLParams
from mcp_sync.types.jsonrpc import ErrorData, JSONRPCErrorResponse

__all__ = [
    "ElicitationRequiredErrorData",
    "HeaderMismatchError",
    "InternalError",
    "InvalidParamsError",
    "InvalidRequestError",
    "MethodNotFoundError",
    "MissingRequiredClientCapabilityError",
    "MissingRequiredClientCapabilityErrorData",
    "ParseError",
    "URLElicitationRequiredError",
    "UnsupportedProtocolVersionError",
    "UnsupportedProtocolVersionErrorData",
]


class ParseError(ErrorData):
    """The message is not JSON."""

    code: Literal[-32700] = -32700


class InvalidRequestError(ErrorData):
    """The message is not a request."""

    code: Literal[-32600] = -32600


class MethodNotFoundError(ErrorData):
    """The peer does not have this method."""

    code: Literal[-32601] = -32601


class InvalidParamsError(ErrorData):
    """The parameters do not fit."""

    code: Literal[-32602] = -32602


class InternalError(ErrorData):
    """The peer failed by its own fault."""

    code: Literal[-32603] = -32603


class _HeaderMismatch(ErrorData):
    code: Literal[-32020] = -32020


class HeaderMismatchError(JSONRPCErrorResponse):
    """HTTP headers and body contradict each other."""

    error: _HeaderMismatch


class UnsupportedProtocolVersionErrorData(WireModel):
    """Details of an unsupported revision.

    Attributes:
        supported: The revisions that the server speaks.
        requested: The one that the client asked for.
    """

    supported: list[str]
    requested: str


class _UnsupportedProtocolVersion(ErrorData):
    code: Literal[-32022] = -32022
    data: UnsupportedProtocolVersionErrorData


class UnsupportedProtocolVersionError(JSONRPCErrorResponse):
    """The server does not speak the revision of the request."""

    error: _UnsupportedProtocolVersion


class MissingRequiredClientCapabilityErrorData(WireModel):
    """Details of a missing capability."""

    required_capabilities: ClientCapabilities


class _MissingRequiredClientCapability(ErrorData):
    code: Literal[-32021] = -32021
    data: MissingRequiredClientCapabilityErrorData


class MissingRequiredClientCapabilityError(JSONRPCErrorResponse):
    """The request needs something that the client did not say it can do."""

    error: _MissingRequiredClientCapability


class ElicitationRequiredErrorData(WireModel):
    """Details of an elicitation that has to come first.

    Attributes:
        elicitations: The pages to visit before the request can succeed.
    """

    elicitations: list[ElicitRequestURLParams]


class _URLElicitationRequired(ErrorData):
    code: Literal[-32042] = -32042
    data: ElicitationRequiredErrorData


class URLElicitationRequiredError(JSONRPCErrorResponse):
    """The user has to visit a page first (2025-11-25)."""

    error: _URLElicitationRequired
