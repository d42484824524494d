"""Codes of JSON-RPC errors (basic).

Codes from `-32000` to `-32019` belong to implementations and mean nothing by themselves.
"""

from __future__ import annotations

__all__ = [
    "CONNECTION_CLOSED",
    "HEADER_MISMATCH",
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "METHOD_NOT_FOUND",
    "MISSING_REQUIRED_CLIENT_CAPABILITY",
    "PARSE_ERROR",
    "REQUEST_TIMEOUT",
    "RESOURCE_NOT_FOUND",
    "UNSUPPORTED_PROTOCOL_VERSION",
    "URL_ELICITATION_REQUIRED",
]

PARSE_ERROR = -32700
"""The message is not JSON."""

INVALID_REQUEST = -32600
"""The message is JSON, but not a request."""

METHOD_NOT_FOUND = -32601
"""The peer does not have this method."""

INVALID_PARAMS = -32602
"""The parameters do not fit: an unknown tool, prompt or (since 2026-07-28) resource, a bad cursor."""

INTERNAL_ERROR = -32603
"""The peer failed by its own fault."""

HEADER_MISMATCH = -32020
"""HTTP headers and body contradict each other (since 2026-07-28)."""

MISSING_REQUIRED_CLIENT_CAPABILITY = -32021
"""The request needs something that the client did not say it can do (since 2026-07-28)."""

UNSUPPORTED_PROTOCOL_VERSION = -32022
"""The server does not speak this revision (since 2026-07-28)."""

RESOURCE_NOT_FOUND = -32002
"""There is no such resource (until 2025-11-25)."""

URL_ELICITATION_REQUIRED = -32042
"""The user has to visit a page first (2025-11-25 only)."""

CONNECTION_CLOSED = -32000
"""What the official Python SDK uses for a connection that is gone; never on the wire."""

REQUEST_TIMEOUT = -32001
"""What the official SDKs use for a request that took too long; never on the wire."""
