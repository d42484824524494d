"""The store for one user at a desktop: the keyring of the system. Needs the extra ``keyring``."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Union

from .._concurrency.deadline import Deadline
from .._concurrency.fork import no_fork
from ..errors import AuthError, UsageError
from ._locks import FolderLocks, file_name
from ._records import Key
from ._settings import as_path
from ._store import Stored, new_version

if TYPE_CHECKING:
    from keyring.backend import KeyringBackend

# How long a change waits for those of others, in seconds. One of them may be asking the user for a password.
_PATIENCE = 60.0
# How often a record is read again that somebody is replacing.
_ATTEMPTS = 10
# Windows takes 2560 bytes in an entry, two for each character.
_WINDOWS_SIZE = 1200
_SLOTS = ("a", "b")


class _Head(NamedTuple):
    """What the entry of a record says: its value, or where the parts of that are."""

    version: str
    value: Optional[dict[str, Any]]
    slot: str
    parts: int


class KeyringStore:
    """Keeps each record in the keyring of the system: Keychain, Windows' credentials, the Secret Service.

    A record that is too long for one entry is split; readers never see a mixture of two. A keyring that is
    locked may ask the user, and that wait has no bound. For threads, processes and forked children of one
    user on one machine, which keep each other away by files in a folder.

    Args:
        service: Under which name the entries are kept.
        backend: Which keyring, ``None`` for the one that the package ``keyring`` chooses.
        lock_folder: Where the lock files are, ``None`` for the user's folder for such things.
        part_size: How many characters go into one entry, ``None`` for as many as the system allows.

    Raises:
        UsageError: The package ``keyring`` is not installed.
        AuthError: From every method: the keyring cannot be read or written, or holds something else.
    """

    def __init__(
        self,
        service: str = "mcp-sync",
        *,
        backend: Optional[KeyringBackend] = None,
        lock_folder: Optional[Union[str, os.PathLike[str]]] = None,
        part_size: Optional[int] = None,
    ) -> None:
        self._service = service
        self._backend = backend if backend is not None else _chosen_backend()
        self._part_size = part_size or (_WINDOWS_SIZE if sys.platform == "win32" else None)
        if not isinstance(service, str) or not service:
            raise UsageError("service must be a string that is not empty")
        folder = as_path("lock_folder", lock_folder) if lock_folder is not None else _state_folder()
        self._locks = FolderLocks(folder)
        # Other services have other locks.
        self._prefix = hashlib.sha256(service.encode("utf-8", "backslashreplace")).hexdigest()[:16]

    def __repr__(self) -> str:
        return f"KeyringStore({self._service!r})"

    def get(self, key: Key) -> Optional[Stored]:
        """See `Store.get`."""
        name = file_name(key)
        for _ in range(_ATTEMPTS):
            head = self._head(name) or self._head_after_others(name)
            if head is None:
                return None
            value = head.value if head.value is not None else self._joined(name, head)
            if value is not None:
                return Stored(value, head.version)
        raise self._damaged(name)

    def _head_after_others(self, name: str) -> Optional[_Head]:
        """Look once more while nobody writes: some backends write all entries anew for each change."""
        if not self._locks.folder.is_dir():
            return None  # Nobody has written yet.
        with self._locks.writing(f"{self._prefix}.lock", _PATIENCE):
            return self._head(name)

    def put(self, key: Key, value: Optional[Mapping[str, Any]], expected: Optional[str]) -> bool:
        """See `Store.put`."""
        name = file_name(key)
        with self._locks.writing(f"{self._prefix}.lock", _PATIENCE):
            held = self._head(name)
            if (held.version if held is not None else None) != expected:
                return False
            if value is not None:
                self._write(name, json.dumps(value), held)
            elif held is not None:
                self._remove(name)
                for slot in _SLOTS:
                    self._clear(name, slot)
            return True

    def lock(self, key: Key, deadline: Deadline) -> AbstractContextManager[None]:
        """See `Store.lock`."""
        return self._locks.hold(f"{self._prefix}-{file_name(key)}.lock", deadline)

    def _write(self, name: str, text: str, held: Optional[_Head]) -> None:
        """Write the parts beside those that count, then the head, which makes them count; clear up."""
        version = new_version()
        old = held.slot if held is not None else _SLOTS[1]
        new = _SLOTS[1 - _SLOTS.index(old)]
        size = self._part_size or sys.maxsize
        # The value is the last member, so the rest of the head is about this long.
        if len(text) + 80 <= size:
            self._set(name, f'{{"version": "{version}", "slot": "{new}", "parts": 0, "value": {text}}}')
            parts = []
        else:
            # Each part says what it belongs to, so that a reader knows when it came too late.
            size -= len(version)
            parts = [text[start : start + size] for start in range(0, len(text), size)]
            for number, part in enumerate(parts):
                self._set(f"{name}.{new}.{number}", version + part)
            self._set(name, json.dumps({"version": version, "slot": new, "parts": len(parts)}))
        self._clear(name, new, len(parts))
        self._clear(name, old)

    def _head(self, name: str) -> Optional[_Head]:
        text = self._get(name)
        if text is None:
            return None
        record = _decoded(text)
        try:
            head = _Head(str(record["version"]), record.get("value"), record["slot"], record["parts"])
            if head.slot in _SLOTS and (
                isinstance(head.value, dict) or (head.value is None and head.parts > 0)
            ):
                return head
        except (KeyError, TypeError):
            pass
        raise self._damaged(name)

    def _joined(self, name: str, head: _Head) -> Optional[dict[str, Any]]:
        """Return the value that is in parts, ``None`` if those there are not the ones of this head."""
        parts = [self._get(f"{name}.{head.slot}.{number}") for number in range(head.parts)]
        size = len(head.version)
        if any(part is None or part[:size] != head.version for part in parts):
            return None
        return _decoded("".join(part[size:] for part in parts if part is not None)) or None

    def _clear(self, name: str, slot: str, start: int = 0) -> None:
        """Remove the parts of a slot from a number on."""
        while self._get(f"{name}.{slot}.{start}") is not None:
            self._remove(f"{name}.{slot}.{start}")
            start += 1

    def _get(self, name: str) -> Optional[str]:
        found = self._ask("get_password", name)
        return None if found is None else str(found)

    def _set(self, name: str, text: str) -> None:
        self._ask("set_password", name, text)

    def _remove(self, name: str) -> None:
        self._ask("delete_password", name)

    def _ask(self, method: str, *args: str) -> Any:
        from keyring.errors import KeyringError

        try:
            return getattr(self._backend, method)(self._service, *args)
        except Exception as error:
            # Anything else may carry the text of the record along, so it goes no further.
            what = str(error) if isinstance(error, KeyringError) else type(error).__name__
            if isinstance(error, OSError):
                what = error.strerror or what
        raise AuthError(f"the keyring failed ({method} of the service {self._service!r}): {what}")

    def _damaged(self, name: str) -> AuthError:
        what = f"the entry {name!r} of the service {self._service!r}"
        return AuthError(f"the keyring has a damaged record; look at {what}")


def _chosen_backend() -> KeyringBackend:
    try:
        with no_fork():
            import keyring
    except ImportError as error:
        what = "KeyringStore needs the package keyring; install by: pip install 'mcp-sync-client[keyring]'"
        raise UsageError(what) from error
    return keyring.get_keyring()


def _state_folder() -> Path:
    """Return the user's folder for what programs remember."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base, "mcp-sync", "locks")


def _decoded(text: str) -> dict[str, Any]:
    # An error would carry the text along, so none leaves this place.
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
