"""Credentials that were given by hand: they belong where they were used first."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from mcp_sync import Client
from mcp_sync.auth import ClientCredentials, FileStore, LoopbackBrowser, MemoryStore, OAuth, WorkloadIdentity
from mcp_sync.errors import AuthError, IssuerMismatch, MCPError

from .oauth_server import OAuthServer, agree, json_reply, protected, visit

SECRET = "canary-secret"


class Server(OAuthServer):
    """Knows the client, and takes the token of any workload."""

    def __init__(self) -> None:
        super().__init__()
        self.clients = {"me": SECRET, "": None}
        self.on_token = lambda form: (
            self._tokens(None, None) if form["grant_type"].endswith("jwt-bearer") else None
        )


@pytest.fixture
def good() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def other() -> Iterator[Server]:
    with Server() as server:
        yield server


def add(url: str, auth: Any) -> str:
    with Client(url, auth=auth) as client:
        return client.call_tool("add", {"a": 1, "b": 2}).text


KINDS = {
    "ClientCredentials": lambda **options: ClientCredentials("me", SECRET, **options),
    "OAuth": lambda **options: OAuth(
        client_id="me", client_secret=SECRET, interaction=LoopbackBrowser(open=visit), **options
    ),
    "WorkloadIdentity": lambda **options: WorkloadIdentity(SECRET, **options),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_mcp_server_does_not_lead_credentials_to_another_authorization_server(
    good, other, kind
) -> None:
    store = MemoryStore()
    with protected(good) as first, protected(other) as second:
        assert add(first.url, KINDS[kind](store=store)) == '{"sum": 3}'
        for auth in (KINDS[kind](store=store), KINDS[kind](store=store, principal="ann")):
            with pytest.raises(IssuerMismatch, match="issuer= says where its credentials belong"):
                add(second.url, auth)
        assert other.forms == []
        # Who names it, means it.
        assert add(second.url, KINDS[kind](store=store, issuer=other.issuer)) == '{"sum": 3}'
        # And it does not become the one where they belong.
        good.expire_all()
        assert add(first.url, KINDS[kind](store=store)) == '{"sum": 3}'


def test_a_server_that_changes_hands_does_not_get_credentials_that_were_used_at_another(good, other) -> None:
    store = MemoryStore()
    with protected(good) as taken_over, protected(other) as second:
        add(taken_over.url, ClientCredentials("me", SECRET, store=store))
        with pytest.raises(IssuerMismatch):
            add(second.url, ClientCredentials("me", SECRET, store=store))
        good.resource_metadata = {"authorization_servers": [other.issuer]}
        good.expire_all()
        with pytest.raises(IssuerMismatch):
            add(taken_over.url, ClientCredentials("me", SECRET, store=store))
    assert other.forms == []


def test_credentials_belong_where_they_were_shown_even_if_that_came_to_nothing(good, other) -> None:
    store = MemoryStore()
    asked: list[str] = []

    def secret() -> str:
        asked.append(SECRET)
        return SECRET

    good.on_token = lambda form: json_reply({"error": "invalid_scope"}, 400)
    with protected(good) as first, protected(other) as second:
        with pytest.raises(AuthError):
            add(first.url, ClientCredentials("me", secret, store=store))
        auth = ClientCredentials("me", secret, store=store)
        asked.clear()
        with pytest.raises(IssuerMismatch):
            add(second.url, auth)
        assert asked == []
        auth.reset_client(second.url)
        assert add(second.url, auth) == '{"sum": 3}'


def test_the_secret_of_a_client_is_in_no_login_that_waits(good, tmp_path) -> None:
    store = FileStore(tmp_path / "grants")
    oauth = OAuth(
        client_id="me", client_secret=lambda: SECRET, redirect_uri="https://app.example.com/cb", store=store
    )
    with protected(good) as endpoint:
        url = endpoint.url.replace("http://", "http://user:canary-password@") + "?key=canary-key"
        flow = oauth.begin(url)
        kept = json.dumps(flow.pending) + "".join(
            path.read_text() for path in tmp_path.rglob("*") if path.is_file()
        )
        assert "canary" not in kept
        oauth.finish(agree(flow.url), flow.pending)
        assert oauth.status(url).state == "valid"
    assert [form["client_secret"] for form in good.forms] == [SECRET]


def test_the_password_of_a_proxy_is_in_no_error() -> None:
    for proxy in (
        "http://u:canary@",
        "http://u:canary@[::1",
        "http://u:canary@h:99999",
        "http://u:canary@h:x",
    ):
        with pytest.raises(MCPError, match="the proxy for 'https' is no URL") as caught:
            OAuth(proxies={"https": proxy})
        assert "canary" not in str(caught.value)
        assert caught.value.__context__ is None


def test_a_proxy_of_the_environment_that_is_none_is_an_error_of_authorization(good, monkeypatch) -> None:
    for name in ("https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://u:canary@")
    good.resource_metadata = {"authorization_servers": ["https://as.example.com"]}
    with protected(good) as endpoint, pytest.raises(AuthError, match="the proxy for it is no URL") as caught:
        add(endpoint.url, OAuth())
    assert "canary" not in str(caught.value)
