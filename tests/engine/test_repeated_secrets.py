"""Servers like to repeat what they got where something is wrong: no error shows what was secret of it."""

from __future__ import annotations

import base64
import json
import logging
import pickle
from urllib.parse import quote

import pytest
import requests

from mcp_sync import BearerToken, Client, LegacySSE, MCPError, ToolFailed
from mcp_sync.errors import HTTPStatusError, InternalError
from mcp_sync.testing import FakeServer, HTTPReply, RpcError, ToolContext

TOKEN = "CANARY/0123+4567="
KEY = "CANARY-key-89"
HEADERS = {"Authorization": f"Bearer {TOKEN}", "X-Api-Key": KEY, "Cookie": "sid=CANARY-cookie; a=b"}
ECHO = f"bad {TOKEN} and {quote(TOKEN, safe='')} and {KEY} of CANARY-cookie, not TOKEN"


def make_server():
    def refuse(context: ToolContext) -> str:
        raise RpcError(-32603, ECHO, {"sent": [HEADERS], TOKEN: 1})

    def progressing(context: ToolContext) -> str:
        context.progress(1, 2)
        return refuse(context)

    def complain() -> str:
        raise ValueError(ECHO)

    return FakeServer(tools=[refuse, progressing, complain])


def told(error):
    return "".join([str(error), repr(error), repr(pickle.loads(pickle.dumps(error)).__dict__)])


def failing(client, name):
    with pytest.raises(InternalError) as caught:
        client.call_tool(name, progress_callback=lambda *_: None)
    assert caught.value.message == "bad (secret) and (secret) and (secret) of (secret), not TOKEN"
    assert "CANARY" not in told(caught.value)
    with pytest.raises(ToolFailed) as failed:
        client.call_tool("complain", raise_on_error=True)
    assert "CANARY" not in told(failed.value)
    assert "(secret)" in str(failed.value)


@pytest.mark.parametrize("name", ["refuse", "progressing"])
@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
def test_an_error_over_http_does_not_show_them(name, mode):
    with make_server().serve_http() as endpoint, Client(endpoint.url, headers=HEADERS, mode=mode) as client:
        failing(client, name)


def test_an_error_to_a_session_of_the_users_does_not_show_them():
    with make_server().serve_http() as endpoint, requests.Session() as session:
        session.headers.update(HEADERS)
        with Client(endpoint.url, session=session) as client:
            failing(client, "refuse")


def test_an_error_over_the_older_http_does_not_show_them():
    with make_server().serve_sse() as endpoint, Client(LegacySSE(endpoint.url, headers=HEADERS)) as client:
        failing(client, "refuse")


def test_an_error_over_websocket_does_not_show_them():
    with make_server().serve_websocket() as endpoint, Client(endpoint.url, headers=HEADERS) as client:
        failing(client, "refuse")


def test_a_password_and_a_token_in_the_url_are_struck_out_too():
    pair = base64.b64encode(b"user:CANARY-password").decode()

    def refuse() -> str:
        raise RpcError(-32603, f"no: {pair}, CANARY-password, CANARY-query")

    with FakeServer(tools=[refuse]).serve_http() as endpoint:
        url = endpoint.url.replace("//", "//user:CANARY-password@") + "?api_key=CANARY-query"
        with Client(url) as client, pytest.raises(InternalError) as caught:
            client.call_tool("refuse")
    assert caught.value.message == "no: (secret), (secret), (secret)"


@pytest.mark.parametrize(
    ("status", "kind", "body"),
    [
        (403, "text/plain", ECHO.encode()),
        (500, "application/json", json.dumps({"error": ECHO}).encode()),
        (200, "text/html", ECHO.encode()),
        (200, "application/json", ECHO.encode()),
        (200, "application/json", json.dumps({"jsonrpc": "2.0", "odd": ECHO}).encode()),
        (200, "text/event-stream", f"data: {ECHO}\n\n".encode()),
        (200, "text/event-stream", f"{ECHO}\n\n".encode()),
    ],
)
def test_a_failure_of_http_does_not_show_them(status, kind, body, caplog):
    caplog.set_level(logging.DEBUG, "mcp_sync")
    reply = HTTPReply(status, {"Content-Type": kind, "X-Echo": ECHO if status > 299 else "x"}, body)
    lines = []
    with make_server().serve_http(intercept=lambda request: reply) as endpoint:
        client = Client(endpoint.url, headers=HEADERS, mode="2026-07-28", trace=lines.append)
        with client, pytest.raises(MCPError) as caught:
            client.call_tool("refuse", timeout=5)
    assert isinstance(caught.value, HTTPStatusError) is (status != 200)
    assert "CANARY" not in told(caught.value) + caplog.text + "".join(lines)


def test_what_is_no_failure_stays_as_it_is():
    def echo(context: ToolContext) -> str:
        return TOKEN

    server = FakeServer(tools=[echo])
    with server.serve_http() as endpoint, Client(endpoint.url, auth=BearerToken(TOKEN)) as client:
        assert client.call_tool("echo").text == TOKEN
