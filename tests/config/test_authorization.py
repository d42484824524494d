"""What a configuration says about authorization works against a server that asks for it."""

from __future__ import annotations

import webbrowser
from typing import Any

import pytest
from auth.oauth_server import OAuthServer, visit

from mcp_sync.auth import OAuth
from mcp_sync.config import load_config
from mcp_sync.testing import FakeServer


def whoami() -> str:
    return "you"


@pytest.mark.parametrize(
    "entry",
    [
        {"auth": {"type": "client_credentials", "clientId": "service", "clientSecret": "${CONFIG_SECRET}"}},
        {"auth": {"type": "bearer", "tokenEnv": "CONFIG_TOKEN"}},
        {"auth": "Bearer ${CONFIG_TOKEN}"},
        {"bearerToken": "${CONFIG_TOKEN}"},
        {"bearer_token_env_var": "CONFIG_TOKEN"},
        {"headers": {"Authorization": "Bearer ${CONFIG_TOKEN}"}},
        {"auth": "oauth"},
        {"auth": True},
        {"oauth": {"clientName": "Tests", "scopes": ["read"]}},
    ],
)
def test_a_protected_server_is_reached(entry: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONFIG_SECRET", "its secret")
    monkeypatch.setenv("CONFIG_TOKEN", "a-token")
    monkeypatch.setattr(webbrowser, "open", visit)
    with OAuthServer() as server:
        server.clients["service"] = "its secret"
        server.tokens["a-token"] = ""
        with FakeServer([whoami]).serve_http(intercept=server.protect) as endpoint:
            config = load_config({"here": {"url": endpoint.url, **entry}})
            with config["here"].client() as client:
                assert client.call_tool("whoami").text == "you"


@pytest.mark.parametrize(
    ("oauth", "uri"),
    [
        ({"redirectUri": "http://localhost:7777/oauth/callback"}, ("localhost", (7777,), "/oauth/callback")),
        ({"callbackPort": 8080}, ("localhost", (8080,), "/callback")),
        ({"redirectUri": "http://127.0.0.1/x"}, ("127.0.0.1", (0,), "/x")),
    ],
)
def test_the_callback_is_where_the_host_registered_it(oauth: dict[str, Any], uri: Any) -> None:
    auth = load_config({"here": {"url": "https://h/mcp", "oauth": oauth}})["here"].target().auth

    assert isinstance(auth, OAuth)
    browser = auth._interaction
    assert (browser._host, tuple(browser._ports), browser._path) == uri


def test_a_callback_of_a_web_application_is_its_own() -> None:
    entry = {"url": "https://h/mcp", "oauth": {"redirectUri": "https://app.example/callback"}}
    auth = load_config({"here": entry})["here"].target().auth

    assert auth._interaction is None


def test_authorization_can_be_switched_off_or_replaced() -> None:
    for entry in ({"auth": False}, {"oauth": {"enabled": False}}, {"auth": {"type": "none"}}, {}):
        server = load_config({"here": {"url": "https://h/mcp", **entry}})["here"]
        assert server.target().auth is None
    server = load_config(
        {"here": {"url": "https://h/mcp", "auth": "${NOT_SET_AT_ALL}", "headers": {"A": "b"}}}
    )["here"]
    target = server.target(auth=("me", "word"), headers={"C": "d"})
    assert (target.auth, target.headers) == (("me", "word"), {"A": "b", "C": "d"})
