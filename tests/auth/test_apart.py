"""What belongs to one user, one application, one server: nobody else gets it, spoils it, or gives it up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from mcp_sync import Client, ClientCredentials
from mcp_sync.auth import LoopbackBrowser, MemoryStore, OAuth
from mcp_sync.errors import IssuerMismatch, UsageError

from .oauth_server import OAuthServer, json_reply, protected, visit
from .plain_server import PlainServer, Reply, Request


def oauth(**options: Any) -> OAuth:
    return OAuth(interaction=LoopbackBrowser(open=visit, timeout=20), **options)


def post(url: str, auth: Any) -> int:
    with requests.Session() as session:
        session.trust_env = False
        return session.post(url, data=b"{}", auth=auth, timeout=20).status_code


def grants(store: MemoryStore) -> list[tuple[str, str]]:
    return [(key.principal, key.issuer) for key in store._values if key.kind == "grant"]


# --- users ---------------------------------------------------------------------------------------------


@pytest.fixture
def two() -> Iterator[tuple[OAuthServer, OAuthServer, Any]]:
    """One MCP server with two authorization servers."""
    with OAuthServer() as one, OAuthServer() as other, protected(one) as endpoint:
        one.resource_metadata = {"authorization_servers": [one.issuer, other.issuer]}
        other.clients, other.tokens = one.clients, one.tokens
        yield one, other, endpoint


@pytest.mark.parametrize("principals", [("ann", "bob"), ("ann", "ann")])
def test_logins_at_different_authorization_servers_do_not_put_each_other_out(two, principals) -> None:
    one, other, endpoint = two
    store = MemoryStore()
    for _ in range(2):
        # New objects, as a web application makes them.
        auths = [
            oauth(store=store, principal=principal, issuer=server.issuer)
            for principal, server in zip(principals, (one, other))
        ]
        assert [post(endpoint.url, auth) for auth in auths] == [415, 415]
        assert [auth.status(endpoint.url).state for auth in auths] == ["valid", "valid"]
        assert [auth.status(endpoint.url).issuer for auth in auths] == [one.issuer, other.issuer]
    assert one.asked["authorize"] == other.asked["authorize"] == 1


def test_an_authorization_server_that_fails_for_one_user_moves_no_other(two) -> None:
    one, other, endpoint = two
    store = MemoryStore()
    assert post(endpoint.url, oauth(store=store, principal="ann")) == 415
    one._metadata = lambda request: Reply(503)  # type: ignore[method-assign]
    assert post(endpoint.url, oauth(store=store, principal="bob")) == 415
    assert sorted(grants(store)) == sorted([("ann", one.issuer), ("bob", other.issuer)])
    ann = OAuth(interactive=False, store=store, principal="ann")
    assert ann.status(endpoint.url).state == "valid"
    assert post(endpoint.url, ann) == 415


def test_a_logout_revokes_the_grant_of_this_user_whatever_others_did(two) -> None:
    one, other, endpoint = two
    store = MemoryStore()
    ann = oauth(store=store, principal="ann", issuer=one.issuer)
    bob = oauth(store=store, principal="bob", issuer=other.issuer)
    assert post(endpoint.url, ann) == post(endpoint.url, bob) == 415
    assert ann.logout(endpoint.url)
    assert len(one.revoked) == 2
    assert not other.revoked
    assert grants(store) == [("bob", other.issuer)]


def test_a_secret_that_was_given_by_hand_stays_where_it_was_used_first_whoever_the_user_is(two) -> None:
    one, other, endpoint = two
    one.clients["by-hand"] = "canary"
    store = MemoryStore()
    who = {"client_id": "by-hand", "client_secret": "canary", "store": store}
    assert post(endpoint.url, oauth(principal="ann", **who)) == 415
    one._metadata = lambda request: Reply(503)  # type: ignore[method-assign]
    with pytest.raises(IssuerMismatch):
        post(endpoint.url, oauth(principal="bob", **who))
    assert other.forms == []
    # But a user may say where it belongs.
    assert post(endpoint.url, oauth(principal="cyd", issuer=other.issuer, **who)) == 415


# --- applications --------------------------------------------------------------------------------------


def test_applications_that_share_a_store_have_grants_of_their_own() -> None:
    with OAuthServer() as server, protected(server) as endpoint:
        server.clients.update({"admin": "x1", "guest": "x2"})
        store = MemoryStore()
        for name, secret in server.clients.items():
            assert post(endpoint.url, ClientCredentials(name, secret, store=store)) == 415
        assert [form["client_id"] for form in server.forms] == ["admin", "guest"]


def test_no_application_spoils_the_refresh_token_of_another() -> None:
    with OAuthServer() as server, protected(server) as endpoint:
        server.clients.update({"one": None, "other": None})
        store = MemoryStore()
        for _ in range(2):
            for name in ("one", "other"):
                assert post(endpoint.url, oauth(client_id=name, store=store)) == 415
            server.expire_all()
        assert server.asked["authorize"] == server.asked["refresh_token"] == 2
        assert not server.revoked_families


def test_a_person_and_the_application_itself_are_not_taken_for_each_other() -> None:
    with OAuthServer() as server, protected(server) as endpoint:
        server.clients["app"] = "secret"
        store = MemoryStore()
        assert post(endpoint.url, ClientCredentials("app", "secret", store=store)) == 415
        assert post(endpoint.url, oauth(client_id="app", client_secret="secret", store=store)) == 415
        assert server.asked["client_credentials"] == server.asked["authorize"] == 1


def test_an_application_that_has_registered_anew_finds_its_grant_and_does_not_refresh_it() -> None:
    with OAuthServer() as server, protected(server) as endpoint:
        store = MemoryStore()
        auth = oauth(store=store)
        assert post(endpoint.url, auth) == 415
        auth.reset_client()
        assert auth.status().state == "valid"
        server.expire_all()
        assert post(endpoint.url, auth) == 415
        # To the authorization server it is another client: the refresh token is not its own.
        assert server.asked["register"] == server.asked["authorize"] == 2
        assert server.asked["refresh_token"] == 0
        assert len(grants(store)) == 1


# --- servers of one origin -----------------------------------------------------------------------------


class Tenants:
    """Two MCP servers of one origin, each with an authorization server of its own.

    Attributes:
        sent: The paths that requests came to, with the token of each.
    """

    def __init__(self, servers: dict[str, OAuthServer]) -> None:
        self._servers = servers
        self.roots: dict[str, str] = {}
        self.sent: list[tuple[str, str]] = []
        self.plain = PlainServer(self._answer)
        self.origin = self.plain.origin

    def _answer(self, request: Request) -> Reply:
        known = "/.well-known/oauth-protected-resource"
        if request.path.startswith(known):
            path = request.path[len(known) :]
            server = self._servers.get(path.split("/")[1] if path else "")
            if server is None:
                return Reply(404)
            resource = self.origin + self.roots.get(path, path)
            return json_reply({"resource": resource, "authorization_servers": [server.issuer]})
        token = request.headers.get("authorization", "").partition(" ")[2]
        self.sent.append((request.path, self._owner(token)))
        server = self._servers.get(request.path.split("/")[1])
        if self._owner(token) and (server is None or token in server.tokens):
            return self._result(request)
        named = request.path if server is not None else "/a/mcp"
        where = f'Bearer resource_metadata="{self.origin}{known}{named}"'
        return Reply(401, b"", {"WWW-Authenticate": where})

    def _owner(self, token: str) -> str:
        return next((name for name, server in self._servers.items() if token in server.tokens), "")

    def _result(self, request: Request) -> Reply:
        message = json.loads(request.body or b"{}")
        if "id" not in message:
            return Reply(202, b"")
        who = {"name": "t", "version": "1"}
        result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": who}
        return json_reply({"jsonrpc": "2.0", "id": message["id"], "result": result})


@pytest.fixture
def tenants() -> Iterator[Tenants]:
    with OAuthServer() as a, OAuthServer() as b:
        for server in (a, b):
            server._numbers = iter(range(1000 if server is b else 1, 10**6))  # type: ignore[assignment]
        tenants = Tenants({"a": a, "b": b})
        with tenants.plain:
            yield tenants


def test_each_server_of_an_origin_gets_its_own_token(tenants) -> None:
    auth = oauth()
    for _ in range(2):
        for name in ("a", "b"):
            assert post(f"{tenants.origin}/{name}/mcp", auth) == 202
    assert set(tenants.sent) == {("/a/mcp", ""), ("/b/mcp", ""), ("/a/mcp", "a"), ("/b/mcp", "b")}
    assert [server.asked["authorize"] for server in tenants._servers.values()] == [1, 1]
    assert auth.status(f"{tenants.origin}/a/mcp").issuer != auth.status(f"{tenants.origin}/b/mcp/").issuer


def test_a_client_presents_the_token_of_the_server_that_it_was_given(tenants) -> None:
    auth = oauth()
    # To a request the resource of one server looks as if it were all of the origin.
    tenants.roots = {"/a/mcp": "/"}
    for name in ("a", "b"):
        with Client(f"{tenants.origin}/{name}/mcp", auth=auth, mode="2025-06-18") as client:
            assert client.server_info.name == "t"
    assert set(tenants.sent) == {("/a/mcp", ""), ("/b/mcp", ""), ("/a/mcp", "a"), ("/b/mcp", "b")}


def test_a_path_below_a_known_server_or_its_resource_gets_the_token_of_that_server(tenants) -> None:
    auth = oauth()
    assert post(f"{tenants.origin}/a/mcp", auth) == 202
    assert post(f"{tenants.origin}/a/mcp/messages?session=1", auth) == 202
    assert tenants.sent[-1] == ("/a/mcp/messages?session=1", "a")
    assert len(tenants.sent) == 3

    tenants.roots = {"/b/mcp": "/b"}
    assert post(f"{tenants.origin}/b/mcp", auth) == 202
    assert post(f"{tenants.origin}/b/messages", auth) == 202
    assert tenants.sent[-1] == ("/b/messages", "b")
    assert len(tenants.sent) == 6


def test_with_a_server_url_there_is_one_server_for_all_paths_of_its_origin(tenants) -> None:
    auth = oauth(server_url=f"{tenants.origin}/a/mcp/")
    assert post(f"{tenants.origin}/a/mcp", auth) == 202
    assert post(f"{tenants.origin}/messages", auth) == 202
    assert tenants.sent[-1] == ("/messages", "a")
    with pytest.raises(UsageError, match="alone"):
        Client(f"{tenants.origin}/b/mcp", auth=auth, mode="2025-06-18").open()
    with pytest.raises(UsageError, match="alone"):
        auth.status(f"{tenants.origin}/b/mcp")


def test_a_server_has_one_grant_however_its_url_is_written(tenants) -> None:
    store = MemoryStore()
    auth = oauth(store=store)
    host = tenants.origin.partition("://")[2]
    assert post(f"http://{host}/a/mcp", auth) == 202
    for url in (f"HTTP://{host}/a/mcp/", f"ws://{host}/a/mcp", f"http://u:p@{host}/a/x/../mcp?y=1#z"):
        assert OAuth(interactive=False, store=store).status(url).state == "valid"
    assert OAuth(interactive=False, store=store).status(f"http://{host}/a/MCP").state == "none"
