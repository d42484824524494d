"""The collector keeps what a server sends unasked, and waits for it."""

from __future__ import annotations

import threading

import pytest

from mcp_sync import Client, InMemory, types
from mcp_sync.testing import FakeServer, NotificationCollector, ToolContext


def talk(context: ToolContext, words: str) -> str:
    """Log each word."""
    for word in words.split():
        context.log("info", word)
    return "done"


def test_it_keeps_what_came_by_method_class_and_function(version):
    seen = NotificationCollector()
    fake = FakeServer(tools=[talk])
    with Client(InMemory(fake), mode=version, message_handler=seen, log_level="debug") as client:
        client.call_tool("talk", {"words": "one two three"})
        last = seen.wait_for("message", count=3)
    assert last.params.data == "three"
    for kind in ("message", "notifications/message", types.LoggingMessageNotification):
        assert [each.params.data for each in seen.of(kind)] == ["one", "two", "three"]
    assert len(seen.of(lambda each: each.params.data == "two")) == 1
    assert seen.of("progress") == []


def test_waiting_ends_when_it_comes_from_another_thread():
    seen = NotificationCollector()
    waiting = threading.Thread(target=lambda: got.append(seen.wait_for(int, count=2)))
    got: list[int] = []
    waiting.start()
    seen("no number")
    seen(1)
    seen(2)
    waiting.join()
    assert got == [2]


def test_waiting_in_vain_says_what_came_instead():
    seen = NotificationCollector()
    seen(ValueError("a fault"))
    with pytest.raises(TimeoutError, match=r"0 of 1 messages of kind 'message' .* came: 1 of ValueError"):
        seen.wait_for("message", timeout=0)


def test_a_function_may_use_the_collector_and_is_not_called_under_its_lock():
    seen = NotificationCollector()
    seen(1)
    assert seen.wait_for(lambda each: len(seen) == 1 and seen.messages == [each]) == 1


def test_it_is_bounded_and_counts_what_it_dropped():
    seen = NotificationCollector(limit=2)
    for number in range(5):
        seen(number)
    assert list(seen) == [3, 4]
    assert seen.dropped == 3
    seen.clear()
    assert len(seen) == 0


@pytest.mark.parametrize("kind", [5, None])
def test_what_is_no_kind_is_refused(kind):
    with pytest.raises(TypeError, match="a kind is"):
        NotificationCollector().of(kind)


def test_a_limit_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least 1"):
        NotificationCollector(limit=0)
