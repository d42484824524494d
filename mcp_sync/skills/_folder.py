"""Folders on this machine that skills are written to: all of a skill or nothing, and nothing beside it."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Optional

from ..errors import FolderRefused
from ._manifest import MANIFEST, Manifest, foreign


def check_folder(folder: Path, overwrite: bool) -> None:
    """Refuse a folder that a skill cannot be, or must not be, written to.

    Raises:
        FolderRefused: It is there already, or its parent is not.
    """
    try:
        fault = _fault_of(folder, overwrite)
    except OSError as error:
        raise _refused(folder, error) from error
    if fault:
        raise FolderRefused(fault, path=str(folder))


def _fault_of(folder: Path, overwrite: bool) -> Optional[str]:
    if not folder.name or folder.name == "..":
        return f"{folder} has no name of its own: name the folder that is to be made"
    if not folder.parent.is_dir():
        return f"{folder.parent} is no folder: make it first"
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        return f"{folder} is no folder, but a link or a file: name another one"
    if not folder.exists():
        return None
    if not overwrite:
        return f"{folder} is there already: name another one, or overwrite=True"
    strange = foreign(folder)
    return f"{folder} is not overwritten: {strange}" if strange else None


def write_folder(folder: Path, uri: str, files: Iterable[tuple[str, bytes]], overwrite: bool) -> None:
    """Write files into a new folder, which appears when all of them are there.

    Args:
        folder: The folder; `check_folder` has seen it.
        uri: The URI of the skill, for the manifest.
        files: Paths below it, checked, and contents; taken one by one.
        overwrite: Whether to replace a skill that is there.

    Raises:
        FolderRefused: The system does not let it. Whatever the reason, nothing is left.
    """
    name = secrets.token_hex(8)
    new = folder.with_name(f".new-{name}")
    old = folder.with_name(f".old-{name}")
    try:
        _make(new, folder)
        manifest = Manifest(uri)
        for path, data in files:
            _write(new, path, data, folder)
            manifest.add(path, data)
        _write(new, MANIFEST, manifest.to_bytes(), folder)
        check_folder(folder, overwrite)
        _put(new, folder, old)
    finally:
        shutil.rmtree(new, ignore_errors=True)
        if folder.exists():
            shutil.rmtree(old, ignore_errors=True)


def _make(new: Path, folder: Path) -> None:
    try:
        new.mkdir(0o700)
    except OSError as error:
        raise _refused(folder, error) from error


def _write(new: Path, path: str, data: bytes, folder: Path) -> None:
    *folders, name = path.split("/")
    inside = new
    try:
        for each in folders:
            inside = inside / each
            inside.mkdir(0o700, exist_ok=True)
        # "x" makes a file, and follows no link.
        with open(inside / name, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(data)
    except (OSError, ValueError) as error:
        raise _refused(folder, error) from error


def _put(new: Path, folder: Path, old: Path) -> None:
    try:
        try:
            if folder.exists():
                folder.rename(old)
                # Once more, where nobody looks for it: what came in the last moment is kept, too.
                strange = foreign(old)
                if strange:
                    raise FolderRefused(f"{folder} is not overwritten: {strange}", path=str(folder))
            new.rename(folder)
        except BaseException:
            # Whatever stopped it, Ctrl-C for one: what was there comes back.
            if old.exists() and not folder.exists():
                old.rename(folder)
            raise
    except OSError as error:
        raise _refused(folder, error) from error


def _refused(folder: Path, error: Exception) -> FolderRefused:
    return FolderRefused(f"the skill cannot be written to {folder}: {error}", path=str(folder))
