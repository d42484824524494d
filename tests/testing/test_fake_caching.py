"""The caching hints of the fake server, and how its requests are counted."""

from __future__ import annotations

from typing import Any

import pytest
from plain_peer import Message, Peer, validate

from mcp_sync._protocol.versions import LATEST_HANDSHAKE, LATEST_MODERN
from mcp_sync.testing import FakeServer

CACHEABLE: dict[str, Message] = {
    "server/discover": {},
    "tools/list": {},
    "prompts/list": {},
    "resources/list": {},
    "resources/templates/list": {},
    "resources/read": {"uri": "demo://a"},
}


def one() -> str:
    return "1"


def two() -> str:
    return "2"


def offering(**options: Any) -> FakeServer:
    return FakeServer(tools=[one, two], resources={"demo://a": "a"}, **options)


def hints(result: Message) -> tuple[Any, Any]:
    return result.get("ttlMs"), result.get("cacheScope")


@pytest.mark.parametrize("method", CACHEABLE)
def test_every_cacheable_result_carries_the_hints(method: str) -> None:
    peer = Peer(offering(ttl_ms=5000, cache_scope="public"), LATEST_MODERN)
    assert hints(peer.result(method, **CACHEABLE[method])) == (5000, "public")


def test_the_hints_are_as_the_schema_has_them() -> None:
    validate(LATEST_MODERN, "ListToolsResult", Peer(offering(), LATEST_MODERN).result("tools/list"))


def test_hints_can_differ_by_method_and_change_later() -> None:
    server = offering(ttl_ms={"tools/list": 1000}, cache_scope={"resources/read": "public"})
    peer = Peer(server, LATEST_MODERN)
    assert hints(peer.result("tools/list")) == (1000, "private")
    assert hints(peer.result("resources/read", uri="demo://a")) == (0, "public")
    server.ttl_ms = 7
    assert hints(peer.result("tools/list")) == (7, "private")


def test_each_page_can_have_its_time() -> None:
    def ttl(params: Message) -> int:
        return 10 if "cursor" in params else 60_000

    peer = Peer(offering(page_size=1, ttl_ms={"tools/list": ttl}), LATEST_MODERN)
    first = peer.result("tools/list")
    second = peer.result("tools/list", cursor=first["nextCursor"])
    assert (first["ttlMs"], second["ttlMs"]) == (60_000, 10)


def test_hints_can_be_left_out_or_wrong() -> None:
    peer = Peer(offering(ttl_ms={"tools/list": None, "prompts/list": -5}, cache_scope=None), LATEST_MODERN)
    assert "ttlMs" not in peer.result("tools/list")
    assert "cacheScope" not in peer.result("tools/list")
    assert peer.result("prompts/list")["ttlMs"] == -5


def test_a_resource_can_have_hints_of_its_own() -> None:
    server = FakeServer(ttl_ms=1)
    server.add_resource(
        "demo://b",
        lambda: {"contents": [{"uri": "demo://b", "text": "b"}], "ttlMs": 9, "cacheScope": "public"},
    )
    result = Peer(server, LATEST_MODERN).result("resources/read", uri="demo://b")
    assert hints(result) == (9, "public")


def test_calls_and_older_revisions_carry_no_hints() -> None:
    server = offering(ttl_ms=5000)
    assert hints(Peer(server, LATEST_MODERN).call("one")) == (None, None)
    assert hints(Peer(server, LATEST_HANDSHAKE).result("tools/list")) == (None, None)


def test_requests_are_counted_by_method() -> None:
    server = offering()
    peer = Peer(server, LATEST_MODERN)
    peer.result("tools/list")
    peer.result("tools/list")
    assert (server.count("tools/list"), server.count("prompts/list")) == (2, 0)
    assert [message["id"] for message in server.wait_for("tools/list", 2)] == [1, 2]
    with pytest.raises(TimeoutError, match="2 messages of tools/list have arrived, not 3"):
        server.wait_for("tools/list", 3, timeout=0.01)
