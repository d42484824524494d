"""How client and server get to know each other (basic/lifecycle, server/discover)."""

from __future__ import annotations

from typing import Annotated, Literal, Optional

from pydantic import Field

from mcp_sync.types._lenient import Lenient, or_default
from mcp_sync.types.capabilities import ServerCapabilities
from mcp_sync.types.messages import (
    CacheableResult,
    Notification,
    NotificationParams,
    Request,
    RequestParams,
    Result,
)
from mcp_sync.types.metadata import BaseMetadata, Icons

__all__ = [
    "DiscoverResult",
    "Implementation",
    "InitializeResult",
    "InitializedNotification",
    "PingRequest",
]


class Implementation(BaseMetadata, Icons):
    """The software at one end. It describes itself; do not base decisions of security on it.

    Attributes:
        name: Its name; empty when the peer sent none.
        version: Its version; empty when the peer sent none.
        website_url: A page about it.
    """

    name: Annotated[str, or_default(str)] = Field(default=None, validate_default=True)
    version: Annotated[str, or_default(str)] = Field(default=None, validate_default=True)
    description: Lenient[str] = None
    website_url: Lenient[str] = None


class InitializeResult(Result):
    """The answer to `initialize` (until 2025-11-25).

    Attributes:
        protocol_version: The revision that the server wants to speak.
        capabilities: What the server can do.
        server_info: Its software.
        instructions: How to use the server, for a model or a person.
    """

    protocol_version: str
    capabilities: ServerCapabilities
    server_info: Implementation
    instructions: Lenient[str] = None


class InitializedNotification(Notification):
    """The client is ready (until 2025-11-25)."""

    method: Literal["notifications/initialized"] = "notifications/initialized"
    params: Optional[NotificationParams] = None


class DiscoverResult(CacheableResult):
    """The answer to `server/discover` (since 2026-07-28).

    Attributes:
        supported_versions: The revisions that the server speaks.
        capabilities: What the server can do.
        instructions: How to use the server, for a model or a person.
    """

    supported_versions: list[str]
    capabilities: ServerCapabilities
    instructions: Lenient[str] = None


class PingRequest(Request):
    """Asks whether the peer is there (until 2025-11-25)."""

    method: Literal["ping"] = "ping"
    params: Optional[RequestParams] = None
