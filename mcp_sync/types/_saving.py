"""Writes the content of a result into a folder: all of it or nothing, and nothing beside it."""

from __future__ import annotations

import os
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Union

from mcp_sync.errors import FolderRefused, UsageError
from mcp_sync.types._binary import decode_base64
from mcp_sync.types._contents import resources_in
from mcp_sync.types._file_names import file_name, name_of_uri

__all__ = ["save"]


class Item(NamedTuple):
    """What becomes a file."""

    name: str
    data: Union[str, bytes]

    @property
    def size(self) -> int:
        """About how large the file becomes, before anything is decoded."""
        return len(self.data) if isinstance(self.data, bytes) else len(self.data) * 3 // 4

    def as_bytes(self) -> bytes:
        """Return what is written."""
        return self.data if isinstance(self.data, bytes) else decode_base64(self.data)


def save(
    blocks: Iterable[Any], folder: Union[str, os.PathLike[str]], limit: int, overwrite: bool
) -> list[Path]:
    """Do what `Contents.save` documents."""
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 0:
        raise UsageError(f"limit is a number of bytes, not {limit!r}")
    place = Path(folder)
    items = list(_items(blocks))
    # With what base64 may need for its ends and line breaks; the exact size is looked at below.
    if sum(item.size for item in items) > limit * 1.05 + 1024:
        raise FolderRefused(f"the result is larger than {limit} bytes: raise limit=", path=str(place))
    files = [(place / name, item.as_bytes()) for name, item in _named(items)]
    if sum(len(data) for _, data in files) > limit:
        raise FolderRefused(f"the result is larger than {limit} bytes: raise limit=", path=str(place))
    _check(place, [path for path, _ in files], overwrite)
    return _write(place, files, overwrite)


def _items(blocks: Iterable[Any]) -> Iterator[Item]:
    counts: Counter[str] = Counter()
    for block in blocks:
        kind = getattr(block, "type", "")
        if kind in ("image", "audio") and isinstance(getattr(block, "data", None), str):
            counts[kind] += 1
            name = file_name(f"{kind}-{counts[kind]}", getattr(block, "mime_type", None), False)
            yield Item(name, block.data)
        for resource in resources_in([block]):
            counts["resource"] += 1
            wish = name_of_uri(str(resource.uri)) or f"resource-{counts['resource']}"
            text, blob = getattr(resource, "text", None), getattr(resource, "blob", None)
            if isinstance(text, str):
                data = text.encode("utf-8", "surrogatepass")
                yield Item(file_name(wish, resource.mime_type, True), data)
            elif isinstance(blob, str):
                yield Item(file_name(wish, resource.mime_type, False), blob)


def _named(items: Iterable[Item]) -> Iterator[tuple[str, Item]]:
    """Give each its name; no two are the same on any system."""
    used: set[str] = set()
    for item in items:
        stem, dot, suffix = item.name.rpartition(".")
        name, number = item.name, 1
        while name.casefold() in used:
            number += 1
            name = f"{stem}-{number}{dot}{suffix}"
        used.add(name.casefold())
        yield name, item


def _check(folder: Path, paths: list[Path], overwrite: bool) -> None:
    if not folder.exists() and not folder.parent.is_dir():
        raise FolderRefused(f"{folder.parent} is no folder: make it first", path=str(folder))
    if folder.exists() and not folder.is_dir():
        raise FolderRefused(f"{folder} is no folder", path=str(folder))
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            raise FolderRefused(f"{path} is a folder", path=str(folder))
        if not overwrite and (path.exists() or path.is_symlink()):
            text = f"{path} is there already: name another folder, or overwrite=True"
            raise FolderRefused(text, path=str(folder))


def _write(folder: Path, files: list[tuple[Path, bytes]], overwrite: bool) -> list[Path]:
    """Write all files beside their places first, then put each into its place."""
    waiting: list[tuple[Path, Path]] = []
    placed: list[Path] = []
    try:
        try:
            folder.mkdir(exist_ok=True)
            for path, data in files:
                new = folder / f".new-{secrets.token_hex(8)}"
                waiting.append((new, path))
                # "x" makes a file, and follows no link.
                with open(new, "xb") as file:
                    file.write(data)
            for new, path in waiting:
                if not overwrite:
                    # Somebody else may have made it meanwhile: this fails then, and a renaming would not.
                    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                    placed.append(path)
                os.replace(new, path)
        except OSError as error:
            raise FolderRefused(f"nothing was saved in {folder}: {error}", path=str(folder)) from error
    except BaseException:
        for path in placed:
            path.unlink(missing_ok=True)
        raise
    finally:
        for new, _ in waiting:
            new.unlink(missing_ok=True)
    return [path for path, _ in files]
