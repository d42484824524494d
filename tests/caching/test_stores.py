"""Stores: the one in memory, small ones, Django's and Redis, and those that fail or hold rubbish."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import textwrap
import threading
from typing import Any

import pytest
from engine.background import Background, wait_until

from mcp_sync import CacheOptions, Client, UsageError
from mcp_sync._concurrency import fork
from mcp_sync.cache import MemoryCache

from .places import PATIENCE, URI, DictStore, keeping, make_server
from .test_keeping import LISTS
from .test_together import Gate

forking = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


# --- in memory --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bounds", [{"max_entries": 3}, {"max_bytes": 300}], ids=str)
def test_what_was_not_used_for_the_longest_time_goes_first(bounds):
    cache = MemoryCache(**bounds)
    for key in "abc":
        cache.put(key, b"x" * 100, 60)
    assert list(cache.get_many(["a"])) == ["a"]
    cache.put("d", b"x" * 100, 60)
    assert sorted(cache.get_many(list("abcd"))) == ["a", "c", "d"]
    assert len(cache) == 3


def test_what_is_too_large_for_the_whole_cache_is_not_kept_and_costs_nothing_else():
    cache = MemoryCache(max_bytes=10)
    cache.put("a", b"x", 60)
    cache.put("b", b"x" * 11, 60)
    assert list(cache.get_many(["a", "b"])) == ["a"]
    cache.put("a", b"x" * 11, 60)
    assert cache.get_many(["a"]) == {}, "the old value outlived the new one"


def test_values_end_with_their_time(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("mcp_sync.cache.time.monotonic", lambda: now[0])
    cache = MemoryCache()
    cache.put("a", b"x", 5)
    now[0] = 4.9
    assert cache.get_many(["a"]) == {"a": b"x"}
    now[0] = 5.0
    assert cache.get_many(["a"]) == {}
    cache.delete("a")
    cache.delete("a")
    assert len(cache) == 0


@pytest.mark.parametrize("bounds", [{"max_entries": 0}, {"max_entries": True}, {"max_bytes": 1.5}], ids=str)
def test_bounds_that_cannot_work_are_refused(bounds):
    with pytest.raises(UsageError, match=next(iter(bounds))):
        MemoryCache(**bounds)


def test_a_client_with_little_room_keeps_what_was_asked_for_last():
    server = make_server()
    with keeping(server, store=MemoryCache(max_entries=5)) as client:
        for number in range(10):
            client.read_resource(f"demo://notes/{number}")
        client.read_resource("demo://notes/9")
        assert server.count("resources/read") == 10
        assert len(client.cache._shelf.store) == 5


def test_an_answer_that_is_too_large_is_given_all_the_same():
    server = make_server(resources={URI: "x" * 1000})
    with keeping(server, store=MemoryCache(max_bytes=500)) as client:
        for _ in range(2):
            assert len(client.read_resource(URI).contents[0].text) == 1000
        assert server.count("resources/read") == 2


# --- bytes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", LISTS)
def test_an_answer_is_the_same_from_any_store(method):
    server = make_server()
    store = DictStore()
    with keeping(server, store=store, stale_on_error=60) as client:
        first = LISTS[method](client)
        again = LISTS[method](client)
        assert again.to_wire() == first.to_wire()
        assert server.count(method) == 1
    assert all(len(key) <= 80 and key.isascii() and key.replace("-", "").isalnum() for key in store.values)
    assert 120 in store.seconds.values()
    assert min(store.seconds.values()) == 120, "a mark goes before what it belongs to"


RUBBISH: list[Any] = [
    b"",
    b"{}",
    b"[]",
    b"null",
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"version": 1}',
    "text",
    7,
    {"a": 1},
    ["list"],
    b'{"version": 1, "arrived": NaN, "fresh_until": 1e999, "marks": [], "result": {"tools": []}}',
    b'{"version": 1, "arrived": 0, "fresh_until": 1e12, "marks": [], "result": {"tools": []}}',
]


@pytest.mark.parametrize("rubbish", RUBBISH, ids=lambda value: repr(value)[:30])
@pytest.mark.parametrize("store", [DictStore, MemoryCache])
def test_rubbish_in_the_store_is_a_miss(store, rubbish):
    server = make_server()
    store = store()
    with keeping(server, store=store) as client:
        client.list_tools()
        if isinstance(store, MemoryCache):
            for key in list(store._kept):
                store.keep(key, rubbish, 1, 60)
        else:
            for key in list(store.values):
                store.values[key] = rubbish
        assert len(client.list_tools().tools) == 1
        assert len(client.list_tools().tools) == 1
        assert server.count("tools/list") == 2


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"marks": []},
        {"marks": ["x"]},
        {"marks": [7]},
        {"marks": None},
        {"arrived": "now"},
        {"arrived": 10**12, "fresh_until": 10**12 + 10},
        {"fresh_until": 10**12},
        {"result": {"tools": 7}},
        {"result": None},
        {"result": {"tools": [{"name": 7}]}, "marks": None},
    ],
    ids=str,
)
def test_an_entry_that_is_not_as_it_was_made_is_a_miss(change):
    server = make_server()
    store = DictStore()
    with keeping(server, store=store) as client:
        client.list_tools()
        for key, value in store.values.items():
            if value.startswith(b"{"):
                store.values[key] = json.dumps({**json.loads(value), **change}).encode()
        assert len(client.list_tools().tools) == 1
        assert server.count("tools/list") == 2


class Failing(DictStore):
    """Raises in the methods that are named."""

    def __init__(self, *names: str, error: type[Exception] = OSError) -> None:
        super().__init__()
        self.names, self.error = names, error

    def __getattribute__(self, name: str) -> Any:
        if name in ("get_many", "put", "delete") and name in object.__getattribute__(self, "names"):
            raise object.__getattribute__(self, "error")("redis://:password@host is down")
        return object.__getattribute__(self, name)


@pytest.mark.parametrize("names", [("get_many",), ("put",), ("get_many", "put", "delete")], ids=str)
@pytest.mark.parametrize("error", [OSError, KeyError, RuntimeError])
def test_a_store_that_fails_is_a_miss_and_a_warning(names, error, caplog):
    server = make_server()
    store = Failing(error=error)
    with keeping(server, store=store) as client:
        store.names = names
        with caplog.at_level(logging.WARNING, "mcp_sync.cache"):
            for _ in range(2):
                assert len(client.list_tools().tools) == 1
            client.cache.clear()
        assert server.count("tools/list") == 2
        assert error.__name__ in caplog.text
        assert "password" not in caplog.text
        store.names = ()
        client.list_tools()
        client.list_tools()
        assert server.count("tools/list") == 3, "it did not recover"


def test_a_store_that_fails_is_asked_once_for_each_call():
    store = DictStore()
    asked = []

    def fail(keys):
        asked.append(keys)
        raise OSError

    store.get_many = fail
    with keeping(make_server(), store=store) as client:
        for count in (1, 2, 3):
            client.list_tools()
            assert len(asked) == count


@pytest.mark.parametrize("answer", [None, [], 7], ids=repr)
def test_a_store_whose_answer_is_none_is_a_miss(answer):
    server = make_server()
    store = DictStore()
    store.get_many = lambda keys: answer
    with keeping(server, store=store) as client:
        for _ in range(2):
            client.list_tools()
        assert server.count("tools/list") == 2


def test_what_has_changed_is_not_given_while_the_store_cannot_be_told():
    server = make_server()
    store = Failing()
    with keeping(server, store=store) as client:
        client.list_tools()
        store.names = ("delete",)
        client._engine.router.notification({"method": "notifications/tools/list_changed"}, None)
        client.list_tools()
        assert server.count("tools/list") == 2
        store.names = ()
        client.list_tools()
        client.list_tools()
        assert server.count("tools/list") == 3


def test_a_store_that_forgets_at_any_time_costs_requests_alone():
    server = make_server()
    store = DictStore()
    with keeping(server, store=store) as client:
        for number in range(10):
            client.list_tools()
            for key in list(store.values)[number % 2 :: 2]:
                store.delete(key)
        assert len(client.list_tools().tools) == 1


def test_a_slow_store_holds_no_reading_thread_up():
    store = DictStore()
    go, threads = threading.Event(), []

    def delete(key):
        threads.append(threading.get_ident())
        go.wait(PATIENCE)

    with keeping(make_server(), store=store) as client:
        client.list_tools()
        store.delete = delete
        client._engine.router.notification({"method": "notifications/tools/list_changed"}, None)
        wait_until(lambda: threads)
        assert threads[0] != threading.get_ident()
        go.set()


def test_a_call_waits_for_no_change_but_that_of_what_it_asks_for():
    store = DictStore()
    go, deleted = threading.Event(), []

    def delete(key):
        deleted.append(key)
        if threading.current_thread() is not threading.main_thread():
            go.wait(PATIENCE)

    with keeping(make_server(), store=store) as client:
        client.list_tools()
        store.delete = delete
        notify = client._engine.router.notification
        for number in range(90):
            uri = f"demo://{number}"
            notify({"method": "notifications/resources/updated", "params": {"uri": uri}}, None)
        wait_until(lambda: deleted)
        client.list_tools()
        assert len(deleted) == 1
        notify({"method": "notifications/tools/list_changed"}, None)
        client.list_tools()
        assert len(deleted) == 2
        go.set()
        wait_until(lambda: not client.cache._shelf._changed)


def test_a_flood_of_changes_costs_a_store_little():
    store = DictStore()
    go, deleted = threading.Event(), []

    def delete(key):
        deleted.append(key)
        go.wait(PATIENCE)

    with keeping(make_server(), store=store) as client:
        client.list_tools()
        store.delete = delete
        for number in range(5000):
            params = {"uri": f"demo://{number}"}
            client._engine.router.notification(
                {"method": "notifications/resources/updated", "params": params}, None
            )
        go.set()
        wait_until(lambda: not client.cache._shelf._changed)
        assert len(deleted) < 300


# --- processes --------------------------------------------------------------------------------------------


@forking
@pytest.mark.parametrize("store", [None, DictStore], ids=["memory", "bytes"])
def test_a_forked_child_goes_on_with_a_copy_and_locks_of_its_own(store):
    server = make_server()
    with keeping(server, store=store() if store else None) as client:
        client.list_tools()
        before = server.count("tools/list")
        shelf = client.cache._shelf
        locks = [client.cache._lock, shelf._lock]
        if store is None:
            locks.append(shelf.store._lock)

        release, held = threading.Event(), threading.Semaphore(0)

        def hold(lock):
            with lock:
                held.release()
                release.wait(PATIENCE)

        holders = [Background(hold, lock) for lock in locks]
        for _ in holders:
            assert held.acquire(timeout=PATIENCE)
        child = os.fork()
        if not child:
            code = 1
            try:
                client.list_tools()
                if server.count("tools/list") == before:
                    code = 2
                    client._engine.router.notification({"method": "notifications/tools/list_changed"}, None)
                    client.list_tools()
                    code = 0 if server.count("tools/list") == before + 1 else 3
            finally:
                os._exit(code)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        release.set()
        for holder in holders:
            holder.join()
        assert status == 0
        client.list_tools()
        assert server.count("tools/list") == before


@forking
def test_a_child_that_is_forked_while_an_answer_is_fetched_fetches_its_own():
    server = make_server()
    gate = Gate(server)
    with server.serve_http() as endpoint, Client(endpoint.url, cache=CacheOptions()) as client:
        first = Background(client.list_tools)
        gate.wait()
        child = os.fork()
        if not child:
            code = 1
            try:
                code = 0 if len(client.list_tools(timeout=PATIENCE).tools) == 1 else 2
            finally:
                os._exit(code)
        gate.wait()
        gate.go.set()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert len(first.result().tools) == 1


class LockingStore(DictStore):
    """Has a lock that a child does not renew, as the stores of other makers have."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()
        self.inside = lambda: None

    def get_many(self, keys: Any) -> Any:
        if not self.lock.acquire(timeout=2):
            raise TimeoutError
        try:
            self.inside()
            return super().get_many(keys)
        finally:
            self.lock.release()


@forking
def test_a_fork_waits_for_what_another_thread_does_in_a_store():
    server = make_server()
    store = LockingStore()
    begun = threading.Event()

    def inside():
        begun.set()
        wait_until(lambda: fork._forking)

    with keeping(server, store=store) as client:
        client.list_tools()
        store.inside = inside
        other = Background(client.list_tools)
        assert begun.wait(PATIENCE)
        child = os.fork()
        if not child:
            code = 1
            try:
                store.inside = lambda: None
                hits = client.cache.stats.hits
                client.list_tools()
                code = 0 if client.cache.stats.hits == hits + 1 else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        other.result()


def test_a_client_without_a_cache_loads_nothing_for_one():
    code = """
        import sys
        from mcp_sync import Client, InMemory
        from mcp_sync.testing import FakeServer
        with Client(InMemory(FakeServer())) as client:
            client.list_tools()
        print([name for name in sys.modules if "cache" in name and name.startswith("mcp_sync")])
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=True)
    assert [name for name in eval(done.stdout) if name != "mcp_sync.testing._caching"] == []
