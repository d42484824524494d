"""The hook of requests against a real authorization server: refusals, refreshes, races, where tokens go."""

from __future__ import annotations

import dataclasses
import io
import json
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests
import trustme

from mcp_sync import Client, ClientCredentials, LegacySSE, StreamableHTTP, Timeouts, WebSocket
from mcp_sync.auth import LoopbackBrowser, MemoryStore, OAuth
from mcp_sync.auth import _access as access_module
from mcp_sync.auth import _current as current_module
from mcp_sync.auth import _grant_in_use as grant_in_use_module
from mcp_sync.auth._records import Key
from mcp_sync.errors import (
    AuthError,
    AuthorizationRequired,
    CallTimeout,
    InsufficientScope,
    TokenRequestFailed,
    UsageError,
)
from mcp_sync.testing import FakeServer
from mcp_sync.testing._http import HTTPReply, HTTPRequest

from .oauth_server import OAuthServer, json_reply, protected, visit
from .plain_server import PlainServer, Reply, Request


def oauth(**options: Any) -> OAuth:
    return OAuth(interaction=LoopbackBrowser(open=visit, timeout=20), **options)


def call(client: Client, **options: Any) -> Any:
    return client.call_tool("add", {"a": 1, "b": 2}, **options).structured_content


def post(url: str, auth: Any, **options: Any) -> requests.Response:
    """Do what a program does that uses requests alone."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    with requests.Session() as session:
        session.trust_env = False
        return session.post(url, auth=auth, headers=headers, **{"data": body, "timeout": 20, **options})


def held(auth: Any) -> Any:
    (access,) = auth._accesses.values()
    return access.read()


# --- with a client -------------------------------------------------------------------------------------


def test_one_login_serves_a_client_from_then_on(server, endpoint) -> None:
    with Client(endpoint.url, auth=oauth()) as client:
        assert call(client) == {"sum": 3}
        assert call(client) == {"sum": 3}
    assert server.asked["authorize"] == server.asked["register"] == server.asked["token"] == 1
    assert server.asked["401"] == 1


def test_a_refused_token_is_refreshed_and_the_request_sent_again_as_it_was(server, endpoint) -> None:
    with Client(endpoint.url, auth=oauth()) as client:
        call(client)
        server.expire_all()
        assert call(client) == {"sum": 3}
    assert server.asked["refresh_token"] == 1
    assert server.asked["authorize"] == 1
    first, second = [request.body for request in endpoint.requests if b"tools/call" in request.body][-2:]
    assert first == second


def test_the_connection_of_a_refusal_is_used_again() -> None:
    with (
        OAuthServer() as server,
        FakeServer(tools={"add": lambda a, b: {"sum": a + b}}).serve_http() as inner,
    ):
        numbers = []

        def answer(request: Request) -> Reply:
            numbers.append(request.connection)
            ported = HTTPRequest(request.method, request.path, request.headers, request.body)
            canned = server.protect(ported)
            if canned is not None:
                return Reply(canned.status, canned.body, dict(canned.headers))
            return Reply(
                200, b'{"jsonrpc": "2.0", "id": 1, "result": {}}', {"Content-Type": "application/json"}
            )

        with PlainServer(answer) as outer:
            url = outer.origin + "/mcp"
            auth = oauth()
            with requests.Session() as session:
                assert session.post(url, data=b"{}", auth=auth).status_code == 200
            # The metadata of the resource is asked for by another connection.
            assert numbers[0] == numbers[-1]
        assert inner.requests == []


def test_a_server_that_refuses_everything_costs_one_refresh_and_one_login(server, endpoint) -> None:
    auth = oauth()
    with Client(endpoint.url, auth=auth) as client:
        call(client)
        server.refuses_tokens = True
        server.asked.clear()
        with pytest.raises(AuthError, match="refuses a new token as well: invalid_token: no good"):
            call(client)
    assert server.asked["refresh_token"] == 1
    assert server.asked["authorize"] == 1
    assert server.asked["401"] == 3


def test_the_error_of_the_hook_is_that_of_the_opening(server, endpoint) -> None:
    with pytest.raises(AuthorizationRequired) as caught, Client(endpoint.url, auth=OAuth(interactive=False)):
        pass
    assert caught.value.url == ""
    assert server.asked["register"] == server.asked["authorize"] == 0


def test_a_step_up_asks_for_the_union_and_is_made_once(server, endpoint) -> None:
    server.needed_scope = {"add": "write"}
    auth = oauth(scopes=["read"])
    with Client(endpoint.url, auth=auth) as client:
        assert call(client) == {"sum": 3}
        assert call(client) == {"sum": 3}
    assert [query["scope"] for query in server.authorizations] == ["read", "read write"]


def test_a_scope_that_is_never_enough_is_an_error(server, endpoint) -> None:
    server.needed_scope = {"add": "write"}
    server.granted = lambda scope: "read"
    with Client(endpoint.url, auth=oauth(scopes=["read"])) as client:
        for _ in range(2):
            with pytest.raises(InsufficientScope) as caught:
                call(client)
            assert caught.value.scopes == ("write",)
    assert server.asked["authorize"] == 2


@pytest.mark.parametrize("how", ["logout", "invalid_grant"])
def test_with_a_new_grant_more_may_be_asked_for_again(server, endpoint, how) -> None:
    server.needed_scope = {"add": "write"}
    auth = oauth(scopes=["read"])
    with Client(endpoint.url, auth=auth) as client:
        assert call(client) == {"sum": 3}
        if how == "logout":
            auth.logout()
        else:
            server.expire_all()
            server.refresh_tokens.clear()
        assert call(client) == {"sum": 3}


def test_a_plain_403_is_none_of_its_business(server, endpoint) -> None:
    auth = oauth()
    with Client(endpoint.url, auth=auth) as client:
        call(client)
    server.on_resource = lambda request: HTTPReply(403, {}, b"go away")
    assert post(endpoint.url, auth).text == "go away"
    assert server.asked["authorize"] == 1


@pytest.mark.parametrize("served", ["serve_sse", "serve_websocket"])
def test_it_works_with_the_other_transports(server, served) -> None:
    server.resource_metadata = {}
    fake = FakeServer(tools={"add": lambda a, b: {"sum": a + b}}, versions="legacy")
    with getattr(fake, served)(intercept=server.protect) as endpoint:
        kind = LegacySSE if served == "serve_sse" else WebSocket
        host = endpoint.url.split("/")[2]
        path = endpoint.url.rpartition("/")[2]
        server.resource = f"http://{host}/{path}"
        with Client(kind(endpoint.url, auth=oauth())) as client:
            assert client.call_tool("add", {"a": 1, "b": 2}).structured_content == {"sum": 3}
            if served == "serve_sse":
                server.expire_all()
                assert client.call_tool("add", {"a": 1, "b": 2}).structured_content == {"sum": 3}
    assert server.asked["authorize"] == 1


def test_the_session_of_a_legacy_server_is_opened_streamed_and_ended_with_the_token(server) -> None:
    fake = FakeServer(tools={"add": lambda a, b: {"sum": a + b}}, versions="legacy")
    with fake.serve_http(intercept=server.protect) as endpoint:
        with Client(endpoint.url, auth=oauth(), message_handler=lambda message: None) as client:
            assert client.call_tool("add", {"a": 1, "b": 2}).structured_content == {"sum": 3}
        legs = {request.method: request.headers.get("authorization", "") for request in endpoint.requests}
    assert all(legs[method].startswith("Bearer access-") for method in ("POST", "DELETE"))


def test_nobody_is_asked_at_the_end_of_a_session(server) -> None:
    fake = FakeServer(tools={"add": lambda a, b: {"sum": a + b}}, versions="legacy")
    with fake.serve_http(intercept=server.protect) as endpoint:
        with Client(endpoint.url, auth=oauth()) as client:
            client.call_tool("add", {"a": 1, "b": 2})
            server.gives_refresh_tokens = False
            server.refuses_tokens = True
            server.refresh_tokens.clear()
        assert server.asked["authorize"] == 1


def test_nobody_is_asked_for_a_stream_in_the_background(server) -> None:
    """The server's own messages may come or not: that is no reason to open a browser out of nowhere."""
    fake = FakeServer(tools={"add": lambda a, b: {"sum": a + b}}, versions="legacy")
    refused = threading.Event()

    def refuse_streams(request: HTTPRequest) -> Any:
        if request.method != "GET" or request.path != "/mcp":
            return None
        if "authorization" in request.headers:
            refused.set()
        return HTTPReply(401, {"WWW-Authenticate": 'Bearer error="invalid_token"'})

    server.gives_refresh_tokens = False
    server.on_resource = refuse_streams
    faults: list[Any] = []
    with fake.serve_http(intercept=server.protect) as endpoint:
        with Client(endpoint.url, auth=oauth(), message_handler=faults.append) as client:
            assert client.call_tool("add", {"a": 1, "b": 2}).structured_content == {"sum": 3}
            assert refused.wait(10)
            assert client.call_tool("add", {"a": 1, "b": 2}).structured_content == {"sum": 3}
        assert server.asked["authorize"] == 1


