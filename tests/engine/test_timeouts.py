"""Bounds on time: hard, of silence, of the whole; and what the server is told."""

from __future__ import annotations

import threading
import time

import pytest

from mcp_sync import Client, InMemory, Timeouts, types
from mcp_sync.errors import CallTimeout, UsageError
from mcp_sync.testing import FakeServer

from .background import PATIENCE, Background, wait_until
from .scripted import DuplexTarget, PostTarget, legacy, modern, text


def progress(token, amount=1):
    params = {"progressToken": token, "progress": amount}
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


def deadline_of(client, request):
    return client._engine._connection.calls[request["id"]].deadline


def test_a_call_ends_at_its_timeout_and_says_what_it_waited_for():
    target = DuplexTarget()
    with Client(target) as client:
        started = time.monotonic()
        with pytest.raises(CallTimeout, match=r"tools/call to scripted server .* 0\.05 s") as caught:
            client.call_tool("x", timeout=0.05)
        assert 0.05 <= time.monotonic() - started < PATIENCE
    assert isinstance(caught.value, TimeoutError)
    assert (caught.value.timeout, caught.value.request_sent) == (0.05, True)


def test_the_timeout_of_the_client_holds_for_calls_without_their_own():
    with Client(DuplexTarget(), timeout=0.05).open(timeout=10) as client:
        with pytest.raises(CallTimeout) as caught:
            client.list_tools()
        assert caught.value.timeout == 0.05


def test_none_as_timeout_means_no_bound_whatever_the_client_has():
    target = DuplexTarget()
    client = Client(target, timeout=0.05, timeouts=Timeouts(silence=0.05, total=0.05)).open(timeout=10)
    with client:
        call = Background(client.call_tool, "x", timeout=None)
        request = target.now.expect("tools/call")
        with pytest.raises(CallTimeout):
            client.call_tool("y", timeout=0.2)
        assert call.running
        target.now.answer(request, text("done"))
        assert call.result().text == "done"


def test_the_clients_timeout_bounds_the_opening_too():
    target = DuplexTarget(scripts={})
    started = time.monotonic()
    with pytest.raises(CallTimeout, match=r"0\.2 s") as caught, Client(target, timeout=0.2):
        pass
    assert time.monotonic() - started < 5
    assert caught.value.request_sent is False


@pytest.mark.parametrize("timeout", [-1, "1", float("nan"), True, [1]])
def test_a_timeout_that_is_no_number_of_seconds_is_refused(timeout):
    with pytest.raises(UsageError, match="timeout"):
        Client(DuplexTarget(), timeout=timeout)
    with Client(DuplexTarget()) as client, pytest.raises(UsageError, match="timeout"):
        client.call_tool("x", timeout=timeout)


def test_silence_ends_a_call_that_has_no_timeout_of_its_own():
    with Client(DuplexTarget(), timeouts=Timeouts(silence=0.05)) as client:
        with pytest.raises(CallTimeout) as caught:
            client.call_tool("x")
        assert caught.value.timeout == 0.05


@pytest.mark.parametrize(
    "options", [{"progress_callback": lambda *values: None}, {"reset_on_progress": True}]
)
def test_progress_resets_the_silence_with_and_without_a_callback(options, clock):
    target = DuplexTarget()
    with Client(target, timeouts=Timeouts(silence=10)) as client:
        call = Background(client.call_tool, "x", **options)
        request = target.now.expect("tools/call")
        token = request["params"]["_meta"]["progressToken"]
        for _ in range(3):
            clock.advance(8)
            assert not deadline_of(client, request).expired
            target.now.say(progress(token))
            target.now.sync()
        target.now.answer({"id": token}, text("done"))
        assert call.result().text == "done"


def test_progress_does_not_move_the_total():
    target = DuplexTarget()
    with Client(target, timeouts=Timeouts(silence=20, total=0.3)) as client:
        started = time.monotonic()
        call = Background(client.call_tool, "x", reset_on_progress=True)
        token = target.now.expect("tools/call")["id"]
        while call.running:
            target.now.say(progress(token))
            target.now.sync()
            assert time.monotonic() - started < 5
        with pytest.raises(CallTimeout) as caught:
            call.result()
        assert caught.value.timeout == 0.3


