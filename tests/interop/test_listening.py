"""Subscriptions to servers on the official Python SDKs and fastmcp, over every transport and in both eras."""

from __future__ import annotations

import pytest

from mcp_sync import (
    ConnectionLost,
    MethodNotFound,
    PromptsChanged,
    ResourceUpdated,
    Resync,
    Retry,
    ToolsChanged,
    types,
)

from .harness import WAIT, Harness
from .test_python_sdks import among, text

pytestmark = pytest.mark.interop
NOTE = "note://hello"
SOON = Retry(backoff=0.05)

listening = among("sdk1", "sdk2", listens=True)


@listening
def test_hears_of_everything_that_changes_in_order(harness: Harness) -> None:
    with harness.another_client() as client:
        events = client.listen(tools=True, prompts=True, resources=[NOTE])
        for _ in range(3):
            assert text(client.call_tool("touch", {"uri": NOTE})) == "touched"
            assert text(client.call_tool("relist")) == "told"
            got = [events.next(WAIT) for _ in range(3)]
            assert got == [ResourceUpdated(NOTE), ToolsChanged(), PromptsChanged()]


@among("fastmcp4", modern=False)
def test_hears_of_changed_lists(harness: Harness) -> None:
    with harness.another_client() as client:
        events = client.listen(tools=True, prompts=True)
        assert events.honoured.tools
        assert events.honoured.prompts
        assert text(client.call_tool("relist")) == "told"
        assert [events.next(WAIT) for _ in range(2)] == [ToolsChanged(), PromptsChanged()]


@among("fastmcp4", modern=True)
def test_a_server_without_subscriptions_says_so(harness: Harness) -> None:
    with harness.another_client() as client, pytest.raises(MethodNotFound):
        client.listen(tools=True)


@among("sdk2", modern=True)
def test_the_server_honours_all_that_is_asked_for(harness: Harness) -> None:
    with harness.another_client() as client:
        events = client.listen(tools=True, prompts=True, resource_list=True, resources=[NOTE])
        assert events.honoured == events.asked


@listening
def test_ten_thousand_events_arrive(harness: Harness) -> None:
    with harness.another_client() as client:
        events = client.listen(resources=[NOTE])
        for _ in range(20):
            # The official SDK 2.x ends a subscription of which more than 1024 events wait.
            assert text(client.call_tool("flood", {"uri": NOTE, "count": 500})) == "told"
            assert [events.next(WAIT) for _ in range(500)] == [ResourceUpdated(NOTE)] * 500
        assert events.next(0.0) is None
        assert events.ended is None


@listening
def test_several_subscriptions_live_side_by_side(harness: Harness) -> None:
    with harness.another_client() as client:
        first, second = client.listen(resources=[NOTE]), client.listen(resources=[NOTE])
        client.call_tool("touch", {"uri": NOTE})
        assert first.next(WAIT) == second.next(WAIT) == ResourceUpdated(NOTE)
        first.close()
        client.call_tool("touch", {"uri": NOTE})
        assert second.next(WAIT) == ResourceUpdated(NOTE)
        assert first.ended == "closed"


@among("sdk1", "sdk2", listens=True, transport="stdio")
def test_a_server_that_crashed_is_started_again_and_listened_to(harness: Harness) -> None:
    with harness.another_client(retry=SOON) as client:
        events = client.listen(resources=[NOTE])
        with pytest.raises(ConnectionLost):
            client.call_tool("crash")
        assert events.next(WAIT) == Resync()
        client.call_tool("touch", {"uri": NOTE})
        assert events.next(WAIT) == ResourceUpdated(NOTE)


@among("sdk2", modern=True)
def test_the_message_handler_hears_of_a_subscribed_resource(harness: Harness) -> None:
    client = harness.client
    client.subscribe_resource(NOTE)
    client.call_tool("touch", {"uri": NOTE})
    assert str(harness.next_message(types.ResourceUpdatedNotification).params.uri) == NOTE
    client.unsubscribe_resource(NOTE)
