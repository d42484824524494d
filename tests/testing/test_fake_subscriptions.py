"""``subscriptions/listen`` of the fake server on every channel, and its misbehaviour, in plain messages."""

from __future__ import annotations

import queue
import threading
from typing import Any

import pytest
import requests
from plain_peer import PREFIX, Message, Peer, modern_meta, validate
from test_fake_http import Wire, events
from test_fake_shared_channels import SocketWire, connect, connected
from test_fake_stdio import Pipes

from mcp_sync._protocol.versions import LATEST_MODERN
from mcp_sync.testing import FakeServer, Fault, FaultPlan, Listening

SUBSCRIPTION = f"{PREFIX}subscriptionId"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
TOOLS_CHANGED = "notifications/tools/list_changed"


class Heard:
    """A subscription in memory, in a thread of its own, and what comes of it."""

    def __init__(self, server: FakeServer, **wanted: Any) -> None:
        self.peer = Peer(server, LATEST_MODERN)
        self.events: queue.Queue[Message] = queue.Queue()
        self.peer.on_send = self.events.put
        self.message = self.peer.message("subscriptions/listen", notifications=wanted)
        self.answer: Any = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        self.answer = self.peer.deliver(self.message)

    def methods(self) -> list[str]:
        """Wait for the end, and return the methods of all that came."""
        self._thread.join(20)
        assert not self._thread.is_alive()
        return [str(message["method"]) for message in self.peer.sent]


# --- misbehaviour ----------------------------------------------------------------------------------------


def test_a_subscription_may_never_be_acknowledged() -> None:
    server = FakeServer()
    server.listen_with(Listening(acknowledges=False))
    heard = Heard(server, toolsListChanged=True)
    server.wait_for_subscriptions()
    server.tools_changed()
    server.end_subscriptions()
    assert heard.methods() == [TOOLS_CHANGED]


def test_a_subscription_may_be_acknowledged_in_part() -> None:
    server = FakeServer()
    server.listen_with(Listening(honours=["promptsListChanged"]))
    heard = Heard(server, toolsListChanged=True, promptsListChanged=True)
    server.wait_for_subscriptions()
    server.tools_changed()
    server.end_subscriptions()
    assert heard.methods() == [ACKNOWLEDGED]
    assert heard.peer.sent[0]["params"]["notifications"] == {"promptsListChanged": True}


def test_what_the_server_does_not_declare_is_not_honoured() -> None:
    server = FakeServer(capabilities={"tools": {}, "resources": {"subscribe": True}})
    heard = Heard(server, toolsListChanged=True, resourceSubscriptions=["demo://x"])
    server.wait_for_subscriptions()
    server.end_subscriptions()
    heard.methods()
    assert heard.peer.sent[0]["params"]["notifications"] == {"resourceSubscriptions": ["demo://x"]}


def test_events_may_come_ahead_of_the_acknowledgement() -> None:
    server = FakeServer()
    server.listen_with(Listening(early=[(TOOLS_CHANGED, {})], ends_after=0))
    heard = Heard(server, toolsListChanged=True)
    assert heard.methods() == [TOOLS_CHANGED, ACKNOWLEDGED]
    assert heard.peer.sent[0]["params"]["_meta"][SUBSCRIPTION] == heard.message["id"]


def test_a_flood_ends_after_so_many_events() -> None:
    server = FakeServer()
    server.listen_with(Listening(flood=10_000, ends_after=15_000))
    heard = Heard(server, toolsListChanged=True, resourceSubscriptions=["demo://x"])
    methods = heard.methods()
    assert methods[:3] == [ACKNOWLEDGED, TOOLS_CHANGED, "notifications/resources/updated"]
    assert len(methods) == 15_001
    assert heard.answer["result"]["resultType"] == "complete"


def test_each_subscription_has_its_plan_and_the_last_goes_on() -> None:
    server = FakeServer()
    server.listen_with(Listening(ends_after=0, graceful=False), Listening(ends_after=0))
    first = Heard(server)
    assert (first.methods(), first.answer) == ([ACKNOWLEDGED], None)
    second, third = Heard(server), Heard(server)
    assert (second.methods(), third.methods()) == ([ACKNOWLEDGED], [ACKNOWLEDGED])
    assert "result" in second.answer
    assert "result" in third.answer


def test_events_may_carry_the_id_of_another_subscription() -> None:
    server = FakeServer()
    server.listen_with(Listening(subscription_id="other", ends_after=0))
    heard = Heard(server)
    heard.methods()
    assert heard.peer.sent[0]["params"]["_meta"] == {SUBSCRIPTION: "other"}


def test_waiting_for_subscriptions_is_bounded() -> None:
    with pytest.raises(TimeoutError, match="0 subscriptions are open, not 1"):
        FakeServer().wait_for_subscriptions(timeout=0.01)


