"""Prompts: templates of messages that a server offers (server/prompts)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Optional

from mcp_sync._concurrency.fork import no_fork
from mcp_sync.types._base import WireModel
from mcp_sync.types._contents import Contents
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


class GetPromptResult(Contents, Result):
    """The answer to `prompts/get`: the messages, with the arguments filled in."""

    description: Lenient[str] = None
    messages: list[PromptMessage]

    @property
    def text(self) -> str:
        """The text of all textual messages, joined by line breaks."""
        return "\n".join(each.content.text for each in self.messages if isinstance(each.content, TextContent))

    def _content_blocks(self) -> Iterable[Any]:
        return [message.content for message in self.messages]


class ListPromptsResult(PaginatedResult, CacheableResult):
    """One page of `prompts/list`. Entries without a usable name are dropped with a warning."""

    prompts: Annotated[list[Prompt], Entries("prompt")]

    def _repr_html_(self) -> str:
        """Return the list for a notebook."""
        with no_fork():
            from mcp_sync.types._html import list_html
        return list_html(self.prompts, "name")


class PromptListChangedNotification(Notification):
    """The list of prompts has changed."""

    method: Literal["notifications/prompts/list_changed"] = "notifications/prompts/list_changed"
    params: Optional[NotificationParams] = None
