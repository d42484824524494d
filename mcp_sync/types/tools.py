"""Tools: what a server can do for its clients (server/tools)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Optional

from pydantic import Field, InstanceOf, ValidationInfo
from pydantic_core import PydanticCustomError

from mcp_sync._concurrency.fork import no_fork
from mcp_sync.types._base import WireModel
from mcp_sync.types._contents import Contents
from mcp_sync.types._lenient import Entries, Kept, Lenient, OrElse, is_built_by_hand, or_default, refuse
from mcp_sync.types.content import ContentBlocks, TextContent
from mcp_sync.types.messages import CacheableResult, Notification, NotificationParams, PaginatedResult, Result
from mcp_sync.types.metadata import BaseMetadata, Icons

__all__ = [
    "CallToolResult",
    "ListToolsResult",
    "Tool",
    "ToolAnnotations",
    "ToolExecution",
    "ToolListChangedNotification",
]


class ToolAnnotations(WireModel):
    """What a server says about the behaviour of a tool. Hints only: the server may be wrong or lie.

    Attributes:
        title: A name for people.
        read_only_hint: The tool changes nothing (default: it may).
        destructive_hint: Its changes may destroy something (default: they may).
        idempotent_hint: Calling it twice with the same arguments is like calling it once (default: no).
        open_world_hint: It reaches beyond a closed set of things (default: it does).
    """

    title: Lenient[str] = None
    read_only_hint: Lenient[bool] = None
    destructive_hint: Lenient[bool] = None
    idempotent_hint: Lenient[bool] = None
    open_world_hint: Lenient[bool] = None


class ToolExecution(WireModel):
    """How a tool is run (2025-11-25).

    Attributes:
        task_support: Whether it may, must or cannot run as a task; absent means it cannot.
    """

    task_support: Lenient[Literal["forbidden", "optional", "required"]] = None


class Tool(BaseMetadata, Icons):
    """A tool that a server offers.

    Attributes:
        name: The name to call it by.
        input_schema: JSON Schema of its arguments, as the server sent it; empty when it sent none. Not a
            copy, where it was given.
        output_schema: JSON Schema of its structured result, likewise.
        annotations: Hints about its behaviour.
    """

    description: Lenient[str] = None
    input_schema: Annotated[InstanceOf[dict[str, Any]], or_default(dict)] = Field(
        default=None, validate_default=True
    )
    output_schema: Lenient[InstanceOf[dict[str, Any]]] = None
    annotations: Lenient[ToolAnnotations] = None
    execution: Lenient[ToolExecution] = None
    meta: Lenient[dict[str, Any]] = None

    def _repr_html_(self) -> str:
        """Return the tool for a notebook."""
        with no_fork():
            from mcp_sync.types._html import tool_html
        return tool_html(self)


class ListToolsResult(PaginatedResult, CacheableResult):
    """One page of `tools/list`. Entries without a usable name are dropped with a warning."""

    tools: Annotated[list[Tool], Entries("tool")]

    def _repr_html_(self) -> str:
        """Return the list for a notebook."""
        with no_fork():
            from mcp_sync.types._html import list_html
        return list_html(self.tools, "name")


def _empty_if_structured(value: Any, info: ValidationInfo) -> Any:
    if value is not None:
        raise refuse()
    if is_built_by_hand(info) or info.data.get("structured_content") is None:
        raise PydanticCustomError("missing", "Field required")
    return []


class CallToolResult(Contents, Result):
    """What a tool returned.

    Attributes:
        content: The result as blocks of text, images and so on.
        structured_content: The result as a JSON value: an object until 2025-11-25, any value since.
        is_error: The tool ran and failed; `content` says why.
    """

    structured_content: Any = None
    content: Annotated[ContentBlocks, OrElse(_empty_if_structured)] = Field(
        default=None, validate_default=True
    )
    is_error: Kept[bool] = False

    @property
    def text(self) -> str:
        """The text of all text blocks, joined by line breaks."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextContent))

    def _content_blocks(self) -> Iterable[Any]:
        return self.content


class ToolListChangedNotification(Notification):
    """The list of tools has changed."""

    method: Literal["notifications/tools/list_changed"] = "notifications/tools/list_changed"
    params: Optional[NotificationParams] = None