# --- time ----------------------------------------------------------------------------------------------


@pytest.fixture
def slow_login(set_forward) -> OAuth:
    """Log in after all bounds of an opening."""

    def visit_later(url: str) -> bool:
        set_forward(100)
        return visit(url)

    return OAuth(interaction=LoopbackBrowser(open=visit_later, timeout=600))


BOUNDS = Timeouts(connect=20, probe=20, open=30, silence=40)


def test_a_login_may_take_longer_than_an_opening(server, endpoint, slow_login) -> None:
    with Client(endpoint.url, auth=slow_login, timeouts=BOUNDS) as client:
        assert client.protocol_version == "2026-07-28"
        assert call(client) == {"sum": 3}
    assert server.asked["authorize"] == 1


@pytest.mark.parametrize("served", ["serve_sse", "serve_websocket"])
def test_a_login_may_take_longer_than_the_opening_of_the_other_transports(server, served, slow_login) -> None:
    fake = FakeServer(tools={"add": lambda a, b: {"sum": a + b}}, versions="legacy")
    with getattr(fake, served)(intercept=server.protect) as endpoint:
        kind = LegacySSE if served == "serve_sse" else WebSocket
        server.resource = "http" + endpoint.url[endpoint.url.index(":") :]
        with Client(kind(endpoint.url, auth=slow_login), timeouts=BOUNDS) as client:
            assert client.call_tool("add", {"a": 1, "b": 2}).structured_content == {"sum": 3}
    assert server.asked["authorize"] == 1