# --- channels --------------------------------------------------------------------------------------------


def test_a_subscription_over_http_is_an_event_stream(session: requests.Session) -> None:
    server = FakeServer(resources={"demo://x": "x"})
    with server.serve_http() as endpoint:
        wanted = {"toolsListChanged": True, "resourceSubscriptions": ["demo://x"]}
        with Wire(endpoint, session).modern("subscriptions/listen", notifications=wanted) as response:
            stream = (message for _, message in events(response))
            acknowledged = next(stream)
            server.resource_updated("demo://x")
            server.tools_changed()
            server.end_subscriptions()
            rest = list(stream)
    assert response.headers["Content-Type"] == "text/event-stream"
    assert acknowledged["params"]["notifications"] == wanted
    validate(LATEST_MODERN, "SubscriptionsAcknowledgedNotification", acknowledged)
    validate(LATEST_MODERN, "ResourceUpdatedNotification", rest[0])
    validate(LATEST_MODERN, "ToolListChangedNotification", rest[1])
    validate(LATEST_MODERN, "SubscriptionsListenResult", rest[2]["result"])
    assert [message["params"]["_meta"][SUBSCRIPTION] for message in rest[:2]] == [1, 1]
    assert rest[2]["id"] == 1
    assert len(rest) == 3


def test_a_dropped_subscription_ends_its_stream_without_a_result(session: requests.Session) -> None:
    server = FakeServer()
    with server.serve_http() as endpoint:
        with Wire(endpoint, session).modern("subscriptions/listen", notifications={}) as response:
            stream = (message for _, message in events(response))
            assert next(stream)["method"] == ACKNOWLEDGED
            server.drop_subscriptions()
            assert list(stream) == []
        server.wait_for_subscriptions(0)


def test_a_fault_breaks_the_stream_of_a_subscription(session: requests.Session) -> None:
    server = FakeServer()
    plan = FaultPlan({"subscriptions/listen": [Fault.reset("result")]})
    with server.serve_http(faults=plan) as endpoint:
        response = Wire(endpoint, session).modern("subscriptions/listen", notifications={})
        stream = events(response)
        next(stream)
        server.end_subscriptions()
        with response, pytest.raises(requests.RequestException):
            next(stream)


def test_a_client_that_hangs_up_ends_its_subscription(session: requests.Session) -> None:
    server = FakeServer()
    with server.serve_http() as endpoint:
        response = Wire(endpoint, session).modern("subscriptions/listen", notifications={})
        server.wait_for_subscriptions()
        response.close()
        server.wait_for_subscriptions(0)


def listen(number: int, **wanted: Any) -> Message:
    params = {"notifications": wanted, "_meta": modern_meta()}
    return {"jsonrpc": "2.0", "id": number, "method": "subscriptions/listen", "params": params}


def test_subscriptions_on_one_websocket_are_told_apart_by_their_ids(session: requests.Session) -> None:
    server = FakeServer()
    with connected("websocket", server, session) as wire:
        wire.send(listen(7, toolsListChanged=True))
        wire.send(listen(8, promptsListChanged=True))
        acknowledged = [wire.read(), wire.read()]
        server.tools_changed()
        changed = wire.read()
        wire.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})
        server.wait_for_subscriptions(1)
        server.tools_changed()
        server.end_subscriptions()
        last = wire.read()
    assert sorted(message["params"]["_meta"][SUBSCRIPTION] for message in acknowledged) == [7, 8]
    assert (changed["method"], changed["params"]["_meta"][SUBSCRIPTION]) == (TOOLS_CHANGED, 7)
    assert (last["id"], last["result"]["_meta"][SUBSCRIPTION]) == (8, 8)


def test_a_broken_websocket_ends_its_subscriptions(session: requests.Session) -> None:
    server = FakeServer()
    with server.serve_websocket() as endpoint:
        opened = SocketWire(connect(endpoint))
        opened.send(listen(1))
        assert opened.read()["method"] == ACKNOWLEDGED
        endpoint.drop_connections()
        server.wait_for_subscriptions(0)
        opened.socket.shutdown()


def test_a_subscription_on_standard_streams_goes_beside_other_requests() -> None:
    server = FakeServer(tools=[lambda: "x"])
    pipes = Pipes(server)
    try:
        pipes.send("subscriptions/listen", 1, notifications={"toolsListChanged": True})
        assert pipes.read()["method"] == ACKNOWLEDGED
        pipes.send("tools/list", 2)
        assert pipes.read()["id"] == 2
        server.tools_changed()
        assert pipes.read()["params"]["_meta"] == {SUBSCRIPTION: 1}
    finally:
        pipes.close()
    assert server.subscriptions.open == []
