"""Views for the users of a client: what they share, and what they never do."""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from mcp_sync import BearerToken, Client, InMemory, InputRequired, LegacySSE, StreamableHTTP, WebSocket
from mcp_sync.auth import EnterpriseManaged, MemoryStore, OAuth
from mcp_sync.errors import (
    ClientClosed,
    EnvelopeRejected,
    HTTPStatusError,
    UsageError,
)
from mcp_sync.options import CacheOptions, Timeouts
from mcp_sync.testing import FakeServer, HTTPReply, ToolContext

from .background import Background, collected, wait_until
from .scripted import DuplexTarget

TOKENS = {"Bearer alice-token": "alice", "Bearer bob-token": "bob", "Bearer service": "service"}


def who(headers):
    return TOKENS.get(headers.get("authorization", ""))


def refuse(request):
    if who(request.headers) is None:
        return HTTPReply(401, {"WWW-Authenticate": "Bearer"})
    return None


def make_server(**options):
    server = FakeServer(principal=who, **options)

    @server.tool()
    def whoami(context: ToolContext) -> str:
        return context._exchange.principal

    @server.tool()
    def publish(context: ToolContext) -> str:
        context.elicit("Really?", {"type": "object", "properties": {"sure": {"type": "boolean"}}})
        return "published"

    return server


def seen(endpoint, header="authorization"):
    return [request.headers.get(header) for request in endpoint.requests]


def token(name):
    return BearerToken(f"{name}-token")


@pytest.fixture(params=["modern", "legacy"])
def endpoint(request):
    with make_server(versions=request.param).serve_http(intercept=refuse) as endpoint:
        yield endpoint


def test_each_view_calls_with_its_own_token_and_the_client_with_its_own(endpoint):
    with Client(endpoint.url, auth=BearerToken("service")) as client:
        alice = client.for_principal("alice", auth=token("alice"))
        bob = client.for_principal("bob", headers={"Authorization": "Bearer bob-token"})
        assert isinstance(alice, Client)
        for _ in range(2):
            assert client.call_tool("whoami").text == "service"
            assert alice.call_tool("whoami").text == "alice"
            assert bob.call_tool("whoami").text == "bob"
        assert [tool.name for tool in alice.tools()] == ["whoami", "publish"]
        assert alice.server_info.name == "fake-server"
        assert alice.protocol_version == client.protocol_version


def test_a_client_that_may_not_call_itself_can_have_views_that_may(endpoint):
    client = Client(endpoint.url)
    alice, bob = (client.for_principal(name, auth=token(name)) for name in ("alice", "bob"))
    assert alice.call_tool("whoami").text == "alice"
    assert bob.call_tool("whoami").text == "bob"
    with pytest.raises(HTTPStatusError):
        client.call_tool("whoami")
    client.close()


def test_a_view_without_credentials_gets_none_of_the_client_s(endpoint, tmp_path, monkeypatch):
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login someone password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    url = endpoint.url.replace("http://", "http://user:password@")
    keys = {"Authorization": "Bearer service", "Cookie": "session=1", "X-Api-Key": "k", "X-Other": "k"}
    headers = {**keys, "User-Agent": "app/1"}
    client = Client(url, headers=headers)
    nobody = client.for_principal("nobody")
    assert client.call_tool("whoami").text == "service"
    count = len(endpoint.requests)
    with pytest.raises(HTTPStatusError):
        nobody.call_tool("whoami")
    late = endpoint.requests[count:]
    assert not {name.lower() for name in keys} & {name for each in late for name in each.headers}
    assert {each.headers["user-agent"] for each in late} == {"app/1"}
    client.close()


def test_two_users_share_one_connection_on_the_stateless_revision():
    ports = []

    def watch(request):
        ports.append(threading.get_ident())  # A thread of the server serves one connection.
        return refuse(request)

    with make_server(versions="modern").serve_http(intercept=watch) as endpoint:
        with Client(endpoint.url, auth=BearerToken("service")) as client:
            for name in ("alice", "bob") * 3:
                with client.for_principal(name, auth=token(name)) as view:
                    assert view.call_tool("whoami").text == name
            assert client.call_tool("whoami").text == "service"
        assert len(set(ports)) == 1


