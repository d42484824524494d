"""What results with content have in common: their images, sounds, resources and links; files; HTML."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Union

from mcp_sync._concurrency.fork import no_fork

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_sync.types.content import AudioContent, ImageContent, ResourceLink
    from mcp_sync.types.resources import ResourceContents

__all__ = ["Contents", "resources_in"]

# How much `save` writes at most, in bytes.
SAVE_LIMIT = 100 * 1024 * 1024


class Contents:
    """A result whose content can be taken apart and saved."""

    def _content_blocks(self) -> Iterable[Any]:
        """Give all content blocks, and bare contents of resources."""
        raise NotImplementedError

    @property
    def images(self) -> list[ImageContent]:
        """All images, those of embedded resources too; ``as_bytes()`` decodes one."""
        from mcp_sync.types.content import ImageContent

        return list(_media(self._content_blocks(), ImageContent, "image/"))

    @property
    def audio(self) -> list[AudioContent]:
        """All sounds, those of embedded resources too; ``as_bytes()`` decodes one."""
        from mcp_sync.types.content import AudioContent

        return list(_media(self._content_blocks(), AudioContent, "audio/"))

    @property
    def resources(self) -> list[ResourceContents]:
        """The contents of all resources that are included; blobs have ``as_bytes()``."""
        return list(resources_in(self._content_blocks()))

    @property
    def links(self) -> list[ResourceLink]:
        """The resources that are named, but not included: ``client.read_resource(link.uri)`` reads one."""
        from mcp_sync.types.content import ResourceLink

        return [block for block in self._content_blocks() if isinstance(block, ResourceLink)]

    def save(
        self, folder: Union[str, os.PathLike[str]], *, limit: int = SAVE_LIMIT, overwrite: bool = False
    ) -> list[Path]:
        """Write images, sounds and included resources into a folder, and return the files.

        The names are made safe: they come from the URIs of resources, or are ``image-1.png`` and so on, lead
        nowhere else, and end as the MIME type says (``.bin`` or ``.txt`` if it is not known). Text blocks are
        not saved: see ``text``.

        Args:
            folder: Is made if it is not there, but its parent has to be.
            limit: How many bytes may be written in all.
            overwrite: Whether files that are there already are replaced.

        Raises:
            FolderRefused: A file is there already, the limit is passed, or the system does not let it.
                Nothing new was left there.
            ValueError: The server sent something that is not base64.
        """
        with no_fork():
            from mcp_sync.types._saving import save
        return save(self._content_blocks(), folder, limit, overwrite)

    def _repr_html_(self) -> str:
        """Return the result for a notebook; nothing that a server sent is run there."""
        with no_fork():
            from mcp_sync.types._html import result_html
        return result_html(self, self._content_blocks())


def resources_in(blocks: Iterable[Any]) -> Iterator[Any]:
    """Give the contents of resources among blocks."""
    from mcp_sync.types.content import EmbeddedResource
    from mcp_sync.types.resources import ResourceContents

    for block in blocks:
        if isinstance(block, EmbeddedResource):
            yield block.resource
        elif isinstance(block, ResourceContents):
            yield block


def _media(blocks: Iterable[Any], kind: Any, prefix: str) -> Iterator[Any]:
    for block in blocks:
        if isinstance(block, kind):
            yield block
            continue
        for resource in resources_in([block]):
            mime_type = (resource.mime_type or "").lower()
            blob = getattr(resource, "blob", None)
            if isinstance(blob, str) and mime_type.startswith(prefix):
                yield kind(data=blob, mime_type=mime_type)
