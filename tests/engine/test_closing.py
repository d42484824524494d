"""Closing: idempotent, from anywhere, and nobody is left waiting."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time

import pytest
from concurrency.striking import strike_at

from mcp_sync import Client, ClientSession, InMemory, Timeouts, types
from mcp_sync.errors import CallTimeout, ClientClosed
from mcp_sync.testing import FakeServer
from mcp_sync.transports import LegacySSE, StreamableHTTP

from .background import Background, wait_until
from .scripted import DuplexTarget, PostTarget, legacy, modern, text

AT_ONCE = 4.5  # seconds: less than what close() may wait for


@pytest.mark.parametrize("kind", [DuplexTarget, PostTarget])
def test_closing_wakes_every_waiter_at_once(kind):
    target = kind()
    client = Client(target).open()
    calls = [Background(client.call_tool, "x") for _ in range(8)]
    wait_until(lambda: len(target.now.received("tools/call")) == 8)
    started = time.monotonic()
    client.close()
    errors = [call.error() for call in calls]
    assert time.monotonic() - started < AT_ONCE
    assert {type(error) for error in errors} == {ClientClosed}
    assert len({id(error) for error in errors}) == 8


def test_after_closing_every_call_is_refused_in_plain_words():
    client = Client(DuplexTarget()).open()
    client.close()
    for use in (
        lambda: client.call_tool("x"),
        lambda: client.list_tools(),
        lambda: list(client.tools()),
        lambda: client.send_ping(),
        lambda: client.notify("x/y"),
        lambda: client.request("x/y"),
        lambda: client.protocol_version,
        lambda: client.open(),
        lambda: client.__enter__(),
    ):
        with pytest.raises(ClientClosed, match="closed"):
            use()
    assert client.closed


def test_closing_is_idempotent_and_closes_the_channel():
    target = DuplexTarget()
    client = Client(target).open()
    client.close()
    client.close()
    assert target.now.closed.is_set()


def test_a_client_that_was_never_opened_can_be_closed():
    target = DuplexTarget()
    client = Client(target)
    client.close()
    with pytest.raises(ClientClosed):
        client.list_tools()
    assert target.channels == []


def test_many_threads_can_close_at_once():
    target = DuplexTarget()
    client = Client(target).open()
    call = Background(client.call_tool, "x")
    target.now.expect("tools/call")
    barrier = threading.Barrier(8)

    def close():
        barrier.wait(10)
        client.close()

    for closing in [Background(close) for _ in range(8)]:
        closing.join()
    assert isinstance(call.error(), ClientClosed)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="signals are looked for at more points, unsafe ones")
@pytest.mark.parametrize("is_open", [True, False])
def test_closing_again_wakes_those_whom_a_signal_handler_has_kept_from_being_woken(is_open):
    clients, more = [], True
    while more:
        target = DuplexTarget(modern() if is_open else {})
        client = Client(target)
        clients.append(client)  # So that no strike falls upon the finaliser of an earlier one.
        if is_open:
            client.open()
        calls = [Background(client.call_tool, "x") for _ in range(2)]
        if is_open:
            wait_until(lambda target=target: len(target.now.received("tools/call")) == 2)
        else:
            wait_until(lambda client=client: len(getattr(client._engine._opening, "waiters", ())) == 2)
        more = strike_at(len(clients), client.close, "/mcp_sync/_engine/")
        client.close()
        assert {type(call.error()) for call in calls} == {ClientClosed}, len(clients)
    assert len(clients) > 30


@pytest.mark.skipif(sys.version_info < (3, 11), reason="signals are looked for at more points, unsafe ones")
@pytest.mark.parametrize("kind", [StreamableHTTP, LegacySSE])
def test_closing_again_ends_the_stream_that_a_signal_handler_has_kept_from_being_ended(kind):
    server, clients, more = FakeServer(versions="legacy"), [], True
    folder = "_http" if kind is StreamableHTTP else "_legacy_sse"
    with server.serve_http() if kind is StreamableHTTP else server.serve_sse() as endpoint:
        while more:
            # With a handler, so that there is a stream.
            client = Client(kind(endpoint.url), message_handler=lambda message: None).open()
            clients.append(client)
            more = strike_at(len(clients), client.close, f"/{folder}/channel.py")
            client.close()
            name = f"-{client._engine.plan.settings.name}-"
            assert not [each for each in threading.enumerate() if name in each.name], len(clients)
    assert len(clients) > 5


def test_leaving_the_with_block_closes_even_when_it_raises():
    target = DuplexTarget()
    with pytest.raises(ZeroDivisionError), Client(target) as client:
        raise ZeroDivisionError
    assert client.closed
    assert target.now.closed.is_set()


def test_a_session_is_closed_by_its_with_block_too():
    target = DuplexTarget(legacy())
    with ClientSession(target) as session:
        session.initialize()
    assert target.now.closed.is_set()
    with pytest.raises(ClientClosed):
        session.initialize()


# --- while it opens --------------------------------------------------------------------------------------


def test_closing_wakes_those_who_wait_for_the_opening():
    target = DuplexTarget({})
    client = Client(target)
    calls = [Background(client.list_tools) for _ in range(4)]
    wait_until(lambda: target.channels and target.now.sent)
    started = time.monotonic()
    client.close()
    assert {type(call.error()) for call in calls} == {ClientClosed}
    assert time.monotonic() - started < AT_ONCE
    assert target.now.closed.is_set()


def test_closing_does_not_wait_for_an_opening_that_hangs_while_it_connects():
    entered, leave = threading.Event(), threading.Event()

    class Target(DuplexTarget):
        def channel(self, settings):
            entered.set()
            assert leave.wait(10)
            return super().channel(settings)

    target = Target()
    client = Client(target)
    call = Background(client.list_tools)
    assert entered.wait(10)
    closing = Background(client.close, 0.1)
    assert isinstance(call.error(2), ClientClosed)
    closing.join(2)
    leave.set()
    wait_until(lambda: not client._engine._opening)
    assert not target.channels or not target.now._reader.is_alive()


def test_a_connection_that_stands_just_after_closing_is_closed_too():
    held, leave = threading.Event(), threading.Event()

    def discover(request):
        held.set()
        assert leave.wait(10)
        return {"supportedVersions": ["2026-07-28"]}

    target = DuplexTarget({"server/discover": discover})
    client = Client(target)
    call = Background(client.list_tools)
    assert held.wait(10)
    closing = Background(client.close)
    assert isinstance(call.error(), ClientClosed)
    leave.set()
    closing.join()
    wait_until(target.now.closed.is_set)


# --- from callbacks --------------------------------------------------------------------------------------


def test_a_progress_callback_may_close_the_client_whose_call_has_been_answered():
    target = DuplexTarget(modern())
    client = Client(target).open()
    seen = threading.Event()
    go_on = threading.Event()

    def progress(*values):
        seen.set()
        assert go_on.wait(10)
        client.close()

    call = Background(client.call_tool, "x", progress_callback=progress)
    request = target.now.expect("tools/call")
    target.now.notify("notifications/progress", progressToken=request["id"], progress=1)
    assert seen.wait(10)
    target.now.answer(request, text("done"))
    target.now.sync()
    started = time.monotonic()
    go_on.set()
    assert call.result().text == "done"
    assert time.monotonic() - started < AT_ONCE
    client.close()


@pytest.mark.parametrize("which", ["message_handler", "logging_callback"])
def test_a_notification_callback_may_close_the_client_while_a_call_waits(which):
    target = DuplexTarget(legacy())
    client = Client(target, mode="legacy", **{which: lambda message: client.close()}).open()
    call = Background(client.call_tool, "x")
    target.now.expect("tools/call")
    target.now.notify("notifications/message", level="info", data="bye")
    assert isinstance(call.error(), ClientClosed)
    client.close()


def test_a_request_callback_may_close_the_client_while_a_call_waits():
    target = DuplexTarget(legacy())

    def roots(context):
        context.session.close()

    client = Client(target, mode="legacy", list_roots_callback=roots).open()
    call = Background(client.call_tool, "x")
    target.now.expect("tools/call")
    target.now.say({"jsonrpc": "2.0", "id": "srv-1", "method": "roots/list"})
    assert isinstance(call.error(), ClientClosed)
    client.close()


def test_an_input_callback_may_close_the_client_that_it_was_called_for():
    def ask(context):
        return context.list_roots()

    def roots(context):
        context.session.close()
        return types.ListRootsResult(roots=[])

    client = Client(InMemory(FakeServer([ask])), list_roots_callback=roots)
    with pytest.raises(ClientClosed):
        client.call_tool("ask")


def test_a_callback_that_never_ends_holds_closing_up_no_longer_than_agreed(caplog):
    target = DuplexTarget(legacy())
    entered, leave = threading.Event(), threading.Event()

    def handler(message):
        entered.set()
        assert leave.wait(10)

    client = Client(target, mode="legacy", message_handler=handler, timeouts=Timeouts(close=0.05)).open()
    target.now.notify("notifications/tools/list_changed")
    assert entered.wait(10)
    started = time.monotonic()
    client.close()
    assert time.monotonic() - started < AT_ONCE
    assert "callbacks" in caplog.text
    leave.set()


def test_an_answer_to_the_server_that_comes_after_closing_is_no_warning(caplog):
    target = DuplexTarget(legacy())
    entered, leave = threading.Event(), threading.Event()

    def decline(context, params):
        entered.set()
        assert leave.wait(10)
        return types.ElicitResult(action="decline")

    client = Client(target, mode="legacy", elicitation_callback=decline, timeouts=Timeouts(close=0.05)).open()
    params = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
    target.now.say({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": params})
    assert entered.wait(10)

    def told():
        return [record.levelno for record in caplog.records if "Could not send" in record.getMessage()]

    with caplog.at_level(logging.DEBUG, "mcp_sync.session"):
        client.close()
        leave.set()
        wait_until(told)
    assert told() == [logging.DEBUG]


def test_an_in_memory_server_is_told_that_its_request_is_abandoned():
    entered = threading.Event()

    def slow(context):
        entered.set()
        assert context.cancelled.wait(10)
        return "late"

    client = Client(InMemory(FakeServer([slow])))
    call = Background(client.call_tool, "slow")
    assert entered.wait(10)
    client.close()
    assert isinstance(call.error(), ClientClosed)


@pytest.mark.parametrize("kind", ["logging_callback", "message_handler"])
def test_what_came_before_the_close_is_still_delivered(kind):
    entered, go_on, got = threading.Event(), threading.Event(), []

    def take(message):
        entered.set()
        go_on.wait(10)
        got.append(message)

    def talk(context):
        for number in range(5):
            context.log("info", f"message {number}")
        return "said"

    client = Client(InMemory(FakeServer(tools=[talk])), log_level="info", **{kind: take}).open()
    client.call_tool("talk")
    assert entered.wait(10)
    closing = Background(client.close)
    wait_until(lambda: client.closed)
    go_on.set()
    closing.result()
    assert len(got) == 5


def test_a_callback_that_comes_too_late_to_use_the_client_is_no_fault(caplog):
    errors = []

    def use(message):
        wait_until(lambda: client.closed)
        try:
            client.list_tools()
        except ClientClosed as error:
            errors.append(error)
            raise

    server = FakeServer(tools=[lambda: "x"], versions="legacy")
    client = Client(InMemory(server), message_handler=use).open()
    server.notify("notifications/tools/list_changed")
    client.close()
    assert len(errors) == 1
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


# --- clients that could not be opened ----------------------------------------------------------------------

# It says nothing, and neither the end of its input nor a SIGTERM ends it.
STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "interrupt" in sys.argv:
    os.kill(os.getppid(), signal.SIGUSR1)
while True:
    time.sleep(60)
"""


def test_a_with_statement_that_fails_is_not_held_up_by_a_stubborn_server():
    command = [sys.executable, "-c", STUBBORN]
    started = time.monotonic()
    with pytest.raises(CallTimeout), Client(command, timeout=1, timeouts=Timeouts(close=60)):
        pass
    assert time.monotonic() - started < 25  # With the patience of close() it would be half a minute.


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="needs POSIX signals")
def test_an_interrupted_with_statement_is_not_held_up_by_a_stubborn_server():
    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        started = time.monotonic()
        command = [sys.executable, "-c", STUBBORN, "interrupt"]
        with pytest.raises(KeyboardInterrupt), Client(command, timeouts=Timeouts(close=60)):
            pass
        assert time.monotonic() - started < 25
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="signals are looked for at more points, unsafe ones")
def test_a_signal_handler_that_interrupts_the_end_of_a_stream_leaves_nothing_locked_there():
    clients, more = [], True
    with FakeServer(versions="legacy").serve_http() as endpoint:
        while more:
            client = Client(endpoint.url, message_handler=lambda message: None).open()
            clients.append(client)
            stop = client._engine._connection.channel._stream.stop
            more = strike_at(len(clients), stop, only="")
            Background(client.close).join()
    assert len(clients) > 3
