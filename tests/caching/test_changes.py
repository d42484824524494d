"""Notifications: what is kept of what has changed counts no more, whatever way the word came."""

from __future__ import annotations

import threading

import pytest
from engine.background import Background, wait_until

from mcp_sync import CacheOptions, Client, InMemory, Resync, Retry, ToolsChanged
from mcp_sync._protocol.urls import enclosing
from mcp_sync.cache import MemoryCache
from mcp_sync.testing import FakeTool

from .places import PATIENCE, URI, DictStore, add, keeping, make_server
from .test_keeping import LISTS

STORES = pytest.mark.parametrize("store", [MemoryCache, DictStore])


def counts(server):
    return {method: server.count(method) for method in LISTS}


@STORES
@pytest.mark.parametrize(
    ("tell", "gone"),
    [
        ("tools_changed", {"tools/list"}),
        ("prompts_changed", {"prompts/list"}),
        ("resources_changed", {"resources/list", "resources/templates/list"}),
    ],
)
def test_a_list_that_has_changed_is_fetched_anew(store, tell, gone):
    server = make_server()
    with (
        keeping(server, store=store()) as client,
        client.listen(tools=True, prompts=True, resource_list=True) as events,
    ):
        for ask in LISTS.values():
            ask(client)
        getattr(server, tell)()
        events.next(PATIENCE)
        for _ in range(2):
            for ask in LISTS.values():
                ask(client)
        assert counts(server) == {method: 2 if method in gone else 1 for method in LISTS}


@STORES
@pytest.mark.parametrize(
    ("uri", "goes"),
    [
        (URI, True),
        (URI + "/part", True),
        (URI + "/part/of#it", True),
        ("demo://notes/10", False),
        ("demo://notes/", False),
        ("demo://notes", False),
    ],
)
def test_a_resource_that_has_changed_or_a_part_of_it_is_read_anew(store, uri, goes):
    server = make_server()
    with keeping(server, store=store()) as client, client.listen(resources=[uri]) as events:
        client.read_resource(URI)
        client.list_resources()
        server.resource_updated(uri)
        events.next(PATIENCE)
        client.read_resource(URI)
        client.list_resources()
        assert server.count("resources/read") == (2 if goes else 1)
        assert server.count("resources/list") == 1


def test_an_update_of_no_resource_takes_all_that_was_read():
    with keeping(make_server()) as client:
        client.read_resource(URI)
        for params in ({}, {"params": []}, {"params": {"uri": 7}}):
            client._engine.router.notification({"method": "notifications/resources/updated", **params}, None)
        client.read_resource(URI)
        assert client.cache.stats.misses == 2


def test_what_encloses_a_uri():
    assert enclosing("a://b/c") == ("a://b/c", "a://b/", "a://b", "a://", "a:/", "a:/", "a:")
    assert enclosing("mailto:x") == ("mailto:x",)
    assert len(enclosing("/" * 100_000)) < 100


@pytest.mark.parametrize("versions", ["modern", "legacy"])
def test_the_word_may_come_on_the_stream_of_a_call(versions):
    def grow(context) -> str:
        """Add a tool, and say so."""
        server.tools["more"] = FakeTool(add, name="more")
        context.notify("notifications/tools/list_changed")
        return "done"

    server = make_server(tools=[add, FakeTool(grow)], versions=versions, ttl_ms=60_000)
    with (
        server.serve_http() as endpoint,
        Client(endpoint.url, cache=CacheOptions(default_ttl=60)) as client,
    ):
        assert len(client.list_tools().tools) == 2
        client.call_tool("grow")
        assert len(client.list_tools().tools) == 3


def test_the_word_may_come_on_the_servers_own_stream():
    server = make_server(versions="legacy")
    changed = threading.Event()
    with (
        server.serve_http() as endpoint,
        Client(
            endpoint.url, cache=CacheOptions(default_ttl=60), message_handler=lambda message: changed.set()
        ) as client,
    ):
        client.list_tools()
        client.list_tools()
        assert server.count("tools/list") == 1
        wait_until(lambda: (server.tools_changed(), changed.wait(0.05))[1])
        client.list_tools()
        assert server.count("tools/list") == 2


