"""Progress: to the right call, in order, all of it before the call returns, and harmless when it is odd."""

from __future__ import annotations

import logging
import sys
import threading
import time

import pytest

from mcp_sync import Client, InMemory, Timeouts, types
from mcp_sync.errors import RemoteError
from mcp_sync.testing import FakeServer

from .background import Background, wait_until
from .scripted import DuplexTarget, PostTarget, legacy, modern, refusal, text


def progress(token, amount, **more):
    params = {"progressToken": token, "progress": amount, **more}
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


class Heard(list):
    """A progress callback that notes what it gets."""

    def __call__(self, *values):
        self.append(values)


@pytest.fixture
def target():
    return DuplexTarget()


@pytest.fixture
def client(target):
    with Client(target) as client:
        yield client


def test_a_token_is_sent_only_where_somebody_asked_for_progress(client, target):
    calls = [
        Background(client.call_tool, "none"),
        Background(client.call_tool, "callback", progress_callback=print),
        Background(client.call_tool, "reset", reset_on_progress=True),
    ]
    requests = target.now.expect("tools/call", 3)
    tokens = {r["params"]["name"]: r["params"]["_meta"].get("progressToken") for r in requests}
    ids = {r["params"]["name"]: r["id"] for r in requests}
    assert tokens == {"none": None, "callback": ids["callback"], "reset": ids["reset"]}
    for request in requests:
        target.now.answer(request, text("done"))
    for call in calls:
        call.result()


def test_all_progress_is_delivered_in_order_before_the_call_returns(client, target):
    heard = Heard()
    call = Background(client.call_tool, "x", progress_callback=heard)
    request = target.now.expect("tools/call")
    target.now.say(*(progress(request["id"], n, total=500, message=str(n)) for n in range(500)))
    target.now.answer(request, text("done"))
    assert call.result().text == "done"
    assert heard == [(float(n), 500.0, str(n)) for n in range(500)]


def test_progress_before_an_error_is_delivered_before_the_error_is_raised(client, target):
    heard, pause = Heard(), threading.Event()

    def callback(*values):
        pause.wait(0.001)
        heard(*values)

    call = Background(client.call_tool, "x", progress_callback=callback)
    request = target.now.expect("tools/call")
    target.now.say(*(progress(request["id"], n) for n in range(100)))
    target.now.answer(request, refusal(-32000))
    assert isinstance(call.error(), RemoteError)
    assert len(heard) == 100


def test_amounts_are_floats_and_may_lack_total_and_message(client, target):
    heard = Heard()
    call = Background(client.call_tool, "x", progress_callback=heard)
    token = target.now.expect("tools/call")["id"]
    target.now.say(
        progress(token, 1),
        progress(token, 0.5, total=None, message=None),
        progress(token, -3, total="10", message=7),
        progress(token, 2, total=True),
        progress(token, 2.5, total=10),
    )
    target.now.answer({"id": token}, text("done"))
    call.result()
    assert heard == [
        (1.0, None, None),
        (0.5, None, None),
        (-3.0, None, None),
        (2.0, None, None),
        (2.5, 10.0, None),
    ]
    assert all(type(values[0]) is float for values in heard)