def test_a_view_of_the_stateless_revision_opens_without_a_request_and_without_a_thread():
    server = make_server(versions="modern")
    with server.serve_http() as endpoint, Client(endpoint.url) as client:
        before = set(threading.enumerate())
        views = [client.for_principal(f"user {n}", auth=token("alice")) for n in range(100)]
        for view in views:
            view.open()
        assert view.call_tool("whoami").text == "alice"
        new = {thread.name for thread in set(threading.enumerate()) - before}
        assert not [name for name in new if name.startswith("mcp_sync-")]
        assert server.count("server/discover") == 1


def test_the_second_view_knows_what_the_first_one_found_out():
    server = make_server(versions="modern")
    with server.serve_http(intercept=refuse) as endpoint:
        client = Client(endpoint.url)
        for name in ("alice", "bob", "alice"):
            assert client.for_principal(name, auth=token(name)).call_tool("whoami").text == name
        assert server.count("server/discover") == 1
        client.close()


def test_on_a_revision_with_a_handshake_each_view_has_its_own_session():
    server = make_server(versions="legacy")
    with server.serve_http(intercept=refuse) as endpoint:
        with Client(endpoint.url, auth=BearerToken("service")) as client:
            alice, bob = (client.for_principal(name, auth=token(name)).open() for name in ("alice", "bob"))
            assert len({client.session_id, alice.session_id, bob.session_id}) == 3
            alice.close()
            assert bob.call_tool("whoami").text == "bob"
        assert server.count("initialize") == 3
        ended = [who(each.headers) for each in endpoint.requests if each.method == "DELETE"]
        assert sorted(ended) == ["alice", "bob", "service"]


def test_a_session_that_the_client_took_up_is_not_that_of_its_views():
    server = make_server(versions="legacy")
    with server.serve_http(intercept=refuse) as endpoint:
        first = Client(StreamableHTTP(endpoint.url, auth=BearerToken("service"), terminate_on_close=False))
        session, version = first.session_id, first.protocol_version
        first.close()
        with Client(endpoint.url, auth=BearerToken("service"), session_id=session, mode=version) as client:
            alice = client.for_principal("alice", auth=token("alice"))
            assert alice.call_tool("whoami").text == "alice"
            assert alice.session_id not in (None, session)
            assert client.session_id == session


def test_cookies_stay_with_the_user_who_got_them():
    def give(request):
        if json.loads(request.body or b"{}").get("method") == "tools/list":
            name = who(request.headers)
            return HTTPReply(503, {"Set-Cookie": f"user={name}", "Retry-After": "0"})
        return None

    with (
        make_server(versions="modern").serve_http(intercept=give) as endpoint,
        Client(endpoint.url) as client,
    ):
        alice, bob = (client.for_principal(name, auth=token(name)) for name in ("alice", "bob"))
        for view in (alice, bob):
            with pytest.raises(HTTPStatusError):
                view.list_tools()
        for view in (alice, bob, client):
            view.send_ping()
        assert seen(endpoint, "cookie")[-3:] == ["user=alice", "user=bob", None]


@pytest.mark.parametrize("versions", ["modern", "legacy"])
def test_many_users_at_once_never_get_each_other_s_answers(versions, fast_switching):
    def tell(request):
        message = json.loads(request.body or b"{}")
        if message.get("method") != "tools/list":
            return refuse(request)
        tool = {"name": who(request.headers), "inputSchema": {"type": "object"}}
        hints = {"ttlMs": 60_000, "cacheScope": "private", "resultType": "complete"}
        body = {"jsonrpc": "2.0", "id": message["id"], "result": {"tools": [tool], **hints}}
        return HTTPReply(200, {"Content-Type": "application/json"}, json.dumps(body).encode())

    TOKENS.update({f"Bearer user{n}-token": f"user{n}" for n in range(6)})
    with make_server(versions=versions).serve_http(intercept=tell) as endpoint:
        client = Client(endpoint.url, cache=CacheOptions(default_ttl=60))

        def use(n):
            name = f"user{n % 6}"
            with client.for_principal(name, auth=token(name)) as view:
                assert view.call_tool("whoami").text == name
                for cache in ("use", "refresh", "use"):
                    assert [tool.name for tool in view.list_tools(cache=cache).tools] == [name]
            return True

        with ThreadPoolExecutor(12) as pool:
            assert all(pool.map(use, range(60)))
        client.close()


