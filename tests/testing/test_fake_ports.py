"""Fake servers one after the other at the same port, and what clients remember of it."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from mcp_sync import Client, StreamableHTTP, WebSocket
from mcp_sync._engine import known_servers
from mcp_sync._engine.known_servers import KnownServers
from mcp_sync._protocol.versions import LATEST_HANDSHAKE, LATEST_MODERN
from mcp_sync.testing import FakeServer

# Those that systems give to who asks for a free one.
FREE_PORTS = range(32768, 65536)


def test_a_free_port_is_that_of_a_new_server(monkeypatch: pytest.MonkeyPatch) -> None:
    legacy, older_transport = KnownServers(2 * len(FREE_PORTS)), KnownServers(len(FREE_PORTS))
    for port in FREE_PORTS:
        identity = StreamableHTTP(f"http://127.0.0.1:{port}/mcp").identity()
        legacy.note(identity, True)
        older_transport.note(identity, True)
        legacy.note(WebSocket(f"ws://127.0.0.1:{port}/ws").identity(), True)
    monkeypatch.setattr(known_servers, "legacy", legacy)
    monkeypatch.setattr(known_servers, "older_transport", older_transport)
    server = FakeServer()
    with server.serve_http() as http, server.serve_websocket() as websocket:
        for endpoint in (http, websocket):
            with Client(endpoint.url) as client:
                assert client.protocol_version == LATEST_MODERN
        assert [request.method for request in http.requests] == ["POST"]


def test_a_server_that_takes_over_a_port_is_greeted_as_the_one_before() -> None:
    with FakeServer(versions="legacy").serve_http() as endpoint, Client(endpoint.url) as client:
        assert client.protocol_version == LATEST_HANDSHAKE
    port = urlsplit(endpoint.url).port or 0
    with FakeServer().serve_http(port) as endpoint, Client(endpoint.url) as client:
        assert client.protocol_version == LATEST_HANDSHAKE


@pytest.mark.parametrize("options", [{"host": ""}, {"path": "mcp"}], ids=str)
def test_a_url_that_no_client_takes_can_be_served(options: dict[str, str]) -> None:
    with FakeServer().serve_http(**options) as endpoint:
        assert endpoint.url
