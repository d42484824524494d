"""Threads that run jobs: in order, bounded, started when needed, and gone afterwards."""

from __future__ import annotations

import gc
import logging
import sys
import threading
import time
import weakref

import pytest
from engine.background import Background, wait_until

from mcp_sync._concurrency import workers as module
from mcp_sync._concurrency.deadline import Deadline
from mcp_sync._concurrency.pending import PendingCall
from mcp_sync._concurrency.workers import Workers
from mcp_sync.errors import CallCancelled


def make(threads=1, limit=1000):
    return Workers("test", "jobs", threads, limit)


def alive(workers):
    return [thread for thread in workers._threads if thread.is_alive()]


class Gate:
    """A job that runs until it is let go."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.open = threading.Event()

    def __call__(self) -> None:
        self.entered.set()
        assert self.open.wait(10)


def call_within(seconds):
    """Make a call that has so long."""
    return PendingCall(1, "tools/call", Deadline(seconds))


@pytest.fixture
def workers():
    workers = make()
    yield workers
    workers.close(Deadline(5))


def test_no_thread_starts_before_there_is_a_job(workers):
    assert not workers._threads


def test_one_thread_runs_jobs_strictly_in_order(workers):
    seen = []
    for number in range(500):
        assert workers.submit(seen.append, number)
    assert workers.drain(Deadline(10), 5)
    assert seen == list(range(500))


def test_several_threads_run_jobs_at_the_same_time():
    workers, barrier = make(threads=4), threading.Barrier(5)
    for _ in range(4):
        workers.submit(barrier.wait, 10)
    barrier.wait(10)
    assert len(workers._threads) == 4
    workers.close(Deadline(5))


def test_there_are_never_more_threads_than_allowed():
    workers, gates = make(threads=2), [Gate() for _ in range(4)]
    for gate in gates:
        workers.submit(gate)
    gates[0].entered.wait(10)
    gates[1].entered.wait(10)
    assert len(workers._threads) == 2
    assert not gates[2].entered.is_set()
    for gate in gates:
        gate.open.set()
    workers.close(Deadline(5))


def test_a_thread_that_has_nothing_to_do_ends_and_comes_back(workers):
    workers._idle_seconds = 0.01
    for _ in range(3):
        done = threading.Event()
        workers.submit(done.set)
        assert done.wait(10)
        wait_until(lambda: not workers._threads)


def test_no_job_is_lost_when_a_thread_ends_just_as_it_comes(workers, tiny_switches):
    workers._idle_seconds = 0.0005
    for number in range(300):
        done = threading.Event()
        workers.submit(done.set)
        assert done.wait(10), number
        # A pause about as long as the patience of an idle thread.
        time.sleep(0.0005 * (number % 3))


def test_no_job_of_many_senders_is_lost_or_run_twice(tiny_switches):
    workers, seen = make(threads=3, limit=100_000), []

    def send(first):
        for number in range(first, first + 200):
            assert workers.submit(seen.append, number)

    senders = [Background(send, first) for first in range(0, 1600, 200)]
    for sender in senders:
        sender.join()
    wait_until(lambda: len(seen) == 1600)
    assert sorted(seen) == list(range(1600))
    workers.close(Deadline(5))


@pytest.mark.parametrize("raised", [ValueError("bad"), SystemExit(3), KeyboardInterrupt()], ids=repr)
def test_what_a_job_raises_is_logged_and_ends_neither_the_thread_nor_the_jobs_after_it(
    raised, workers, caplog
):
    def fail():
        raise raised

    seen = []
    workers.submit(fail)
    workers.submit(seen.append, 1)
    assert workers.drain(Deadline(5), 5)
    assert seen == [1]
    assert "callback" in caplog.text
    assert type(raised).__name__ in caplog.text


def test_an_idle_thread_takes_a_job_as_soon_as_it_comes(workers):
    workers._idle_seconds = 60
    for _ in range(3):
        done = threading.Event()
        workers.submit(done.set)
        assert done.wait(5)
        wait_until(lambda: workers._idle)
    assert len(workers._threads) == 1


def test_a_job_is_not_kept_alive_after_it_has_run(workers):
    workers._idle_seconds = 60

    class Job:
        def __call__(self):
            pass

    job = Job()
    reference = weakref.ref(job)
    workers.submit(job)
    del job
    wait_until(lambda: gc.collect() is not None and reference() is None)


# --- a full queue ----------------------------------------------------------------------------------------


@pytest.fixture
def stuck():
    """Workers whose only thread is busy, and whose queue of two has one droppable job."""
    workers, gate = make(limit=2), Gate()
    workers.submit(gate)
    assert gate.entered.wait(10)
    yield workers, gate
    gate.open.set()
    workers.close(Deadline(5))


def test_a_full_queue_takes_no_more_jobs(stuck):
    workers, _ = stuck
    assert workers.submit(print)
    assert workers.submit(print)
    assert not workers.submit(print)


def test_a_sender_that_may_wait_goes_on_as_soon_as_there_is_room(stuck):
    workers, gate = stuck
    seen = []
    workers.submit(seen.append, 1)
    workers.submit(seen.append, 2)
    sender = Background(workers.submit, seen.append, 3, wait=call_within(10))
    gate.open.set()
    assert sender.result() is True
    assert workers.drain(Deadline(5), 5)
    assert seen == [1, 2, 3]


def test_a_sender_that_may_wait_gives_up_at_its_deadline(stuck):
    workers, _ = stuck
    workers.submit(print)
    workers.submit(print)
    assert not workers.submit(print, wait=call_within(0.02))


def test_a_sender_that_waits_is_let_go_when_its_call_is_cancelled(stuck):
    workers, _ = stuck
    workers.submit(print)
    workers.submit(print)
    call = call_within(None)
    sender = Background(workers.submit, print, wait=call)
    call.fail(CallCancelled("cancelled"))
    assert sender.result() is False


def test_a_sender_that_waits_is_let_go_by_closing(stuck):
    workers, gate = stuck
    workers.submit(print)
    workers.submit(print)
    sender = Background(workers.submit, print, wait=call_within(None))
    closing = Background(workers.close, Deadline(5))
    assert sender.result() is False
    gate.open.set()
    closing.join()


def test_a_job_that_sends_to_its_own_full_queue_does_not_wait_for_itself():
    workers, gate, outcome = make(limit=1), Gate(), []

    def send():
        gate()
        started = time.monotonic()
        workers.submit(print, wait=call_within(5), droppable=True)
        outcome.append(time.monotonic() - started)

    workers.submit(send)
    assert gate.entered.wait(10)
    workers.submit(print, "waits")
    gate.open.set()
    wait_until(lambda: outcome)
    assert outcome[0] < 4.5
    workers.close(Deadline(5))


def test_the_oldest_droppable_job_makes_room_with_one_warning(stuck, caplog):
    workers, gate = stuck
    seen = []
    with caplog.at_level(logging.WARNING):
        for number in range(5):
            workers.submit(seen.append, number, droppable=True)
    assert workers.dropped == 3
    assert len(caplog.records) == 1
    gate.open.set()
    assert workers.drain(Deadline(5), 5)
    assert seen == [3, 4]


def test_what_may_not_be_dropped_is_not_dropped_for_others(stuck):
    workers, gate = stuck
    seen = []
    workers.submit(seen.append, 1)
    workers.submit(seen.append, 2)
    assert not workers.submit(seen.append, 3, droppable=True)
    gate.open.set()
    assert workers.drain(Deadline(5), 5)
    assert seen == [1, 2]


def test_urgent_jobs_exceed_the_limit_up_to_ten_times(stuck):
    workers, _ = stuck
    assert sum(workers.submit(print, urgent=True) for _ in range(100)) == 20


# --- draining --------------------------------------------------------------------------------------------


def test_draining_waits_for_what_is_queued(workers):
    seen = []
    gate = Gate()
    workers.submit(gate)
    workers.submit(seen.append, 1)
    draining = Background(workers.drain, Deadline(10), 5)
    gate.open.set()
    assert draining.result() is True
    assert seen == [1]


def test_draining_gives_up_when_nothing_moves(stuck):
    workers, _ = stuck
    assert not workers.drain(Deadline(10), 0.02)


def test_draining_gives_up_at_the_deadline(stuck):
    workers, _ = stuck
    assert not workers.drain(Deadline(0.02), None)


def test_draining_does_not_give_up_while_jobs_end_one_after_the_other(workers):
    pause, is_drained = threading.Event(), False
    while not is_drained:  # Until the machine lets each of them end in time.
        for _ in range(6):
            workers.submit(pause.wait, 0.05)
        is_drained = workers.drain(Deadline(10), 0.15)


def test_draining_ends_at_once_when_a_job_closes_the_workers():
    workers, gate = make(), Gate()

    def close():
        gate()
        workers.close(Deadline(5))

    workers.submit(close)
    assert gate.entered.wait(10)
    draining = Background(workers.drain, Deadline(60), 60)
    wait_until(lambda: workers._jobs)
    gate.open.set()
    draining.join(5)


# --- closing ---------------------------------------------------------------------------------------------


def test_closing_drops_what_waits_and_waits_for_what_runs(stuck):
    workers, gate = stuck
    seen = []
    workers.submit(seen.append, 1)
    closing = Background(workers.close, Deadline(10))
    assert closing.running
    gate.open.set()
    closing.join()
    assert seen == []
    assert not alive(workers)


def test_closing_gives_up_at_its_deadline_and_names_what_still_runs(stuck, caplog):
    workers, _ = stuck
    workers.close(Deadline(0.02))
    assert "mcp_sync-test-jobs" in caplog.text


def test_a_finaliser_waits_for_nothing_and_says_nothing(stuck, caplog):
    workers, _ = stuck
    workers.close(Deadline(0.0))
    assert not caplog.records


def test_closing_ends_idle_threads_at_once(workers):
    workers.submit(print)
    assert workers.drain(Deadline(5), 5)
    started = time.monotonic()
    workers.close(Deadline(5))
    assert time.monotonic() - started < 4.5
    assert not alive(workers)


def test_closing_twice_and_from_a_job_is_no_deadlock(workers):
    closed = threading.Event()

    def close():
        workers.close(Deadline(5))
        closed.set()

    workers.submit(close)
    assert closed.wait(5)
    workers.close(Deadline(5))
    assert not workers.submit(print)


def test_closing_loses_no_race_against_new_jobs(tiny_switches):
    for _ in range(50):
        workers, barrier = make(), threading.Barrier(3)

        def send(workers=workers, barrier=barrier):
            barrier.wait(10)
            while workers.submit(int):
                pass

        senders = [Background(send), Background(send)]
        barrier.wait(10)
        workers.close(Deadline(10))
        for sender in senders:
            sender.join()
        assert not alive(workers)
        assert not workers._jobs


# --- odd moments -----------------------------------------------------------------------------------------


def test_when_no_thread_can_be_started_the_job_is_refused_and_not_left_behind(monkeypatch, workers):
    def no_thread(*args):
        raise RuntimeError("can't start new thread")

    seen = []
    with monkeypatch.context() as patch:
        patch.setattr(module, "spawn", no_thread)
        assert not workers.submit(seen.append, 1)
    workers.submit(seen.append, 2)
    assert workers.drain(Deadline(5), 5)
    assert seen == [2]


def test_a_signal_handler_may_close_the_workers_wherever_it_interrupts_a_sender():
    line = 0
    while True:
        workers = make()
        state = {"passed": 0, "interrupted": False}

        def trace(frame, event, argument, workers=workers, state=state, line=line):
            if "workers.py" not in frame.f_code.co_filename or frame.f_code.co_name == "close":
                return None
            if event == "line":
                if state["passed"] == line:
                    state["interrupted"] = True
                    sys.settrace(None)
                    workers.close(Deadline(0.0))
                state["passed"] += 1
            return trace

        def send(workers=workers, trace=trace):
            sys.settrace(trace)
            try:
                workers.submit(int)
            finally:
                sys.settrace(None)

        Background(send).join(5)
        workers.close(Deadline(5))
        assert not alive(workers)
        if not state["interrupted"]:
            break
        line += 1
    assert line > 5


# --- jobs that may wait for jobs ---------------------------------------------------------------------------


def test_there_is_one_thread_more_for_each_job_that_may_wait_for_others():
    workers, inner, waits = make(threads=1), [Gate(), Gate()], Gate()

    def outer():
        for gate in inner:
            assert workers.submit(gate, ahead=True)
        waits()

    assert workers.submit(outer)
    assert waits.entered.wait(10)
    wait_until(lambda: any(gate.entered.is_set() for gate in inner))
    # The other one of the two has to wait: it needs no thread of its own.
    assert len(alive(workers)) == 2
    assert sum(gate.entered.is_set() for gate in inner) == 1
    for gate in inner:
        gate.open.set()
    wait_until(lambda: workers.finished == 2)
    waits.open.set()
    wait_until(lambda: workers.finished == 3)
    wait_until(lambda: not len(workers._loans))
    workers.close(Deadline(10))


def test_a_thread_beyond_the_bound_takes_no_job_when_nobody_waits_any_more():
    workers, inner, last, goes_on = make(threads=1), Gate(), Gate(), Gate()

    def outer():
        workers.submit(inner, ahead=True)
        assert inner.entered.wait(10)
        inner.open.set()
        goes_on()

    workers.submit(outer)
    assert goes_on.entered.wait(10)
    wait_until(lambda: workers.finished == 1)
    workers.submit(last)
    wait_until(lambda: len(alive(workers)) == 1)
    assert not last.entered.is_set()
    goes_on.open.set()
    last.open.set()
    wait_until(lambda: workers.finished == 3)
    workers.close(Deadline(10))


def test_a_job_that_others_may_wait_for_is_refused_where_no_thread_can_be_started(monkeypatch):
    workers, told = make(threads=1), []

    def outer():
        monkeypatch.setattr(module, "spawn", fail)
        told.append(workers.submit(told.append, "never", ahead=True))

    def fail(*args):
        raise RuntimeError("can't start new thread")

    workers.submit(outer)
    wait_until(lambda: workers.finished == 1)
    assert told == [False]
    assert not len(workers._loans)
    assert not workers._jobs
    workers.close(Deadline(10))
