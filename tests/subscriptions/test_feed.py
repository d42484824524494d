"""The queue between the thread that reads and the one that consumes."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Iterator

import pytest
from concurrency.striking import strike_at
from engine.background import PATIENCE, Background, wait_until

from mcp_sync._concurrency.deadline import Deadline
from mcp_sync._engine.feed import CLOSED, FAILED, GRACEFUL, Feed
from mcp_sync.subscriptions import Interest, PromptsChanged, ResourceUpdated, Resync, ToolsChanged

NOW = Deadline(0.0)


def updated(number: int) -> ResourceUpdated:
    return ResourceUpdated(f"demo://{number}")


def everything(feed: Feed) -> list[object]:
    return list(iter(lambda: feed.take(NOW), None))


@pytest.fixture
def hasty() -> Iterator[None]:
    """Have threads take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_events_come_out_as_they_went_in() -> None:
    feed = Feed(10)
    for number in range(10):
        feed.offer(updated(number), waits=False)
    assert everything(feed) == [updated(number) for number in range(10)]


def test_events_that_wait_already_are_not_repeated_when_there_is_no_room() -> None:
    feed = Feed(3)
    for event in (updated(1), updated(2), updated(1), updated(3), updated(2), updated(3)):
        feed.offer(event, waits=False)
    assert everything(feed) == [updated(1), updated(2), updated(3)]


def test_more_different_events_than_there_is_room_for_become_one_resync() -> None:
    feed = Feed(3)
    for number in range(4):
        feed.offer(updated(number), waits=False)
    feed.offer(updated(5), waits=False)
    assert everything(feed) == [Resync(), updated(5)]


def test_one_resync_in_a_row_is_enough() -> None:
    feed = Feed(3)
    for event in (ToolsChanged(), Resync(), Resync(), ToolsChanged(), Resync()):
        feed.offer(event, waits=False)
    assert everything(feed)[:2] == [ToolsChanged(), Resync()]


@pytest.mark.usefixtures("hasty")
def test_a_producer_that_may_wait_loses_nothing_and_stays_within_the_limit() -> None:
    feed, count = Feed(5), 3000
    producer = Background(lambda: [feed.offer(updated(number), waits=True) for number in range(count)])
    sizes, got = set(), []
    while len(got) < count:
        sizes.add(len(feed._events))
        got.append(feed.take(Deadline(PATIENCE)))
    producer.join()
    assert got == [updated(number) for number in range(count)]
    assert max(sizes) <= 5


@pytest.mark.usefixtures("hasty")
def test_several_consumers_share_the_events() -> None:
    feed, count = Feed(10_000), 2000
    barrier = threading.Barrier(5)

    def consume() -> list[object]:
        barrier.wait(PATIENCE)
        return list(iter(lambda: feed.take(Deadline(PATIENCE)), None))

    consumers = [Background(consume) for _ in range(4)]
    barrier.wait(PATIENCE)
    for number in range(count):
        feed.offer(updated(number), waits=False)
    feed.end(GRACEFUL)
    got = [event for consumer in consumers for event in consumer.result()]
    assert sorted(got, key=repr) == sorted((updated(number) for number in range(count)), key=repr)


@pytest.mark.usefixtures("hasty")
def test_the_end_never_overtakes_the_last_event() -> None:
    for _ in range(300):
        feed = Feed(10)
        consumer = Background(lambda feed=feed: list(iter(lambda: feed.take(Deadline(PATIENCE)), None)))
        feed.offer(ToolsChanged(), waits=False)
        feed.end(GRACEFUL)
        assert consumer.result() == [ToolsChanged()]


@pytest.mark.parametrize("how", [CLOSED, GRACEFUL, FAILED])
def test_the_end_wakes_whoever_waits_for_room_or_for_an_event(how: str) -> None:
    full, empty = Feed(1), Feed(1)
    full.offer(ToolsChanged(), waits=True)
    producer = Background(full.offer, PromptsChanged(), True)
    consumer = Background(empty.take, Deadline(None))
    wait_until(lambda: full._room._latches and empty._news._latches)
    for feed in (full, empty):
        feed.end(how)
    producer.join()
    assert consumer.result() is None
    assert everything(full) == ([] if how == CLOSED else [ToolsChanged()])


@pytest.mark.skipif(sys.version_info < (3, 11), reason="signals are looked for at more points, unsafe ones")
def test_the_next_end_wakes_whom_a_signal_handler_has_kept_from_being_woken() -> None:
    number, more = 1, True
    while more:
        feed = Feed(10)
        consumer = Background(feed.take, Deadline(None))
        wait_until(functools.partial(len, feed._news._latches))
        more = strike_at(number, functools.partial(feed.end, CLOSED), "/_engine/feed.py")
        feed.end(CLOSED)
        assert consumer.result() is None, number
        number += 1
    assert number > 3


def test_only_the_first_end_counts_and_nothing_comes_after_it() -> None:
    feed = Feed(1)
    feed.end(FAILED, ValueError("first"))
    feed.end(GRACEFUL)
    feed.offer(ToolsChanged(), waits=True)
    assert (feed.ended, str(feed.error)) == (FAILED, "first")
    assert feed.take(NOW) is None


def test_the_acknowledgement_wakes_who_waits_for_it() -> None:
    feed = Feed(1)
    assert not feed.wait_until_acknowledged(NOW)
    waiting = Background(feed.wait_until_acknowledged, Deadline(PATIENCE))
    feed.acknowledge(Interest(tools=True))
    assert waiting.result() is True
