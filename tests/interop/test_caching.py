"""The response cache, with a server on the official SDK that says for how long its answers stay fresh."""

from __future__ import annotations

import pytest

from mcp_sync import CacheOptions, RemoteError, ToolsChanged
from mcp_sync.cache import CacheStats, MemoryCache

from .harness import WAIT, Harness
from .test_python_sdks import among, text

pytestmark = pytest.mark.interop
NOTE = "note://hello"

hinting = among("sdk2", modern=True)


@hinting
def test_lists_and_resources_are_kept_for_as_long_as_the_server_says(harness: Harness) -> None:
    with harness.another_client(cache=CacheOptions()) as client:
        for _ in range(3):
            names = [tool.name for tool in client.tools()]
            assert "add" in names
            assert client.read_resource(NOTE).text == "Hello, wörld"
            client.list_prompts()
        # It says nothing of prompts, which means no time at all.
        assert client.cache.stats == CacheStats(hits=4, misses=5, stores=2)
        assert client.list_tools(cache="refresh").ttl_ms == 60_000
        assert text(client.call_tool("echo", {"text": "a"})) == "a"


@hinting
def test_what_has_changed_is_fetched_anew(harness: Harness) -> None:
    with harness.another_client(cache=CacheOptions()) as client, client.listen(tools=True) as events:
        client.list_tools()
        client.list_tools()
        assert client.cache.stats.hits == 1
        assert text(client.call_tool("relist")) == "told"
        assert events.next(WAIT) == ToolsChanged()
        client.list_tools()
        assert (client.cache.stats.hits, client.cache.stats.misses) == (1, 2)


@hinting
def test_a_resource_that_was_touched_is_read_anew(harness: Harness) -> None:
    with harness.another_client(cache=CacheOptions()) as client, client.listen(resources=[NOTE]) as events:
        client.read_resource(NOTE)
        client.list_tools()
        client.call_tool("touch", {"uri": NOTE})
        assert events.next(WAIT) is not None
        client.read_resource(NOTE)
        client.list_tools()
        assert client.cache.stats == CacheStats(hits=1, misses=3, stores=3)


@hinting
def test_two_clients_share_what_is_public_alone(harness: Harness) -> None:
    store = MemoryCache()
    with harness.another_client(cache=CacheOptions(store=store, principal="ann")) as client:
        client.list_tools()
        client.read_resource(NOTE)
    with harness.another_client(cache=CacheOptions(store=store, principal="bob")) as client:
        client.list_tools()
        client.read_resource(NOTE)
        assert client.cache.stats == CacheStats(hits=1, misses=1, stores=1)


@hinting
def test_errors_are_not_kept(harness: Harness) -> None:
    with harness.another_client(cache=CacheOptions()) as client:
        for _ in range(2):
            with pytest.raises(RemoteError):
                client.read_resource("note://none")
        assert client.cache.stats == CacheStats(misses=2)
