"""Subscriptions over every channel and in both eras, with a server that keeps the rules."""

from __future__ import annotations

import gc
import logging
import threading
from typing import Any

import pytest
from engine.background import Background, wait_until

from mcp_sync import (
    Client,
    ClientClosed,
    InMemory,
    Limits,
    PromptsChanged,
    ResourcesChanged,
    ResourceUpdated,
    ToolsChanged,
    UsageError,
)
from mcp_sync.subscriptions import Interest
from mcp_sync.testing import FakeServer, NotificationCollector

from .places import LEGACY, MODERN, PATIENCE, PLACES, SOON, URI, Place, make_server

everywhere = pytest.mark.parametrize("place", PLACES, ids=str)
modern = pytest.mark.parametrize("place", MODERN, ids=str)
legacy = pytest.mark.parametrize("place", LEGACY, ids=str)


def change_everything(server: FakeServer) -> None:
    server.tools_changed()
    server.prompts_changed()
    server.resources_changed()
    server.resource_updated("demo://other")
    server.resource_updated(URI)


@everywhere
def test_brings_in_order_what_was_asked_for(place: Place) -> None:
    server = make_server()
    with place.client(server) as client:
        with client.listen(tools=True, prompts=True, resource_list=True, resources=[URI]) as events:
            assert events.honoured == Interest(True, True, True, (URI,))
            change_everything(server)
            change_everything(server)
            got = [events.next(PATIENCE) for _ in range(8)]
        assert got == [ToolsChanged(), PromptsChanged(), ResourcesChanged(), ResourceUpdated(URI)] * 2
        assert (events.ended, events.error) == ("closed", None)


@everywhere
def test_leaves_out_what_was_not_asked_for(place: Place) -> None:
    server = make_server()
    with place.client(server) as client, client.listen(prompts=True, resources=[URI]) as events:
        change_everything(server)
        assert [events.next(PATIENCE) for _ in range(2)] == [PromptsChanged(), ResourceUpdated(URI)]
        assert events.next(0.0) is None


@everywhere
def test_calls_go_on_beside_it(place: Place) -> None:
    server = make_server()
    with place.client(server) as client, client.listen(tools=True) as events:
        server.tools_changed()
        for event in events:
            assert event == ToolsChanged()
            assert client.list_tools().tools == []
            break
        assert events.next(0.0) is None


@everywhere
def test_a_callback_gets_the_events_in_order(place: Place) -> None:
    server = make_server()
    got: list[Any] = []
    done = threading.Event()

    def take(event: Any) -> None:
        got.append((event, client.list_tools().tools, threading.current_thread().name))
        if event == PromptsChanged():
            done.set()

    with place.client(server, name="watcher") as client:
        with client.listen(tools=True, prompts=True, on_event=take) as events:
            for _ in range(150):
                server.tools_changed()
            server.prompts_changed()
            assert done.wait(PATIENCE)
            with pytest.raises(UsageError, match="on_event"):
                next(iter(events))
            with pytest.raises(UsageError, match="on_event"):
                events.next(1)
        assert [event for event, _, _ in got] == [ToolsChanged()] * 150 + [PromptsChanged()]
        assert {name for _, _, name in got} == {"mcp_sync-watcher-callbacks"}


def test_what_a_callback_raises_is_logged_and_stops_nothing(caplog: Any) -> None:
    server = make_server()
    got: list[Any] = []
    done = threading.Event()

    def take(event: Any) -> None:
        got.append(event)
        if len(got) == 2:
            done.set()
        raise SystemExit("oh no")

    with MODERN[0].client(server) as client, client.listen(tools=True, on_event=take):
        server.tools_changed()
        server.tools_changed()
        assert done.wait(PATIENCE)
    assert got == [ToolsChanged()] * 2
    assert "on_event failed" in caplog.text