def test_progress_does_not_move_a_timeout_that_was_given():
    target = DuplexTarget()
    with Client(target) as client:
        started = time.monotonic()
        call = Background(client.call_tool, "x", timeout=0.2, reset_on_progress=True)
        token = target.now.expect("tools/call")["id"]
        while call.running:
            target.now.say(progress(token))
            target.now.sync()
            assert time.monotonic() - started < 5
        assert isinstance(call.error(), CallTimeout)


NOTE = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}}
PING = {"jsonrpc": "2.0", "id": "s-1", "method": "ping"}


@pytest.mark.parametrize("message", [NOTE, PING], ids=["notification", "request"])
@pytest.mark.parametrize("scripts", [modern, legacy])
def test_any_message_on_the_calls_own_stream_resets_the_silence(scripts, message, clock):
    def slow(request):
        return [part for _ in range(3) for part in (lambda: clock.advance(8), message)] + [text("done")]

    with Client(PostTarget(scripts(tools_call=slow)), timeouts=Timeouts(silence=10)) as client:
        assert client.call_tool("x").text == "done"


def test_a_message_on_a_shared_stream_does_not_reset_the_silence(clock):
    target = DuplexTarget()
    with Client(target, timeouts=Timeouts(silence=10)) as client:
        call = Background(client.call_tool, "x")
        request = target.now.expect("tools/call")
        clock.advance(8)
        target.now.say(NOTE)
        target.now.sync()
        assert not deadline_of(client, request).expired
        clock.advance(3)
        assert deadline_of(client, request).expired
        target.now.answer(request, text("done"))
        call.join()


def test_the_silence_stands_still_while_a_handler_of_the_call_works(clock):
    target, inside, leave = DuplexTarget(legacy()), threading.Event(), threading.Event()

    def roots(context):
        inside.set()
        assert leave.wait(10)
        return types.ListRootsResult(roots=[])

    with Client(target, mode="legacy", list_roots_callback=roots, timeouts=Timeouts(silence=10)) as client:
        call = Background(client.call_tool, "x")
        request = target.now.expect("tools/call")
        target.now.say({"jsonrpc": "2.0", "id": "s1", "method": "roots/list"})
        assert inside.wait(10)
        clock.advance(50)
        assert not deadline_of(client, request).expired
        leave.set()
        target.now.expect(None)
        target.now.answer(request, text("done"))
        assert call.result().text == "done"


def test_the_silence_goes_on_after_the_handler_has_ended():
    target, leave = DuplexTarget(legacy()), threading.Event()

    def roots(context):
        assert leave.wait(10)
        return types.ListRootsResult(roots=[])

    with Client(target, mode="legacy", list_roots_callback=roots, timeouts=Timeouts(silence=0.1)) as client:
        call = Background(client.call_tool, "x")
        target.now.expect("tools/call")
        target.now.say({"jsonrpc": "2.0", "id": "s1", "method": "roots/list"})
        target.now.sync()
        until = time.monotonic() + 0.3
        wait_until(lambda: time.monotonic() > until)
        leave.set()
        error = call.error(5)
        assert isinstance(error, CallTimeout)
        assert error.timeout == 0.1


def test_the_total_goes_on_while_a_handler_works():
    target, leave = DuplexTarget(legacy()), threading.Event()

    def roots(context):
        assert leave.wait(10)
        return types.ListRootsResult(roots=[])

    with Client(target, mode="legacy", list_roots_callback=roots) as client:
        call = Background(client.call_tool, "x", timeout=0.2)
        target.now.expect("tools/call")
        target.now.say({"jsonrpc": "2.0", "id": "s1", "method": "roots/list"})
        assert isinstance(call.error(5), CallTimeout)
        leave.set()


def test_the_silence_stands_still_while_an_input_callback_works(clock):
    def ask(context):
        return context.list_roots()

    def roots(context):
        clock.advance(50)
        return types.ListRootsResult(roots=[])

    server = FakeServer([ask])
    with Client(InMemory(server), list_roots_callback=roots, timeouts=Timeouts(silence=10)) as client:
        assert not client.call_tool("ask").is_error


