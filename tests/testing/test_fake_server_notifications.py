"""What the fake server sends by itself: with a handshake to everybody, without one to subscriptions."""

from __future__ import annotations

import queue
import threading
from typing import Any

from plain_peer import PREFIX, Message, Peer

from mcp_sync._protocol.versions import LATEST_HANDSHAKE, LATEST_MODERN
from mcp_sync.testing import FakeServer

SUBSCRIPTION = f"{PREFIX}subscriptionId"


class Listening:
    """A ``subscriptions/listen`` request in a thread of its own."""

    def __init__(self, server: FakeServer, **wanted: Any) -> None:
        self.peer = Peer(server, LATEST_MODERN)
        self.events: queue.Queue[Message] = queue.Queue()
        self.peer.on_send = self.events.put
        self.message = self.peer.message("subscriptions/listen", notifications=wanted)
        self.answer: Any = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        self.acknowledged = self.next()

    def _run(self) -> None:
        self.answer = self.peer.deliver(self.message)

    def next(self) -> Message:
        return self.events.get(timeout=20)

    def join(self) -> None:
        self._thread.join(20)
        assert not self._thread.is_alive()


def test_a_subscription_is_acknowledged_with_the_filter_that_the_server_honours() -> None:
    server = FakeServer()
    listening = Listening(server, toolsListChanged=True, promptsListChanged=False, nonsense=True)
    server.end_subscriptions()
    listening.join()
    assert listening.acknowledged == {
        "jsonrpc": "2.0",
        "method": "notifications/subscriptions/acknowledged",
        "params": {
            "notifications": {"toolsListChanged": True},
            "_meta": {SUBSCRIPTION: listening.message["id"]},
        },
    }


def test_a_subscription_gets_what_it_asked_for_and_nothing_else() -> None:
    server = FakeServer()
    listening = Listening(server, toolsListChanged=True, resourceSubscriptions=["demo://a"])
    server.prompts_changed()
    server.resources_changed()
    server.resource_updated("demo://b")
    server.resource_updated("demo://a")
    server.tools_changed()
    server.end_subscriptions()
    listening.join()
    first, second = listening.next(), listening.next()
    assert first["params"] == {"uri": "demo://a", "_meta": {SUBSCRIPTION: listening.message["id"]}}
    assert second["method"] == "notifications/tools/list_changed"
    assert listening.events.empty()


def test_the_end_of_a_subscription_is_its_result() -> None:
    server = FakeServer()
    listening = Listening(server)
    server.end_subscriptions()
    listening.join()
    result = listening.answer["result"]
    assert result["resultType"] == "complete"
    assert result["_meta"][SUBSCRIPTION] == listening.message["id"]


def test_a_cancelled_subscription_ends_without_an_answer() -> None:
    server = FakeServer()
    listening = Listening(server, toolsListChanged=True)
    listening.peer.tell("notifications/cancelled", requestId=listening.message["id"])
    listening.join()
    server.tools_changed()
    assert listening.answer is None
    assert listening.events.empty()


def test_a_client_with_a_handshake_gets_lists_always_and_updates_by_subscription() -> None:
    server = FakeServer(resources={"demo://a": "a"})
    server.tools_changed()
    peer = Peer(server, LATEST_HANDSHAKE)
    server.resource_updated("demo://a")
    server.tools_changed()
    assert peer.result("resources/subscribe", uri="demo://a") == {}
    server.resource_updated("demo://a")
    assert peer.result("resources/unsubscribe", uri="demo://a") == {}
    server.resource_updated("demo://a")
    server.notify("notifications/custom", {"x": 1})
    assert [message["method"] for message in peer.sent] == [
        "notifications/tools/list_changed",
        "notifications/resources/updated",
        "notifications/custom",
    ]
