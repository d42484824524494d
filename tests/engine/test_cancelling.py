"""Cancelling from another thread, before a call, and by exceptions of signal handlers."""

from __future__ import annotations

import gc
import signal
import sys
import threading
import weakref

import pytest
from concurrency.striking import strike_at

from mcp_sync import CancelToken, Client
from mcp_sync.errors import CallCancelled, ClientClosed

from .background import Background, wait_until
from .scripted import DuplexTarget, PostTarget, legacy, modern, text


@pytest.mark.parametrize("kind", [DuplexTarget, PostTarget])
def test_a_token_wakes_its_waiting_calls_at_once_from_another_thread(kind):
    target, token = kind(), CancelToken()
    with Client(target) as client:
        calls = [Background(client.call_tool, "x", cancel=token) for _ in range(4)]
        other = Background(client.call_tool, "other")
        wait_until(lambda: len(target.now.received("tools/call")) == 5)
        token.cancel("the user changed his mind")
        for call in calls:
            with pytest.raises(CallCancelled, match="changed his mind") as caught:
                call.result(2)
            assert caught.value.reason == "the user changed his mind"
            assert caught.value.request_sent is True
        assert other.running


@pytest.mark.parametrize("scripts", [modern(), legacy()], ids=["modern", "legacy"])
def test_the_server_is_told_once_with_the_reason(scripts):
    target, token = DuplexTarget(scripts), CancelToken()
    with Client(target) as client:
        call = Background(client.call_tool, "x", cancel=token)
        request = target.now.expect("tools/call")
        token.cancel("enough")
        token.cancel("really")
        assert isinstance(call.error(), CallCancelled)
        cancelled = target.now.expect("notifications/cancelled")
        assert cancelled["params"] == {"requestId": request["id"], "reason": "enough"}
        target.now.answer(request, text("late"))
        target.now.sync()
        assert len(target.now.received("notifications/cancelled")) == 1


def test_a_call_whose_token_is_cancelled_already_is_not_sent():
    target, token = DuplexTarget(), CancelToken()
    with Client(target) as client:
        token.cancel()
        with pytest.raises(CallCancelled) as caught:
            client.call_tool("x", cancel=token)
        assert caught.value.request_sent is False
        assert target.now.received("tools/call") == []
        assert target.now.received("notifications/cancelled") == []
        assert not client._engine._connection.calls


def test_a_token_that_is_cancelled_after_the_answer_changes_nothing():
    target, token = DuplexTarget(modern(tools_call=lambda request: text("done"))), CancelToken()
    with Client(target) as client:
        assert client.call_tool("x", cancel=token).text == "done"
        token.cancel()
        assert target.now.received("notifications/cancelled") == []


def test_a_token_ends_the_wait_for_the_opening_too():
    target, token = DuplexTarget({}), CancelToken()
    client = Client(target)
    call = Background(client.call_tool, "x", cancel=token)
    wait_until(lambda: target.channels)
    target.now.expect("server/discover")
    token.cancel()
    assert isinstance(call.error(2), CallCancelled)
    client.close()


def test_a_token_does_not_keep_the_calls_that_it_was_given_to():
    target, token = DuplexTarget(modern(tools_call=lambda request: text("done"))), CancelToken()
    with Client(target) as client:
        for _ in range(50):
            client.call_tool("x", cancel=token)
        gc.collect()
        assert len(token._calls) == 0


def test_a_token_does_not_keep_a_client_alive():
    target, token = DuplexTarget(modern(tools_call=lambda request: text("done"))), CancelToken()
    client = Client(target)
    client.call_tool("x", cancel=token)
    client.close()
    reference = weakref.ref(client)
    del client
    gc.collect()
    assert reference() is None


# --- exceptions of signal handlers -----------------------------------------------------------------------


class SoftTimeLimit(Exception):
    """What a task queue raises in the main thread when a task has used up its time."""


