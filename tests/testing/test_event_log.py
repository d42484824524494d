"""Event streams that can be followed and taken up again."""

from __future__ import annotations

import threading

from mcp_sync.testing._event_log import EventLog


def message(number: int) -> dict[str, int]:
    return {"n": number}


def filled(count: int) -> EventLog:
    log = EventLog("s")
    for number in range(1, count + 1):
        assert log.append(message(number)) == f"s_{number}"
    return log


def test_a_follower_gets_everything_with_ids_until_the_end() -> None:
    log = filled(2)
    log.finish()
    assert list(log.follow()) == [("s_1", message(1)), ("s_2", message(2))]


def test_a_follower_waits_for_what_comes() -> None:
    log = EventLog("s")
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.extend(log.follow()))
    thread.start()
    log.append(message(1))
    log.finish()
    thread.join(20)
    assert found == [("s_1", message(1))]


def test_the_next_follower_goes_on_where_the_last_one_was() -> None:
    log = filled(3)
    first = log.follow()
    assert next(iter(first)) == ("s_1", message(1))
    first.release()
    assert list(first) == []
    log.finish()
    assert [event_id for event_id, _ in log.follow()] == ["s_2", "s_3"]


def test_a_follower_can_begin_anywhere() -> None:
    log = filled(3)
    log.finish()
    assert [event_id for event_id, _ in log.follow(2)] == ["s_3"]
    assert [event_id for event_id, _ in log.follow(0)] == ["s_1", "s_2", "s_3"]
    assert list(log.follow(9)) == []


def test_a_new_follower_ends_the_one_before_and_outlives_its_release() -> None:
    log = filled(1)
    old = log.follow()
    new = log.follow()
    assert list(old) == []
    old.release()
    assert next(iter(new)) == ("s_1", message(1))
