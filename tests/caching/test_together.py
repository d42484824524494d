"""Many threads want the same answer: one of them fetches it."""

from __future__ import annotations

import gc
import sys
import threading
import time
import weakref

import pytest
from engine.background import Background, wait_until

from mcp_sync import (
    CacheOptions,
    CallCancelled,
    CallTimeout,
    CancelToken,
    Client,
    ClientClosed,
    InMemory,
    MethodNotFound,
    types,
)
from mcp_sync._concurrency.deadline import Deadline
from mcp_sync._concurrency.pending import PendingCall
from mcp_sync._engine.flights import Flight
from mcp_sync.cache import MemoryCache
from mcp_sync.testing import FakeTool, RpcError

from .places import PATIENCE, URI, DictStore, add, keeping, make_server


class Gate:
    """Holds requests of one method up until it is opened; ``outcomes`` decide about the first ones."""

    def __init__(self, server, method="tools/list", outcomes=()):
        self.begun, self.go = threading.Semaphore(0), threading.Event()
        self.outcomes = list(outcomes)
        server.on(method, self)

    def __call__(self, message):
        outcome = self.outcomes.pop(0) if self.outcomes else NotImplemented
        self.begun.release()
        assert self.go.wait(PATIENCE)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def wait(self):
        assert self.begun.acquire(timeout=PATIENCE)


def waiting(client, count):
    """Wait until so many threads wait for an answer that another one fetches."""
    flights = client.cache._flights
    wait_until(lambda: sum(len(flight._waiters) for flight in list(flights._all.values())) >= count)


@pytest.mark.parametrize("store", [MemoryCache, DictStore])
def test_sixteen_threads_make_one_request(store):
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(10):
            server = make_server()
            barrier = threading.Barrier(16)

            def ask(client, barrier=barrier):
                barrier.wait(PATIENCE)
                return len(client.list_tools().tools)

            with keeping(server, store=store()) as client:
                client.open()
                threads = [Background(ask, client) for _ in range(16)]
                assert [thread.result() for thread in threads] == [1] * 16
                assert server.count("tools/list") == 1
                stats = client.cache.stats
                assert (stats.hits, stats.misses, stats.stores) == (15, 1, 1)
    finally:
        sys.setswitchinterval(interval)


def test_all_who_wait_get_lists_of_their_own():
    server = make_server()
    gate = Gate(server)
    with keeping(server) as client:
        threads = [Background(client.list_tools) for _ in range(4)]
        gate.wait()
        waiting(client, 3)
        gate.go.set()
        results = [thread.result() for thread in threads]
        assert len({id(result.tools) for result in results}) == 4
        results[0].tools.clear()
        assert all(len(result.tools) == 1 for result in results[1:])


def test_whoever_comes_when_it_is_just_over_does_not_wait():
    flight = Flight()
    flight.end()
    assert flight.wait(PendingCall(0, "tools/list", Deadline(PATIENCE / 10)), None)


def test_different_requests_do_not_wait_for_each_other():
    server = make_server()
    gate = Gate(server)
    with keeping(server) as client:
        thread = Background(client.list_tools)
        gate.wait()
        client.list_prompts()
        assert thread.running
        gate.go.set()
        thread.result()


def test_after_a_failure_of_the_server_all_who_wait_ask_at_once():
    server = make_server()
    begun, go, all_ask = threading.Event(), threading.Event(), threading.Barrier(5)

    def fail(message):
        if not begun.is_set():
            begun.set()
            assert go.wait(PATIENCE)
        else:
            all_ask.wait(PATIENCE)  # One after the other, they would never meet here.
        raise RpcError(-32601, "not now")

    server.on("tools/list", fail)
    with keeping(server) as client:
        threads = [Background(client.list_tools)]
        assert begun.wait(PATIENCE)
        threads += [Background(client.list_tools) for _ in range(5)]
        waiting(client, 5)
        go.set()
        assert all(isinstance(thread.error(), MethodNotFound) for thread in threads)
        assert server.count("tools/list") == 6


def test_a_caller_that_is_out_of_time_leaves_the_others_one_request():
    server = make_server()
    gate = Gate(server)
    with keeping(server) as client:
        token = CancelToken()
        first = Background(client.list_tools, cancel=token)
        gate.wait()
        others = [Background(client.list_tools) for _ in range(5)]
        waiting(client, 5)
        token.cancel()
        gate.go.set()
        assert [len(thread.result().tools) for thread in others] == [1] * 5
        first.join()
        assert server.count("tools/list") <= 2


def test_what_may_not_be_kept_is_not_shared():
    server = make_server(ttl_ms=0)
    gate = Gate(server)
    with keeping(server) as client:
        threads = [Background(client.list_tools) for _ in range(3)]
        gate.wait()
        waiting(client, 2)
        gate.go.set()
        for thread in threads:
            thread.result()
        assert server.count("tools/list") == 3


def test_nobody_waits_where_the_last_answer_could_not_be_kept():
    server = make_server(ttl_ms=0)
    with keeping(server) as client:
        client.list_tools()
        gate = Gate(server)
        threads = [Background(client.list_tools) for _ in range(3)]
        for _ in threads:
            gate.wait()
        gate.go.set()
        for thread in threads:
            thread.result()
        server.ttl_ms = 60_000
        client.list_tools()
        client.list_tools()
        assert server.count("tools/list") == 5, "what can be kept again was not"


