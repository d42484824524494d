"""Servers that tell of tasks, where somebody wants them to."""

from __future__ import annotations

import threading

import pytest
from engine.background import Background
from engine.scripted import DuplexTarget, PostTarget, refusal

from mcp_sync import Client, UsageError
from mcp_sync._protocol.versions import LATEST_HANDSHAKE, LATEST_MODERN
from mcp_sync.tasks import as_completed, listening
from mcp_sync.testing import FakeServer, ToolContext

from .scripts import completed, experiment, in_turn, server, state

SLOWLY = 60_000  # milliseconds: longer than any test waits


@pytest.fixture(params=[DuplexTarget, PostTarget])
def kind(request):
    return request.param


@pytest.mark.parametrize("version", [LATEST_MODERN, LATEST_HANDSHAKE])
def test_who_waits_looks_as_soon_as_the_server_has_told(version):
    go_on, served = threading.Event(), FakeServer(poll_interval_ms=SLOWLY)

    def work(context: ToolContext) -> str:
        return "done" if go_on.wait(20) else "nobody came"

    served.tool(task=True)(work)
    with served.serve_http() as endpoint, Client(endpoint.url, mode=version) as client:
        handles = [client.start_task("work") for _ in range(3)]
        with listening(handles):
            waiting = Background(list, as_completed(handles, timeout=20))
            if version == LATEST_MODERN:
                assert served.subscriptions.wait(1, 10)
            served.wait_for("tasks/get", 3)
            go_on.set()
            assert [handle.result().text for handle in waiting.result()] == ["done"] * 3
    served.tasks.end()


def test_it_asks_for_these_tasks_and_ends_with_the_block(kind):
    target = kind(server(completed()))
    with Client(target) as client:
        before = threading.active_count()
        with listening([client.task("a"), client.task("b")]):
            asked = target.now.expect("subscriptions/listen")
        assert threading.active_count() == before
    assert asked["params"]["notifications"] == {"taskIds": ["a", "b"]}


def test_a_server_that_does_not_tell_is_asked_as_ever(kind):
    refused = lambda request: refusal(-32601, "no such method")  # noqa: E731
    target = kind(server(state("working"), completed(), subscriptions_listen=refused))
    with Client(target) as client:
        handle = client.start_task("x")
        with listening([handle]):
            assert handle.result().text == "done"


def test_a_server_that_ends_it_is_asked_as_ever(kind):
    ended = lambda request: {"resultType": "complete"}  # noqa: E731
    target = kind(server(state("working"), completed(), subscriptions_listen=ended))
    with Client(target) as client, listening([client.start_task("x")]):
        assert client.task("t1").result().text == "done"


def test_a_server_with_a_handshake_gets_its_stream_back_afterwards():
    target = PostTarget(experiment(state("completed")))
    with Client(target, mode="legacy") as client:
        with listening([client.task("t1")]):
            assert target.now.wires[-1].get_stream
        assert not target.now.wires[-1].get_stream


def test_a_closed_client_ends_it(kind):
    with Client(kind(server(in_turn(state("working"))))) as client, listening([client.task("t1")]):
        client.close()


def test_nothing_is_nothing_to_listen_for():
    with listening([]):
        pass
    with pytest.raises(UsageError), listening(["t1"]):
        pass


@pytest.mark.parametrize("version", [LATEST_MODERN, LATEST_HANDSHAKE])
def test_tasks_are_looked_at_as_ever_where_there_can_be_no_more_threads(version, monkeypatch):
    plain = threading.Thread.start

    def start(thread):
        if thread.name.endswith(("-tasks", "-get-stream")):
            raise RuntimeError("can't start new thread")
        plain(thread)

    served = FakeServer()

    def work(context: ToolContext) -> str:
        return "done"

    served.tool(task=True)(work)
    with served.serve_http() as endpoint, Client(endpoint.url, mode=version) as client:
        handle = client.start_task("work")
        monkeypatch.setattr(threading.Thread, "start", start)
        with listening([handle]):
            assert handle.result(timeout=20).text == "done"
        monkeypatch.setattr(threading.Thread, "start", plain)
        assert client._engine.plan.listeners == 0
    served.tasks.end()
