"""Stores on a disk: who may read the files, and what happens when the disk or a file fails."""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
import subprocess
import sys
import textwrap
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mcp_sync._concurrency.deadline import Deadline
from mcp_sync.auth import _file_store
from mcp_sync.auth._file_store import FileStore
from mcp_sync.auth._locks import FolderLocks, file_name
from mcp_sync.auth._sqlite_store import SQLiteStore
from mcp_sync.errors import AuthError, UsageError

from .store_worker import KEY, open_store

posix = pytest.mark.skipif(os.name != "posix", reason="modes mean nothing here")
ON_DISK = ("file", "sqlite")
SECRET = {"access_token": "canary-secret"}


@pytest.fixture(params=ON_DISK)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store(kind: str, tmp_path: Path) -> Any:
    store = open_store(kind, tmp_path)
    assert store.put(KEY, SECRET, None)
    return store


def home(kind: str, tmp_path: Path) -> Path:
    """Return the file that holds the record."""
    return tmp_path / "store.db" if kind == "sqlite" else tmp_path / "store" / f"{file_name(KEY)}.json"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def shown(error: BaseException) -> str:
    """Return all that a report of an error may show, its attributes and those of what caused it included."""
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    seen: Any = error
    while seen is not None:
        text += repr(vars(seen)) + repr(seen.args) + str(seen)
        seen = seen.__cause__ or seen.__context__
    return text


def failing(store: Any, *actions: str) -> None:
    """See that every use of a store fails with an error that shows no secret."""
    for action in actions or ("get", "put"):
        with pytest.raises(AuthError) as caught:
            store.get(KEY) if action == "get" else store.put(KEY, SECRET, None)
        assert "canary" not in shown(caught.value)


@posix
def test_only_the_owner_may_read_what_is_made(kind, tmp_path):
    old = os.umask(0)
    try:
        store = open_store(kind, tmp_path / "new" / "folders")
        store.put(KEY, SECRET, None)
        folder = tmp_path / "new" / "folders"
        assert mode(home(kind, folder)) == 0o600
        if kind == "file":
            assert mode(folder / "store") == 0o700
        else:
            assert mode(folder) == 0o700
    finally:
        os.umask(old)


@posix
def test_the_journal_of_the_database_is_for_its_owner_too(tmp_path):
    old, seen = os.umask(0), []
    try:
        store = SQLiteStore(tmp_path / "store.db")
        store.put(KEY, SECRET, None)
        with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as database:
            database.execute("BEGIN IMMEDIATE")
            database.execute("DELETE FROM mcp_sync_store")
            seen = [mode(path) for path in tmp_path.iterdir() if path.is_file()]
            database.execute("ROLLBACK")
    finally:
        os.umask(old)
    assert seen == [0o600, 0o600]


@posix
def test_what_others_may_read_is_taken_away_from_them(kind, store, tmp_path, caplog):
    path = home(kind, tmp_path)
    path.chmod(0o644)
    with caplog.at_level(logging.WARNING, "mcp_sync.auth"):
        assert store.get(KEY).value == SECRET
    assert mode(path) == 0o600
    assert str(path) in caplog.text
    assert "canary" not in caplog.text


@posix
def test_what_others_may_read_is_refused_where_it_cannot_be_taken_away(kind, store, tmp_path, monkeypatch):
    home(kind, tmp_path).chmod(0o664)

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chmod", refuse)
    with pytest.raises(
        AuthError, match=f"cannot be changed: Operation not permitted: {home(kind, tmp_path)}"
    ):
        store.get(KEY)


@posix
def test_a_folder_that_others_may_write_to_is_refused_and_left_as_it_is(tmp_path):
    (tmp_path / "store").mkdir()
    (tmp_path / "store").chmod(0o777)
    store = FileStore(tmp_path / "store")
    for action in (lambda: store.get(KEY), lambda: store.put(KEY, SECRET, None)):
        with pytest.raises(AuthError, match=f"chmod go-w {tmp_path / 'store'}"):
            action()
    assert mode(tmp_path / "store") == 0o777
    assert not list((tmp_path / "store").iterdir())


def test_a_folder_that_others_may_look_into_will_do(tmp_path):
    (tmp_path / "store").mkdir(mode=0o755)
    store = FileStore(tmp_path / "store")
    assert store.put(KEY, SECRET, None)
    assert store.get(KEY).value == SECRET