@pytest.fixture
def fast_switching():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def test_what_was_kept_for_one_user_is_there_in_the_next_view_for_him_and_for_no_other():
    server = make_server(versions="modern", ttl_ms=60_000)
    with server.serve_http(intercept=refuse) as endpoint:
        client = Client(endpoint.url, cache=CacheOptions())
        for name, asked in (("alice", 1), ("alice", 1), ("bob", 2), ("alice", 2)):
            with client.for_principal(name, auth=token(name)) as view:
                view.list_tools()
            assert server.count("tools/list") == asked
        client.close()


def test_what_is_public_is_kept_for_all_views():
    server = make_server(versions="modern", ttl_ms=60_000, cache_scope="public")
    with server.serve_http(intercept=refuse) as endpoint:
        client = Client(endpoint.url, cache=CacheOptions())
        for name in ("alice", "bob"):
            client.for_principal(name, auth=token(name)).list_tools()
        assert server.count("tools/list") == 1
        client.close()


def test_instructions_that_may_be_for_one_user_alone_are_asked_for_again():
    server = make_server(versions="modern", instructions="Be kind.")
    with server.serve_http() as endpoint, Client(endpoint.url) as client:
        view = client.for_principal("alice", auth=token("alice"))
        assert client.instructions == "Be kind."
        assert server.count("server/discover") == 1
        assert view.instructions == "Be kind."
        assert server.count("server/discover") == 2
        assert seen(endpoint)[-1] == "Bearer alice-token"
        assert view.server_capabilities == client.server_capabilities


@pytest.mark.parametrize("scoped", [True, False], ids=["http", "memory"])
def test_an_envelope_can_be_resumed_by_its_user_alone(scoped):
    server = make_server(versions="modern")
    with server.serve_http() as endpoint, Client(endpoint.url if scoped else InMemory(server)) as client:
        alice, again, bob = (
            client.for_principal(name, auth=token(name) if scoped else None)
            for name in ("alice", "alice", "bob")
        )
        with pytest.raises(InputRequired) as caught:
            alice.call_tool("publish", on_input="raise")
        envelope = InputRequired.from_json(caught.value.to_json())
        assert envelope.principal == "alice"
        answers = {key: {"action": "accept", "content": {"sure": True}} for key in envelope.requests}
        for other in (bob, client):
            with pytest.raises(EnvelopeRejected) as refused:
                other.resume(envelope, answers)
            assert refused.value.reason == "principal"
        assert again.resume(envelope, answers).text == "published"


@pytest.mark.parametrize("versions", ["modern", "legacy"])
def test_callbacks_get_the_view_that_made_the_call(versions):
    sessions = []

    def answer(context, params):
        sessions.append(context.session)
        return {"action": "accept", "content": {"sure": True}}

    with make_server(versions=versions).serve_http() as endpoint:
        client = Client(endpoint.url, elicitation_callback=answer)
        view = client.for_principal("alice", auth=token("alice"))
        assert view.call_tool("publish").text == "published"
        assert sessions.pop() is view
        client.close()


def test_without_a_place_for_credentials_views_use_the_connection_of_the_client():
    target = DuplexTarget()
    with Client(target) as client:
        view, other = client.for_principal("alice"), client.for_principal("bob")
        call = Background(view.call_tool, "x")
        request = target.now.expect("tools/call")
        other.close()
        with pytest.raises(ClientClosed):
            other.send_ping()
        target.now.answer(request, {"content": [{"type": "text", "text": "done"}]})
        assert call.result().text == "done"
        assert target.now.received("initialize") + target.now.received("server/discover")[1:] == []
        with pytest.raises(UsageError, match="belong to a URL"):
            client.for_principal("alice", auth=token("alice"))


def test_views_on_one_connection_can_listen():
    server = make_server()
    with Client(InMemory(server)) as client:
        view = client.for_principal("alice")
        with view.listen(tools=True) as events:
            server.add_tool(lambda: "new", "new")
            server.tools_changed()
            assert next(events) is not None


