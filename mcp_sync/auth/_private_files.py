"""Files that only their owner may read: how they are read, written and kept so."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import stat
import sys
import time
from pathlib import Path
from typing import Any, Callable, Optional, TypeVar, Union

from ..errors import AuthError

T = TypeVar("T")
logger = logging.getLogger("mcp_sync.auth")

# Whether permission bits mean anything here, and what keeps a link from being followed.
_HAS_MODES = os.name == "posix"
_PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_SHARED = stat.S_IRWXG | stat.S_IRWXO
_WRITABLE = stat.S_IWGRP | stat.S_IWOTH

# How long a file that others have open is waited for on Windows, in seconds.
_INSISTENCE = 2.0


def make_folder(folder: Path) -> None:
    """Make a folder that only its owner may enter, unless it is there.

    Raises:
        AuthError: It cannot be made, or others may put files into it.
    """
    if check_folder(folder):
        return
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise AuthError(f"the token store cannot be made: {error.strerror}: {folder}") from error


def check_folder(folder: Path) -> bool:
    """Tell whether a folder is there.

    Raises:
        AuthError: Others may put files into it, or it is none.
    """
    try:
        mode = folder.stat().st_mode
    except FileNotFoundError:
        return False
    except OSError as error:
        raise AuthError(f"the token store cannot be read: {error.strerror}: {folder}") from error
    if not stat.S_ISDIR(mode):
        raise AuthError(f"the token store is no folder: {folder}")
    if _HAS_MODES and mode & _WRITABLE:
        # A folder that somebody shares on purpose is not changed behind their back.
        raise AuthError(f"the token store is in a folder that others may write to: chmod go-w {folder}")
    return True


def _tighten(path: str, file: Union[str, int], mode: int) -> None:
    """Take away from others what they may do with a file.

    Raises:
        AuthError: It is no regular file, or its mode cannot be changed.
    """
    if not stat.S_ISREG(mode):
        raise AuthError(f"the token store has something else in the place of a file: {path}")
    if not _HAS_MODES or not mode & _SHARED:
        return
    try:
        os.chmod(file, 0o600)
    except OSError as error:
        what = "others may read or write a file of the token store"
        raise AuthError(f"{what}, and that cannot be changed: {error.strerror}: {path}") from error
    logger.warning("Others could read or write %s; now only its owner may", path)


def give_away(file: Union[str, int], like: str) -> None:
    """Have what root has made belong to the owner of something else, whom it would keep out otherwise."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        # Not every root may do that: in a container, say, or on a disk of another machine.
        with contextlib.suppress(PermissionError, FileNotFoundError):
            owner = os.stat(like)
            os.chown(file, owner.st_uid, owner.st_gid)


def read_private(path: str) -> Optional[bytes]:
    """Return what is in a file, ``None`` if there is no such file.

    Raises:
        AuthError: It cannot be read, or it is a link.
    """
    try:
        # Without waiting for somebody to write, should it be a pipe.
        descriptor = _insist(os.open, path, os.O_RDONLY | _PLAIN | getattr(os, "O_NONBLOCK", 0))
        try:
            _tighten(path, descriptor, os.fstat(descriptor).st_mode)
            with open(descriptor, "rb", closefd=False) as file:
                return file.read()
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise AuthError(f"the token store cannot be read: {error.strerror}: {path}") from error


def check_file(path: Path) -> bool:
    """Tell whether a file is there, and see that only its owner may read it.

    It is not opened: closing it would end the locks that other threads of this process hold on it (POSIX).

    Raises:
        AuthError: It is no file, or its mode cannot be changed.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return False
    except OSError as error:
        raise AuthError(f"the token store cannot be read: {error.strerror}: {path}") from error
    _tighten(str(path), str(path), mode)
    return True


def make_file(path: Path) -> None:
    """Make an empty file that only its owner may read, and the folder for it, unless they are there.

    Raises:
        AuthError: It cannot be made.
    """
    if check_file(path):
        return
    draft = f"{path}.{secrets.token_hex(8)}"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLAIN, 0o600))
        try:
            # It gets its name when it is closed, see above.
            with contextlib.suppress(FileExistsError):
                os.link(draft, path)
        finally:
            os.unlink(draft)
    except OSError as error:
        raise AuthError(f"the token store cannot be made: {error.strerror}: {path}") from error


def write_private(path: str, data: bytes) -> None:
    """Put data in the place of a file, in one step that is on the disk when it returns.

    The caller sees to it that nobody else does so in the same folder at the same time.

    Raises:
        AuthError: It cannot be written. The file is as it was.
    """
    folder = os.path.dirname(path)
    # Always the same name, so that one that was left behind by a crash is found by the next.
    draft = os.path.join(folder, "draft.tmp")
    try:
        try:
            _write_new(draft, data)
            _insist(os.replace, draft, path)
        except BaseException:
            _remove(draft)
            raise
        _sync_folder(folder)
    except OSError as error:
        raise AuthError(f"the token store cannot be written: {error.strerror}: {path}") from error


def _write_new(path: str, data: bytes) -> None:
    _remove(path)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLAIN, 0o600)
    with open(descriptor, "wb") as file:
        give_away(descriptor, os.path.dirname(path))
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def remove_private(path: str) -> None:
    """Remove a file, if it is there.

    Raises:
        AuthError: It cannot be removed.
    """
    try:
        _remove(path)
        _sync_folder(os.path.dirname(path))
    except OSError as error:
        raise AuthError(f"the token store cannot be changed: {error.strerror}: {path}") from error


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        _insist(os.unlink, path)


def _insist(action: Callable[..., T], *args: Any) -> T:
    """Do something to a file; on Windows, where others that have it open prevent it, try for a while."""
    until = time.monotonic() + _INSISTENCE
    while True:
        try:
            return action(*args)
        except PermissionError:
            if sys.platform != "win32" or time.monotonic() > until:
                raise
        time.sleep(0.005)


def _sync_folder(folder: str) -> None:
    """Have a change of the folder itself on the disk, where the system can do that."""
    if not _HAS_MODES:
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        # Some file systems refuse. The change is made all the same.
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