def test_a_login_that_outlasts_a_caller_serves_the_next_one(server, endpoint) -> None:
    agreed = threading.Event()

    def slow(url: str) -> bool:
        agreed.wait(10)
        return visit(url)

    client = Client(endpoint.url, auth=OAuth(interaction=LoopbackBrowser(open=slow, timeout=20)))
    try:
        with pytest.raises(CallTimeout):
            call(client, timeout=0.3)
        agreed.set()
        assert call(client) == {"sum": 3}
    finally:
        client.close()
    assert server.asked["authorize"] == 1


def test_a_timeout_of_the_caller_ends_the_wait_for_the_user(server, endpoint) -> None:
    auth = OAuth(interaction=LoopbackBrowser(open=lambda url: True, timeout=20))
    client = Client(endpoint.url, auth=auth)
    try:
        with pytest.raises(CallTimeout):
            call(client, timeout=0.3)
    finally:
        client.close()


def test_closing_the_client_ends_the_wait_for_the_user(server, endpoint) -> None:
    shown = threading.Event()
    auth = OAuth(interaction=LoopbackBrowser(open=lambda url: shown.set() or True, timeout=20))
    client = Client(endpoint.url, auth=auth)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(call, client)
        assert shown.wait(10)
        client.close()
        assert waiting.exception(10) is not None


def test_a_silent_authorization_server_does_not_outlast_the_call(server, endpoint) -> None:
    release = threading.Event()
    auth = oauth()
    with Client(endpoint.url, auth=auth) as client:
        call(client)
        server.expire_all()
        server.on_token = lambda form: release.wait(10) and None
        try:
            with pytest.raises(CallTimeout):
                call(client, timeout=0.3)
        finally:
            release.set()
        server.on_token = lambda form: None
        assert call(client) == {"sum": 3}


