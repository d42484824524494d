"""The clock of a call."""

from __future__ import annotations

import threading

import pytest

from mcp_sync._concurrency import deadline as module
from mcp_sync._concurrency.deadline import Deadline


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "_now", clock)
    return clock


def test_without_bounds_there_is_no_end(clock):
    deadline = Deadline(None)
    assert deadline.remaining() is None
    assert not deadline.expired


def test_the_hard_end_comes_whatever_happens(clock):
    deadline = Deadline(5, 60)
    clock.now += 4
    deadline.touch()
    assert deadline.remaining() == 1
    clock.now += 2
    assert deadline.remaining() == 0
    assert deadline.expired
    assert deadline.reached == 5


def test_a_sign_of_life_resets_the_silence(clock):
    deadline = Deadline(100, 10)
    for _ in range(5):
        clock.now += 9
        assert deadline.remaining() == 1
        deadline.touch()
    clock.now += 10
    assert deadline.expired
    assert deadline.reached == 10


def test_no_time_at_all_is_over_at_once(clock):
    assert Deadline(0).expired


def test_the_silence_stands_still_while_held_and_starts_anew_after(clock):
    deadline = Deadline(None, 10)
    clock.now += 9
    deadline.hold()
    clock.now += 500
    assert not deadline.expired
    deadline.release()
    assert deadline.remaining() == 10
    clock.now += 10
    assert deadline.expired


def test_whoever_waits_by_a_held_clock_looks_again_in_time(clock):
    deadline = Deadline(1800, 10)
    deadline.hold()
    clock.now += 100
    assert deadline.remaining() == 10


def test_the_hard_end_comes_while_held_too(clock):
    deadline = Deadline(20, 10)
    deadline.hold()
    clock.now += 20
    assert deadline.expired
    assert deadline.reached == 20


def test_the_clock_goes_on_when_the_last_of_several_holds_ends(clock):
    deadline = Deadline(None, 10)
    deadline.hold()
    deadline.hold()
    deadline.release()
    clock.now += 50
    assert not deadline.expired
    deadline.release()
    clock.now += 10
    assert deadline.expired


def test_a_part_of_a_deadline_ends_no_later_than_the_whole(clock):
    deadline = Deadline(5)
    assert deadline.within(2).remaining() == 2
    assert deadline.within(50).remaining() == 5
    assert deadline.within(None).remaining() == 5
    assert Deadline(None).within(None).remaining() is None
    assert Deadline(None).within(3).remaining() == 3


@pytest.mark.parametrize("pausable", [False, True])
def test_a_release_while_somebody_looks_ends_nothing(clock, monkeypatch, pausable):
    deadline = Deadline(10, pausable=True) if pausable else Deadline(None, 10)
    deadline.hold()
    clock.now += 100

    def now():
        monkeypatch.setattr(module, "_now", clock)
        deadline.release()
        return clock.now

    monkeypatch.setattr(module, "_now", now)
    assert deadline.remaining() == 10


def test_many_threads_can_hold_and_release_it(monkeypatch, tiny_switches):
    deadline = Deadline(None, 0.0)
    barrier = threading.Barrier(8)

    def work() -> None:
        barrier.wait(10)
        for _ in range(500):
            deadline.hold()
            deadline.release()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert deadline._holds == 0


def test_a_pausable_end_stands_still_while_it_is_held(clock):
    deadline = Deadline(10, pausable=True)
    clock.now += 4
    deadline.hold()
    clock.now += 100
    assert deadline.remaining() == 6
    deadline.release()
    clock.now += 1
    assert deadline.remaining() == 5


@pytest.mark.parametrize("pausable", [False, True])
def test_only_a_pausable_end_is_not_over_while_it_is_held(clock, pausable):
    deadline = Deadline(10, pausable=pausable)
    deadline.hold()
    clock.now += 100
    assert deadline.hard_end_passed() is not pausable
    deadline.release()
    assert deadline.hard_end_passed() is not pausable
    clock.now += 10
    assert deadline.hard_end_passed()


def test_any_other_end_goes_on_while_it_is_held(clock):
    deadline = Deadline(10)
    deadline.hold()
    clock.now += 4
    assert deadline.remaining() == 6
    deadline.release()
    assert deadline.remaining() == 6


def test_two_holds_at_a_time_count_once(clock):
    deadline = Deadline(10, pausable=True)
    deadline.hold()
    clock.now += 1
    deadline.hold()
    clock.now += 1
    deadline.release()
    clock.now += 1
    assert deadline.remaining() == 10
    deadline.release()
    assert deadline.remaining() == 10


def test_what_holds_a_part_of_a_pausable_deadline_holds_the_whole(clock):
    whole = Deadline(10, pausable=True)
    part = whole.within(2)
    part.hold()
    clock.now += 100
    assert (part.remaining(), whole.remaining()) == (2, 10)
    part.release()
    assert (part.remaining(), whole.remaining()) == (2, 10)


def test_a_part_of_any_other_deadline_stands_by_itself(clock):
    whole = Deadline(10)
    part = whole.within(2)
    part.hold()
    clock.now += 1
    part.release()
    assert (part.remaining(), whole.remaining()) == (1, 9)


def test_work_beside_a_pausable_deadline_has_its_own_time(clock):
    assert Deadline(2, pausable=True).beside(30).remaining() == 30
    assert Deadline(2).beside(30).remaining() == 2
    assert Deadline(None).beside(30).remaining() == 30
