"""Prompts: templates of messages that a server offers (server/prompts)."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Optional

from mcp_sync.types._base import WireModel
from mcp_sync.types._lenient import Entries, Kept, Lenient
from mcp_sync.types.content import ContentBlock, TextContent
from mcp_sync.types.messages import CacheableResult, Notification, NotificationParams, PaginatedResult, Result
from mcp_sync.types.metadata import BaseMetadata, Icons
from mcp_sync.types.scalars import Role

__all__ = [
    "GetPromptResult",
    "ListPromptsResult",
    "Prompt",
    "PromptArgument",
    "PromptListChangedNotification",
    "PromptMessage",
]


class PromptArgument(BaseMetadata):
    """An argument of a prompt.

    Attributes:
        required: Whether it must be given (default: no).
    """

    description: Lenient[str] = None
    required: Lenient[bool] = None


class Prompt(BaseMetadata, Icons):
    """A prompt that a server offers."""

    description: Lenient[str] = None
    arguments: Lenient[list[PromptArgument]] = None
    meta: Lenient[dict[str, Any]] = None


class PromptMessage(WireModel):
    """One message of a prompt."""

    role: Kept[Role]
    content: ContentBlock


class GetPromptResult(Result):
    """The answer to `prompts/get`: the messages, with the arguments filled in."""

    description: Lenient[str] = None
    messages: list[PromptMessage]

    @property
    def text(self) -> str:
        """The text of all textual messages, joined by line breaks."""
        return "\n".join(each.content.text for each in self.messages if isinstance(each.content, TextContent))


class ListPromptsResult(PaginatedResult, CacheableResult):
    """One page of `prompts/list`. Entries without a usable name are dropped with a warning."""

    prompts: Annotated[list[Prompt], Entries("prompt")]


class PromptListChangedNotification(Notification):
    """The list of prompts has changed."""

    method: Literal["notifications/prompts/list_changed"] = "notifications/prompts/list_changed"
    params: Optional[NotificationParams] = None
