"""What a download wrote into a folder, so that another one replaces that and nothing else."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

MANIFEST = ".mcp-sync-skill.json"


class Manifest:
    """The files of a download and their digests, as they are kept in the folder itself.

    Args:
        uri: The URI of the skill.
    """

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._digests: dict[str, str] = {}

    def add(self, path: str, data: bytes) -> None:
        """Note a file that was written."""
        self._digests[path] = _digest(data)

    def to_bytes(self) -> bytes:
        """Return it as it is written."""
        return json.dumps({"skill": self._uri, "files": self._digests}, indent=1).encode()


def foreign(folder: Path) -> Optional[str]:
    """Say what in a folder is not as a download left it, ``None`` if there is nothing of that kind.

    What is missing does not count: nothing is lost by it.

    Raises:
        OSError: It cannot be read.
    """
    if not any(folder.iterdir()):
        return None
    digests = _read(folder / MANIFEST)
    if digests is None:
        return f"it was not made by a download (it has no readable {MANIFEST})"
    folders = {str(parent) for path in digests for parent in Path(path).parents}
    for path, kind in _walk(folder):
        name = path.replace(os.sep, "/")
        if kind == "folder" and path in folders:
            continue
        if kind != "file" or name not in digests:
            return f"{name!r:.200} was added by somebody else"
        if _digest((folder / path).read_bytes()) != digests[name]:
            return f"{name!r:.200} was changed by somebody else"
    return None


def _read(path: Path) -> Optional[dict[str, Any]]:
    if path.is_symlink() or not path.is_file():
        return None
    try:
        digests = json.loads(path.read_bytes())["files"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return digests if isinstance(digests, dict) else None


def _walk(folder: Path) -> Iterator[tuple[str, str]]:
    """Give the path and the kind of all that is below a folder, but for the manifest. Follows no links."""
    waiting = [""]
    while waiting:
        inside = waiting.pop()
        with os.scandir(folder / inside) as entries:
            found = sorted(entries, key=lambda each: each.name)
        for entry in found:
            path = os.path.join(inside, entry.name)
            if entry.is_dir(follow_symlinks=False):
                waiting.append(path)
                yield path, "folder"
            elif path != MANIFEST:
                yield path, "file" if entry.is_file(follow_symlinks=False) else "other"


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
