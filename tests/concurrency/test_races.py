"""What happens at the same moment: each race is run many times, with thread switches as dense as can be."""

from __future__ import annotations

import threading

import pytest
from engine.background import Background, wait_until
from engine.scripted import DuplexTarget, PostTarget, legacy, modern, text

from mcp_sync import CancelToken, Client, Timeouts, types
from mcp_sync.errors import CallCancelled, CallTimeout, ClientClosed, ConnectionLost

pytestmark = pytest.mark.usefixtures("tiny_switches")
ROUNDS = 60


def at_once(*functions):
    """Run functions at the same moment; return what came of each."""
    barrier = threading.Barrier(len(functions))

    def run(function):
        barrier.wait(10)
        return function()

    return [Background(run, function) for function in functions]


def outcome(call):
    """Return the name of what came of a call: "answered", or the exception's."""
    error = call.error(10)
    return "answered" if error is None else type(error).__name__


def test_an_answer_and_a_cancellation():
    seen = set()
    target = DuplexTarget()
    with Client(target) as client:
        for count in range(1, ROUNDS + 1):
            token = CancelToken()
            call = Background(client.call_tool, "x", cancel=token)
            request = target.now.expect("tools/call", count)
            request = request if count == 1 else request[-1]
            for rival in at_once(lambda r=request: target.now.answer(r, text("done")), token.cancel):
                rival.join()
            seen.add(outcome(call))
        assert not client._engine._connection.calls
        cancelled = len(target.now.received("notifications/cancelled"))
    assert seen <= {"answered", "CallCancelled"}
    assert cancelled <= ROUNDS


def test_an_answer_and_the_end_of_the_time():
    def late(request):
        threading.Event().wait(0.008)
        return text("done")

    seen = set()
    with Client(DuplexTarget(modern(tools_call=late))) as client:
        for _ in range(ROUNDS):
            seen.add(outcome(Background(client.call_tool, "x", timeout=0.01)))
        assert not client._engine._connection.calls
    assert seen <= {"answered", "CallTimeout"}


def test_an_answer_and_closing():
    seen = set()
    for _ in range(ROUNDS):
        target = DuplexTarget()
        client = Client(target).open()
        call = Background(client.call_tool, "x")
        request = target.now.expect("tools/call")
        for rival in at_once(lambda t=target, r=request: t.now.answer(r, text("done")), client.close):
            rival.join()
        seen.add(outcome(call))
        assert not client._engine._connection.calls
    assert seen <= {"answered", "ClientClosed"}


def test_an_answer_and_the_loss_of_the_connection():
    seen = set()
    target = DuplexTarget()
    with Client(target) as client:
        for _ in range(ROUNDS):
            client.open()
            call = Background(client.call_tool, "x")
            channel = target.now
            request = channel.expect("tools/call")
            rivals = at_once(
                lambda c=channel, r=request: c.answer(r, text("done")),
                lambda c=channel: c.inbound.lost(ConnectionLost("gone")),
            )
            for rival in rivals:
                rival.join()
            seen.add(outcome(call))
            channel.inbound.lost(ConnectionLost("gone"))
    assert seen <= {"answered", "ConnectionLost"}


@pytest.mark.parametrize("kind", [DuplexTarget, PostTarget])
def test_closing_and_calls_that_are_just_being_made(kind):
    for _ in range(ROUNDS):
        target = kind(modern(tools_call=lambda request: text("done")))
        client = Client(target).open()
        calls = at_once(*[lambda c=client: c.call_tool("x") for _ in range(4)], client.close)
        assert {outcome(call) for call in calls} <= {"answered", "ClientClosed"}