def test_over_websocket_credentials_have_a_connection_of_their_own():
    server = make_server()
    with server.serve_websocket() as endpoint, Client(WebSocket(endpoint.url)) as client:
        alice = client.for_principal("alice", auth=token("alice"))
        alice.send_ping()
        plain = client.for_principal("bob")
        plain.send_ping()
        assert [each for each in seen(endpoint) if each] == ["Bearer alice-token"]
        assert len(endpoint.requests) == 2


def test_over_http_with_sse_each_view_has_its_own_stream():
    server = make_server(versions="legacy")
    with server.serve_sse() as endpoint, Client(LegacySSE(endpoint.url)) as client:
        client.send_ping()
        alice = client.for_principal("alice", auth=token("alice"))
        count = len(endpoint.requests)
        alice.send_ping()
        assert set(seen(endpoint)[count:]) == {"Bearer alice-token"}
        assert [each.method for each in endpoint.requests].count("GET") == 2
        client.send_ping()
        assert seen(endpoint)[-1] is None


def test_closing_the_client_closes_its_views_and_wakes_their_calls(endpoint):
    client = Client(endpoint.url, auth=BearerToken("service")).open()
    view = client.for_principal("alice", auth=token("alice")).open()
    client.close()
    with pytest.raises(ClientClosed):
        view.call_tool("whoami")
    with pytest.raises(ClientClosed):
        client.for_principal("bob")


def test_closing_the_client_wakes_the_calls_of_views_on_its_connection():
    target = DuplexTarget()
    client = Client(target).open()
    call = Background(client.for_principal("alice").call_tool, "x")
    target.now.expect("tools/call")
    client.close()
    assert isinstance(call.error(), ClientClosed)


def test_a_view_that_is_forgotten_goes_and_its_client_stays_as_long_as_it():
    with make_server().serve_http() as endpoint:
        client = Client(endpoint.url).open()
        view = client.for_principal("alice", auth=token("alice")).open()
        gone = weakref.ref(view)
        del view
        assert collected(gone)
        view = client.for_principal("alice", auth=token("alice"))
        parent = weakref.ref(client)
        del client
        gc.collect()
        assert view.call_tool("whoami").text == "alice"
        del view
        assert collected(parent)


def test_the_sessions_of_views_end_with_them_whether_they_are_closed_or_forgotten():
    with make_server(versions="legacy").serve_http() as endpoint:

        def ended():
            return sum(each.method == "DELETE" for each in endpoint.requests)

        client = Client(endpoint.url)
        for number in range(3):
            client.for_principal(f"user {number}", auth=token("alice")).call_tool("whoami")
        wait_until(lambda: gc.collect() is not None and ended() == 3)
        kept = client.for_principal("bob", auth=token("bob"))
        assert kept.call_tool("whoami").text == "bob"
        with client.for_principal("alice", auth=token("alice")) as view:
            view.call_tool("whoami")
        assert ended() == 4
        client.close()
        assert ended() == 5


def test_a_forgotten_view_leaves_a_server_that_does_not_answer_in_bounded_time():
    def hang(request):
        if request.method == "DELETE":
            deleted.set()
            assert go.wait(10)

    deleted, go = threading.Event(), threading.Event()
    with make_server(versions="legacy").serve_http(intercept=hang) as endpoint:
        client = Client(endpoint.url)
        client.for_principal("alice", auth=token("alice")).call_tool("whoami")
        wait_until(lambda: gc.collect() is not None and deleted.is_set())
        assert client.for_principal("bob", auth=token("bob")).call_tool("whoami").text == "bob"
        go.set()
        client.close()


def test_closing_waits_no_longer_than_asked_for_the_sessions_of_forgotten_views():
    def hang(request):
        if request.method == "DELETE":
            asked.append(request.headers.get("authorization"))
            assert go.wait(10)

    asked, go = [], threading.Event()
    with make_server(versions="legacy").serve_http(intercept=hang) as endpoint:
        client = Client(endpoint.url, timeouts=Timeouts(close=3.0), name="left")
        for number in range(20):
            client.for_principal(f"user {number}", auth=token("alice")).call_tool("whoami")
        client.call_tool("whoami")
        gc.collect()
        wait_until(lambda: asked)
        began = time.monotonic()
        client.close()
        assert time.monotonic() - began < 8
        # Not even the one that waits for an answer; and the client's own session was not left out.
        assert not [each for each in threading.enumerate() if each.name.startswith("mcp_sync-left-")]
        assert asked[-1] is None
        go.set()