# --- expiry and refresh --------------------------------------------------------------------------------


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead = 0.0
        real = time.time
        for module in (access_module, grant_in_use_module):
            monkeypatch.setattr(module, "_now", lambda: real() + self.ahead)
        monkeypatch.setattr(current_module, "now", lambda: real() + self.ahead)


def test_a_token_is_replaced_before_it_expires(server, endpoint, monkeypatch) -> None:
    clock = Clock(monkeypatch)
    with Client(endpoint.url, auth=oauth(leeway=30)) as client:
        call(client)
        clock.ahead = 3600 - 60
        call(client)
        assert server.asked["refresh_token"] == 0
        clock.ahead = 3600 - 20
        server.asked.clear()
        assert call(client) == {"sum": 3}
    assert server.asked["refresh_token"] == 1
    assert server.asked["401"] == 0


def test_a_life_shorter_than_the_leeway_makes_no_loop(server, endpoint) -> None:
    server.lifetime = 20
    with Client(endpoint.url, auth=oauth(leeway=30)) as client:
        for _ in range(5):
            call(client)
    assert server.asked["refresh_token"] == 0


@pytest.mark.parametrize("lifetime", [0, -5])
def test_a_token_that_has_expired_when_it_comes_is_used_once(server, endpoint, lifetime) -> None:
    server.lifetime = lifetime
    with Client(endpoint.url, auth=oauth()) as client:
        assert call(client) == {"sum": 3}
    assert server.asked["authorize"] == 1
    assert server.asked["refresh_token"] <= 2


def test_a_clock_that_is_an_hour_off_breaks_nothing(server, endpoint, monkeypatch) -> None:
    clock = Clock(monkeypatch)
    clock.ahead = -3600
    with Client(endpoint.url, auth=oauth()) as client:
        call(client)
        clock.ahead = 3600
        assert call(client) == {"sum": 3}
        clock.ahead = -3600
        assert call(client) == {"sum": 3}
    assert server.asked["authorize"] == 1


def test_a_refresh_that_fails_in_passing_leaves_the_valid_token_in_use(server, endpoint, monkeypatch) -> None:
    clock = Clock(monkeypatch)
    auth = oauth()
    with Client(endpoint.url, auth=auth) as client:
        call(client)
        clock.ahead = 3600 - 20
        server.on_token = lambda form: json_reply({}, 503)
        assert call(client) == {"sum": 3}
        assert call(client) == {"sum": 3}
        assert server.asked["refresh_token"] == 1  # The second call does not try again at once.
        clock.ahead = 3600 + 1
        with pytest.raises(TokenRequestFailed) as caught:
            call(client)
        assert caught.value.transient
        server.on_token = lambda form: None
        assert call(client) == {"sum": 3}
    assert server.asked["authorize"] == 1


def test_a_renewal_ahead_of_time_takes_a_small_part_of_the_call_only(server, endpoint, monkeypatch) -> None:
    clock = Clock(monkeypatch)
    release = threading.Event()
    with Client(endpoint.url, auth=oauth()) as client:
        call(client)
        clock.ahead = 3600 - 20
        server.on_token = lambda form: release.wait(10) and None
        try:
            assert call(client, timeout=3) == {"sum": 3}
            assert call(client, timeout=3) == {"sum": 3}
        finally:
            release.set()
    assert server.asked["refresh_token"] <= 1  # The second call does not try again at once.
    assert server.asked["401"] == 1


def test_a_call_in_a_hurry_renews_nothing_ahead_of_time(server, endpoint, monkeypatch) -> None:
    clock = Clock(monkeypatch)
    # Twenty seconds are a hurry here: of what is one otherwise, a busy machine may take all.
    monkeypatch.setattr(access_module, "_AHEAD_LEAST", access_module._AHEAD_SECONDS)
    monkeypatch.setattr(access_module, "_AHEAD_PART", 5)
    with Client(endpoint.url, auth=oauth()) as client:
        call(client)
        clock.ahead = 3600 - 20
        assert call(client, timeout=20) == {"sum": 3}
        assert server.asked["refresh_token"] == 0
        assert call(client) == {"sum": 3}
    assert server.asked["refresh_token"] == 1


