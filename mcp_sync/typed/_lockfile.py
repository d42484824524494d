"""The file in which the definitions of tools are pinned."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._files import replace_file
from ..errors import UsageError

if TYPE_CHECKING:
    from .. import types

Definition = dict[str, Any]

_VERSION = 1
# What a model and a person go by. Icons and metadata may change.
_PINNED = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")


def definition_of(tool: types.Tool) -> Definition:
    """Return what is pinned of a tool."""
    wire = tool.to_wire()
    return {key: wire[key] for key in _PINNED if wire.get(key) is not None}


def fingerprint(tool: types.Tool) -> str:
    """Return a digest of what a server says about a tool: names, description, schemas, hints.

    The order of keys makes no difference. Icons, metadata and the support of tasks do not count.
    """
    return digest_of(definition_of(tool))


def digest_of(definition: Definition) -> str:
    """Return the digest of a definition."""
    text = json.dumps(definition, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def read_lock(path: Path) -> dict[str, Definition]:
    """Read a lock file.

    Raises:
        FileNotFoundError: There is none.
        UsageError: It cannot be read, or is not one, or was changed by hand.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise UsageError(f"the lock file {path} cannot be read: {error}") from error
    try:
        lock = json.loads(text)
        if lock["version"] != _VERSION:
            raise UsageError(f"the lock file {path} is of another version: {str(lock['version'])[:20]}")
        found = {name: entry["definition"] for name, entry in lock["tools"].items()}
        wrong = [name for name, each in found.items() if digest_of(each) != lock["tools"][name]["digest"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UsageError(f"{path} is no lock file of tools: {type(error).__name__}: {error}") from error
    if wrong:
        raise UsageError(f"the lock file {path} was changed by hand: the digest of {wrong[0]!r} does not fit")
    return found


def write_lock(path: Path, tools: Iterable[Definition]) -> None:
    """Write a lock file: all of it, or nothing.

    Raises:
        UsageError: The system does not let it.
    """
    entries: Mapping[str, Any] = {
        each["name"]: {"digest": digest_of(each), "definition": each} for each in tools
    }
    lock = {"version": _VERSION, "tools": entries}
    try:
        text = json.dumps(lock, indent=2, sort_keys=True, ensure_ascii=True)
        replace_file(path, f"{text}\n".encode())
    except (OSError, ValueError) as error:
        # An error of the system may name the file beside it, which is renamed only in the end.
        problem = getattr(error, "strerror", None) or error
        raise UsageError(f"the lock file {path} cannot be written: {problem}") from error
