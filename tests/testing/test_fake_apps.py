"""Apps of the fake server: pages with their policy, and the tools that they show, in plain messages."""

from __future__ import annotations

from typing import Any

from plain_peer import PREFIX, Message, Peer

from mcp_sync._protocol.versions import LATEST_MODERN
from mcp_sync.testing import FakeServer, FakeTool

UI = f"{PREFIX}ui"
TYPE = "text/html;profile=mcp-app"
HOST = {"extensions": {UI: {"mimeTypes": [TYPE]}}}
BOARD = "ui://weather/board"
POLICY: Message = {
    "csp": {"connectDomains": ["https://api.example"]},
    "permissions": {"camera": {}},
    "prefersBorder": True,
}


def forecast() -> str:
    return "sunny"


def refresh() -> str:
    return "fresh"


def weather() -> FakeServer:
    server = FakeServer(tools=[FakeTool(forecast, ui=BOARD, extra={"_meta": {"x": 1}})])
    server.tool(ui={"resourceUri": BOARD, "visibility": ["app"]})(refresh)
    server.add_app(BOARD, "<!DOCTYPE html>", **POLICY)
    return server


def metas(peer: Peer) -> dict[str, Any]:
    return {tool["name"]: tool.get("_meta") for tool in peer.result("tools/list")["tools"]}


def test_the_extension_is_declared_in_both_eras(version: str) -> None:
    server = weather()
    if version == LATEST_MODERN:
        declared: Any = Peer(server, version).result("server/discover")["capabilities"]
    else:
        message = {"id": 1, "method": "initialize", "params": {"protocolVersion": version}}
        answer: Any = server.handle(message, print)
        declared = answer["result"]["capabilities"]
    assert declared["extensions"] == {UI: {}}


def test_tools_name_their_page_to_hosts_that_show_it(version: str) -> None:
    assert metas(Peer(weather(), version, HOST)) == {
        "forecast": {"x": 1, "ui": {"resourceUri": BOARD}},
        "refresh": {"ui": {"resourceUri": BOARD, "visibility": ["app"]}},
    }


def test_other_clients_see_plain_tools(version: str) -> None:
    assert metas(Peer(weather(), version)) == {"forecast": {"x": 1}, "refresh": None}
    other = {"extensions": {UI: {"mimeTypes": ["text/plain"]}}}
    assert metas(Peer(weather(), version, other))["refresh"] is None


def test_the_page_comes_with_its_policy(version: str) -> None:
    peer = Peer(weather(), version, HOST)
    [contents] = peer.result("resources/read", uri=BOARD)["contents"]
    assert contents == {"uri": BOARD, "mimeType": TYPE, "text": "<!DOCTYPE html>", "_meta": {"ui": POLICY}}
    [resource] = peer.result("resources/list")["resources"]
    assert resource == {"uri": BOARD, "name": "board", "mimeType": TYPE}


def test_a_page_without_a_policy_has_no_meta() -> None:
    server = FakeServer()
    server.add_app("ui://plain", "<p>")
    [contents] = Peer(server, LATEST_MODERN).result("resources/read", uri="ui://plain")["contents"]
    assert "_meta" not in contents


def test_an_extension_of_the_users_own_is_declared(version: str) -> None:
    server = FakeServer(extensions={"com.example/search": {"depth": 2}})
    server.on("com.example/search", lambda message: {"found": message["params"]["q"]})
    peer = Peer(server, version)
    assert peer.result("com.example/search", q="x")["found"] == "x"
    if version == LATEST_MODERN:
        declared = peer.result("server/discover")["capabilities"]
        assert declared["extensions"] == {"com.example/search": {"depth": 2}}
