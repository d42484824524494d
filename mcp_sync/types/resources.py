"""Resources: what a server lets its clients read (server/resources)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Optional, Union

from pydantic import Field

from mcp_sync._concurrency.fork import no_fork
from mcp_sync.types._base import WireModel
from mcp_sync.types._binary import decode_base64, encode_base64
from mcp_sync.types._contents import Contents
from mcp_sync.types._lenient import Entries, Lenient, or_default
from mcp_sync.types.messages import CacheableResult, Notification, NotificationParams, PaginatedResult
from mcp_sync.types.metadata import Annotations, BaseMetadata, Icons
from mcp_sync.types.scalars import Number

__all__ = [
    "BlobResourceContents",
    "ListResourceTemplatesResult",
    "ListResourcesResult",
    "ReadResourceResult",
    "Resource",
    "ResourceContents",
    "ResourceListChangedNotification",
    "ResourceTemplate",
    "ResourceUpdatedNotification",
    "ResourceUpdatedNotificationParams",
    "TextResourceContents",
]


class Resource(BaseMetadata, Icons):
    """Something that a server can read out.

    Attributes:
        uri: Its address, kept letter by letter.
        name: Its name; empty when the server sent none.
        size: Size of the raw content in bytes.
        annotations: Hints about its audience.
    """

    name: Annotated[str, or_default(str)] = Field(default=None, validate_default=True)
    uri: str
    description: Lenient[str] = None
    mime_type: Lenient[str] = None
    size: Lenient[Number] = None
    annotations: Lenient[Annotations] = None
    meta: Lenient[dict[str, Any]] = None


class ResourceTemplate(BaseMetadata, Icons):
    """A family of resources.

    Attributes:
        uri_template: Template of their addresses (RFC 6570).
        name: Its name; empty when the server sent none.
        mime_type: Media type, where all of them have the same.
    """

    name: Annotated[str, or_default(str)] = Field(default=None, validate_default=True)
    uri_template: str
    description: Lenient[str] = None
    mime_type: Lenient[str] = None
    annotations: Lenient[Annotations] = None
    meta: Lenient[dict[str, Any]] = None


class ResourceContents(WireModel):
    """What was read; the base of the two kinds, and itself a kind that is not known here."""

    uri: str
    mime_type: Lenient[str] = None
    meta: Lenient[dict[str, Any]] = None


class TextResourceContents(ResourceContents):
    """Text that was read."""

    text: str


class BlobResourceContents(ResourceContents):
    """Bytes that were read.

    Attributes:
        blob: The bytes in base64; `as_bytes()` decodes them.
    """

    blob: str

    @classmethod
    def from_bytes(cls, uri: str, data: bytes, mime_type: str | None = None) -> BlobResourceContents:
        """Make the contents from bytes."""
        return cls(uri=uri, blob=encode_base64(data), mime_type=mime_type)

    def as_bytes(self) -> bytes:
        """Decode the blob.

        Raises:
            ValueError: The server sent something that is not base64.
        """
        return decode_base64(self.blob)


AnyResourceContents = Annotated[
    Union[TextResourceContents, BlobResourceContents, ResourceContents],
    Field(union_mode="left_to_right"),
]


class ReadResourceResult(Contents, CacheableResult):
    """The answer to `resources/read`: one or more pieces."""

    contents: list[AnyResourceContents]

    @property
    def text(self) -> str:
        """The text of all textual pieces, joined by line breaks."""
        return "\n".join(piece.text for piece in self.contents if isinstance(piece, TextResourceContents))

    def _content_blocks(self) -> Iterable[Any]:
        return self.contents


class ListResourcesResult(PaginatedResult, CacheableResult):
    """One page of `resources/list`. Entries without a `uri` are dropped with a warning."""

    resources: Annotated[list[Resource], Entries("resource")]

    def _repr_html_(self) -> str:
        """Return the list for a notebook."""
        with no_fork():
            from mcp_sync.types._html import list_html
        return list_html(self.resources, "uri")


class ListResourceTemplatesResult(PaginatedResult, CacheableResult):
    """One page of `resources/templates/list`. Entries without a `uriTemplate` are dropped with a warning."""

    resource_templates: Annotated[list[ResourceTemplate], Entries("resource template")]

    def _repr_html_(self) -> str:
        """Return the list for a notebook."""
        with no_fork():
            from mcp_sync.types._html import list_html
        return list_html(self.resource_templates, "uri_template")


class ResourceListChangedNotification(Notification):
    """The list of resources has changed."""

    method: Literal["notifications/resources/list_changed"] = "notifications/resources/list_changed"
    params: Optional[NotificationParams] = None


class ResourceUpdatedNotificationParams(NotificationParams):
    """Parameters of `notifications/resources/updated`.

    Attributes:
        uri: What has changed; may be a part of the resource that was subscribed to.
    """

    uri: str


class ResourceUpdatedNotification(Notification):
    """A resource has changed and may be read again."""

    method: Literal["notifications/resources/updated"] = "notifications/resources/updated"
    params: ResourceUpdatedNotificationParams
