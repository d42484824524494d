"""The store for a few users on one machine: files that only their owner may read."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Optional, Union

from .._concurrency.deadline import Deadline
from ..errors import AuthError
from ._locks import FolderLocks, file_name
from ._private_files import check_folder, read_private, remove_private, write_private
from ._records import Key
from ._settings import as_path
from ._store import Stored, new_version

# How long a change waits for those of other threads and processes, in seconds; each takes milliseconds.
_PATIENCE = 10.0


class FileStore:
    """Keeps each record in a JSON file of its own, in one folder.

    A file is replaced as a whole, and is on the disk before the change counts: readers never see half of one,
    and a crash or a full disk leaves the old one. Damage to one file is damage to one record. The folder and
    its files are for their owner only (on Windows: whatever the folder above passes on). For threads,
    processes and forked children of one machine; over a network its locks are as good as the file system's.

    Args:
        path: The folder. It is made when it is needed; ``~`` is the home directory.

    Raises:
        AuthError: From every method: a file or the folder cannot be read, written or understood, or others
            may write to the folder. The message names it, and nothing is lost.
    """

    def __init__(self, path: Union[str, os.PathLike[str]]) -> None:
        self._folder = as_path("path", path)
        self._locks = FolderLocks(self._folder)

    def __repr__(self) -> str:
        return f"FileStore({str(self._folder)!r})"

    def get(self, key: Key) -> Optional[Stored]:
        """See `Store.get`."""
        path = self._path(key)
        data = read_private(path) if check_folder(self._folder) else None
        if data is None:
            return None
        stored = _decoded(data, key)
        if stored is None:
            raise AuthError(f"the token store has a damaged file; move it away or restore it: {path}")
        return stored

    def put(self, key: Key, value: Optional[Mapping[str, Any]], expected: Optional[str]) -> bool:
        """See `Store.put`."""
        with self._locks.writing("write.lock", _PATIENCE):
            held = self.get(key)
            if (held.version if held is not None else None) != expected:
                return False
            if value is not None:
                write_private(self._path(key), _encoded(key, value))
            elif held is not None:
                remove_private(self._path(key))
            return True

    def lock(self, key: Key, deadline: Deadline) -> AbstractContextManager[None]:
        """See `Store.lock`."""
        return self._locks.hold(f"{file_name(key)}.lock", deadline)

    def _path(self, key: Key) -> str:
        return str(self._folder / f"{file_name(key)}.json")


def _encoded(key: Key, value: Mapping[str, Any]) -> bytes:
    return json.dumps({"key": key, "version": new_version(), "value": value}, indent=1).encode()


def _decoded(data: bytes, key: Key) -> Optional[Stored]:
    """Return what is in a file, ``None`` if it is nothing that was written for this key."""
    # An error would carry the data along, so none leaves this place.
    try:
        record = json.loads(data)
        if record["key"] == list(key) and isinstance(record["value"], dict):
            return Stored(record["value"], str(record["version"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    return None