@pytest.mark.parametrize("kind", [DuplexTarget, PostTarget])
def test_closing_and_the_first_call_which_opens(kind):
    for _ in range(ROUNDS):
        target = kind(modern(tools_call=lambda request: text("done")))
        client = Client(target)
        calls = at_once(*[lambda c=client: c.call_tool("x") for _ in range(3)], client.close)
        assert {outcome(call) for call in calls} <= {"answered", "ClientClosed"}
        # A channel that was never started has nothing to close.
        started = [channel for channel in target.channels if channel.inbound is not None]
        assert all(channel.closed.is_set() for channel in started)


def test_the_loss_and_calls_that_are_just_being_made():
    target = DuplexTarget(modern(tools_call=lambda request: text("done")))
    with Client(target) as client:
        for _ in range(ROUNDS):
            client.open()
            lose = target.now.inbound.lost
            calls = at_once(
                *[lambda: client.call_tool("x") for _ in range(4)],
                lambda lose=lose: lose(ConnectionLost("gone")),
            )
            assert {outcome(call) for call in calls} <= {"answered", "ConnectionLost"}


def test_cancelling_and_calls_that_are_just_being_made():
    target = DuplexTarget(modern(tools_call=lambda request: text("done")))
    with Client(target) as client:
        for _ in range(ROUNDS):
            token = CancelToken()
            calls = at_once(
                *[lambda token=token: client.call_tool("x", cancel=token) for _ in range(4)], token.cancel
            )
            assert {outcome(call) for call in calls} <= {"answered", "CallCancelled"}
        assert not client._engine._connection.calls


def test_many_clients_open_and_close_at_the_same_time():
    def work():
        for _ in range(10):
            target = DuplexTarget(legacy(tools_call=lambda request: text("done")))
            with Client(target, mode="legacy", message_handler=lambda message: None) as client:
                target.now.notify("notifications/tools/list_changed")
                assert client.call_tool("x", progress_callback=lambda *values: None).text == "done"
        return True

    assert all(worker.result(50) for worker in at_once(*[work] * 8))


def test_two_callers_that_give_up_at_the_same_moment_leave_the_opening_to_a_third():
    for _ in range(20):
        target = DuplexTarget({"tools/call": lambda request: text("done")})
        client = Client(target, timeouts=Timeouts(probe=20))
        calls = at_once(
            lambda c=client: c.call_tool("x", timeout=0.01),
            lambda c=client: c.call_tool("x", timeout=0.01),
            lambda c=client: c.call_tool("x", timeout=20),
        )
        wait_until(lambda t=target: t.channels)
        probe = target.now.expect("server/discover")
        assert {outcome(calls[0]), outcome(calls[1])} == {"CallTimeout"}
        target.now.answer(probe, {"supportedVersions": ["2026-07-28"]})
        assert outcome(calls[2]) == "answered"
        client.close()


def test_holding_and_ending_at_the_same_moment():
    roots = types.ListRootsResult(roots=[])
    target = DuplexTarget(legacy())
    with Client(
        target, mode="legacy", list_roots_callback=lambda context: roots, timeouts=Timeouts(silence=0.02)
    ) as client:
        for number in range(ROUNDS // 4):
            before = len(target.now.received("tools/call"))
            call = Background(client.call_tool, "x")
            # On a busy machine the time may be over before the call is sent.
            wait_until(lambda n=before, c=call: len(target.now.received("tools/call")) > n or not c.running)
            target.now.say({"jsonrpc": "2.0", "id": number, "method": "roots/list"})
            assert outcome(call) == "CallTimeout"


def test_every_exception_of_a_race_belongs_to_one_caller():
    target = DuplexTarget()
    client = Client(target).open()
    calls = [Background(client.call_tool, "x") for _ in range(16)]
    wait_until(lambda: len(target.now.received("tools/call")) == 16)
    client.close()
    errors = [call.error() for call in calls]
    assert {type(error) for error in errors} == {ClientClosed}
    assert len({id(error) for error in errors}) == 16
    assert all(error.__traceback__ is not None for error in errors)
    assert not {CallCancelled, CallTimeout} & {type(error) for error in errors}