def test_a_callback_may_end_its_own_subscription() -> None:
    server = make_server()
    done = threading.Event()

    def take(event: Any) -> None:
        events.close()
        done.set()

    with MODERN[0].client(server) as client:
        events = client.listen(tools=True, on_event=take)
        server.wait_for_subscriptions()
        server.tools_changed()
        assert done.wait(PATIENCE)
        server.wait_for_subscriptions(0)


@everywhere
@pytest.mark.parametrize("who", ["subscription", "client"])
def test_closing_ends_the_loop_of_another_thread_without_an_error(place: Place, who: str) -> None:
    server = make_server()
    with place.client(server) as client:
        events = client.listen(tools=True)
        begun = threading.Event()

        def consume() -> list[Any]:
            got = []
            for event in events:
                got.append(event)
                begun.set()
            return got

        loop = Background(consume)
        server.tools_changed()
        assert begun.wait(PATIENCE)
        (events if who == "subscription" else client).close()
        assert loop.result() == [ToolsChanged()]
        assert events.ended == "closed"
        assert list(events) == []
        assert events.next() is None
        events.close()


@modern
def test_the_server_learns_that_it_was_closed(place: Place) -> None:
    server = make_server()
    with place.client(server) as client:
        first, second = client.listen(tools=True), client.listen(prompts=True)
        server.wait_for_subscriptions(2)
        first.close()
        server.wait_for_subscriptions(1)
        server.prompts_changed()
        assert second.next(PATIENCE) == PromptsChanged()
        second.close()
        server.wait_for_subscriptions(0)


@modern
def test_the_end_by_the_server_ends_the_loop_after_what_came_before(place: Place) -> None:
    server = make_server()
    with place.client(server) as client:
        events = client.listen(tools=True)
        server.wait_for_subscriptions()
        server.tools_changed()
        server.end_subscriptions()
        assert list(events) == [ToolsChanged()]
        assert (events.ended, events.error) == ("graceful", None)


