"""One request in flight: the first outcome wins, and whoever waits is woken."""

from __future__ import annotations

import gc
import itertools
import sys
import threading
import time
import weakref

import pytest
from engine.background import Background, wait_until

from mcp_sync._concurrency.cancel import CancelToken
from mcp_sync._concurrency.deadline import Deadline
from mcp_sync._concurrency.locks import Latch, take
from mcp_sync._concurrency.pending import PendingCall
from mcp_sync.errors import CallCancelled, ClientClosed, ConnectionLost

from .striking import strike_at

REPLY = {"jsonrpc": "2.0", "id": 1, "result": {}}


def make(timeout=10.0, silence=None):
    return PendingCall(1, "tools/call", Deadline(timeout, silence))


def test_a_call_brings_what_it_was_settled_with():
    call = make()
    assert call.settle(REPLY)
    assert call.wait()
    assert call.result() is REPLY


def test_a_call_raises_what_it_failed_with():
    call = make()
    assert call.fail(ConnectionLost("gone"))
    assert call.wait()
    with pytest.raises(ConnectionLost):
        call.result()


def test_only_the_first_outcome_counts():
    call = make()
    assert call.settle(REPLY)
    assert not call.fail(ConnectionLost("gone"))
    assert not call.settle({})
    assert call.result() is REPLY


def test_waiting_ends_at_the_deadline():
    call = make(0.02)
    started = time.monotonic()
    assert not call.wait()
    assert time.monotonic() - started < 10


def test_waiting_can_have_a_shorter_deadline_of_its_own():
    call = make()
    assert not call.wait(Deadline(0.01))
    call.settle(REPLY)
    assert call.wait(Deadline(0.0))


def test_waiting_without_any_bound_ends_with_the_outcome():
    call = make(None)
    waiting = Background(call.wait)
    call.settle(REPLY)
    assert waiting.result() is True


def test_an_enormous_bound_is_no_error():
    call = make(1e300)
    waiting = Background(call.wait)
    call.settle(REPLY)
    assert waiting.result() is True


def test_signs_of_life_prolong_a_wait_that_has_begun():
    signs_were_late = True
    while signs_were_late:  # Until the machine gives them in time.
        call = make(None, 0.2)
        waiting = Background(call.wait)
        began = last = time.monotonic()
        while waiting.running and last - began < 0.5:
            call.deadline.touch()
            signs_were_late = time.monotonic() - last > 0.1
            if signs_were_late:
                break
            last = time.monotonic()
        assert signs_were_late or waiting.running
        assert waiting.result() is False


def test_a_wait_that_began_before_a_handler_held_the_clock_still_ends():
    call = make(None, 0.05)
    call.deadline.hold()
    waiting = Background(call.wait)
    held_until = time.monotonic() + 0.15
    wait_until(lambda: time.monotonic() > held_until)
    assert waiting.running
    call.deadline.release()
    assert waiting.result(5) is False


def test_a_reader_is_woken_by_an_outcome_from_elsewhere():
    call, woken = make(), threading.Event()
    assert call.attach(woken.set)
    call.fail(ClientClosed("closed"))
    assert woken.is_set()


def test_a_reader_is_not_woken_by_the_answer_that_it_read_itself():
    call, woken = make(), threading.Event()
    call.attach(woken.set)
    call.settle(REPLY)
    assert not woken.is_set()


def test_a_reader_that_comes_too_late_is_told_so():
    call = make()
    call.fail(ClientClosed("closed"))
    assert not call.attach(lambda: None)


def test_a_reader_that_has_gone_is_not_woken():
    call, woken = make(), threading.Event()
    call.attach(woken.set)
    call.detach()
    call.fail(ClientClosed("closed"))
    assert not woken.is_set()


