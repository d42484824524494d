"""What would go on for ever, or on with what is over: logins again and again, grants of others, log-outs."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
import requests
from transports.http_server import ScriptedServer, Turn

from mcp_sync import Client, ClientCredentials
from mcp_sync.auth import FileStore, LoopbackBrowser, MemoryStore, OAuth
from mcp_sync.auth._decisions import RESEND, Case, Try, decide
from mcp_sync.auth._resending import drain
from mcp_sync.errors import AuthError, AuthorizationRequired, InsufficientScope
from mcp_sync.testing._http import HTTPReply

from .oauth_server import OAuthServer, agree, json_reply, protected, visit

REDIRECT = "https://app.example.com/cb"


def add(url: str, auth: Any) -> str:
    with Client(url, auth=auth) as client:
        return client.call_tool("add", {"a": 1, "b": 2}).text


def person(**options: Any) -> OAuth:
    return OAuth(interaction=LoopbackBrowser(open=visit), **options)


def redirects(url: str, store: Any, most: int = 8) -> list[AuthError]:
    """Be a web application with an object for each request, and a browser that follows every redirect."""
    errors: list[AuthError] = []
    for _ in range(most):
        auth = OAuth(redirect_uri=REDIRECT, store=store, principal="ann", server_url=url)
        try:
            add(url, auth)
            return errors
        except AuthError as error:
            errors.append(error)
            if not getattr(error, "url", None) or not isinstance(
                error, (AuthorizationRequired, InsufficientScope)
            ):
                return errors
            auth.finish(agree(error.url or ""))
    return errors


def test_a_user_is_not_sent_again_for_a_scope_that_was_asked_for_in_vain(server, endpoint) -> None:
    server.needed_scope = {"add": "write"}
    server.granted = lambda scope: "read"
    errors = redirects(endpoint.url, MemoryStore())
    assert [type(error) for error in errors] == [AuthorizationRequired, InsufficientScope, InsufficientScope]
    assert [bool(error.url) for error in errors] == [True, True, False]


@pytest.mark.parametrize("refreshes", [True, False])
def test_a_server_that_refuses_all_tokens_does_not_send_users_round_for_ever(
    server, endpoint, refreshes
) -> None:
    server.refuses_tokens = True
    refusal = json_reply({"error": "invalid_grant"}, 400)
    server.on_token = lambda form: (
        refusal if form["grant_type"] == "refresh_token" and not refreshes else None
    )
    errors = redirects(endpoint.url, MemoryStore())
    assert [type(error) for error in errors] == [AuthorizationRequired] * 3 + [AuthError]
    assert "refuses a new token as well" in str(errors[-1])


def test_scopes_do_not_grow_without_a_bound(server, endpoint) -> None:
    many = " ".join(f"scope-{number}" for number in range(500))

    def demand(request: Any) -> Any:
        if b"tools/call" in request.body:
            challenge = f'Bearer error="insufficient_scope", scope="{many}"'
            return HTTPReply(403, {"WWW-Authenticate": challenge})
        return None

    server.on_resource = demand
    with pytest.raises(InsufficientScope, match="that is too much to ask for"):
        add(endpoint.url, person())
    assert server.asked["authorize"] == 1


class Failing(MemoryStore):
    """Cannot write one kind of records.

    Attributes:
        bad: Which.
    """

    bad = ""

    def put(self, key: Any, value: Any, expected: Any) -> bool:
        if value is not None and key.kind == self.bad:
            raise AuthError("the disk is full")
        return super().put(key, value, expected)


@pytest.mark.parametrize("bad", ["grant", "server", "client"])
def test_the_old_grant_stays_until_the_new_one_is_written(server, endpoint, bad) -> None:
    store = Failing()
    with OAuthServer() as successor:
        add(endpoint.url, person(store=store))
        server.resource_metadata = {"authorization_servers": [successor.issuer]}
        moved = OAuth(redirect_uri="http://127.0.0.1:1/callback", store=store, server_url=endpoint.url)
        flow = moved.begin()
        store.bad = bad
        with pytest.raises(AuthError, match="the disk is full"):
            moved.finish(agree(flow.url))
        store.bad = ""
        status = person(store=store, server_url=endpoint.url).status()
        assert (status.state, status.issuer) == ("valid", server.issuer)
        # And a login that can be kept replaces it.
        flow = moved.begin()
        moved.finish(agree(flow.url))
        status = person(store=store, server_url=endpoint.url).status()
        assert (status.state, status.issuer) == ("valid", successor.issuer)
        assert [key.issuer for key in store._values if key.kind == "grant"] == [successor.issuer]


def guard(server: OAuthServer) -> Any:
    """Two MCP servers of one origin that are one resource."""

    def answer(request: Any) -> Any:
        if request.path.startswith("/.well-known/oauth-protected-resource"):
            body = {
                "resource": f"http://{request.headers['host']}/",
                "authorization_servers": [server.issuer],
            }
            return HTTPReply(200, {"Content-Type": "application/json"}, json.dumps(body).encode())
        if request.path in ("/a", "/b"):
            token = request.headers.get("authorization", "").partition(" ")[2]
            known = token in server.tokens
            return HTTPReply(200) if known else HTTPReply(401, {"WWW-Authenticate": "Bearer"})
        return None

    return answer


def test_a_grant_that_was_found_for_another_server_may_be_refreshed_where_it_is_refused(server) -> None:
    server.on_resource = guard(server)
    store = MemoryStore()
    with protected(server) as endpoint, requests.Session() as session:
        session.trust_env = False
        base = endpoint.url.rpartition("/")[0]
        assert session.post(f"{base}/a", auth=person(store=store), timeout=20).status_code == 200
        server.expire_all()
        assert session.post(f"{base}/b", auth=person(store=store), timeout=20).status_code == 200
    assert server.asked["authorize"] == 1
    assert server.asked["refresh_token"] == 1


def test_a_user_logs_in_as_often_as_the_server_forgets_all_its_tokens(server, endpoint) -> None:
    store = MemoryStore()
    for _ in range(5):
        assert [type(error) for error in redirects(endpoint.url, store)] == [AuthorizationRequired]
        server.expire_all()
        server.refresh_tokens.clear()


def test_a_log_out_just_before_a_grant_is_sent_again_leads_to_a_login(server, endpoint, monkeypatch) -> None:
    store = MemoryStore()
    one = person(store=store, server_url=endpoint.url)
    two = OAuth(store=store, server_url=endpoint.url, interactive=False)
    sent_again: list[bool] = []

    def log_in(request: Any) -> Any:
        server.on_resource = lambda request: None
        add(endpoint.url, one)
        return HTTPReply(401, {"WWW-Authenticate": "Bearer"})

    def decide_and_log_out(case: Case) -> Any:
        decision = decide(case)
        if decision == Try(RESEND):
            sent_again.append(one.logout())
        return decision

    server.on_resource = log_in
    monkeypatch.setattr("mcp_sync.auth._attempt.decide", decide_and_log_out)
    with pytest.raises(AuthorizationRequired):
        requests.post(endpoint.url, json={}, auth=two, timeout=20)
    assert len(sent_again) == 1


def test_a_nonce_that_is_asked_for_without_a_token_leads_to_a_login(server, endpoint) -> None:
    demand = {"WWW-Authenticate": 'DPoP error="use_dpop_nonce"', "DPoP-Nonce": "n"}
    server.on_resource = lambda request: (
        None if "authorization" in request.headers else HTTPReply(401, demand)
    )
    with pytest.raises(AuthorizationRequired):
        requests.post(endpoint.url, json={}, auth=OAuth(interactive=False), timeout=20)


@pytest.mark.parametrize("same_store", [True, False])
def test_a_log_out_counts_for_all_objects_of_the_process(server, endpoint, tmp_path, same_store) -> None:
    server.metadata = {"revocation_endpoint": None}
    path = tmp_path / "grants"
    store = FileStore(path)
    one = person(store=store, server_url=endpoint.url)
    two = OAuth(store=store if same_store else FileStore(path), server_url=endpoint.url, interactive=False)
    assert add(endpoint.url, one) == add(endpoint.url, two) == '{"sum": 3}'
    one.logout()
    with pytest.raises(AuthorizationRequired):
        add(endpoint.url, two)


def test_a_login_by_another_object_counts_at_once(server, endpoint) -> None:
    sent: list[str] = []

    def watch(request: Any) -> Any:
        sent.append(request.headers.get("authorization", ""))
        return None

    store = MemoryStore()
    web = OAuth(redirect_uri="http://127.0.0.1:1/callback", store=store, server_url=endpoint.url)
    web.finish(agree(web.begin().url))
    other = person(store=store, server_url=endpoint.url)
    add(endpoint.url, other)
    web.finish(agree(web.begin().url))
    server.on_resource = watch
    add(endpoint.url, other)
    newest = max(server.tokens, key=lambda token: int(token.partition("-")[2]))
    assert set(sent) == {f"Bearer {newest}"}


def test_a_log_out_by_another_process_is_noticed_after_a_while(server, endpoint, tmp_path) -> None:
    auth = person(store=FileStore(tmp_path / "grants"), server_url=endpoint.url)
    add(endpoint.url, auth)
    for path in (tmp_path / "grants").glob("grant-*.json"):
        path.unlink()
    asked = server.asked["authorize"]
    add(endpoint.url, auth)
    assert server.asked["authorize"] == asked
    auth._only.in_use.current.look_at = 0.0  # 30 seconds later
    add(endpoint.url, auth)
    assert server.asked["authorize"] == asked + 1


class Deaf(MemoryStore):
    """Cannot be read while it is told so."""

    is_deaf = False

    def get(self, key: Any) -> Any:
        if self.is_deaf:
            raise AuthError("the store is away")
        return super().get(key)


def test_a_token_that_is_valid_is_used_while_the_store_cannot_be_read(server, endpoint) -> None:
    store = Deaf()
    auth = person(store=store, server_url=endpoint.url)
    add(endpoint.url, auth)
    store.is_deaf = True
    auth._only.in_use.current.look_at = 0.0
    assert add(endpoint.url, auth) == '{"sum": 3}'


def test_what_a_signing_function_raises_is_the_cause_of_an_error_of_authorization(server, endpoint) -> None:
    server.clients["me"] = None

    def sign(data: bytes) -> bytes:
        raise ConnectionError("canary: the key service is away")

    auth = ClientCredentials("me", private_key=sign, private_key_alg="ES256")
    with pytest.raises(AuthError, match="the function that signs has failed: ConnectionError") as caught:
        add(endpoint.url, auth)
    assert "canary" not in str(caught.value)
    assert isinstance(caught.value.__cause__, ConnectionError)


def test_the_name_of_a_client_cannot_write_lines_into_the_log(server, endpoint, caplog) -> None:
    name = "me\nERROR:forged"

    def register(asked: dict[str, Any]) -> Any:
        server.clients[name] = None
        return json_reply({**asked, "client_id": name}, 201)

    server.on_register = register
    with caplog.at_level(logging.INFO, "mcp_sync.auth"):
        add(endpoint.url, person())
    assert "forged" in caplog.text
    assert not any("\n" in record.getMessage() for record in caplog.records)


def test_a_pending_login_is_json_for_anybody(server, endpoint) -> None:
    server.metadata = {"odd": float("nan"), "large": float("inf")}
    web = OAuth(redirect_uri=REDIRECT, server_url=endpoint.url)
    flow = web.begin()
    text = json.dumps(flow.pending, allow_nan=False)
    web.finish(agree(flow.url), json.loads(text))
    assert web.status().state == "valid"


DAMAGE = [
    ("grant", {"access_token": "a\r\nX: 1"}),
    ("grant", {"access_token": "\u00e9"}),
    ("grant", {"expires_at": float("inf")}),
    ("grant", {"token_type": "Basic"}),
    ("grant", {"token_type": "DPoP"}),
    ("grant", {"token_type": "DPoP", "dpop_key": {"kty": "x"}}),
    ("grant", {"refresh_token": "\ud800"}),
    ("server", {"metadata": {"token_endpoint": "http://10.0.0.1/"}}),
    ("client", {"client_id": "\ud800"}),
    ("client", {"method": "private_key_jwt"}),
]


@pytest.mark.parametrize(("kind", "damage"), DAMAGE, ids=str)
def test_a_record_of_no_use_is_left_out_and_a_login_replaces_it(
    server, endpoint, tmp_path, kind, damage
) -> None:
    path = tmp_path / "grants"
    add(endpoint.url, person(store=FileStore(path)))
    server.expire_all()
    for each in path.glob(f"{kind}-*.json"):
        record = json.loads(each.read_text())
        record["value"].update(damage)
        each.write_text(json.dumps(record))
    with pytest.raises(AuthorizationRequired):
        add(endpoint.url, OAuth(store=FileStore(path), interactive=False))
    assert add(endpoint.url, person(store=FileStore(path))) == '{"sum": 3}'
    assert add(endpoint.url, OAuth(store=FileStore(path), interactive=False)) == '{"sum": 3}'


def test_a_resource_that_is_no_text_is_named(server, endpoint) -> None:
    server.resource_metadata = {"resource": 5}
    with pytest.raises(AuthError, match="its resource is no text"):
        add(endpoint.url, person())


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_a_body_that_stays_in_memory_is_sent_again(server, endpoint, kind) -> None:
    bodies: list[bytes] = []

    def watch(request: Any) -> Any:
        if request.path == "/mcp":
            bodies.append(request.body)
        return None

    server.on_resource = watch
    with requests.Session() as session:
        session.trust_env = False
        session.post(endpoint.url, data=kind(b"{}"), auth=person(), timeout=20)
    assert bodies == [b"{}"] * 2


def test_what_the_caller_is_handling_keeps_its_traceback_when_a_refusal_breaks_off() -> None:
    def break_off(turn: Turn) -> None:
        turn.head(401, {"Content-Length": "100"})
        turn.write(b"short")
        turn.close()

    with ScriptedServer(break_off) as server:
        refusal = requests.get(server.url, stream=True, timeout=10)
        try:
            raise KeyError("of the program")
        except KeyError as error:
            drain(refusal)
            kept = error.__traceback__
    assert kept is not None
