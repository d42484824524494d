"""Which revisions a fake server speaks, and how it refuses the others."""

from __future__ import annotations

from typing import Any

import pytest
from plain_peer import PREFIX, Peer, modern_meta

from mcp_sync import testing
from mcp_sync._protocol.versions import (
    HANDSHAKE_VERSIONS,
    LATEST_HANDSHAKE,
    LATEST_MODERN,
    MODERN_VERSIONS,
)
from mcp_sync.testing import FakeServer, RpcError


def discover(version: str = LATEST_MODERN) -> dict[str, object]:
    return {"id": 1, "method": "server/discover", "params": {"_meta": modern_meta(version=version)}}


def initialize(version: str) -> dict[str, object]:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    return {"id": 1, "method": "initialize", "params": params}


def test_discover_names_the_revisions_capabilities_and_instructions() -> None:
    server = FakeServer(instructions="Be kind.", resources={"demo://x": "x"}, complete=lambda *_: [])
    result = server.handle(discover(), print)["result"]
    assert result["supportedVersions"] == list(MODERN_VERSIONS)
    assert set(result["capabilities"]) == {"logging", "resources", "completions"}
    assert result["instructions"] == "Be kind."
    assert result["_meta"] == {f"{PREFIX}serverInfo": {"name": "fake-server", "version": "1.0"}}


@pytest.mark.parametrize("version", HANDSHAKE_VERSIONS)
def test_initialize_agrees_on_the_revision_that_the_client_wants(version: str) -> None:
    assert FakeServer().handle(initialize(version), print)["result"]["protocolVersion"] == version


def test_initialize_offers_its_newest_revision_to_a_client_that_wants_an_unknown_one() -> None:
    server = FakeServer(versions=HANDSHAKE_VERSIONS[1:])
    assert (
        server.handle(initialize("1999-01-01"), print)["result"]["protocolVersion"] == HANDSHAKE_VERSIONS[1]
    )


def test_an_unknown_modern_revision_is_refused_with_the_supported_ones() -> None:
    error = FakeServer().handle(discover("2099-01-01"), print)["error"]
    assert error["code"] == -32022
    assert error["data"] == {
        "supported": [*MODERN_VERSIONS, *HANDSHAKE_VERSIONS],
        "requested": "2099-01-01",
    }


def test_a_server_may_speak_only_a_revision_that_is_not_known_yet() -> None:
    server = FakeServer(versions="2099-01-01")
    assert server.handle(discover(), print)["error"]["data"]["supported"] == ["2099-01-01"]
    assert "result" in server.handle(discover("2099-01-01"), print)


def test_a_modern_only_server_names_its_revisions_to_a_client_with_a_handshake() -> None:
    error = FakeServer(versions="modern").handle(initialize(LATEST_HANDSHAKE), print)["error"]
    assert error["code"] == -32022
    assert error["data"] == {"supported": list(MODERN_VERSIONS), "requested": LATEST_HANDSHAKE}
    assert LATEST_MODERN in error["message"]


@pytest.mark.parametrize("missing", ["protocolVersion", "clientCapabilities"])
def test_a_modern_only_server_demands_the_fields_of_meta(missing: str) -> None:
    meta = modern_meta()
    del meta[f"{PREFIX}{missing}"]
    message = {"id": 1, "method": "tools/list", "params": {"_meta": meta}}
    error = FakeServer(versions="modern").handle(message, print)["error"]
    assert error["code"] == -32602
    assert missing in error["message"]


def test_an_unknown_log_level_of_a_request_is_refused() -> None:
    peer = Peer(FakeServer(), LATEST_MODERN)
    assert peer.error("tools/list", _meta={f"{PREFIX}logLevel": "loud"})["code"] == -32602


def test_a_legacy_only_server_does_not_know_discover() -> None:
    assert FakeServer(versions="legacy").handle(discover(), print)["error"]["code"] == -32601


def test_a_request_before_initialize_is_refused_but_ping_is_answered() -> None:
    server = FakeServer(versions="legacy")
    assert server.handle({"id": 1, "method": "tools/list"}, print)["error"]["code"] == -32600
    assert server.handle({"id": 2, "method": "ping"}, print)["result"] == {}


@pytest.mark.parametrize("method", ["ping", "logging/setLevel", "resources/subscribe", "tasks/list"])
def test_a_method_that_the_modern_revision_lacks_is_not_found(method: str) -> None:
    assert Peer(FakeServer(), LATEST_MODERN).error(method)["code"] == -32601


def test_one_server_serves_both_eras_at_the_same_time() -> None:
    server = FakeServer(tools=[lambda: "x"])
    legacy, modern = Peer(server, LATEST_HANDSHAKE), Peer(server, LATEST_MODERN)
    assert "resultType" in modern.result("tools/list")
    assert "resultType" not in legacy.result("tools/list")


def test_a_new_handshake_forgets_what_the_last_one_left() -> None:
    server = FakeServer(resources={"demo://x": "x"})
    Peer(server, LATEST_HANDSHAKE).result("resources/subscribe", uri="demo://x")
    again = Peer(server, LATEST_HANDSHAKE)
    server.resource_updated("demo://x")
    assert again.sent == []


def test_an_override_replaces_even_the_negotiation() -> None:
    server = FakeServer()

    def refuse(message: object) -> object:
        raise RpcError(-32601, "Method not found")

    server.on("server/discover", refuse)
    server.on("initialize", lambda message: {"protocolVersion": "2020-01-01", "capabilities": {}})
    assert server.handle(discover(), print)["error"]["code"] == -32601
    assert server.handle(initialize(LATEST_HANDSHAKE), print)["result"]["protocolVersion"] == "2020-01-01"
    assert "result" in server.handle({"id": 2, "method": "tools/list"}, print)


@pytest.mark.parametrize(
    ("versions", "kind"),
    [
        ("2020", ValueError),
        ("newest", ValueError),
        (["2025-06-18", "x"], ValueError),
        ([], ValueError),
        (None, TypeError),
        (2025, TypeError),
        ([None], TypeError),
    ],
)
def test_versions_that_are_none_are_refused(versions: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=r'versions must be .*"legacy".*2025-06-18.*, not'):
        FakeServer(versions=versions)


@pytest.mark.parametrize(
    "offered", [{"tools": print}, {"tools": "print"}, {"tools": 3}, {"tools": ["print"]}]
)
def test_tools_that_are_none_are_refused(offered: Any) -> None:
    with pytest.raises(TypeError, match=r"tools must be .*functions.*, not "):
        FakeServer(**offered)


def test_prompts_and_resources_of_another_kind_are_refused() -> None:
    with pytest.raises(TypeError, match="prompts must be"):
        FakeServer(prompts=print)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="resources must be a mapping of URIs"):
        FakeServer(resources=["demo://a"])  # type: ignore[arg-type]


def test_all_names_of_the_package_are_listed() -> None:
    assert set(testing.__all__) <= set(dir(testing))