def test_while_one_thread_renews_ahead_of_time_the_others_go_on(server, endpoint, monkeypatch) -> None:
    clock = Clock(monkeypatch)
    began, release = threading.Event(), threading.Event()

    def hold(form: dict[str, str]) -> None:
        began.set()
        release.wait(10)

    with Client(endpoint.url, auth=oauth()) as client, ThreadPoolExecutor(1) as pool:
        call(client)
        clock.ahead = 3600 - 20
        server.on_token = hold
        try:
            first = pool.submit(call, client)
            assert began.wait(10)
            assert call(client) == {"sum": 3}
            assert not first.done()
        finally:
            release.set()
        assert first.result() == {"sum": 3}
    assert server.asked["refresh_token"] == 1


@pytest.mark.parametrize(
    "reply",
    [
        Reply(403, b"<html>"),
        Reply(404),
        Reply(302, b"", {"Location": "http://portal.example/"}),
        json_reply({"error": "invalid_request"}, 400),
    ],
    ids=["403", "404", "302", "invalid_request"],
)
def test_a_renewal_that_is_refused_unclearly_leaves_the_valid_token_in_use(
    server, endpoint, monkeypatch, reply
) -> None:
    clock = Clock(monkeypatch)
    with Client(endpoint.url, auth=oauth()) as client:
        call(client)
        clock.ahead = 3600 - 20
        server.on_token = lambda form: reply
        server.asked.clear()
        for _ in range(3):
            assert call(client) == {"sum": 3}
    assert server.asked["401"] == 0
    assert server.asked["refresh_token"] == 1


@pytest.mark.parametrize("is_expired", [True, False])
@pytest.mark.parametrize(
    "reply",
    [
        Reply(400, b""),
        Reply(403, b"<html>"),
        Reply(404),
        json_reply({"error": "invalid_request"}, 400),
        json_reply({"error": ["invalid_grant"]}, 400),
    ],
    ids=["400", "403", "404", "invalid_request", "no code"],
)
def test_a_refresh_that_is_refused_unclearly_costs_neither_the_grant_nor_a_login(
    server, endpoint, monkeypatch, reply, is_expired
) -> None:
    clock = Clock(monkeypatch)
    with Client(endpoint.url, auth=oauth()) as client:
        call(client)
        server.on_token = lambda form: reply
        server.expire_all()
        clock.ahead = 3700 if is_expired else 0
        for _ in range(2):
            with pytest.raises(TokenRequestFailed, match="gave no token for the refresh token"):
                call(client)
        server.on_token = lambda form: None
        assert call(client) == {"sum": 3}
    assert server.asked["authorize"] == 1


@pytest.mark.parametrize(("url", "transient"), [("http://127.0.0.1:1", True), ("https://10.0.0.1", False)])
def test_an_authorization_server_that_is_not_reached_may_be_there_later_one_that_is_forbidden_not(
    server, endpoint, url, transient
) -> None:
    server.resource_metadata = {"authorization_servers": [url]}
    with pytest.raises(AuthError, match="no usable metadata") as caught, Client(endpoint.url, auth=oauth()):
        pass
    assert caught.value.transient is transient


def test_an_application_that_needs_nobody_gets_another_token_whatever_a_refresh_brought(
    server, endpoint
) -> None:
    server.clients["app"] = "secret"
    auth = ClientCredentials("app", "secret")
    with Client(endpoint.url, auth=auth) as client:
        call(client)
        grant = dataclasses.replace(held(auth).grant, refresh_token="of no use")
        auth.vault.keep_grant(endpoint.url, grant, held(auth).version)
        server.expire_all()
        server.on_token = lambda form: Reply(403) if form["grant_type"] == "refresh_token" else None
        assert call(client) == {"sum": 3}
    assert server.asked["refresh_token"] == 1


def test_a_refresh_token_that_is_no_good_leads_to_a_login(server, endpoint) -> None:
    with Client(endpoint.url, auth=oauth()) as client:
        call(client)
        server.expire_all()
        server.refresh_tokens.clear()
        assert call(client) == {"sum": 3}
    assert server.asked["authorize"] == 2
    assert server.asked["register"] == 1


