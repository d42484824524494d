"""The progress of a call as something to iterate over."""

from __future__ import annotations

import concurrent.futures
import gc

import pytest

from mcp_sync import Client, InMemory, streaming
from mcp_sync.errors import CallTimeout, ClientClosed, RemoteError
from mcp_sync.streaming import Progress
from mcp_sync.testing import FakeServer, ToolContext

from .background import Background, wait_until
from .scripted import DuplexTarget, text

PATIENCE = 10


def counter():
    server = FakeServer()

    @server.tool()
    def count(context: ToolContext, steps: int) -> str:
        for step in range(1, steps + 1):
            context.progress(step, total=steps, message=f"step {step}")
        return "done"

    return server


def report(target, request, number):
    token = request["params"]["_meta"]["progressToken"]
    target.now.notify("notifications/progress", progressToken=token, progress=number)


def test_the_reports_come_in_order_and_then_the_result():
    with Client(InMemory(counter())) as client, client.stream_tool("count", {"steps": 3}) as stream:
        assert list(stream) == [Progress(n, 3, f"step {n}") for n in (1, 2, 3)]
        assert list(stream) == []
        assert stream.result().text == "done"


def test_over_http_more_reports_than_the_queue_holds_all_arrive(monkeypatch):
    monkeypatch.setattr(streaming, "QUEUE", 5)
    with (
        counter().serve_http() as endpoint,
        Client(endpoint.url) as client,
        client.stream_tool("count", {"steps": 200}) as stream,
    ):
        seen = []
        for step in stream:
            assert len(stream._queue.reports) <= 5
            seen.append(step.progress)
        assert seen == list(range(1, 201))
        assert stream.dropped == 0
        assert stream.result().text == "done"


def test_where_all_calls_share_a_channel_the_oldest_reports_make_room(monkeypatch):
    monkeypatch.setattr(streaming, "QUEUE", 5)
    target = DuplexTarget()
    with Client(target) as client, client.stream_tool("x") as stream:
        request = target.now.expect("tools/call")
        for number in range(8):
            report(target, request, number)
        target.now.answer(request, text("done"))
        concurrent.futures.wait([stream.future], PATIENCE)
        assert [step.progress for step in stream] == [3, 4, 5, 6, 7]
        assert stream.dropped == 3


def test_asking_for_the_result_forgets_the_reports_and_frees_the_reader(monkeypatch):
    monkeypatch.setattr(streaming, "QUEUE", 5)
    with (
        counter().serve_http() as endpoint,
        Client(endpoint.url) as client,
        client.stream_tool("count", {"steps": 100}) as stream,
    ):
        assert next(stream).progress == 1
        assert stream.result(PATIENCE).text == "done"
        assert list(stream) == []


def test_leaving_early_cancels_the_call_and_the_server_is_told():
    target = DuplexTarget()
    with Client(target) as client:
        with client.stream_tool("x") as stream:
            request = target.now.expect("tools/call")
            report(target, request, 1)
            assert next(stream).progress == 1
        told = target.now.expect("notifications/cancelled")
        assert told["params"]["requestId"] == request["id"]
        assert list(stream) == []
        with pytest.raises(concurrent.futures.CancelledError):
            stream.result()


def test_leaving_early_frees_a_reader_that_waits_for_room(monkeypatch):
    monkeypatch.setattr(streaming, "QUEUE", 5)
    with counter().serve_http() as endpoint, Client(endpoint.url) as client:
        with client.stream_tool("count", {"steps": 100}) as stream:
            wait_until(lambda: len(stream._queue.reports) == 5)
        assert client.call_tool("count", {"steps": 1}).text == "done"


def test_a_stream_that_is_forgotten_cancels_its_call():
    target = DuplexTarget()
    with Client(target) as client:
        stream = client.stream_tool("x")
        future = stream.future
        target.now.expect("tools/call")
        del stream
        gc.collect()
        target.now.expect("notifications/cancelled")
        assert future.cancelled()


def test_closing_the_client_ends_the_iteration():
    target = DuplexTarget()
    client = Client(target).open()
    stream = client.stream_tool("x")
    target.now.expect("tools/call")
    consumer = Background(list, stream)
    client.close()
    assert consumer.result() == []
    with pytest.raises(ClientClosed):
        stream.result()


def test_a_failure_ends_the_iteration_and_is_raised_with_the_result():
    with Client(InMemory(counter())) as client, client.stream_tool("none") as stream:
        assert list(stream) == []
        with pytest.raises(RemoteError):
            stream.result()


def test_the_wait_for_the_result_is_bounded_where_it_was_asked_for():
    target = DuplexTarget()
    with Client(target) as client, client.stream_tool("x") as stream:
        request = target.now.expect("tools/call")
        with pytest.raises(CallTimeout):
            stream.result(0)
        target.now.answer(request, text("done"))
        assert stream.result(PATIENCE).text == "done"
