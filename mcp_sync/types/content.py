"""Content blocks: what tools return, prompts hold and models say (server/tools, server/prompts)."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Union

from mcp_sync.types._base import WireModel
from mcp_sync.types._binary import decode_base64, encode_base64
from mcp_sync.types._lenient import Entries, Kept, KnownOr, Lenient
from mcp_sync.types.metadata import Annotations
from mcp_sync.types.resources import AnyResourceContents, Resource

__all__ = [
    "AudioContent",
    "Content",
    "ContentBlock",
    "EmbeddedResource",
    "ImageContent",
    "ResourceLink",
    "SamplingContent",
    "SamplingMessageContentBlock",
    "TextContent",
    "ToolResultContent",
    "ToolUseContent",
    "UnknownContent",
]


class TextContent(WireModel):
    """Text.

    Attributes:
        annotations: Hints about its audience.
        meta: Metadata, on the wire `_meta`.
    """

    type: Literal["text"] = "text"
    text: str
    annotations: Lenient[Annotations] = None
    meta: Lenient[dict[str, Any]] = None


class ImageContent(WireModel):
    """An image.

    Attributes:
        data: The image in base64; `as_bytes()` decodes it.
        mime_type: Such as `image/png`.
    """

    type: Literal["image"] = "image"
    data: str
    mime_type: str
    annotations: Lenient[Annotations] = None
    meta: Lenient[dict[str, Any]] = None

    @classmethod
    def from_bytes(cls, data: bytes, mime_type: str) -> ImageContent:
        """Make an image from its bytes."""
        return cls(data=encode_base64(data), mime_type=mime_type)

    def as_bytes(self) -> bytes:
        """Decode the image.

        Raises:
            ValueError: The server sent something that is not base64.
        """
        return decode_base64(self.data)


class AudioContent(WireModel):
    """A sound.

    Attributes:
        data: The sound in base64; `as_bytes()` decodes it.
        mime_type: Such as `audio/wav`.
    """

    type: Literal["audio"] = "audio"
    data: str
    mime_type: str
    annotations: Lenient[Annotations] = None
    meta: Lenient[dict[str, Any]] = None

    @classmethod
    def from_bytes(cls, data: bytes, mime_type: str) -> AudioContent:
        """Make a sound from its bytes."""
        return cls(data=encode_base64(data), mime_type=mime_type)

    def as_bytes(self) -> bytes:
        """Decode the sound.

        Raises:
            ValueError: The server sent something that is not base64.
        """
        return decode_base64(self.data)


class ResourceLink(Resource):
    """A resource that the server can read, named but not included."""

    type: Literal["resource_link"] = "resource_link"


class EmbeddedResource(WireModel):
    """The contents of a resource, included."""

    type: Literal["resource"] = "resource"
    resource: AnyResourceContents
    annotations: Lenient[Annotations] = None
    meta: Lenient[dict[str, Any]] = None


class UnknownContent(WireModel):
    """A block of a kind that is not known here, or one that does not have the shape of its kind.

    All its fields are readable as attributes, by the names they have on the wire.
    """

    _always_sent: ClassVar[frozenset[str]] = frozenset()

    type: Kept[str] = ""


ContentBlock = Annotated[
    Union[TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource, UnknownContent],
    KnownOr("type"),
]
"""A piece of a tool's result or of a prompt."""

Content = ContentBlock

ContentBlocks = Annotated[list[ContentBlock], Entries("content block")]


class ToolUseContent(WireModel):
    """A model's wish to call a tool (client/sampling, since 2025-11-25).

    Attributes:
        id: Ties the result of the call to this wish.
        name: The tool.
        input: Its arguments.
    """

    type: Literal["tool_use"] = "tool_use"
    id: str
    name: str
    input: dict[str, Any]
    meta: Lenient[dict[str, Any]] = None


class ToolResultContent(WireModel):
    """What a tool answered, given to a model (client/sampling, since 2025-11-25).

    Attributes:
        tool_use_id: The `id` of the wish that this answers.
        structured_content: The result as a JSON value.
        is_error: Whether the tool failed.
    """

    type: Literal["tool_result"] = "tool_result"
    tool_use_id: str
    content: ContentBlocks
    structured_content: Any = None
    is_error: Lenient[bool] = None
    meta: Lenient[dict[str, Any]] = None


SamplingMessageContentBlock = Annotated[
    Union[TextContent, ImageContent, AudioContent, ToolUseContent, ToolResultContent, UnknownContent],
    KnownOr("type"),
]
"""A piece of a message to or from a model."""

SamplingContent = SamplingMessageContentBlock
