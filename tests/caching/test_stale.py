"""What is out of date may be better than an error: where that was said, and the server is out of reach."""

from __future__ import annotations

import logging

import pytest
from engine.background import Background

from mcp_sync import (
    AuthError,
    CacheOptions,
    CallTimeout,
    Client,
    ConnectFailed,
    HTTPStatusError,
    MethodNotFound,
    RemoteError,
    Retry,
    TransportError,
)
from mcp_sync.cache import MemoryCache
from mcp_sync.testing import Fault, FaultPlan, RpcError

from .places import PATIENCE, DictStore, make_server
from .test_together import Gate, waiting

ONCE = Retry(attempts=1)


def meets(*faults, store=None, stale_on_error=600, **options):
    """Serve; the first list succeeds, the following ones meet faults. Return server, endpoint, client."""
    server = make_server()
    plan = FaultPlan({"tools/list": [None, *faults]})
    endpoint = server.serve_http(faults=plan)
    cache = CacheOptions(store=store, stale_on_error=stale_on_error)
    return server, endpoint, lambda url: Client(url, cache=cache, retry=ONCE, **options)


@pytest.mark.parametrize("store", [MemoryCache, DictStore])
@pytest.mark.parametrize("fault", [Fault.http(500), Fault.http(503), Fault.drop("body")], ids=repr)
def test_where_the_server_cannot_be_reached_the_old_answer_is_given_with_a_warning(
    store, fault, clock, caplog
):
    server, serve, client_of = meets(fault, store=store())
    with serve as endpoint, client_of(endpoint.url) as client:
        client.list_tools()
        clock.move(61)
        with caplog.at_level(logging.WARNING, "mcp_sync.cache"):
            assert len(client.list_tools().tools) == 1
        assert "61 s old" in caplog.text
        assert client.cache.stats.stale == 1
        before = server.count("tools/list")
        client.list_tools()
        assert server.count("tools/list") == before + 1, "what is out of date was not asked for again"
        assert client.cache.stats.stale == 1


def test_it_is_not_given_unless_that_was_asked_for(clock):
    _, serve, client_of = meets(Fault.http(503), stale_on_error=0)
    with serve as endpoint, client_of(endpoint.url) as client:
        client.list_tools()
        clock.move(61)
        with pytest.raises(HTTPStatusError):
            client.list_tools()


def test_it_is_not_given_when_it_is_too_old(clock):
    _, serve, client_of = meets(Fault.http(503), Fault.http(503), stale_on_error=10)
    with serve as endpoint, client_of(endpoint.url) as client:
        client.list_tools()
        clock.move(69)
        client.list_tools()
        clock.move(2)
        with pytest.raises(HTTPStatusError):
            client.list_tools()


@pytest.mark.parametrize(
    ("fault", "error"),
    [(Fault.http(403), HTTPStatusError), (Fault.http(404), (TransportError, RemoteError))],
    ids=repr,
)
def test_a_refusal_is_raised(fault, error, clock):
    _, serve, client_of = meets(fault)
    with serve as endpoint, client_of(endpoint.url) as client:
        client.list_tools()
        clock.move(61)
        with pytest.raises(error):
            client.list_tools()
        assert client.cache.stats.stale == 0


def test_an_error_of_the_server_is_raised(clock):
    server, serve, client_of = meets()

    def refuse(message):
        raise RpcError(-32601, "no more")

    with serve as endpoint, client_of(endpoint.url) as client:
        client.list_tools()
        clock.move(61)
        server.on("tools/list", refuse)
        with pytest.raises(MethodNotFound):
            client.list_tools()


def test_an_error_of_the_authorization_is_raised(clock):
    _, serve, _ = meets()

    def auth(request):
        if denied:
            raise AuthError("not any more")
        return request

    denied = []
    with (
        serve as endpoint,
        Client(endpoint.url, auth=auth, cache=CacheOptions(stale_on_error=600), retry=ONCE) as client,
    ):
        client.list_tools()
        clock.move(61)
        denied.append(True)
        with pytest.raises(AuthError):
            client.list_tools()


def test_a_refresh_raises_what_went_wrong(clock):
    _, serve, client_of = meets(Fault.http(503))
    with serve as endpoint, client_of(endpoint.url) as client:
        client.list_tools()
        with pytest.raises(HTTPStatusError):
            client.list_tools(cache="refresh")
        client.list_tools()
        assert client.cache.stats.hits == 1


def test_what_has_changed_is_not_given_any_more(clock):
    _, serve, client_of = meets(Fault.http(503))
    with serve as endpoint, client_of(endpoint.url) as client:
        client.list_tools()
        clock.move(61)
        client.cache.clear()
        with pytest.raises(HTTPStatusError):
            client.list_tools()


def test_a_server_that_is_gone_is_not_missed_for_a_while(clock):
    server = make_server()
    with server.serve_http() as endpoint:
        client = Client(endpoint.url, cache=CacheOptions(stale_on_error=600), retry=ONCE).open()
        client.list_tools()
    clock.move(61)
    assert len(client.list_tools().tools) == 1
    with pytest.raises(ConnectFailed):
        client.list_prompts()
    client.close()


def test_a_server_that_is_too_slow_counts_as_out_of_reach(clock):
    server, serve, client_of = meets()
    with serve as endpoint, client_of(endpoint.url) as client:
        client.list_tools()
        clock.move(61)
        gate = Gate(server)
        assert len(client.list_tools(timeout=0.2).tools) == 1
        gate.go.set()
        assert client.cache.stats.stale == 1


def test_those_who_wait_get_the_old_answer_when_the_one_who_fetches_does(clock):
    server, serve, client_of = meets()
    with serve as endpoint, client_of(endpoint.url) as client:
        client.list_tools()
        clock.move(61)
        gate = Gate(server)
        slow = Background(client.list_tools, timeout=3)  # Until then the others have to wait, too.
        gate.wait()
        others = [Background(client.list_tools, timeout=PATIENCE) for _ in range(3)]
        waiting(client, 3)
        assert [len(thread.result().tools) for thread in (slow, *others)] == [1] * 4
        assert server.count("tools/list") == 2
        assert client.cache.stats.stale == 4
        gate.go.set()


def test_whoever_waits_in_vain_gets_the_old_answer(clock):
    server, serve, client_of = meets()
    with serve as endpoint, client_of(endpoint.url) as client:
        client.list_tools()
        clock.move(61)
        gate = Gate(server)
        first = Background(client.list_tools)
        gate.wait()
        assert len(client.list_tools(timeout=0.05).tools) == 1
        gate.go.set()
        first.result()
        client.cache.clear()
        with pytest.raises(CallTimeout):
            client.list_tools(timeout=0.0)