def test_without_anybody_to_ask_the_reason_of_the_authorization_server_is_told(server, endpoint) -> None:
    store = MemoryStore()
    with Client(endpoint.url, auth=oauth(store=store)) as client:
        call(client)
    server.expire_all()
    server.refresh_tokens.clear()
    with (
        pytest.raises(AuthorizationRequired) as caught,
        Client(endpoint.url, auth=OAuth(store=store, interactive=False)),
    ):
        pass
    assert "invalid_grant" in str(caught.value.__cause__)


def test_a_client_that_was_forgotten_registers_anew_once(server, endpoint) -> None:
    with Client(endpoint.url, auth=oauth()) as client:
        call(client)
        server.expire_all()
        server.clients.clear()
        assert call(client) == {"sum": 3}
    assert server.asked["register"] == 2
    assert server.asked["authorize"] == 2


def test_a_client_that_is_forgotten_again_and_again_is_an_error(server, endpoint) -> None:
    server.on_token = lambda form: json_reply({"error": "invalid_client"}, 401)
    with pytest.raises(TokenRequestFailed, match="invalid_client"), Client(endpoint.url, auth=oauth()):
        pass
    assert server.asked["register"] == 2


def test_a_client_registered_by_hand_is_never_registered(server, endpoint) -> None:
    server.clients["by-hand"] = "s3cret"
    with Client(endpoint.url, auth=oauth(client_id="by-hand", client_secret="s3cret")) as client:
        call(client)
        server.expire_all()
        server.clients.clear()
        with pytest.raises(TokenRequestFailed, match="invalid_client"):
            call(client)
    assert server.asked["register"] == 0


def test_a_client_registered_by_hand_is_kept_from_another_authorization_server(server, endpoint) -> None:
    from mcp_sync.errors import IssuerMismatch

    server.clients["by-hand"] = "s3cret"
    store = MemoryStore()
    with Client(endpoint.url, auth=oauth(client_id="by-hand", client_secret="s3cret", store=store)) as client:
        call(client)
        with OAuthServer() as other:
            other.clients["by-hand"] = "s3cret"
            server.resource_metadata = {"authorization_servers": [other.issuer]}
            server.expire_all()
            server.refresh_tokens.clear()
            with pytest.raises(IssuerMismatch):
                call(client)
            assert other.forms == []
    # The user gives it each time.
    assert "s3cret" not in repr([stored.value for stored in store._values.values()])


def test_a_grant_that_somebody_else_has_got_is_used(server, endpoint) -> None:
    store = MemoryStore()
    first, second = oauth(store=store), oauth(store=store)
    with Client(endpoint.url, auth=first) as one, Client(endpoint.url, auth=second) as other:
        call(one)
        call(other)
        server.expire_all()
        call(one)
        assert call(other) == {"sum": 3}
    assert server.asked["authorize"] == 1
    assert server.asked["refresh_token"] == 1
    assert not server.revoked_families


def test_whoever_waits_for_the_user_takes_what_somebody_else_has_got(server, endpoint) -> None:
    store = MemoryStore()
    shown = threading.Event()
    waiting = OAuth(
        interaction=LoopbackBrowser(open=lambda url: shown.set() or True, timeout=20), store=store
    )
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(post, endpoint.url, waiting)
        assert shown.wait(10)
        post(endpoint.url, oauth(store=store))
        assert answer.result(10).status_code in (200, 400)
    assert len(server.tokens) == 1


def test_sixteen_threads_that_are_refused_together_refresh_once(server, endpoint) -> None:
    auth = oauth()
    with Client(endpoint.url, auth=auth) as client:
        call(client)
        server.expire_all()
        barrier = threading.Barrier(16)
        refused = threading.Barrier(16)

        def together(request: HTTPRequest) -> Any:
            # Nobody gets a refusal before everybody has sent the old token.
            if (
                request.headers.get("authorization", "").startswith("Bearer access-")
                and b"tools/call" in request.body
            ):
                try:
                    refused.wait(5)
                except threading.BrokenBarrierError:
                    pass
            return None

        server.on_resource = together

        def run(_: int) -> Any:
            barrier.wait(10)
            answer = call(client)
            refused.abort()
            return answer

        with ThreadPoolExecutor(16) as pool:
            assert list(pool.map(run, range(16))) == [{"sum": 3}] * 16
    assert server.asked["refresh_token"] == 1
    assert not server.revoked_families


