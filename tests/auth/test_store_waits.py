"""Waiting for a store: it ends with the call that waits, when that is out of time, cancelled, or closed."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from mcp_sync import CancelToken, Client
from mcp_sync._concurrency.deadline import Deadline
from mcp_sync.auth import FileStore, LoopbackBrowser, MemoryStore, OAuth, SQLiteStore
from mcp_sync.auth._errand import Errand, errand_here
from mcp_sync.auth._locks import FolderLocks, ThreadLocks
from mcp_sync.auth._records import Key
from mcp_sync.errors import AuthError, CallCancelled, CallTimeout, ClientClosed, ConnectionLost

from .oauth_server import visit

KEY = Key("grant", "https://as.example")
ADD = {"a": 1, "b": 2}
# Less than any store waits of its own accord.
MOST = 8.0


class Exchange:
    """Stands for the exchange of a request.

    Attributes:
        aborted: Whether somebody has given it up.
        looked: How often it was asked.
    """

    def __init__(self, timeout: Any = None) -> None:
        self.deadline = Deadline(timeout)
        self.given_up = threading.Event()
        self.looked = 0

    @property
    def aborted(self) -> bool:
        self.looked += 1
        return self.given_up.is_set()


@contextmanager
def writing_elsewhere(folder: Path) -> Iterator[None]:
    """Keep a store of files from being written."""
    with FolderLocks(folder).hold("write.lock", Deadline(5)):
        yield


@contextmanager
def locked_database(path: Path) -> Iterator[None]:
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as database:
        database.execute("BEGIN EXCLUSIVE")
        yield
        database.execute("ROLLBACK")


@pytest.fixture(params=["write to files", "write to a database", "read a database"])
def busy(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """A use of a store that has to wait for somebody else."""
    if request.param == "write to files":
        store: Any = FileStore(tmp_path / "store")
        store.put(KEY, {"n": 1}, None)
        keeping = writing_elsewhere(tmp_path / "store")
    else:
        store = SQLiteStore(tmp_path / "store.db")
        store.put(KEY, {"n": 1}, None)
        keeping = locked_database(tmp_path / "store.db")
    with keeping:
        if request.param == "read a database":
            yield lambda: store.get(KEY)
        else:
            yield lambda: store.put(KEY, {"n": 2}, "1")


def test_a_wait_ends_when_the_errand_has_no_time_left(busy) -> None:
    began = time.monotonic()
    with Errand(Exchange(0.3)).here(), pytest.raises(CallTimeout):
        busy()
    assert 0.3 <= time.monotonic() - began < MOST


def test_a_wait_ends_when_the_errand_is_given_up(busy) -> None:
    exchange = Exchange()
    caught: list[type] = []

    def wait() -> None:
        try:
            with Errand(exchange).here():
                busy()
        except ConnectionLost as error:
            caught.append(type(error))

    thread = threading.Thread(target=wait)
    thread.start()
    until = time.monotonic() + MOST
    while exchange.looked < 2 and time.monotonic() < until:
        time.sleep(0.01)
    exchange.given_up.set()
    thread.join(MOST)
    assert caught == [ConnectionLost]


@pytest.mark.parametrize("kind", ["threads", "files"])
def test_a_wait_for_a_lock_ends_when_the_errand_is_given_up(kind, tmp_path) -> None:
    exchange = Exchange()
    locks: Any = ThreadLocks() if kind == "threads" else FolderLocks(tmp_path / "locks")
    other: Any = locks if kind == "threads" else FolderLocks(tmp_path / "locks")
    caught: list[type] = []

    def wait() -> None:
        try:
            with Errand(exchange).here(), locks.hold("a", Deadline(None)):
                pass
        except ConnectionLost as error:
            caught.append(type(error))

    with other.hold("a", Deadline(5)):
        thread = threading.Thread(target=wait)
        thread.start()
        until = time.monotonic() + MOST
        while exchange.looked < 2 and time.monotonic() < until:
            time.sleep(0.01)
        exchange.given_up.set()
        thread.join(MOST)
    assert caught == [ConnectionLost]


def test_what_is_free_is_had_though_no_time_is_left(tmp_path) -> None:
    with Errand(Exchange(0)).here():
        for store in (FileStore(tmp_path / "store"), SQLiteStore(tmp_path / "store.db"), MemoryStore()):
            assert store.put(KEY, {"n": 1}, None)
            assert store.get(KEY).value == {"n": 1}  # type: ignore[union-attr]
            with store.lock(KEY, Deadline(0)):
                pass


def test_an_errand_counts_in_its_thread_and_in_its_block() -> None:
    outer, inner = Errand(Exchange()), Errand(Exchange())
    others: list[Errand] = []
    with outer.here():
        with inner.here():
            assert errand_here() is inner
            thread = threading.Thread(target=lambda: others.append(errand_here()))
            thread.start()
            thread.join()
        assert errand_here() is outer
    assert errand_here() is not outer
    assert others[0].exchange is None


# --- with a client -------------------------------------------------------------------------------------


def oauth(store: Any) -> OAuth:
    return OAuth(interaction=LoopbackBrowser(open=visit, timeout=20), store=store)


@pytest.mark.parametrize("kind", ["file", "sqlite"])
def test_a_call_that_needs_a_store_which_is_busy_ends_at_its_own_time(
    server, endpoint, tmp_path, kind
) -> None:
    path = tmp_path / "store"
    store, keeping = (
        (FileStore(path), writing_elsewhere) if kind == "file" else (SQLiteStore(path), locked_database)
    )
    with Client(endpoint.url, auth=oauth(store)) as client:
        client.call_tool("add", ADD)
        server.expire_all()
        with keeping(path):
            began = time.monotonic()
            with pytest.raises(CallTimeout):
                client.call_tool("add", ADD, timeout=0.5)
            assert time.monotonic() - began < MOST
        assert client.call_tool("add", ADD).structured_content == {"sum": 3}
    assert server.asked["authorize"] == 1
    assert not server.revoked_families


@pytest.mark.parametrize("kind", ["memory", "file"])
@pytest.mark.parametrize("how", ["cancel", "close"])
def test_a_call_that_waits_for_the_refresh_of_somebody_else_can_be_ended(
    server, endpoint, tmp_path, kind, how
) -> None:
    store: Any = MemoryStore() if kind == "memory" else FileStore(tmp_path / "store")
    auth = oauth(store)
    token, caught = CancelToken(), []
    with Client(endpoint.url, auth=auth) as client:
        client.call_tool("add", ADD)
        server.expire_all()
        (access,) = auth._accesses.values()

        def wait() -> None:
            try:
                client.call_tool("add", ADD, cancel=token)
            except (CallCancelled, ClientClosed) as error:
                caught.append(type(error))

        with store.lock(auth.vault.grant_key(endpoint.url), Deadline(5)):
            thread = threading.Thread(target=wait)
            thread.start()
            until = time.monotonic() + MOST
            while not access.turn.takers and time.monotonic() < until:
                time.sleep(0.01)
            token.cancel() if how == "cancel" else client.close()
            thread.join(MOST)
            assert caught == [CallCancelled if how == "cancel" else ClientClosed]


def test_a_logout_with_a_store_that_is_busy_ends_in_time_and_says_so(
    server, endpoint, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr("mcp_sync.auth._hook._LOGOUT_SECONDS", 1.0)
    auth = oauth(FileStore(tmp_path / "store"))
    with Client(endpoint.url, auth=auth):
        pass
    with writing_elsewhere(tmp_path / "store"):
        began = time.monotonic()
        with pytest.raises(AuthError, match="others keep the token store from being used"):
            auth.logout()
        assert time.monotonic() - began < MOST
    # It was revoked all the same.
    assert len(server.revoked) == 2
    auth.logout()
    assert auth.status().state == "needs_login"
