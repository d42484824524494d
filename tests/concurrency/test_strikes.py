"""A signal handler that raises, at whatever point of a call: other threads go on, and the next call too."""

from __future__ import annotations

import contextlib
import functools
import sys

import pytest
from engine.background import Background, wait_until

from mcp_sync import Client, ClientClosed, InMemory, UsageError
from mcp_sync.registry import Registry
from mcp_sync.testing import FakeServer
from mcp_sync.transports import _duplex
from mcp_sync.transports._stdio import reader

from .striking import strike_at

pytestmark = pytest.mark.heavy

SERVER = """
from mcp_sync.registry import Registry
from mcp_sync.testing import FakeServer

def echo(n: int) -> dict:
    return {"n": n}

def work(context, n: int) -> dict:
    for amount in range(3):
        context.progress(amount, 3)
    return {"n": n}

FakeServer([echo, work]).serve_stdio()
"""


def echo(n: int) -> dict:
    return {"n": n}


def work(context, n: int) -> dict:
    for amount in range(3):
        context.progress(amount, 3)
    return {"n": n}


@contextlib.contextmanager
def target_of(transport):
    if transport == "stdio":
        yield [sys.executable, "-c", SERVER]
        return
    server = FakeServer([echo, work])
    with server.serve_http() if transport == "http" else server.serve_websocket() as endpoint:
        yield endpoint.url


# A connection that is dropped between two steps is closed by the garbage collector, which warns of it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("tool", ["echo", "work"])
@pytest.mark.parametrize("transport", ["stdio", "websocket", "http"])
def test_a_handler_that_raises_at_any_point_of_a_call_harms_nobody_else(transport, tool):
    options = {"progress_callback": lambda *values: None} if tool == "work" else {}

    def call():
        client.call_tool(tool, {"n": 1}, timeout=5, **options)

    def call_both():
        results = [client.call_tool(name, {"n": 7}, timeout=5, **more) for name, more in checks]
        return [result.structured_content for result in results]

    checks = (("echo", {}), ("work", {"progress_callback": lambda *values: None}))
    with target_of(transport) as target, Client(target) as client:
        call_both()
        number, step = 1, 7 if tool == "echo" else 17
        while strike_at(number, call):
            # In another thread, then here.
            assert Background(call_both).result(4) == [{"n": 7}, {"n": 7}], number
            assert call_both() == [{"n": 7}, {"n": 7}], number
            number += step
    assert number > 50


def test_a_handler_that_raises_while_a_caller_reads_leaves_the_turn_to_others(monkeypatch):
    # Where the reading thread has to take it back, it is too late for the next call.
    monkeypatch.setattr(reader, "_TURN_LOST", 20.0)
    # So that callers read, however much a strike slows them down.
    monkeypatch.setattr(reader, "_LEAVE", 2.0)
    number = 1

    def call():
        assert client.call_tool("echo", {"n": number}, timeout=10).structured_content == {"n": number}

    def call_until_the_turn_is_free():
        call()
        turn = client._engine._connection.channel._server.reader._turn
        return not turn.locked()

    with target_of("stdio") as target, Client(target) as client:
        wait_until(call_until_the_turn_is_free)
        while strike_at(number, call, "/_stdio/reader.py"):
            wait_until(call_until_the_turn_is_free)
            number += 1
    assert number > 5


COUNTING = """
from mcp_sync.registry import Registry
from mcp_sync.testing import FakeServer

calls = []

def note(n: int) -> dict:
    calls.append(n)
    return {"n": n}

def noted() -> dict:
    return {"calls": calls}

FakeServer([note, noted]).serve_stdio()
"""


def test_a_handler_that_calls_at_any_point_of_a_call_is_answered_or_told_that_it_cannot(monkeypatch):
    # What was lost to a handler is not what it waits for: it is answered long before that is taken back.
    monkeypatch.setattr(reader, "_TURN_LOST", 20.0)
    monkeypatch.setattr(_duplex, "LOCK_LOST", 20.0)
    expected, refusals, number = [], [], 1

    def note(n):
        assert client.call_tool("note", {"n": n}, timeout=10).structured_content == {"n": n}
        expected.append(n)

    def handler():
        try:
            note(-number)
        except UsageError as refusal:
            refusals.append(str(refusal))

    with Client([sys.executable, "-c", COUNTING]) as client:
        note(0)
        while strike_at(number, functools.partial(note, number), "/transports/", handler):
            number += 1
        # Nothing was sent twice, either.
        noted = client.call_tool("noted").structured_content["calls"]
    assert sorted(noted) == sorted(expected)
    assert any("cannot write" in text for text in refusals)
    assert any("reads from it" in text for text in refusals)


@pytest.mark.parametrize("transport", ["stdio", "websocket"])
def test_a_handler_may_close_at_any_point_of_a_write(transport):
    outcomes, more, number = set(), True, 1

    def call():
        try:
            outcomes.add(client.call_tool("echo", {"n": number}, timeout=5).structured_content["n"])
        except ClientClosed:
            outcomes.add("closed")

    with target_of(transport) as target:
        while more:
            with Client(target) as client:
                client.open()
                more = strike_at(number, call, "/_duplex.py", lambda: client.close(0.2))
            number += 1
    assert "closed" in outcomes
    assert number > 5


def open_a_client(registry, client):
    with Client(InMemory(SERVER_HERE)) as new:
        new.list_tools()


def open_an_older_client(registry, client):
    with Client(InMemory(OLDER_SERVER)) as new:
        new.send_ping()


def look_up(registry, client):
    assert registry["one"].call_tool("echo", {"n": 1}).structured_content == {"n": 1}


def override(registry, client):
    with registry.override({"one": InMemory(SERVER_HERE)}):
        look_up(registry, client)


def listen(registry, client):
    with client.listen(tools=True):
        pass


SERVER_HERE = FakeServer([echo])
OLDER_SERVER = FakeServer([echo], versions=["2025-06-18"])


# (Where the server in this process is struck, it is that which is stuck.)
@pytest.mark.parametrize(
    ("deed", "where"),
    [
        (open_a_client, "/_engine/"),
        (open_an_older_client, "/_engine/"),
        (look_up, "/_engine/lifecycle.py"),
        (look_up, "/_servers/"),
        (override, "/registry.py"),
        (override, "/_servers/"),
        (listen, "/_engine/"),
    ],
)
def test_a_handler_may_do_what_its_thread_is_just_doing_or_is_told_that_it_cannot(deed, where):
    def handler():
        # What it is told: it would wait for the thread that it interrupts.
        with contextlib.suppress(UsageError):
            do()

    more, number = True, 1
    while more:
        registry, other = (Registry({"one": InMemory(SERVER_HERE)}) for _ in range(2))
        with registry, other, Client(InMemory(SERVER_HERE)) as client:
            # Of what is only half imported no handler can make use.
            deed(other, client)
            do = functools.partial(deed, registry, client)
            # On a thread of its own, so that one that is stuck can be told.
            more = Background(strike_at, number, do, where, handler).result()
        number += 3 if where == "/_engine/" else 1
    assert number > 20
