"""Tasks that really run: in memory and over HTTP, by the extension and as the experiment."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest
from engine.background import Background

from mcp_sync import Client, InMemory, types
from mcp_sync._protocol.versions import LATEST_HANDSHAKE, LATEST_MODERN
from mcp_sync.errors import CallCancelled, CallTimeout, RemoteError
from mcp_sync.tasks import TaskGone, as_completed
from mcp_sync.testing import FakeServer, RpcError, ToolContext

ERAS = (LATEST_MODERN, LATEST_HANDSHAKE)


class Desk:
    """A server whose tasks go on when the test says so."""

    def __init__(self):
        self.go_on = threading.Event()
        self.server = FakeServer()
        for tool in (self.work, self.greet, self.refused):
            self.server.tool(task="required")(tool)

    def work(self, context: ToolContext, name: str = "x") -> str:
        context.status(f"working on {name}")
        while not self.go_on.wait(0.01):
            if context.cancelled.is_set():
                return "too late"
        return f"done {name}"

    def greet(self, context: ToolContext) -> str:
        return f"Hello {context.elicit('Name?')['content']['name']}"

    def refused(self) -> str:
        raise RpcError(-32000, "no luck")


@contextmanager
def connected(desk, transport, version, **options):
    options = {"mode": version, "elicitation_callback": adas, **options}
    if transport == "memory":
        with Client(InMemory(desk.server), **options) as client:
            client.list_tools()
            yield client
    else:
        with desk.server.serve_http() as endpoint, Client(endpoint.url, **options) as client:
            client.list_tools()
            yield client


def adas(context, params):
    return types.ElicitResult(action="accept", content={"name": "Ada"})


@pytest.fixture(params=[(way, era) for way in ("memory", "http") for era in ERAS], ids="-".join)
def served(request):
    desk = Desk()
    with connected(desk, *request.param) as client:
        yield desk, client
    desk.server.tasks.end()


def test_a_call_waits_for_its_task(served):
    desk, client = served
    call = Background(client.call_tool, "work", {"name": "it"})
    desk.server.tasks.wait_for()
    desk.go_on.set()
    assert call.result().text == "done it"


def test_a_question_is_answered_once(served):
    _desk, client = served
    assert client.call_tool("greet").text == "Hello Ada"


def test_a_failure_is_the_error_of_the_tool(served):
    _desk, client = served
    with pytest.raises(RemoteError, match="no luck"):
        client.call_tool("refused")
    with pytest.raises(RemoteError, match="no luck"):
        client.start_task("refused").result()


def test_a_call_that_is_out_of_time_ends_the_work(served):
    desk, client = served
    with pytest.raises(CallTimeout):
        client.call_tool("work", timeout=0.2)
    (task,) = desk.server.tasks.wait_for()
    task.wait_for("cancelled")


def test_a_handle_goes_on_where_another_stopped(served):
    desk, client = served
    first = client.start_task("work", {"name": "it"})
    with pytest.raises(CallTimeout):
        first.result(timeout=0.1)
    desk.go_on.set()
    assert client.task(first.to_json()).result().text == "done it"


def test_a_cancelled_task_is_cancelled_for_all(served):
    _desk, client = served
    handle = client.start_task("work")
    waiting = Background(client.task(handle.id).result)
    handle.cancel()
    with pytest.raises(CallCancelled):
        waiting.result()
    handle.cancel()


def test_a_task_whose_time_is_over_is_gone(served):
    desk, client = served
    handle = client.start_task("work")
    desk.server.tasks.forget(handle.id)
    with pytest.raises(TaskGone):
        handle.result()
    desk.go_on.set()


def test_many_end_in_their_own_time(served):
    desk, client = served
    handles = [client.start_task("work", {"name": str(number)}) for number in range(20)]
    desk.go_on.set()
    found = {each.result().text for each in as_completed(handles, timeout=20)}
    assert found == {f"done {number}" for number in range(20)}


@pytest.mark.parametrize("version", ERAS)
def test_words_of_the_task_are_progress(version):
    desk, seen, heard = Desk(), [], threading.Event()

    def hear(*values):
        seen.append(values)
        heard.set()

    with connected(desk, "memory", version) as client:
        call = Background(client.call_tool, "work", {"name": "it"}, progress_callback=hear)
        desk.server.tasks.wait_for()
        assert heard.wait(10)
        desk.go_on.set()
        call.result()
    assert seen[0] == (1, None, "working on it")
    desk.server.tasks.end()


@pytest.mark.parametrize("version", ERAS)
def test_what_a_tool_reports_that_becomes_no_task_is_heard(version):
    def report(context: ToolContext) -> str:
        context.progress(1, 2, "step 1")
        return "reported"

    seen = []
    with FakeServer(tools=[report]).serve_http() as endpoint, Client(endpoint.url, mode=version) as client:
        handle = client.start_task("report", progress_callback=lambda *heard: seen.append(heard))
        assert seen == [(1, 2, "step 1")]
        assert handle.result().text == "reported"
