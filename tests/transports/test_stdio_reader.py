"""Who reads an answer: the caller itself where it comes at once, otherwise the reading thread."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from stdio_support import SLACK, poll, running

from mcp_sync._concurrency.deadline import Deadline
from mcp_sync._concurrency.threads import spawn
from mcp_sync.errors import ConnectionLost, UsageError
from mcp_sync.transports._stdio import channel, pipes, reader

READER = "mcp_sync-test-reader"
HERE = threading.main_thread().name

ON_DEMAND = """
    waiting = []
    while True:
        message = receive()
        if message is None:
            break
        if message["method"] == "slow":
            waiting.append(message)
        elif message["method"] == "answer":
            for each in waiting:
                answer(each, each["params"])
            waiting.clear()
        elif message["method"] == "note":
            note("noted")
        else:
            answer(message, message["params"])
"""


def warm_up(server) -> None:
    """Make calls until one is answered on this thread."""

    def quick() -> bool:
        assert server.call("quick", {"n": 0}) == {"n": 0}
        return server.inbound.threads[-1] == HERE

    assert poll(quick)


def test_quick_answers_are_read_by_the_caller():
    with running(ON_DEMAND) as server:
        assert server.call("quick", {"n": 1}) == {"n": 1}
        assert server.inbound.threads == [READER]
        warm_up(server)


def test_an_answer_that_takes_longer_is_brought_by_the_reading_thread():
    with running(ON_DEMAND) as server:
        warm_up(server)
        call = server.begin("slow", {"n": 2}, timeout=None)
        assert not call.settled
        server.notify("answer")
        assert call.wait()
        assert call.result()["result"] == {"n": 2}
        assert server.inbound.threads[-1] == READER


def test_what_a_server_sends_by_itself_after_a_quick_call_is_not_held_up():
    with running(ON_DEMAND) as server:
        for _ in range(20):
            warm_up(server)
            started = time.monotonic()
            seen = len(server.inbound.notes)
            server.notify("note")
            server.inbound.wait(lambda seen=seen: len(server.inbound.notes) > seen)
            assert time.monotonic() - started < 0.5 + SLACK


def test_a_call_that_nobody_waits_for_any_more_hinders_no_other():
    with running(ON_DEMAND) as server:
        warm_up(server)
        forgotten = server.begin("slow", timeout=None)
        forgotten.fail(RuntimeError("given up"))
        for n in range(10):
            assert server.call("quick", {"n": n}) == {"n": n}
        server.notify("answer")
        assert server.call("quick", {"n": 11}) == {"n": 11}


def test_the_death_of_a_server_is_noticed_between_quick_calls():
    with running(ON_DEMAND) as server:
        warm_up(server)
        os.kill(server.pid, signal.SIGKILL)
        started = time.monotonic()
        assert server.inbound.loss().returncode == -signal.SIGKILL
        assert time.monotonic() - started < 1.0 + SLACK


def test_every_thread_gets_its_own_answer():
    with running(ON_DEMAND) as server:
        start, failures = threading.Barrier(16), []
        lock = threading.Lock()
        ids = server.ids
        server.ids = iter(lambda: _next(ids, lock), None)

        def work(name):
            start.wait()
            for n in range(100):
                if server.call("quick", {"nonce": f"{name}-{n}"}) != {"nonce": f"{name}-{n}"}:
                    failures.append(n)

        threads = [threading.Thread(target=work, args=(name,)) for name in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
        assert failures == []


def _next(ids, lock):
    with lock:
        return next(ids)


def test_a_quick_call_beside_a_slow_one_is_quick():
    with running(ON_DEMAND) as server:
        warm_up(server)
        slow = server.begin("slow", {"n": 1}, timeout=None)
        started = time.monotonic()
        for n in range(20):
            assert server.call("quick", {"n": n}) == {"n": n}
        assert time.monotonic() - started < 1.0 + SLACK
        server.notify("answer")
        assert slow.wait()


def test_a_finaliser_that_calls_on_the_reading_thread_is_refused_and_holds_nobody_up():
    with running(ON_DEMAND) as server:
        refusals = []

        class Garbage:
            def __del__(self):
                try:
                    server.call("quick")
                except UsageError as error:
                    refusals.append((threading.current_thread().name, str(error)))

        def receive(message, call=None):
            if message.get("method") == "noted":
                Garbage()
            passed_on(message, call)

        passed_on, server.inbound.receive = server.inbound.receive, receive
        server.notify("note")
        server.inbound.wait(lambda: server.inbound.notes)
        ((name, text),) = refusals
        assert name == READER
        assert text.startswith("quick: the thread that reads from a server process cannot wait")
        assert server.call("quick", {"n": 1}) == {"n": 1}


# --- where pipes cannot be polled ------------------------------------------------------------------------


@pytest.fixture
def no_poll(monkeypatch):
    for module in (channel, pipes, reader):
        monkeypatch.setattr(module, "CAN_POLL", False)


def test_a_call_before_the_reading_thread_has_begun_does_not_read_past_its_deadline(no_poll, monkeypatch):
    begin = threading.Event()

    def spawn_late(owner, role, target, *args):
        def run(*args):
            assert role != "reader" or begin.wait(5)
            target(*args)

        return spawn(owner, role, run, *args)

    monkeypatch.setattr(channel, "spawn", spawn_late)
    with running(ON_DEMAND) as server:
        started = time.monotonic()
        call = server.begin("slow", timeout=0.1)
        assert not call.wait()
        assert time.monotonic() - started < 0.1 + SLACK
        begin.set()
        assert server.call("quick", {"n": 1}) == {"n": 1}


def test_no_answered_call_is_kept(no_poll):
    with running(ON_DEMAND) as server:
        for n in range(10):
            assert server.call("quick", {"n": n}) == {"n": n}
        assert len(server.channel._server.reader._left) <= 1


# --- signals ---------------------------------------------------------------------------------------------


class Interrupt(BaseException):
    """What a signal handler raises."""


def test_an_interrupt_while_a_message_is_handled_loses_nothing():
    with running(ON_DEMAND) as server:
        warm_up(server)
        server.inbound.fault = Interrupt()
        with pytest.raises(Interrupt):
            for n in range(1000):
                server.call("quick", {"n": n})
        for n in range(10):
            assert server.call("quick", {"n": n}) == {"n": n}
        # The message came again, to the reading thread.
        assert not server.inbound.calls


def test_a_turn_that_was_lost_to_an_interrupt_is_taken_back(monkeypatch):
    monkeypatch.setattr(reader, "_TURN_LOST", 0.05)
    with running(ON_DEMAND) as server:
        warm_up(server)
        turn = server.channel._server.reader._turn
        assert poll(lambda: server.call("quick") is not None and turn.acquire(False))
        assert server.call("quick", {"n": 1}) == {"n": 1}


@pytest.mark.parametrize("caller", ["the same thread", "another thread"])
def test_a_turn_that_an_interrupt_has_kept_from_being_given_back_is_taken_back(monkeypatch, caller):
    monkeypatch.setattr(reader, "_TURN_LOST", 0.05)
    with running(ON_DEMAND) as server:
        warm_up(server)
        stdout = server.channel._server.reader
        # As Python 3.9 and 3.10 may leave it.
        assert poll(lambda: server.call("quick") is not None and stdout._turn.acquire(False))
        stdout.looker.append(threading.get_ident())
        if caller == "the same thread":
            assert server.call("quick", {"n": 1}) == {"n": 1}
        else:
            answers = []
            thread = threading.Thread(target=lambda: answers.append(server.call("quick", {"n": 1})))
            thread.start()
            thread.join(5)
            assert answers == [{"n": 1}]
        assert stdout.looker == []
        assert server.call("quick", {"n": 2}) == {"n": 2}


def strike(server, handler):
    """Have a signal handler strike once while the main thread reads its own answer."""
    receive = server.inbound.receive
    struck = []

    def receive_struck(message, call=None):
        if not struck and threading.current_thread() is threading.main_thread():
            struck.append(True)
            handler()
        receive(message, call)

    server.inbound.receive = receive_struck
    return struck


def test_a_signal_handler_that_strikes_while_a_caller_reads_may_close():
    with running(ON_DEMAND) as server:
        warm_up(server)
        took = []

        def handler():
            started = time.monotonic()
            server.channel.close(Deadline(20))
            took.append(time.monotonic() - started)

        struck = strike(server, handler)
        with contextlib.suppress(ConnectionLost):
            poll(lambda: server.call("quick") is not None and struck)
        assert took
        assert took[0] < 2.0 + SLACK
        threads = server.channel._server.threads
        for thread in threads:
            thread.join(5)
        assert not any(thread.is_alive() for thread in threads)


def test_a_signal_handler_that_strikes_while_a_caller_reads_cannot_call_and_is_told_so():
    with running(ON_DEMAND) as server:
        warm_up(server)
        faults = []

        def handler():
            try:
                server.call("quick", {"n": "from the handler"})
            except UsageError as error:
                faults.append(error)

        struck = strike(server, handler)
        assert poll(lambda: server.call("quick") is not None and struck)
        assert "signal handler" in str(faults[0])
        assert server.call("quick", {"n": 7}) == {"n": 7}


INTERRUPTER = """
import os, random, signal, time
random.seed(1)
while True:
    time.sleep(random.uniform(0.0005, 0.002))
    os.kill(os.getppid(), signal.SIGUSR1)
"""


# What is raised inside a finaliser is reported as ignored, and what the finaliser had to do is left undone.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_interrupts_at_any_moment_leave_the_channel_in_order(monkeypatch):
    monkeypatch.setattr(reader, "_TURN_LOST", 0.05)
    armed = False

    def interrupt(number, frame):
        nonlocal armed
        if armed:
            armed = False
            raise Interrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    interrupter = subprocess.Popen([sys.executable, "-S", "-c", INTERRUPTER])
    try:
        with running(ON_DEMAND) as server:
            warm_up(server)
            for n in range(200):
                with pytest.raises(Interrupt):
                    while True:
                        # Each time: one that is raised inside a finaliser is swallowed.
                        armed = True
                        server.call("quick", {"n": n})
                armed = False
                assert server.call("quick", {"n": n}, timeout=5) == {"n": n}
            assert not server.inbound.reports
            assert not server.inbound.losses
    finally:
        interrupter.kill()
        interrupter.wait()
        signal.signal(signal.SIGUSR1, before)
