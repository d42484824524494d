"""The stores that the tests compare, and a process that works with one of them on command.

Run as a program it reads commands from standard input, one a line, and answers each with a line.
"""

from __future__ import annotations

# Loaded by `FolderKeyring` otherwise, and a child that is forked meanwhile would wait for that for ever.
import encodings.utf_16
import encodings.utf_16_le  # noqa: F401
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Optional

from keyring.backend import KeyringBackend
from keyring.errors import PasswordDeleteError
from keyrings.alt.file import PlaintextKeyring

from mcp_sync._concurrency.deadline import Deadline
from mcp_sync.auth._file_store import FileStore
from mcp_sync.auth._keyring_store import KeyringStore
from mcp_sync.auth._records import Key
from mcp_sync.auth._sqlite_store import SQLiteStore
from mcp_sync.auth._store import MemoryStore

KEY = Key("grant", "https://as.example", "https://mcp.example/mcp", "ann")
LASTING = ("file", "sqlite", "keyring", "split")
KINDS = ("memory", *LASTING)


class FolderKeyring(KeyringBackend):
    """A keyring that any number of processes may use at once, as those of systems are."""

    priority = 1

    def __init__(self, folder: Path, most: Optional[int] = None) -> None:
        super().__init__()
        self.folder = folder
        self.most = most
        folder.mkdir(exist_ok=True)

    def path(self, service: str, username: str) -> Path:
        return self.folder / hashlib.sha256(f"{service}/{username}".encode()).hexdigest()

    def get_password(self, service: str, username: str) -> Optional[str]:
        try:
            return self.path(service, username).read_text("utf-16")
        except FileNotFoundError:
            return None

    def set_password(self, service: str, username: str, password: str) -> None:
        if self.most is not None and len(password.encode("utf-16-le")) > self.most:
            raise OSError(1783, "The stub received bad data")
        path = self.path(service, username)
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_text(password, "utf-16")
        os.replace(draft, path)

    def delete_password(self, service: str, username: str) -> None:
        try:
            self.path(service, username).unlink()
        except FileNotFoundError as error:
            raise PasswordDeleteError("no such password") from error


def open_store(kind: str, folder: Path) -> Any:
    """Open the store of a kind that is kept in a folder, as another process would."""
    if kind == "memory":
        return MemoryStore()
    if kind == "file":
        return FileStore(folder / "store")
    if kind == "sqlite":
        return SQLiteStore(folder / "store.db")
    if kind == "plain":
        backend = PlaintextKeyring()
        backend.file_path = str(folder / "plain.cfg")
        return KeyringStore(backend=backend, lock_folder=folder / "locks")
    # Windows takes no more than 2560 bytes; parts of a few characters take many of them.
    size = 1200 if kind == "keyring" else 40
    ring = FolderKeyring(folder / "ring", 2560)
    return KeyringStore(backend=ring, lock_folder=folder / "locks", part_size=size)


def increment(store: Any, key: Key, times: int) -> None:
    """Add to a number in a record, by comparing and swapping alone."""
    for _ in range(times):
        while True:
            stored = store.get(key)
            number = stored.value["number"] if stored is not None else 0
            if store.put(key, {"number": number + 1}, stored.version if stored is not None else None):
                break


class Worker:
    """Another process that works with a store."""

    def __init__(self, kind: str, folder: Path, **settings: Any) -> None:
        command = [sys.executable, "-W", "error", __file__, kind, os.fspath(folder)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **settings
        )

    def tell(self, command: str) -> None:
        assert self.process.stdin is not None
        print(command, file=self.process.stdin, flush=True)

    def hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def ask(self, command: str) -> str:
        self.tell(command)
        return self.hear()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@contextmanager
def working(count: int, kind: str, folder: Path, **settings: Any) -> Iterator[list[Worker]]:
    """Start some processes, and end them in any case."""
    workers = [Worker(kind, folder, **settings) for _ in range(count)]
    try:
        yield workers
    finally:
        for worker in workers:
            worker.end()


def obey(store: Any, command: str, held: list[Any]) -> str:
    """Do what a line says."""
    verb, _, rest = command.partition(" ")
    if verb == "increment":
        increment(store, KEY, int(rest))
    elif verb == "lock":
        try:
            lock = store.lock(KEY, Deadline(float(rest)))
            lock.__enter__()
            held.append(lock)
        except TimeoutError:
            return "too late"
    elif verb == "unlock":
        held.pop().__exit__(None, None, None)
    elif verb == "put":
        stored = store.get(KEY)
        return str(store.put(KEY, {"text": rest}, stored.version if stored is not None else None))
    elif verb == "overlap":
        return overlap(store, Path(rest), 50)
    return "done"


def overlap(store: Any, mark: Path, times: int) -> str:
    """Make a file that must not be there yet and remove it, under the lock."""
    for _ in range(times):
        with store.lock(KEY, Deadline(30)):
            os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
            os.unlink(mark)
    return "done"


def main() -> None:
    store = open_store(sys.argv[1], Path(sys.argv[2]))
    held: list[Any] = []
    for line in sys.stdin:
        print(obey(store, line.rstrip("\n"), held), flush=True)


if __name__ == "__main__":
    main()