@pytest.mark.parametrize("amount", [None, "1", True, [], {}, 10**400])
def test_progress_without_a_number_is_ignored(client, target, amount):
    heard = Heard()
    call = Background(client.call_tool, "x", progress_callback=heard)
    request = target.now.expect("tools/call")
    params = {"progressToken": request["id"], "progress": amount}
    target.now.say({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
    params = {"progressToken": request["id"]}
    target.now.say({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
    target.now.answer(request, text("done"))
    call.result()
    assert heard == []


@pytest.mark.parametrize("token", ["tool-call-4", 0, "0", 4711, None, True, [], {}, 1.5, "x" * 10_000])
def test_progress_for_nobody_is_ignored_without_a_word(client, target, token, caplog):
    heard = Heard()
    call = Background(client.call_tool, "x", progress_callback=heard)
    request = target.now.expect("tools/call")
    with caplog.at_level(logging.INFO):
        target.now.say(progress(token, 1))
        target.now.answer(request, text("done"))
        assert call.result().text == "done"
    assert heard == []
    assert not caplog.records


def test_progress_of_a_call_that_has_ended_is_ignored(client, target):
    heard = Heard()
    call = Background(client.call_tool, "x", progress_callback=heard)
    request = target.now.expect("tools/call")
    target.now.answer(request, text("done"))
    call.result()
    target.now.say(progress(request["id"], 1))
    target.now.sync()
    assert heard == []


@pytest.mark.parametrize("change", [str, float])
def test_a_token_that_came_back_as_another_type_is_matched(client, target, change):
    heard = Heard()
    call = Background(client.call_tool, "x", progress_callback=heard)
    request = target.now.expect("tools/call")
    target.now.say(progress(change(request["id"]), 1))
    target.now.answer(request, text("done"))
    call.result()
    assert heard == [(1.0, None, None)]


def test_a_token_of_zero_is_a_token(client, target):
    client._engine._connection._next_id = iter(range(10)).__next__
    heard = Heard()
    call = Background(client.call_tool, "x", progress_callback=heard)
    request = target.now.expect("tools/call")
    assert request["params"]["_meta"]["progressToken"] == request["id"] == 0
    target.now.say(progress(0, 1))
    target.now.answer(request, text("done"))
    assert call.result().text == "done"
    assert heard == [(1.0, None, None)]


def test_progress_of_parallel_calls_is_not_mixed_up(client, target):
    heard = {str(n): Heard() for n in range(8)}
    calls = [Background(client.call_tool, name, progress_callback=each) for name, each in heard.items()]
    requests = target.now.expect("tools/call", 8)
    for step in range(10):
        for request in requests:
            target.now.say(progress(request["id"], step, message=request["params"]["name"]))
    for request in requests:
        target.now.answer(request, text("done"))
    for call in calls:
        call.result()
    assert heard == {name: [(float(step), None, name) for step in range(10)] for name in heard}


@pytest.mark.parametrize("problem", [ValueError("bad callback"), SystemExit(1)], ids=repr)
def test_what_a_progress_callback_raises_is_logged_and_harms_nothing(client, target, problem, caplog):
    heard = Heard()

    def callback(*values):
        heard(*values)
        raise problem

    call = Background(client.call_tool, "x", progress_callback=callback)
    request = target.now.expect("tools/call")
    target.now.say(progress(request["id"], 1), progress(request["id"], 2))
    target.now.answer(request, text("done"))
    assert call.result().text == "done"
    assert len(heard) == 2
    assert type(problem).__name__ in caplog.text


def test_a_slow_callback_is_waited_for_while_it_moves():
    target = DuplexTarget()
    pause, heard = threading.Event(), Heard()

    def callback(*values):
        pause.wait(0.05)
        heard(*values)

    with Client(target, timeouts=Timeouts(close=0.2)) as client:
        call = Background(client.call_tool, "x", progress_callback=callback)
        request = target.now.expect("tools/call")
        target.now.say(*(progress(request["id"], n) for n in range(8)))
        target.now.answer(request, text("done"))
        call.result()
    assert len(heard) == 8


def test_a_callback_that_hangs_delays_the_call_no_longer_than_agreed(caplog):
    target, leave = DuplexTarget(), threading.Event()
    with Client(target, timeouts=Timeouts(close=0.1)) as client:
        call = Background(client.call_tool, "x", progress_callback=lambda *values: leave.wait(10))
        request = target.now.expect("tools/call")
        target.now.say(progress(request["id"], 1))
        target.now.answer(request, text("done"))
        assert call.result(5).text == "done"
        assert "tools/call returns although progress callbacks still run" in caplog.text
        leave.set()


def test_a_callback_that_hangs_delays_the_call_no_longer_than_its_deadline():
    target, leave = DuplexTarget(), threading.Event()
    with Client(target) as client:
        call = Background(
            client.call_tool, "x", timeout=0.3, progress_callback=lambda *values: leave.wait(10)
        )
        request = target.now.expect("tools/call")
        target.now.say(progress(request["id"], 1))
        target.now.answer(request, text("done"))
        started = time.monotonic()
        assert call.result(5).text == "done"
        assert time.monotonic() - started < 4.5  # Without a deadline it would be the five seconds of close().
        leave.set()


# --- calls that callbacks make ---------------------------------------------------------------------------


def test_a_callback_gets_the_progress_of_its_own_call_on_a_shared_stream_as_it_comes():
    heard, inner, outer = Heard(), [], []
    arrived = threading.Event()

    def callback(*values):
        heard(*values)
        arrived.set()

    def handler(message):
        outer.append(threading.current_thread())
        inner.append(client.call_tool("inner", progress_callback=callback).text)

    target = DuplexTarget(legacy())
    with Client(target, mode="legacy", message_handler=handler) as client:
        target.now.notify("notifications/tools/list_changed")
        request = target.now.expect("tools/call")
        target.now.say(progress(request["id"], 1))
        assert arrived.wait(10), "nothing was delivered before the answer"
        target.now.say(progress(request["id"], 2))
        target.now.answer(request, text("done"))
        wait_until(lambda: inner)
    assert heard == [(1.0, None, None), (2.0, None, None)]


def test_a_callback_gets_the_progress_of_its_own_call_on_an_own_stream_as_it_comes():
    heard, inner, seen = Heard(), [], []

    def log(params):
        inner.append(client.call_tool("inner", progress_callback=heard).text)

    def stream(request):
        if request["params"]["name"] == "outer":
            params = {"level": "info", "data": 1}
            return [{"jsonrpc": "2.0", "method": "notifications/message", "params": params}, text("outer")]
        token = request["params"]["_meta"]["progressToken"]
        return [progress(token, 1), lambda: seen.extend(heard), progress(token, 2), text("inner")]

    with Client(PostTarget(modern(tools_call=stream)), logging_callback=log) as client:
        assert client.call_tool("outer").text == "outer"
        wait_until(lambda: inner)
    assert seen == [(1.0, None, None)]
    assert heard == [(1.0, None, None), (2.0, None, None)]


def test_progress_of_a_call_within_a_call_in_memory():
    inner_heard, outer_heard = Heard(), Heard()

    def count(context, steps: int):
        for step in range(steps):
            context.progress(step, steps)
        return str(steps)

    def callback(*values):
        outer_heard(*values)
        client.call_tool("count", {"steps": 2}, progress_callback=inner_heard)

    with Client(InMemory(FakeServer([count]))) as client:
        assert client.call_tool("count", {"steps": 3}, progress_callback=callback).text == "3"
    assert outer_heard == [(0.0, 3.0, None), (1.0, 3.0, None), (2.0, 3.0, None)]
    assert inner_heard == [(0.0, 2.0, None), (1.0, 2.0, None)] * 3


def test_calls_nest_as_deep_as_callbacks_make_them():
    depths = []

    def step(context):
        context.progress(1)
        return "done"

    def callback(*values):
        depths.append(1)
        if len(depths) < 20:
            client.call_tool("step", progress_callback=callback)

    with Client(InMemory(FakeServer([step]))) as client:
        assert client.call_tool("step", progress_callback=callback).text == "done"
    assert len(depths) == 20


NESTING = """
from mcp_sync.testing import FakeServer

def work(context) -> str:
    context.progress(1, 2)
    context.progress(2, 2)
    return "done"

def quick() -> str:
    return "quick"

FakeServer([work, quick]).serve_stdio()
"""


def test_calls_of_inner_callbacks_over_stdio_do_not_wait_for_their_own_reading():
    inner_calls = []

    def inner(amount, total, message):
        inner_calls.append(client.call_tool("quick", timeout=10).text)

    def outer(amount, total, message):
        for _ in range(5):
            client.call_tool("work", progress_callback=inner, timeout=10)

    with Client([sys.executable, "-c", NESTING]) as client:
        assert client.call_tool("work", progress_callback=outer, timeout=30).text == "done"
    assert inner_calls == ["quick"] * 20


def test_what_an_inline_callback_raises_is_logged_and_harms_nothing(caplog):
    results = []

    def step(context):
        context.progress(1)
        return "done"

    def fail(*values):
        raise SystemExit("bad callback")

    def outer(*values):
        results.append(client.call_tool("step", progress_callback=fail).text)

    with Client(InMemory(FakeServer([step]))) as client:
        assert client.call_tool("step", progress_callback=outer).text == "done"
    assert results == ["done"]
    assert "bad callback" in caplog.text


def test_progress_reaches_the_message_handler_as_a_model_too():
    target, seen, heard = DuplexTarget(), [], Heard()
    with Client(target, message_handler=seen.append) as client:
        call = Background(client.call_tool, "x", progress_callback=heard)
        request = target.now.expect("tools/call")
        target.now.say(progress(request["id"], 1, total=2))
        target.now.answer(request, text("done"))
        call.result()
        wait_until(lambda: seen)
    assert isinstance(seen[0], types.ProgressNotification)
    assert (seen[0].params.progress, seen[0].params.total) == (1, 2)