def test_many_outcomes_at_once_have_one_winner(tiny_switches):
    for _ in range(100):
        call, barrier = make(), threading.Barrier(4)

        def settle(call=call, barrier=barrier):
            barrier.wait(10)
            return call.settle(REPLY)

        def fail(call=call, barrier=barrier):
            barrier.wait(10)
            return call.fail(ClientClosed("closed"))

        rivals = [Background(settle), Background(settle), Background(fail)]
        barrier.wait(10)
        assert call.wait()
        won = [rival.result() for rival in rivals]
        assert won.count(True) == 1
        if won[2]:
            with pytest.raises(ClientClosed):
                call.result()
        else:
            assert call.result() is REPLY


def test_a_reader_is_either_told_or_woken_whenever_the_outcome_comes(tiny_switches):
    for _ in range(200):
        call, barrier, woken = make(), threading.Barrier(2), threading.Event()

        def fail(call=call, barrier=barrier):
            barrier.wait(10)
            call.fail(ClientClosed("closed"))

        rival = Background(fail)
        barrier.wait(10)
        in_time = call.attach(woken.set)
        rival.join()
        assert woken.is_set() or not in_time


def test_a_signal_handler_may_settle_a_call_wherever_it_interrupts_the_thread():
    # A signal handler runs between two lines of the main thread. Here it does so at every line in turn.
    for line in itertools.count():
        call = make()
        passed = itertools.count()
        interrupted = False

        def trace(frame, event, argument, call=call, passed=passed, line=line):
            nonlocal interrupted
            if "pending.py" not in frame.f_code.co_filename:
                return None
            if event == "line" and next(passed) == line:
                interrupted = True
                sys.settrace(None)
                call.fail(ClientClosed("closed by a signal handler"))
            return trace

        woken = threading.Event()

        def work(call=call, woken=woken, trace=trace):
            sys.settrace(trace)
            try:
                call.attach(woken.set)
                call.settle(REPLY)
                call.detach()
            finally:
                sys.settrace(None)

        Background(work).result(5)
        assert call.wait(Deadline(5))
        if not interrupted:
            break
    assert line > 5


def test_a_call_is_not_kept_alive_by_its_token():
    token, call = CancelToken(), make()
    token.watch(call)
    reference = weakref.ref(call)
    del call
    gc.collect()
    assert reference() is None


def test_a_token_cancels_the_calls_that_it_watches_and_those_to_come():
    token, call, other = CancelToken(), make(), make()
    token.watch(call)
    token.cancel("enough")
    token.cancel("more than enough")
    token.watch(other)
    for each in (call, other):
        with pytest.raises(CallCancelled, match="enough") as caught:
            each.result()
        assert caught.value.reason == "enough"
        assert caught.value.request_sent is False
    assert token.cancelled


def test_a_call_is_cancelled_whenever_the_token_gets_to_know_it(tiny_switches):
    for _ in range(200):
        token, call, barrier = CancelToken(), make(), threading.Barrier(2)

        def cancel(token=token, barrier=barrier):
            barrier.wait(10)
            token.cancel()

        rival = Background(cancel)
        barrier.wait(10)
        token.watch(call)
        rival.join()
        assert call.settled


def test_waiting_at_a_latch_ends_when_it_opens_or_at_the_deadline():
    latch = Latch()
    assert not latch.wait(Deadline(0.01))
    waiting = [Background(latch.wait, Deadline(None)) for _ in range(3)]
    latch.open()
    latch.open()
    assert [each.result() for each in waiting] == [True] * 3
    assert latch.is_open
    assert latch.wait(Deadline(0.0))


def test_a_latch_that_a_handler_raises_in_keeps_nobody_waiting():
    for number in range(1, 100):
        latch = Latch()
        if not strike_at(number, latch.open):
            break
        assert not latch.is_open or latch.wait(Deadline(0.0))
        latch.open()
        assert latch.wait(Deadline(0.0))
    assert number > 2


def test_a_lock_that_a_handler_raises_at_does_not_stay_locked():
    def section():
        got = []
        try:
            if take(lock, 1.0, got):
                sum([1, 2])
        finally:
            if got and got[0]:
                lock.release()

    lock = threading.Lock()
    for number in range(1, 100):
        if not strike_at(number, section, only=""):
            break
        assert lock.acquire(timeout=0.1), f"it stays locked when struck at {number}"
        lock.release()
    assert number > 5