@STORES
@pytest.mark.parametrize("versions", ["modern", "legacy"])
def test_what_may_have_changed_while_nobody_listened_is_fetched_anew(store, versions):
    server = make_server(versions=versions)
    options = CacheOptions(store=store(), default_ttl=60)
    with (
        server.serve_http() as endpoint,
        Client(endpoint.url, cache=options, retry=Retry(backoff=0.001)) as client,
        client.listen(tools=True) as events,
    ):
        client.list_tools()
        if versions == "modern":
            server.drop_subscriptions()
        else:
            client._engine._connection.watchers.stands(True)
        assert events.next(PATIENCE) == Resync()
        client.list_tools()
        client.list_tools()
        assert server.count("tools/list") == 2


@STORES
def test_an_answer_that_was_on_its_way_when_the_word_came_is_not_kept(store):
    server = make_server()
    begun, go = threading.Event(), threading.Event()

    def slowly(message):
        begun.set()
        assert go.wait(PATIENCE)
        return NotImplemented

    server.on("tools/list", slowly)
    with (
        server.serve_http() as endpoint,
        Client(endpoint.url, cache=CacheOptions(store=store())) as client,
        client.listen(tools=True) as events,
    ):
        first = Background(client.list_tools)
        assert begun.wait(PATIENCE)
        server.tools_changed()
        assert events.next(PATIENCE) == ToolsChanged()
        begun.clear()
        second = Background(client.list_tools)
        assert begun.wait(PATIENCE), "it waited for an answer that is out of date"
        go.set()
        first.result()
        second.result()
        assert server.count("tools/list") == 2
        client.list_tools()
        assert server.count("tools/list") == 2, "the answer to the second request was to be kept"


@STORES
def test_the_word_that_one_client_hears_counts_for_all_that_share_the_store(store):
    server = make_server()
    target = InMemory(server)
    options = CacheOptions(store=store(), principal="ann")
    with Client(target, cache=options) as one, Client(target, cache=options) as other:
        one.list_tools()
        other.list_tools()
        assert server.count("tools/list") == 1
        one._engine.router.notification(
            {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}, None
        )
        wait_until(lambda: not one.cache._shelf._changed)
        other.list_tools()
        assert server.count("tools/list") == 2
        other.cache.clear()
        one.list_tools()
        assert server.count("tools/list") == 3


def test_a_flood_of_updates_leaves_little_behind():
    store = DictStore()
    with keeping(make_server(), store=store) as client:
        client.read_resource(URI)
        kept = len(store.values)
        store.delete = lambda key: (_ for _ in ()).throw(OSError("down"))
        for number in range(5_000):
            client.cache._shelf.note((f"demo://{number}",))
        assert len(client.cache._shelf._changed) <= 1_000
        assert len(store.values) == kept
        del store.delete
        client.read_resource(URI)
        assert client.cache.stats.misses == 2


def test_a_flood_of_changes_is_one_job_for_the_store():
    store = DictStore()
    go, deletes = threading.Event(), []

    def delete(key):
        deletes.append(key)
        go.wait(PATIENCE)

    with keeping(make_server(), store=store) as client:
        client.list_tools()
        store.delete = delete
        tell = client._engine.router.notification
        for _ in range(100):
            tell({"method": "notifications/tools/list_changed"}, None)
            tell({"method": "notifications/prompts/list_changed"}, None)
        try:
            wait_until(lambda: deletes)
            # Besides the one that is at work, which may have begun before the last change came.
            assert len(client._engine.router.sender._jobs) <= 1
            tell({"method": "notifications/resources/list_changed"}, None)
        finally:
            go.set()
        wait_until(lambda: not client.cache._shelf._changed)
        assert {client.cache._keys.mark(name) for name in LISTS if name != "resources/read"} == set(deletes)
        assert len(deletes) < 10
