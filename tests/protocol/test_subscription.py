"""What a subscription is about, and what notifications mean to it."""

from __future__ import annotations

import pickle

import pytest

from mcp_sync._protocol.subscription import (
    Interest,
    PromptsChanged,
    ResourcesChanged,
    ResourceUpdated,
    Resync,
    ToolsChanged,
)

EVERYTHING = Interest(True, True, True, ("demo://a", "http://host"))


def told(method, **params):
    return {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params}


def acknowledgement(**granted):
    return told("subscriptions/acknowledged", notifications=granted)


def test_the_filter_names_only_what_is_wanted():
    assert Interest(tools=True).as_filter() == {"toolsListChanged": True}
    assert EVERYTHING.as_filter() == {
        "toolsListChanged": True,
        "promptsListChanged": True,
        "resourcesListChanged": True,
        "resourceSubscriptions": ["demo://a", "http://host"],
    }


def test_an_acknowledgement_grants_at_most_what_was_asked_for():
    everything = {
        "toolsListChanged": True,
        "promptsListChanged": True,
        "resourcesListChanged": True,
        "resourceSubscriptions": ["demo://a", "http://host/", "demo://more", 7],
    }
    assert EVERYTHING.acknowledged(acknowledgement(**everything)) == EVERYTHING
    assert Interest(tools=True).acknowledged(acknowledgement(**everything)) == Interest(tools=True)
    assert EVERYTHING.acknowledged(acknowledgement()) == Interest()
    assert EVERYTHING.acknowledged({"method": "x"}) == Interest()


def test_a_server_with_a_handshake_offers_what_its_capabilities_say():
    offers = {
        "tools": {"listChanged": True},
        "prompts": {},
        "resources": {"subscribe": True, "listChanged": 1},
    }
    assert EVERYTHING.offered(offers) == Interest(True, False, False, EVERYTHING.resources)
    assert EVERYTHING.offered({"tools": True, "resources": None}) == Interest()
    assert EVERYTHING.offered(None) == EVERYTHING


@pytest.mark.parametrize(
    ("message", "event"),
    [
        (told("tools/list_changed"), ToolsChanged()),
        (told("prompts/list_changed"), PromptsChanged()),
        (told("resources/list_changed"), ResourcesChanged()),
        (told("resources/updated", uri="demo://a"), ResourceUpdated("demo://a")),
        (told("resources/updated", uri="demo://a/b?c"), ResourceUpdated("demo://a/b?c")),
        (told("resources/updated", uri="demo://a#part"), ResourceUpdated("demo://a#part")),
        (told("resources/updated", uri="http://host/"), ResourceUpdated("http://host/")),
        (told("resources/updated", uri="demo://ab"), None),
        (told("resources/updated", uri="demo:/"), None),
        (told("resources/updated", uri=None), None),
        (told("resources/updated"), None),
        (told("message", level="info"), None),
        ({"method": ["x"]}, None),
        ({"method": "notifications/resources/updated", "params": [1]}, None),
    ],
)
def test_a_notification_to_everybody_means_something_or_nothing(message, event):
    assert EVERYTHING.event(message, shared=True) == event
    assert Interest().event(message, shared=True) is None


def test_the_server_of_an_own_stream_knows_which_resources_belong_to_it():
    message = told("resources/updated", uri="other://x")
    assert EVERYTHING.event(message, shared=False) == ResourceUpdated("other://x")
    assert Interest(tools=True).event(message, shared=False) is None


def test_a_resource_with_a_million_parts_is_no_trouble():
    message = told("resources/updated", uri="demo://b" + "/" * 1_000_000)
    assert EVERYTHING.event(message, shared=True) is None


def test_what_is_lacking_is_named_without_the_resources():
    assert EVERYTHING.lacking(EVERYTHING) == []
    assert EVERYTHING.lacking(Interest(prompts=True, resources=("demo://a",))) == [
        "tools",
        "the list of resources",
        "1 of 2 resources",
    ]


def test_events_are_values():
    events = [ToolsChanged(), PromptsChanged(), ResourcesChanged(), ResourceUpdated("demo://a"), Resync()]
    assert len(set(events)) == 5
    assert pickle.loads(pickle.dumps(events)) == events
    assert ResourceUpdated("demo://a") == ResourceUpdated("demo://a") != ResourceUpdated("demo://b")