DAMAGE = {
    "empty": lambda data: b"",
    "cut off": lambda data: data[: len(data) // 2],
    "not JSON": lambda data: b"<html>canary-secret",
    "not UTF-8": lambda data: b'{"canary-secret": "\xff"}',
    "a list": lambda data: b'["canary-secret"]',
    "another key": lambda data: data.replace(b'"ann"', b'"bob"'),
    "no version": lambda data: data.replace(b'"version"', b'"vision"'),
    "a value of another kind": lambda data: b'{"key": [], "version": "1", "value": "canary-secret"}',
    "very deep": lambda data: b"[" * 100_000,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_file_is_named_and_kept(tmp_path, damage):
    store = FileStore(tmp_path / "store")
    store.put(KEY, SECRET, None)
    path = home("file", tmp_path)
    data = damage(path.read_bytes())
    path.write_bytes(data)
    with pytest.raises(AuthError, match=str(path)):
        store.get(KEY)
    failing(store)
    assert path.read_bytes() == data
    other = KEY._replace(principal="bob")
    assert store.put(other, SECRET, None)
    assert store.get(other).value == SECRET


@pytest.mark.parametrize("size", [0, 7, 1])
def test_a_damaged_database_is_named_and_kept(tmp_path, size):
    path = home("sqlite", tmp_path)
    path.write_bytes(b"canary-secret, and no database at all" * 100 * size)
    path.chmod(0o600)
    store = SQLiteStore(path)
    if size == 0:  # This is what SQLite takes for one without a table.
        assert store.get(KEY) is None
        return
    data = path.read_bytes()
    with pytest.raises(AuthError, match=f"file is not a database: {path}"):
        store.get(KEY)
    failing(store)
    assert path.read_bytes() == data


@pytest.mark.parametrize("value", ["canary-secret", '"canary-secret"', "[1]", b"\xff", "[" * 100_000, 5])
def test_a_damaged_record_of_a_database_is_an_error_and_kept(tmp_path, value):
    store = SQLiteStore(tmp_path / "store.db")
    store.put(KEY, SECRET, None)
    with closing(sqlite3.connect(tmp_path / "store.db")) as database, database:
        database.execute("UPDATE mcp_sync_store SET value = ?", (value,))
    with pytest.raises(AuthError, match="damaged record of the kind grant"):
        store.get(KEY)
    failing(store, "get")
    with closing(sqlite3.connect(tmp_path / "store.db")) as database:
        assert database.execute("SELECT count(*) FROM mcp_sync_store").fetchone() == (1,)


def test_other_tables_of_the_database_are_left_alone(tmp_path):
    with closing(sqlite3.connect(tmp_path / "store.db")) as database, database:
        database.execute("CREATE TABLE mine (x)")
        database.execute("INSERT INTO mine VALUES (5)")
    store = SQLiteStore(tmp_path / "store.db")
    assert store.get(KEY) is None
    store.put(KEY, SECRET, None)
    with closing(sqlite3.connect(tmp_path / "store.db")) as database:
        assert database.execute("SELECT x FROM mine").fetchall() == [(5,)]


def test_what_is_removed_from_a_database_is_not_left_in_its_file(tmp_path):
    store = SQLiteStore(tmp_path / "store.db")
    store.put(KEY, SECRET, None)
    assert b"canary" in home("sqlite", tmp_path).read_bytes()
    store.put(KEY, None, store.get(KEY).version)
    assert b"canary" not in home("sqlite", tmp_path).read_bytes()


def test_a_database_that_somebody_else_keeps_locked_is_an_error_in_the_end(tmp_path, monkeypatch):
    store = SQLiteStore(tmp_path / "store.db")
    store.put(KEY, SECRET, None)
    monkeypatch.setattr("mcp_sync.auth._sqlite_store._PATIENCE", 0.1)
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as database:
        database.execute("BEGIN EXCLUSIVE")
        with pytest.raises(AuthError, match="database is locked"):
            store.get(KEY)
        failing(store)
        database.execute("ROLLBACK")
    assert store.get(KEY).value == SECRET


def test_a_writer_that_never_ends_is_an_error_in_the_end(tmp_path, monkeypatch):
    store = FileStore(tmp_path / "store")
    store.put(KEY, SECRET, None)
    monkeypatch.setattr(_file_store, "_PATIENCE", 0.1)
    with FolderLocks(tmp_path / "store").hold("write.lock", Deadline(1)):
        assert store.get(KEY).value == SECRET
        with pytest.raises(AuthError, match="keeps the token store from being written"):
            store.put(KEY, {"n": 1}, store.get(KEY).version)


def test_a_database_in_memory_is_refused():
    with pytest.raises(UsageError, match="MemoryStore"):
        SQLiteStore(":memory:")


@posix
def test_a_record_that_is_a_link_is_refused(tmp_path):
    store = FileStore(tmp_path / "store")
    store.put(KEY, SECRET, None)
    path = home("file", tmp_path)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(AuthError, match=str(path)):
        store.get(KEY)
    failing(store)
    assert (tmp_path / "elsewhere").exists()


@posix
@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_something_else_in_the_place_of_a_file_is_refused(kind, tmp_path, make):
    path = home(kind, tmp_path)
    path.parent.mkdir(exist_ok=True)
    make(path)
    with pytest.raises(AuthError, match=str(path)):
        open_store(kind, tmp_path).get(KEY)


@posix
def test_the_folder_and_the_database_may_be_links(kind, tmp_path):
    (tmp_path / "real").mkdir(mode=0o700)
    real = open_store(kind, tmp_path / "real")
    real.put(KEY, SECRET, None)
    link = tmp_path / ("store.db" if kind == "sqlite" else "store")
    link.symlink_to(tmp_path / "real" / link.name)
    store = open_store(kind, tmp_path)
    assert store.put(KEY, {"n": 1}, store.get(KEY).version)
    assert real.get(KEY).value == {"n": 1}


def test_a_file_in_the_place_of_the_folder_is_an_error(tmp_path):
    (tmp_path / "store").write_text("mine")
    store = FileStore(tmp_path / "store")
    with pytest.raises(AuthError, match="no folder"):
        store.get(KEY)
    failing(store)
    with pytest.raises(AuthError):
        FileStore(tmp_path / "store" / "below").put(KEY, SECRET, None)
    assert (tmp_path / "store").read_text() == "mine"


def test_a_file_that_was_left_half_written_does_not_disturb(tmp_path):
    store = FileStore(tmp_path / "store")
    store.put(KEY, SECRET, None)
    (tmp_path / "store" / "draft.tmp").write_text("half of canary-s")
    assert store.get(KEY).value == SECRET
    assert store.put(KEY, {"n": 1}, store.get(KEY).version)
    assert [path.suffix for path in (tmp_path / "store").iterdir()] == [".json"]


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_a_disk_that_fails_at_any_step_leaves_the_old_value(tmp_path, monkeypatch, step):
    store = FileStore(tmp_path / "store")
    store.put(KEY, SECRET, None)
    new = {"access_token": "".join(["can", "ary-new"])}

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        if step == "write":
            patched.setattr("mcp_sync.auth._private_files._write_new", fail)
        else:
            patched.setattr(os, step, fail)
        with pytest.raises(AuthError, match=f"No space left on device: {home('file', tmp_path)}") as caught:
            store.put(KEY, new, store.get(KEY).version)
    assert "canary" not in shown(caught.value)
    assert store.get(KEY).value == SECRET
    assert [path.suffix for path in (tmp_path / "store").iterdir()] == [".json"]


def test_many_that_remove_and_write_at_once_see_no_error(store):
    def churn() -> None:
        start.wait()
        for _ in range(10):
            held = store.get(KEY)
            store.put(KEY, None if held else SECRET, held.version if held else None)

    start = threading.Barrier(5)
    with ThreadPoolExecutor(5) as pool:
        for done in [pool.submit(churn) for _ in range(5)]:
            done.result()


def run(script: str, *args: Any) -> str:
    """Run a program whose limits or rights are not those of the test run."""
    head = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
    head += "import os, resource\nfrom pathlib import Path\nfrom store_worker import KEY, open_store\n"
    head += "from mcp_sync.errors import AuthError\nstore = open_store(sys.argv[1], Path(sys.argv[2]))\n"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", head + textwrap.dedent(script), *map(str, args)],
        capture_output=True, text=True, timeout=50,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "canary" not in done.stdout + done.stderr
    return done.stdout


@posix
def test_a_full_disk_is_an_error_and_the_old_value_stays(kind, store, tmp_path):
    script = """
    version = store.get(KEY).version
    limit = 6000 if sys.argv[1] == "file" else os.path.getsize(store._path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        store.put(KEY, {"access_token": "canary" * 10_000}, version)
    except AuthError as error:
        print(error)
    assert store.get(KEY).version == version
    """
    said = run(script, kind, tmp_path)
    assert "the token store cannot be" in said
    assert str(home(kind, tmp_path)) in said
    assert store.get(KEY).value == SECRET
    assert store.put(KEY, {"n": 1}, store.get(KEY).version)


@posix
def test_a_folder_that_may_not_be_written_to_is_an_error_and_loses_nothing(kind, store, tmp_path):
    script = """
    if os.getuid() == 0:  # To whom nothing is forbidden.
        for path in [Path(sys.argv[2]), *Path(sys.argv[2]).rglob("*")]:
            os.chown(path, 65534, 65534)
        for parent in Path(sys.argv[2]).parents:
            if "pytest-of" in str(parent):
                os.chmod(parent, 0o755)
        os.setgid(65534)
        os.setuid(65534)
    from mcp_sync._concurrency.deadline import Deadline
    folder = Path(sys.argv[2]) / "store" if sys.argv[1] == "file" else Path(sys.argv[2])
    stored = store.get(KEY)
    folders = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    for each in folders:
        each.chmod(0o500)
    try:
        for action in (
            lambda: store.put(KEY, {"access_token": "canary"}, stored.version),
            lambda: store.put(KEY, None, stored.version),
            lambda: store.lock(KEY, Deadline(1)).__enter__(),
        ):
            try:
                action()
            except AuthError as error:
                print(error)
        assert store.get(KEY) == stored
    finally:
        for each in folders:
            each.chmod(0o700)
    """
    said = run(script, kind, tmp_path).splitlines()
    assert len(said) == 3
    assert all(str(tmp_path) in line for line in said)