def test_whoever_waits_keeps_to_its_own_deadline():
    server = make_server()
    gate = Gate(server)
    with keeping(server) as client:
        first = Background(client.list_tools)
        gate.wait()
        with pytest.raises(CallTimeout) as caught:
            client.list_tools(timeout=0.05)
        assert caught.value.request_sent is False
        gate.go.set()
        first.result()
        assert server.count("tools/list") == 1


def test_whoever_waits_can_be_cancelled():
    server = make_server()
    gate = Gate(server)
    token = CancelToken()
    with keeping(server) as client:
        first = Background(client.list_tools)
        gate.wait()
        second = Background(client.list_tools, cancel=token)
        waiting(client, 1)
        token.cancel("enough")
        assert isinstance(second.error(), CallCancelled)
        gate.go.set()
        first.result()


def test_the_end_of_the_client_ends_the_wait():
    server = make_server()
    gate = Gate(server)
    with server.serve_http() as endpoint:
        client = Client(endpoint.url, cache=CacheOptions())
        threads = [Background(client.list_tools) for _ in range(3)]
        gate.wait()
        waiting(client, 2)
        client.close()
        assert all(isinstance(thread.error(), ClientClosed) for thread in threads)
        gate.go.set()


def test_a_refresh_does_not_wait_and_counts_more_than_what_is_on_its_way():
    server = make_server()
    gate = Gate(server, outcomes=[{"tools": []}])
    with keeping(server) as client:
        client.open()
        old = Background(client.list_tools)
        gate.wait()
        refresh = Background(client.list_tools, cache="refresh")
        gate.wait()
        follower = Background(client.list_tools)
        gate.wait()
        gate.go.set()
        assert len(refresh.result().tools) == 1
        assert len(follower.result().tools) == 1
        old.result()
        assert len(client.list_tools().tools) == 1
        assert server.count("tools/list") == 3


def test_an_old_answer_that_comes_last_does_not_replace_a_refreshed_one():
    server = make_server()
    late = Gate(server, outcomes=[{"tools": []}])
    with keeping(server) as client:
        client.open()
        old = Background(client.list_tools)
        late.wait()
        del server.overrides["tools/list"]
        assert len(client.list_tools(cache="refresh").tools) == 1
        late.go.set()
        assert old.result().tools == []
        assert len(client.list_tools().tools) == 1
        assert server.count("tools/list") == 2


def test_a_callback_of_the_call_that_fetches_does_not_wait_for_it():
    def note(context):
        context.elicit("Which?", {"type": "object", "properties": {}})
        return "text"

    server = make_server(resources={URI: note})
    depth = []

    def answer(context, params):
        depth.append(1)
        if len(depth) < 3:
            client.read_resource(URI, timeout=PATIENCE)
        return types.ElicitResult(action="accept", content={})

    with Client(InMemory(server), cache=CacheOptions(), elicitation_callback=answer) as client:
        assert client.read_resource(URI).contents[0].text == "text"
    assert len(depth) == 3


def test_progress_is_that_of_ones_own_call():
    seen = []

    def slow(context):
        context.progress(1, 2)
        return "text"

    server = make_server(resources={URI: slow})
    with keeping(server) as client:
        client.read_resource(URI, progress_callback=lambda *progress: seen.append(progress))
        assert seen == [(1, 2, None)]
        client.read_resource(URI, progress_callback=lambda *progress: seen.append(progress))
        assert (len(seen), server.count("resources/read")) == (1, 1)


def test_threads_that_use_refresh_clear_and_hear_of_changes_agree_in_the_end():
    server = make_server()
    stop = threading.Event()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with keeping(server) as client, client.listen(tools=True):

            def work(number):
                while not stop.is_set():
                    if number == 0:
                        server.tools_changed()
                    elif number == 1:
                        client.cache.clear("tools/list")
                    else:
                        how = ("use", "use", "refresh", "bypass")[number % 4]
                        assert client.list_tools(cache=how).tools

            threads = [Background(work, number) for number in range(8)]
            end = time.monotonic() + 0.5
            wait_until(lambda: time.monotonic() > end or server.count("tools/list") > 2000)
            stop.set()
            for thread in threads:
                thread.result()
            server.tools["more"] = FakeTool(add, name="more")
            client.cache.clear()
            assert len(client.list_tools().tools) == 2
            assert not client.cache._flights._all
            wait_until(lambda: not client.cache._shelf._changed)  # The last words may still come.
    finally:
        sys.setswitchinterval(interval)


def test_a_forgotten_client_takes_what_it_kept_with_it():
    server = make_server()
    client = keeping(server)
    client.list_tools()
    store = weakref.ref(client.cache._shelf.store)
    gc.disable()
    try:
        client.close()
        del client
        assert store() is None
    finally:
        gc.enable()


def test_the_views_of_one_user_share_a_request():
    server = make_server()
    gate = Gate(server)
    with keeping(server) as client:
        first = Background(client.for_principal("ann").list_tools)
        gate.wait()
        second = Background(client.for_principal("ann").list_tools)
        waiting(client, 1)
        third = Background(client.for_principal("bob").list_tools)
        gate.wait()
        gate.go.set()
        assert [len(thread.result().tools) for thread in (first, second, third)] == [1] * 3
        assert server.count("tools/list") == 2


def test_a_store_that_is_still_empty_is_used():
    store = MemoryCache()
    with keeping(make_server(), store=store) as client:
        client.list_tools()
    assert len(store) == 2