# --- with requests alone -----------------------------------------------------------------------------------


def test_it_works_in_a_session_and_leaves_a_history(server, endpoint) -> None:
    auth = oauth()
    response = post(endpoint.url, auth)
    assert response.status_code == 200 or response.status_code == 400
    assert [each.status_code for each in response.history] == [401]
    assert response.request.headers["Authorization"].startswith("Bearer access-")
    assert post(endpoint.url, auth).history == []


def test_a_prepared_request_that_is_sent_again_begins_anew(server, endpoint) -> None:
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    with requests.Session() as session:
        session.trust_env = False
        asked = requests.Request("POST", endpoint.url, headers, data=body, auth=oauth())
        prepared = session.prepare_request(asked)
        for _ in range(4):
            assert session.send(prepared, timeout=20).status_code != 401
            server.expire_all()
    assert server.asked["authorize"] == 1
    assert server.asked["refresh_token"] == 3


def test_it_works_in_a_client_with_a_session_of_the_user(server, endpoint) -> None:
    with requests.Session() as session:
        session.trust_env = False
        with Client(endpoint.url, session=session, auth=oauth()) as client:
            assert call(client) == {"sum": 3}
            server.expire_all()
            assert call(client) == {"sum": 3}
        assert session.auth is None
        assert "Authorization" not in session.headers
    assert server.asked["refresh_token"] == 1


def test_the_time_of_a_call_counts_in_a_session_of_the_user_too(server, endpoint) -> None:
    release = threading.Event()
    with requests.Session() as session:
        session.trust_env = False
        with Client(endpoint.url, session=session, auth=oauth()) as client:
            call(client)
            server.expire_all()
            server.on_token = lambda form: release.wait(10) and None
            try:
                with pytest.raises(CallTimeout):
                    call(client, timeout=0.3)
            finally:
                release.set()


def test_the_metadata_of_a_server_are_asked_for_as_the_server_itself_is(server) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with authority.cert_pem.tempfile() as bundle, protected(server, ssl_context=context) as endpoint:
        server.resource = endpoint.url
        target = StreamableHTTP(endpoint.url, auth=oauth(), verify=bundle)
        with Client(target) as client:
            assert call(client) == {"sum": 3}
        with pytest.raises(Exception, match="certificate"), Client(endpoint.url, auth=oauth()) as client:
            call(client)


def test_a_file_is_sent_again_from_where_it_began(server, endpoint) -> None:
    body = io.BytesIO(b"xx" + json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode())
    body.seek(2)
    post(endpoint.url, oauth(), data=body)
    first, second = [request.body for request in endpoint.requests if request.method == "POST"]
    assert first == second
    assert first.startswith(b'{"jsonrpc"')


def test_a_body_that_cannot_be_sent_again_is_an_error_and_the_grant_is_there(server) -> None:
    def answer(request: Request) -> Reply:
        canned = server.protect(HTTPRequest(request.method, request.path, request.headers, request.body))
        return Reply(200) if canned is None else Reply(canned.status, canned.body, dict(canned.headers))

    with PlainServer(answer) as outer:
        auth = oauth()
        url = outer.origin + "/mcp"
        with pytest.raises(AuthError, match="its body cannot be sent again"):
            requests.post(url, data=iter([b"a", b"b"]), auth=auth, timeout=10)
        assert requests.post(url, data=iter([b"a", b"b"]), auth=auth, timeout=10).status_code == 200


def test_a_token_goes_to_no_other_origin(server, endpoint) -> None:
    seen: list[Request] = []

    def answer(request: Request) -> Reply:
        seen.append(request)
        return Reply(401, b"", {"WWW-Authenticate": "Bearer"})

    auth = oauth()
    post(endpoint.url, auth)
    with PlainServer(answer) as other:
        server.on_resource = lambda request: (
            HTTPReply(307, {"Location": f"{other.origin}/x"}) if request.path == "/mcp" else None
        )
        # By another name, since requests takes it for the same host otherwise.
        assert post(endpoint.url, auth).status_code == 401
    assert len(seen) == 1
    assert "authorization" not in seen[0].headers
    assert server.asked["authorize"] == 1