# --- what the server is told -----------------------------------------------------------------------------


@pytest.mark.parametrize("scripts", [modern(), legacy()], ids=["modern", "legacy"])
def test_the_server_is_told_once_that_nobody_waits_and_its_late_answer_is_dropped(scripts, caplog):
    target = DuplexTarget(scripts)
    with Client(target) as client:
        other = Background(client.call_tool, "other")
        target.now.expect("tools/call")
        hasty = Background(client.call_tool, "hasty", timeout=0.05)
        late, waiting = sorted(target.now.expect("tools/call", 2), key=lambda r: r["params"]["name"])
        assert isinstance(hasty.error(), CallTimeout)
        cancelled = target.now.expect("notifications/cancelled")
        assert cancelled["params"]["requestId"] == late["id"]
        target.now.answer(late, text("late"))
        target.now.sync()
        assert other.running
        target.now.answer(waiting, text("done"))
        assert other.result().text == "done"
        assert len(target.now.received("notifications/cancelled")) == 1
        assert not client._engine._connection.calls
    assert not caplog.records


def test_over_modern_http_the_closed_stream_tells_it_and_no_notification():
    target = PostTarget()
    with Client(target) as client, pytest.raises(CallTimeout):
        client.call_tool("x", timeout=0.05)
    assert target.now.received("notifications/cancelled") == []


def test_over_legacy_http_a_notification_tells_it():
    target = PostTarget(legacy())
    with Client(target, mode="legacy") as client:
        with pytest.raises(CallTimeout):
            client.call_tool("x", timeout=0.05)
        cancelled = target.now.expect("notifications/cancelled")
    assert cancelled["params"]["requestId"] == target.now.received("tools/call")[0]["id"]


def test_a_handshake_is_never_cancelled():
    target = DuplexTarget({})
    client = Client(target, mode="legacy", timeouts=Timeouts(open=0.05))
    with pytest.raises(CallTimeout):
        client.open()
    client.close()
    assert target.now.received("notifications/cancelled") == []


def test_a_server_that_does_not_take_the_word_delays_the_caller_but_little():
    target, leave = PostTarget(legacy()), threading.Event()
    with Client(target, mode="legacy") as client:
        send = target.now.send

        def stuck(frame, deadline):
            leave.wait(10)
            send(frame, deadline)

        target.now.send = stuck
        started = time.monotonic()
        with pytest.raises(CallTimeout):
            client.call_tool("x", timeout=0.05)
        assert time.monotonic() - started < 5  # The word itself waits twice as long.
        leave.set()


def test_a_call_that_the_server_has_answered_or_lost_is_not_cancelled():
    target = DuplexTarget(modern(tools_call=lambda request: text("done")))
    with Client(target) as client:
        client.call_tool("x")
        assert target.now.received("notifications/cancelled") == []


def test_an_in_memory_server_that_takes_too_long_is_told():
    def slow(context):
        context.cancelled.wait(0.2)
        return "late"

    server = FakeServer([slow])
    with Client(InMemory(server)) as client:
        with pytest.raises(CallTimeout) as caught:
            client.call_tool("slow", timeout=0.05)
        assert caught.value.timeout == 0.05
        wait_until(lambda: server.received("notifications/cancelled"))


def test_time_that_is_up_before_a_call_begins_raises_and_sends_nothing_twice():
    target = DuplexTarget(modern(tools_call=lambda request: None))
    with Client(target) as client:
        with pytest.raises(CallTimeout):
            client.call_tool("x", timeout=0)
        assert len(target.now.received("tools/call")) <= 1


def test_the_time_that_an_opening_took_does_not_count_as_silence(clock):
    def discover(request):
        clock.advance(8)
        return {"supportedVersions": ["2026-07-28"]}

    def work(request):
        clock.advance(5)
        return text("done")

    target = DuplexTarget({"server/discover": discover, "tools/call": work})
    client = Client(target, timeouts=Timeouts(probe=20, silence=10))
    assert client.call_tool("x").text == "done"
    client.close()