@pytest.fixture
def alarm():
    """Raise an exception in the main thread, as a signal handler does, when called."""
    raised = []

    def handler(number, frame):
        raise raised.pop()

    if not hasattr(signal, "SIGUSR1"):
        pytest.skip("no such signal here")
    before = signal.signal(signal.SIGUSR1, handler)

    def ring(error):
        raised.append(error)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

    yield ring
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), SoftTimeLimit("late"), TimeoutError("alarm")], ids=repr
)
@pytest.mark.parametrize("scripts", [modern(), legacy()], ids=["modern", "legacy"])
def test_an_exception_in_the_waiting_thread_cancels_the_request_and_leaves_the_client_usable(
    error, scripts, alarm
):
    target = DuplexTarget(scripts)
    with Client(target) as client:

        def interrupt():
            target.now.expect("tools/call")
            alarm(error)

        interruption = Background(interrupt)
        with pytest.raises(type(error)):
            client.call_tool("x")
        interruption.join()
        request = target.now.received("tools/call")[0]
        assert target.now.expect("notifications/cancelled")["params"]["requestId"] == request["id"]
        assert not client._engine._connection.calls
        call = Background(client.call_tool, "x")
        target.now.answer(target.now.expect("tools/call", 2)[-1], text("done"))
        assert call.result().text == "done"


def test_an_exception_while_waiting_for_the_opening_leaves_the_opening_to_the_others(alarm):
    target = DuplexTarget({"tools/call": lambda request: text("done")})
    client = Client(target)
    other = Background(client.call_tool, "x")
    wait_until(lambda: target.channels)
    probe = target.now.expect("server/discover")

    def interrupt():
        wait_until(lambda: len(client._engine._opening.waiters) == 2)
        alarm(KeyboardInterrupt())

    interruption = Background(interrupt)
    with pytest.raises(KeyboardInterrupt):
        client.call_tool("x")
    interruption.join()
    target.now.answer(probe, {"supportedVersions": ["2026-07-28"]})
    assert other.result().text == "done"
    client.close()


def test_a_signal_handler_may_close_the_client_while_the_main_thread_waits(alarm):
    target = DuplexTarget()
    client = Client(target).open()
    before = signal.signal(signal.SIGUSR1, lambda number, frame: client.close())

    def ring():
        target.now.expect("tools/call")
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

    ringing = Background(ring)
    with pytest.raises(ClientClosed):
        client.call_tool("x")
    ringing.join()
    signal.signal(signal.SIGUSR1, before)


TRACED = ("_engine/connection", "_engine/call_table", "_engine/engine", "_concurrency/pending")


def test_a_signal_handler_may_close_the_client_between_any_two_lines_of_a_call():
    line = 0
    while True:
        target = DuplexTarget(modern(tools_call=lambda request: text("done")))
        client = Client(target).open()
        state = {"passed": 0, "interrupted": False}

        def trace(frame, event, argument, client=client, state=state, line=line):
            name = frame.f_code.co_filename
            if not any(part in name for part in TRACED):
                return trace if "mcp_sync" in name else None
            if event == "line":
                if state["passed"] == line:
                    state["interrupted"] = True
                    sys.settrace(None)
                    client.close()
                state["passed"] += 1
            return trace

        def work(client=client, trace=trace):
            sys.settrace(trace)
            try:
                return client.call_tool("x", timeout=20).text
            finally:
                sys.settrace(None)

        call = Background(work)
        error = call.error(5)
        assert error is None or isinstance(error, ClientClosed), (line, error)
        client.close()
        if not state["interrupted"]:
            break
        line += 1
    assert line > 30


@pytest.mark.skipif(sys.version_info < (3, 11), reason="signals are looked for at more points, unsafe ones")
def test_a_signal_handler_that_raises_at_any_point_of_a_call_leaves_no_call_in_flight():
    target = DuplexTarget(modern(tools_call=lambda request: text("done")))
    with Client(target) as client:
        number = 1
        while strike_at(number, lambda: client.call_tool("x", timeout=20), "/mcp_sync/_engine/"):
            assert not client._engine.in_flight, number
            number += 1
    assert number > 30