def test_in_clear_a_token_stays_on_this_machine() -> None:
    with pytest.raises(UsageError, match="in clear"):
        OAuth()(requests.Request("POST", "http://h.example/mcp").prepare())


def test_with_a_server_url_no_other_server_is_served() -> None:
    auth = OAuth(server_url="https://h.example/mcp")
    with pytest.raises(UsageError, match=r"is for https://h\.example/mcp alone"):
        auth(requests.Request("POST", "https://other.example/mcp").prepare())
    auth(requests.Request("POST", "https://h.example/other").prepare())


# --- the store -------------------------------------------------------------------------------------------


class BrokenStore(MemoryStore):
    """Has a full disk, when told so."""

    broken = False

    def put(self, key: Key, value: Any, expected: Any) -> bool:
        if self.broken:
            raise AuthError("no space left on the device")
        return super().put(key, value, expected)


def test_a_refreshed_token_that_cannot_be_written_is_not_lost(server, endpoint) -> None:
    store = BrokenStore()
    with Client(endpoint.url, auth=oauth(store=store)) as client:
        call(client)
        server.expire_all()
        store.broken = True
        with pytest.raises(AuthError, match="no space left"):
            call(client)
        store.broken = False
        assert call(client) == {"sum": 3}
    assert server.asked["authorize"] == 1
    assert not server.revoked_families


def refresh_on_a_full_disk(server: OAuthServer, url: str, auth: OAuth, store: BrokenStore) -> None:
    """Refresh, and have no space left when the new token comes."""
    post(url, auth)
    server.expire_all()
    server.on_token = lambda form: setattr(store, "broken", True)
    with pytest.raises(AuthError, match="no space left"):
        post(url, auth)
    server.on_token = lambda form: None


def test_what_could_not_be_written_is_written_by_the_next_use(server, endpoint) -> None:
    store = BrokenStore()
    auth = oauth(store=store)
    refresh_on_a_full_disk(server, endpoint.url, auth, store)
    store.broken = False
    assert post(endpoint.url, auth).status_code != 401
    with Client(endpoint.url, auth=OAuth(interactive=False, store=store)) as client:
        assert call(client) == {"sum": 3}
    assert server.asked["refresh_token"] == 1


def test_what_cannot_be_written_is_tried_now_and_then_and_used(server, endpoint, monkeypatch) -> None:
    monkeypatch.setattr(current_module, "_WRITE_SECONDS", 1000.0)
    tried: list[str] = []

    class Full(BrokenStore):
        def put(self, key: Key, value: Any, expected: Any) -> bool:
            tried.append(key.kind)
            return super().put(key, value, expected)

    store = Full()
    auth = oauth(store=store)
    refresh_on_a_full_disk(server, endpoint.url, auth, store)
    tried.clear()
    for _ in range(3):
        assert post(endpoint.url, auth).status_code != 401
    assert tried == ["grant"]
    assert server.asked["refresh_token"] == 1


def test_a_grant_survives_a_login_that_was_given_up(server, endpoint) -> None:
    auth = oauth()
    with Client(endpoint.url, auth=auth) as client:
        call(client)
        before = held(auth).grant
        server.needed_scope = {"add": "write"}
        server.on_authorize = lambda query: {"error": "access_denied", "state": query["state"]}
        with pytest.raises(AuthError):
            call(client)
        server.needed_scope = {}
        assert call(client) == {"sum": 3}
    assert held(auth).grant == before


def test_the_store_is_read_again_only_when_that_is_of_use(server, endpoint) -> None:
    reads: list[str] = []

    class Counting(MemoryStore):
        def get(self, key: Key) -> Any:
            reads.append(key.kind)
            return super().get(key)

    with Client(endpoint.url, auth=oauth(store=Counting())) as client:
        call(client)
        reads.clear()
        call(client)
    assert reads == []