def test_a_view_that_listens_with_a_callback_lives_as_long_as_its_client():
    server = make_server()
    heard = threading.Event()
    with server.serve_http() as endpoint:
        client = Client(endpoint.url)
        view = client.for_principal("alice", auth=token("alice"))
        events = view.listen(tools=True, on_event=lambda event: heard.set())
        gone = weakref.ref(view)
        del view
        gc.collect()
        server.tools_changed()
        assert heard.wait(10)
        assert events.ended is None
        parent = weakref.ref(client)
        del client, events
        assert collected(gone)
        assert collected(parent)  # And the thread of the subscription ends.


def test_a_view_is_let_go_when_what_it_listened_for_has_ended():
    with make_server().serve_http() as endpoint, Client(endpoint.url) as client:
        view = client.for_principal("alice", auth=token("alice"))
        view.listen(tools=True, on_event=print).close()
        gone = weakref.ref(view)
        del view
        with client.for_principal("bob", auth=token("bob")).listen(tools=True, on_event=print):
            assert collected(gone)


def test_a_view_of_a_view_is_one_of_the_client():
    with make_server().serve_http() as endpoint, Client(endpoint.url) as client:
        alice = client.for_principal("alice", auth=token("alice"))
        bob = alice.for_principal("bob", auth=token("bob"))
        alice.close()
        assert bob.call_tool("whoami").text == "bob"


def test_futures_and_timeouts_of_a_view_are_like_those_of_the_client():
    with make_server().serve_http() as endpoint, Client(endpoint.url, timeout=5) as client:
        alice = client.for_principal("alice", auth=token("alice"))
        assert alice.submit(alice.call_tool, "whoami").result(10).text == "alice"
        with pytest.raises(UsageError):
            client.submit(alice.call_tool, "whoami")


@pytest.mark.parametrize("key", ["", None, 7])
def test_a_user_has_a_name(key):
    with Client(InMemory(make_server())) as client, pytest.raises(UsageError, match="name"):
        client.for_principal(key)


def test_a_session_of_requests_is_refused_since_all_would_share_its_cookies():
    with requests.Session() as session:
        client = Client("http://127.0.0.1:9/mcp", session=session)
        with pytest.raises(UsageError, match="cookies"):
            client.for_principal("alice", auth=token("alice"))
        client.close()


def test_the_grants_of_the_client_are_not_for_its_users():
    store = MemoryStore()
    oauth = OAuth(store=store)
    client = Client("http://127.0.0.1:9/mcp", auth=oauth)
    with pytest.raises(UsageError, match="for_principal"):
        client.for_principal("alice", auth=oauth)
    alice = oauth.for_principal("alice")
    assert (alice.principal, oauth.principal) == ("alice", "")
    assert alice.vault.store is oauth.vault.store
    assert alice.vault._principal == "alice"
    client.for_principal("alice", auth=alice).close()
    client.close()
    with pytest.raises(UsageError):
        oauth.for_principal("")


def test_what_a_user_has_brought_cannot_be_turned_into_another_s():
    auth = EnterpriseManaged(
        client_id="c", subject_token="a-token", idp_token_endpoint="https://idp.example.com/token"
    )
    with pytest.raises(UsageError, match="one user"):
        auth.for_principal("bob")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_views_go_on_in_a_forked_child_and_in_the_parent(endpoint):
    with Client(endpoint.url, auth=BearerToken("service")) as client:
        view = client.for_principal("alice", auth=token("alice")).open()
        child = os.fork()
        if not child:
            code = 1
            try:
                assert view.call_tool("whoami").text == "alice"
                bob = client.for_principal("bob", auth=token("bob"))
                code = 0 if bob.call_tool("whoami").text == "bob" else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert view.call_tool("whoami").text == "alice"


def test_the_last_view_leaves_no_connection_behind():
    with make_server(versions="modern").serve_http() as endpoint:
        client = Client(endpoint.url).open()
        views = [client.for_principal(name, auth=token(name)) for name in ("alice", "bob")]
        for view in views:
            view.send_ping()
        adapter = client._principals.common._shared.adapter
        client.close()
        wait_until(lambda: not adapter._routes)