@everywhere
def test_what_the_server_lacks_is_not_honoured_and_warned_of(place: Place, caplog: Any) -> None:
    server = FakeServer(capabilities={"tools": {"listChanged": True}})
    wanted: Any = {"tools": True, "prompts": True, "resources": [URI, "demo://b"]}
    with place.client(server) as client, client.listen(**wanted) as events:
        assert events.honoured == Interest(tools=True)
        assert events.asked == Interest(tools=True, prompts=True, resources=(URI, "demo://b"))
        server.tools_changed()
        assert events.next(PATIENCE) == ToolsChanged()
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings == ["The server has not agreed to tell of prompts, 2 of 2 resources"]


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({}, "something to listen for"),
        ({"tools": False, "resources": ()}, "something to listen for"),
        ({"tools": 1}, "tools must be True or False, not int"),
        ({"prompts": "yes"}, "prompts must be True or False, not str"),
        ({"resource_list": None}, "resource_list must be True or False, not NoneType"),
        ({"resources": "demo://a"}, "resources must be a list of URIs, not str"),
        ({"resources": {"demo://a": 1}}, "resources must be a list of URIs, not dict"),
        ({"resources": 7}, "resources must be a list of URIs, not int"),
        ({"resources": [7]}, "a URI must be a string, not int"),
        ({"tools": True, "on_event": 7}, "on_event must be a function, not int"),
        ({"tools": True, "timeout": -1}, "timeout must be a number of seconds"),
        ({"tools": True, "meta": 1}, "meta must be a mapping"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_sent(wanted: Any, words: str) -> None:
    with Client(InMemory(FakeServer())) as client, pytest.raises(UsageError, match=words):
        client.listen(**wanted)


def test_the_time_to_wait_for_an_event_has_to_be_one() -> None:
    with MODERN[0].client(make_server()) as client:
        events = client.listen(tools=True)
        with pytest.raises(UsageError, match="timeout must be a number of seconds"):
            events.next(-1)


def test_each_resource_is_asked_for_once() -> None:
    with MODERN[0].client(make_server()) as client, client.listen(resources=[URI, URI]) as events:
        assert events.asked.resources == events.honoured.resources == (URI,)


def test_a_closed_client_listens_no_more() -> None:
    client = Client(InMemory(make_server()))
    client.close()
    with pytest.raises(ClientClosed):
        client.listen(tools=True)


@everywhere
@pytest.mark.parametrize("number", [1000, pytest.param(10_000, marks=pytest.mark.heavy)])
def test_thousands_of_events_come_in_order_and_none_is_lost(place: Place, number: int) -> None:
    server = make_server()
    limits = Limits(queue_length=number // 100 if place.may_hold_up else number)
    uris = [f"demo://{each % 97}" for each in range(number)]
    with place.client(server, limits=limits) as client, client.listen(resources=uris) as events:
        flood = Background(lambda: [server.resource_updated(uri) for uri in uris])
        got = [events.next(PATIENCE) for _ in uris]
        flood.result(60)
        assert got == [ResourceUpdated(uri) for uri in uris]
        assert events.next(0.0) is None


@everywhere
def test_one_after_the_other_misses_nothing(place: Place) -> None:
    server = make_server()
    with place.client(server) as client:
        for _ in range(5):
            with client.listen(tools=True) as events:
                server.tools_changed()
                assert events.next(PATIENCE) == ToolsChanged()


@everywhere
def test_several_subscriptions_share_a_client(place: Place) -> None:
    server = make_server()
    with place.client(server) as client:
        first = client.listen(tools=True, resources=[URI])
        second = client.listen(prompts=True, resources=[URI])
        change_everything(server)
        assert [first.next(PATIENCE) for _ in range(2)] == [ToolsChanged(), ResourceUpdated(URI)]
        assert [second.next(PATIENCE) for _ in range(2)] == [PromptsChanged(), ResourceUpdated(URI)]
        first.close()
        change_everything(server)
        assert [second.next(PATIENCE) for _ in range(2)] == [PromptsChanged(), ResourceUpdated(URI)]
        second.close()


@everywhere
def test_the_message_handler_hears_of_a_subscribed_resource(place: Place) -> None:
    server = make_server()
    heard = NotificationCollector()
    with place.client(server, message_handler=heard) as client:
        client.subscribe_resource(URI)
        client.subscribe_resource(URI)
        if place.is_modern:
            server.wait_for_subscriptions(1)
        else:
            # The answer may be here before the stream stands that brings what comes unasked.
            with client.listen(tools=True):
                pass
        server.resource_updated(URI)
        heard.wait_for("resources/updated", timeout=PATIENCE)
        client.unsubscribe_resource(URI)
        if place.is_modern:
            server.wait_for_subscriptions(0)
        client.unsubscribe_resource(URI)
    assert [message.params.uri for message in heard.of("resources/updated")] == [URI]


@legacy
def test_a_resource_is_subscribed_to_until_nobody_wants_it(place: Place) -> None:
    server = make_server()
    with place.client(server) as client:
        (connection,) = [each for each in server.connections if each.version]
        first, second = client.listen(resources=[URI]), client.listen(resources=[URI])
        client.subscribe_resource(URI)
        for end in (first.close, lambda: client.unsubscribe_resource(URI)):
            end()
            assert URI in connection.subscribed
        second.close()
        assert URI not in connection.subscribed


def test_a_forgotten_subscription_ends_its_thread() -> None:
    server = make_server()
    with MODERN[0].client(server) as client:
        events = client.listen(tools=True)
        server.wait_for_subscriptions(1)
        del events
        server.wait_for_subscriptions(0)


def forget(client: Client) -> None:
    client.listen(tools=True, on_event=lambda event: client.list_tools())


@pytest.mark.parametrize("place", [MODERN[0], LEGACY[0]], ids=str)
def test_a_forgotten_client_ends_the_subscriptions_that_it_keeps(place: Place) -> None:
    server = make_server()
    with server.serve_http() as endpoint:
        forget(Client(endpoint.url, mode=place.mode, retry=SOON, name="forgotten"))
        gc.collect()
        wait_until(lambda: not any("forgotten" in thread.name for thread in threading.enumerate()))
