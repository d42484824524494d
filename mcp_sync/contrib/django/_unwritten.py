"""What a SQLite file that is locked could not take: in files beside it, until it can.

A transaction locks the whole file, for as long as a call takes, and the token that the call waits for may
have to be replaced meanwhile: by the very request whose transaction it is, or by another one. Neither can
wait for the other. So the new record goes into a file that is named like its row, encrypted as there. It says
which version of the row it replaces (or that there was no row), and counts as long as that is so: a row that
somebody else has changed or deleted makes it worth nothing. Whoever reads it and finds the database free
writes the row, and removes the file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, Optional
from urllib.parse import urlsplit
from urllib.request import url2pathname

from ..._concurrency.deadline import Deadline
from ...auth import Key
from ...auth._locks import FolderLocks
from ...auth._private_files import (
    check_folder,
    give_away,
    make_folder,
    read_private,
    remove_private,
    write_private,
)

_PATIENCE = 10.0  # for others who write a file, which takes milliseconds, in seconds
_END = ".json"


class Draft(NamedTuple):
    """A record that is not in its row yet.

    Attributes:
        alias: The server.
        key: What it is kept under.
        replaces: The version of the row that it replaces, ``None`` if there is none.
        version: Its own.
        data: What becomes of the column ``data``, ``None`` if the row is to go.
    """

    alias: str
    key: Key
    replaces: Optional[str]
    version: str
    data: Optional[str]


class Unwritten:
    """The records that are not in their rows yet.

    Args:
        database: The SQLite file.

    Raises:
        AuthError: From every method: a file cannot be read, written or locked.

    Attributes:
        database: The same.
    """

    def __init__(self, database: str) -> None:
        self.database = database
        self._folder = Path(f"{database}-mcp-unwritten")
        self._locks = FolderLocks(Path(f"{database}-mcp-locks"))

    def changing(self, name: str, deadline: Deadline) -> AbstractContextManager[None]:
        """Hold the lock of those who change a row: what they compare, and the change, are one step."""
        self._make(self._locks.folder)
        return self._locks.hold(f"{name}.change", deadline)

    def locked(self, name: str, deadline: Deadline) -> AbstractContextManager[None]:
        """Hold the lock of those who refresh a token."""
        self._make(self._locks.folder)
        return self._locks.hold(f"{name}.lock", deadline)

    def get(self, name: str) -> Optional[Draft]:
        """Return the record for a row, ``None`` if there is none: as good as always."""
        data = read_private(self._path(name))
        if data is None:
            return None
        try:
            draft = Draft(**json.loads(data))
            return draft._replace(key=Key(*draft.key))
        except (TypeError, ValueError):
            return None

    def put(self, name: str, draft: Draft) -> None:
        """Keep a record, which is on the disk then."""
        self._make(self._folder)
        with self._locks.hold("draft.lock", Deadline(_PATIENCE)):
            write_private(self._path(name), json.dumps(draft._asdict()).encode())

    def remove(self, name: str) -> None:
        """Remove what is in its row by now, or will never be."""
        if self._folder.is_dir():
            remove_private(self._path(name))

    def names(self) -> Iterator[str]:
        """Give the names of all rows for which there is a record."""
        if check_folder(self._folder):
            yield from sorted(each.name[: -len(_END)] for each in self._folder.glob(f"*{_END}"))

    def _make(self, folder: Path) -> None:
        """Make a folder that belongs to the owner of the database, as what SQLite itself makes beside it."""
        if not check_folder(folder):
            make_folder(folder)
            give_away(str(folder), self.database)

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}{_END}"


def unwritten_of(connection: Any) -> Optional[Unwritten]:
    """Return what stands beside a database, ``None`` if it is no SQLite file."""
    if connection.vendor != "sqlite":
        return None
    path = str(connection.settings_dict["NAME"])
    if path.startswith("file:"):
        path = "" if "mode=memory" in path else url2pathname(urlsplit(path).path)
    if not path or ":memory:" in path:
        return None
    # As SQLite does: a link to the file leads to what stands beside it.
    return Unwritten(os.path.realpath(path) if os.path.islink(path) else path)
