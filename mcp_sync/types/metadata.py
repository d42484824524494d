"""Names, titles, icons and annotations, which many models share."""

from __future__ import annotations

from mcp_sync.types._base import WireModel
from mcp_sync.types._lenient import Lenient
from mcp_sync.types.scalars import IconTheme, Number, Role

__all__ = ["Annotations", "BaseMetadata", "Icon", "Icons"]


class Annotations(WireModel):
    """Hints about who or what a piece of content is for (server/resources, annotations).

    Attributes:
        audience: Who should see it.
        priority: From 0 (optional) to 1 (practically required).
        last_modified: When it changed last, as an ISO 8601 string.
    """

    audience: Lenient[list[Role]] = None
    priority: Lenient[Number] = None
    last_modified: Lenient[str] = None


class Icon(WireModel):
    """An image to show beside a name (basic, icons). Untrusted: it comes from the server.

    Attributes:
        src: An `https:` or `data:` URI.
        sizes: Sizes such as `48x48`, or `any` for a scalable image.
    """

    src: str
    mime_type: Lenient[str] = None
    sizes: Lenient[list[str]] = None
    theme: Lenient[IconTheme] = None


class Icons(WireModel):
    """Base of models with icons."""

    icons: Lenient[list[Icon]] = None


class BaseMetadata(WireModel):
    """Base of models with a name.

    Attributes:
        name: The name that programs use.
        title: The name that people read; where it is missing, `name` serves.
    """

    name: str
    title: Lenient[str] = None
