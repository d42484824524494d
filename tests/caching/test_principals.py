"""Who shares what is kept: nobody with anybody else, unless the server or the user says so."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import requests

from mcp_sync import BearerToken, CacheOptions, Client, ClientCredentials, InMemory, OAuth, WebSocket
from mcp_sync._concurrency.deadline import Deadline
from mcp_sync._engine.cache_keys import Keys
from mcp_sync.cache import MemoryCache
from mcp_sync.errors import AuthError, HTTPStatusError
from mcp_sync.testing import HTTPReply
from mcp_sync.transports import LegacySSE, Stdio, StreamableHTTP

from .places import URI, DictStore, make_server

URL = "https://example.com/mcp"
SECRET = "of the application"


def places(target, principal=None, secret=SECRET):
    place = Keys(target, principal, secret).place("tools/list", {}, "1")
    return place.private, place.public


def shared(one, other, **how):
    """Return what two targets share: private answers, public ones."""
    mine, theirs = places(one, **how), places(other, **how)
    return mine[0] == theirs[0], mine[1] == theirs[1]


def http(url=URL, **options):
    return StreamableHTTP(url, **options)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"headers": {"Authorization": "Bearer a", "X-Tenant": "1"}},
        {"auth": ("ann", "password")},
        {"auth": BearerToken("a")},
        {"auth": OAuth(principal="ann")},
        {"auth": ClientCredentials("client", "secret", principal="ann")},
        {"cert": "/client.pem"},
    ],
    ids=lambda options: "-".join(f"{key}-{type(value).__name__}" for key, value in options.items()),
)
def test_the_same_credentials_share_everything(options):
    assert shared(http(**options), http(**options)) == (True, True)
    assert shared(http(**options), http(**options), secret=None) == (True, True)
    assert places(http(**options)) != places(http(**options), secret="another")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {"headers": {"Authorization": "Bearer a"}}),
        ({"headers": {"Authorization": "Bearer a"}}, {"headers": {"Authorization": "Bearer b"}}),
        ({"headers": {"X-Api-Key": "a"}}, {"headers": {"X-Api-Key": "b"}}),
        ({"auth": ("ann", "a")}, {"auth": ("bob", "a")}),
        ({"auth": ("ann", "a")}, {"auth": ("ann", "b")}),
        ({"auth": BearerToken("a")}, {"auth": BearerToken("b")}),
        ({"auth": OAuth(principal="ann")}, {"auth": OAuth(principal="bob")}),
        ({"auth": OAuth(principal="ann", scopes=["x"])}, {"auth": OAuth(principal="ann", scopes=["y"])}),
        ({"cert": "/ann.pem"}, {"cert": "/bob.pem"}),
        ({"session_id": "a"}, {"session_id": "b"}),
        ({"url": "https://ann:a@example.com/mcp"}, {"url": "https://bob:a@example.com/mcp"}),
    ],
    ids=str,
)
def test_other_credentials_share_what_is_public_alone(one, other):
    assert shared(http(**one), http(**other)) == (False, True)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (http(), http("https://example.org/mcp")),
        (http(), http("http://example.com/mcp")),
        (http(), http("https://example.com/other")),
        (http(), http(URL + "?tenant=1")),
        (http(URL + "?key=1"), http(URL + "?key=2")),
        (http(), LegacySSE(URL)),
        (InMemory(make_server()), InMemory(make_server())),
        (Stdio("python", ["a.py"]), Stdio("python", ["b.py"])),
    ],
    ids=str,
)
@pytest.mark.parametrize("principal", [None, "ann"])
def test_different_servers_share_nothing(one, other, principal):
    assert shared(one, other, principal=principal) == (False, False)


def test_this_machine_is_another_server_on_another_machine(monkeypatch):
    ours, theirs = (http(f"http://{host}/mcp") for host in ("127.0.0.1:8000", "example.com"))
    before = places(ours, "ann"), places(theirs, "ann")
    monkeypatch.setattr("platform.node", lambda: "another machine")
    after = places(ours, "ann"), places(theirs, "ann")
    assert (before[0][1] == after[0][1], before[1] == after[1]) == (False, True)


class Mine(requests.auth.AuthBase):
    def __call__(self, request):
        return request


@pytest.mark.parametrize(
    "target",
    [
        http(auth=Mine()),
        http(auth=lambda request: request),
        http(auth=OAuth()),
        http(auth=type("Other", (BearerToken,), {})("a")),
        http(session=requests.Session()),
        InMemory(make_server()),
        Stdio("python", ["a.py"]),
    ],
    ids=lambda target: type(target.auth).__name__ if hasattr(target, "auth") else type(target).__name__,
)
def test_where_there_is_no_telling_a_client_shares_what_is_public_alone(target):
    assert shared(target, target) == (False, True)
    assert shared(target, target, principal="ann") == (True, True)
    keys = Keys(target, None, SECRET)
    assert keys.place("tools/list", {}, "1") == keys.place("tools/list", {}, "1")


def test_a_websocket_has_credentials_like_any_url():
    one, other = (WebSocket("wss://example.com/", headers={"X-Key": key}) for key in "ab")
    assert shared(one, other) == (False, True)
    assert shared(one, one) == (True, True)


def test_a_named_principal_counts_instead_of_the_credentials():
    one, other = http(auth=BearerToken("a")), http(auth=BearerToken("b"))
    assert shared(one, other, principal="ann") == (True, True)
    assert places(one, "ann") == places(one, "ann", secret="another")
    assert places(one, "ann")[0] != places(one, "bob")[0]


def test_no_credential_can_be_found_in_a_key():
    target = http(URL + "?key=hidden", headers={"X-Key": "hidden"}, auth=BearerToken("hidden"))
    keys = Keys(target, None, SECRET)
    assert "hidden" not in repr(vars(keys) | {"_credentials": None, "place": keys.place("a", {}, "1")})


def test_a_function_that_gives_tokens_says_each_time_whose_answers_they_are():
    token = ["ann"]
    keys = Keys(http(auth=BearerToken(lambda: token[0])), None, SECRET)
    first = keys.place("tools/list", {}, "1")
    token[0] = "bob"
    second = keys.place("tools/list", {}, "1")
    assert (first.private == second.private, first.public == second.public) == (False, True)
    token[0] = "ann"
    assert keys.place("tools/list", {}, "1") == first


def test_keys_mean_the_same_in_another_process_by_the_same_secret_and_by_that_alone():
    code = f"""
        from mcp_sync import BearerToken
        from mcp_sync._engine.cache_keys import Keys
        from mcp_sync.transports import StreamableHTTP, Stdio
        for secret, target in [
            ({SECRET!r}, StreamableHTTP({URL!r}, auth=BearerToken("a"))),
            (None, StreamableHTTP({URL!r}, auth=BearerToken("a"))),
            ({SECRET!r}, Stdio("python", ["a.py"])),
        ]:
            print(*Keys(target, None, secret).place("tools/list", {{}}, "1")[1:3])
    """
    code = "\n".join(line[8:] for line in code.splitlines())
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=True
    )
    by_secret, by_nothing, command = (tuple(line.split()) for line in done.stdout.splitlines())
    target = http(auth=BearerToken("a"))
    assert by_secret == places(target)
    mine = places(target, secret=None)
    assert (by_nothing[0] == mine[0], by_nothing[1] == mine[1]) == (False, True)
    here = places(Stdio("python", ["a.py"]))
    assert (command[0] == here[0], command[1] == here[1]) == (False, False)


# --- over HTTP, with users --------------------------------------------------------------------------------


@pytest.mark.parametrize("store", [MemoryCache, DictStore])
@pytest.mark.parametrize("scope", ["private", "public"])
def test_users_share_what_is_public_and_nothing_else(store, scope):
    server = make_server(cache_scope=scope)
    options = CacheOptions(store=store(), secret=SECRET)
    with server.serve_http() as endpoint:
        for user in ("ann", "bob", "ann"):
            with Client(endpoint.url, auth=BearerToken(user), cache=options) as client:
                client.list_tools()
                client.list_tools()
        assert server.count("tools/list") == (2 if scope == "private" else 1)


def test_what_servers_mark_as_public_can_be_kept_apart():
    server = make_server(cache_scope="public")
    options = CacheOptions(store=MemoryCache(), share_public=False)
    with server.serve_http() as endpoint:
        for user in ("ann", "bob", "ann"):
            with Client(endpoint.url, auth=BearerToken(user), cache=options) as client:
                client.list_tools()
        assert server.count("tools/list") == 2


@pytest.mark.parametrize("scope", [None, "PUBLIC", "shared", 1, ["public"]], ids=repr)
def test_a_scope_that_is_not_public_is_private(scope):
    server = make_server(cache_scope=scope)
    options = CacheOptions(store=MemoryCache())
    with server.serve_http() as endpoint:
        for user in ("ann", "bob"):
            with Client(endpoint.url, auth=BearerToken(user), cache=options) as client:
                client.list_tools()
        assert server.count("tools/list") == 2


def test_one_client_with_a_function_for_tokens_keeps_its_users_apart():
    server = make_server()
    now = ["ann"]
    with (
        server.serve_http() as endpoint,
        Client(endpoint.url, auth=BearerToken(lambda: now[0]), cache=CacheOptions()) as client,
    ):
        for user in ("ann", "bob", "ann", "bob"):
            now[0] = user
            client.list_tools()
        assert server.count("tools/list") == 2


def test_a_function_that_fails_is_the_error_of_the_call():
    def fail():
        raise OSError("no vault")

    server = make_server()
    with server.serve_http() as endpoint:
        client = Client(endpoint.url, auth=BearerToken(lambda: "a"), cache=CacheOptions()).open()
        client._engine.plan.target.auth._source = fail
        with pytest.raises(AuthError):
            client.list_tools()
        client.close()


# --- what changes while a client lives ----------------------------------------------------------------------


def log_in(request):
    """Refuse a call of a tool, with a cookie for whoever it names."""
    if b"tools/call" not in request.body:
        return None
    user = json.loads(request.body)["params"]["name"]
    return HTTPReply(403, {"Set-Cookie": f"user={user}; Path=/"})


def logged_in(client, user):
    with pytest.raises(HTTPStatusError):
        client.call_tool(user)


def test_a_login_by_a_cookie_is_another_user():
    server = make_server()
    options = CacheOptions()
    with server.serve_http(intercept=log_in) as endpoint, Client(endpoint.url, cache=options) as client:
        for user in ("ann", "bob", "ann"):
            logged_in(client, user)
            for _ in range(2):
                client.read_resource(URI)
        assert server.count("resources/read") == 2


def test_a_cookie_is_no_other_user_where_a_principal_is_named():
    server = make_server()
    with server.serve_http(intercept=log_in) as endpoint:
        with Client(endpoint.url, cache=CacheOptions(principal="ann")) as client:
            for _ in range(2):
                logged_in(client, "ann")
                client.read_resource(URI)
            logged_in(client, "a new cookie")
            client.read_resource(URI)
        assert server.count("resources/read") == 1


def test_an_answer_that_comes_with_a_new_cookie_is_not_kept_for_the_old_one():
    def cookie(request):
        if request.method == "POST" and b"resources/read" in request.body and len(endpoint.requests) < 4:
            return HTTPReply(503, {"Set-Cookie": "user=bob", "Retry-After": "0"})
        return None

    server = make_server()
    with (
        server.serve_http(intercept=cookie) as endpoint,
        Client(endpoint.url, cache=CacheOptions()) as client,
    ):
        before = client._engine.connection(Deadline(10.0)).channel.cookies
        client.read_resource(URI)
        assert (before, client.cache.stats.stores) == ((), 0)
        client.read_resource(URI)
        assert client.cache.stats.stores == 1


@pytest.mark.parametrize("scope", ["private", "public"])
def test_a_session_of_the_user_keeps_what_is_public_alone_unless_a_principal_is_named(scope):
    server = make_server(cache_scope=scope)
    with server.serve_http() as endpoint, requests.Session() as session:
        with Client(endpoint.url, session=session, cache=CacheOptions()) as client:
            for token in ("ann", "bob", "bob"):
                session.headers["Authorization"] = f"Bearer {token}"
                client.read_resource(URI)
        assert server.count("resources/read") == (3 if scope == "private" else 1)
        options = CacheOptions(principal="ann", share_public=False)
        with Client(endpoint.url, session=session, cache=options) as client:
            before = server.count("resources/read")
            client.read_resource(URI)
            client.read_resource(URI)
            assert server.count("resources/read") == before + 1
