"""What depends on the revision in use: refused versions, pings, log levels, raw messages."""

from __future__ import annotations

import pytest

from mcp_sync import Client, ClientSession, InMemory, types
from mcp_sync._protocol import versions
from mcp_sync.errors import (
    ConnectionLost,
    InvalidResult,
    MethodNotFound,
    NotSupported,
    UnsupportedProtocolVersion,
    UsageError,
)
from mcp_sync.testing import FakeServer

from .background import Background, wait_until
from .scripted import LEGACY, MODERN, DuplexTarget, PostTarget, legacy, modern, refusal, text

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
LEVEL_KEY = "io.modelcontextprotocol/logLevel"


def meta_of(message):
    return message["params"]["_meta"]


# --- a refused revision ----------------------------------------------------------------------------------


@pytest.fixture
def next_revision(monkeypatch):
    """Have the client know one more stateless revision, which it prefers less."""
    name = "2027-01-01"
    monkeypatch.setitem(versions.TRAITS, name, versions.VersionTraits(name, modern=True))
    monkeypatch.setattr("mcp_sync._engine.engine.MODERN_VERSIONS", (MODERN, name))
    return name


def test_a_refused_revision_is_exchanged_once_for_one_that_the_server_lists(next_revision):
    refused = refusal(-32022, "no", {"supported": [next_revision], "requested": MODERN})
    outcomes = iter([refused, text("done"), text("again")])
    target = PostTarget(modern(tools_call=lambda request: next(outcomes)))
    with Client(target) as client:
        assert client.call_tool("x").text == "done"
        assert client.protocol_version == next_revision
        assert target.now.wires[-1].version_header == next_revision
        assert client.call_tool("x").text == "again"
    asked = [meta_of(request)[VERSION_KEY] for request in target.now.received("tools/call")]
    assert asked == [MODERN, next_revision, next_revision]


def test_a_second_refusal_is_raised(next_revision):
    refused = refusal(-32022, "no", {"supported": [next_revision]})
    target = PostTarget(modern(tools_call=lambda request: refused))
    with Client(target) as client, pytest.raises(UnsupportedProtocolVersion):
        client.call_tool("x")
    assert len(target.now.received("tools/call")) == 2


@pytest.mark.parametrize(
    "data", [None, {}, {"supported": "2026-07-28"}, {"supported": []}, {"supported": ["2099-01-01", 7]}, [1]]
)
def test_a_refusal_without_a_revision_that_we_know_is_raised_at_once(data):
    target = PostTarget(modern(tools_call=lambda request: refusal(-32022, "no", data)))
    with Client(target) as client, pytest.raises(UnsupportedProtocolVersion):
        client.call_tool("x")
    assert len(target.now.received("tools/call")) == 1


def test_a_server_that_names_the_very_revision_it_refuses_is_asked_once_more():
    outcomes = iter([refusal(-32022, "no", {"supported": [MODERN]}), text("done")])
    with Client(PostTarget(modern(tools_call=lambda request: next(outcomes)))) as client:
        assert client.call_tool("x").text == "done"


def test_a_handshake_server_that_sends_such_an_error_is_not_asked_again():
    refused = refusal(-32022, "no", {"supported": [MODERN]})
    target = DuplexTarget(legacy(tools_call=lambda request: refused))
    with Client(target) as client, pytest.raises(UnsupportedProtocolVersion):
        client.call_tool("x")
    assert len(target.now.received("tools/call")) == 1


# --- verbs that a revision lacks -------------------------------------------------------------------------


def test_a_ping_is_a_ping_with_a_handshake_and_a_discovery_without():
    target = DuplexTarget(legacy(ping=lambda request: {}))
    with Client(target) as client:
        assert isinstance(client.send_ping(), types.EmptyResult)
        assert target.now.received("ping")
    target = DuplexTarget()
    with Client(target) as client:
        assert isinstance(client.send_ping(), types.EmptyResult)
        assert len(target.now.received("server/discover")) == 2
        assert target.now.received("ping") == []


def test_a_log_level_is_a_request_with_a_handshake():
    target = DuplexTarget({**legacy(), "logging/setLevel": lambda request: {}})
    with Client(target) as client:
        client.set_logging_level("warning")
        assert target.now.received("logging/setLevel")[0]["params"] == {"level": "warning"}


def test_a_log_level_goes_with_every_request_without_a_handshake():
    target = DuplexTarget(modern(tools_call=lambda request: text("done")))
    with Client(target) as client:
        client.call_tool("x")
        client.set_logging_level("warning")
        client.call_tool("x")
        client.call_tool("x", meta={LEVEL_KEY: "debug"})
        levels = [meta_of(request).get(LEVEL_KEY) for request in target.now.received("tools/call")]
        assert levels == [None, "warning", "debug"]
        assert target.now.received("logging/setLevel") == []


def test_a_log_level_of_the_client_is_set_when_it_opens_and_again_when_it_opens_anew():
    target = DuplexTarget({**legacy(), "logging/setLevel": lambda request: {}})
    with Client(target, log_level="error") as client:
        assert target.now.received("logging/setLevel")[0]["params"] == {"level": "error"}
        client.set_logging_level("debug")
        target.now.lose(ConnectionLost("gone"))
        target.now.sync()
        client.open()
        assert target.now.received("logging/setLevel")[0]["params"] == {"level": "debug"}
    assert len(target.channels) == 2


def test_a_log_level_is_not_set_where_the_server_has_no_logging():
    scripts = legacy()
    scripts["initialize"] = lambda request: {
        "protocolVersion": LEGACY,
        "capabilities": {},
        "serverInfo": {"name": "s", "version": "1"},
    }
    target = DuplexTarget(scripts)
    with Client(target, log_level="error"):
        assert target.now.received("logging/setLevel") == []


def test_a_server_that_refuses_the_log_level_is_used_all_the_same(caplog):
    scripts = {**legacy(), "logging/setLevel": lambda request: refusal(-32603)}
    with Client(DuplexTarget(scripts), log_level="error") as client:
        assert client.protocol_version == LEGACY
    assert "logging/setLevel" in caplog.text


def test_someone_who_takes_log_messages_asks_a_stateless_server_for_them():
    target = DuplexTarget(modern(tools_call=lambda request: text("done")))
    with Client(target, logging_callback=lambda params: None) as client:
        client.call_tool("x")
    assert meta_of(target.now.received("tools/call")[0])[LEVEL_KEY] == "info"


def test_log_messages_of_a_call_arrive_on_both_eras():
    def work(context):
        context.log("warning", {"n": 1})
        return "done"

    for which in ("legacy", "modern"):
        seen = []
        with Client(InMemory(FakeServer([work], versions=which)), logging_callback=seen.append) as client:
            client.call_tool("work")
            wait_until(lambda seen=seen: seen)
        assert [(params.level, params.data) for params in seen] == [("warning", {"n": 1})]


@pytest.mark.parametrize(
    "use",
    [
        lambda client: client.send_progress_notification("t", 1),
        lambda client: client.send_roots_list_changed(),
        lambda client: client.request("ping"),
        lambda client: client.request("resources/subscribe", {"uri": "demo://1"}),
        lambda client: client.request("logging/setLevel", {"level": "info"}),
    ],
)
def test_what_cannot_be_mapped_is_refused_by_name_and_not_sent(use):
    target = DuplexTarget()
    with Client(target) as client:
        sent = len(target.now.sent)
        with pytest.raises(NotSupported) as caught:
            use(client)
        assert caught.value.method
        assert caught.value.version == MODERN
        assert len(target.now.sent) == sent


def test_discovery_is_refused_where_there_is_none():
    with Client(DuplexTarget(legacy())) as client, pytest.raises(NotSupported, match="server/discover"):
        client.request("server/discover")


# --- raw messages ----------------------------------------------------------------------------------------


def test_any_request_can_be_sent_and_its_result_had_as_it_came_or_as_a_model():
    result = {"content": [], "extra": {"a": 1}, "_meta": {"m": 2}}
    for scripts in (modern(), legacy()):
        target = DuplexTarget({**scripts, "acme/do": lambda request: result})
        with Client(target) as client:
            assert client.request("acme/do", {"x": 1}, meta={"trace": "t"}) == result
            assert client.request("acme/do", result_type=types.CallToolResult).content == []
            sent = target.now.received("acme/do")
            assert sent[0]["params"]["x"] == 1
            assert meta_of(sent[0])["trace"] == "t"


def test_a_request_that_the_server_does_not_know_raises_its_error():
    target = DuplexTarget({**modern(), "acme/do": lambda request: refusal(-32601, "no such method", [1])})
    with Client(target) as client, pytest.raises(MethodNotFound) as caught:
        client.request("acme/do")
    assert caught.value.data == [1]


def test_a_result_that_does_not_fit_its_model_is_an_error_that_keeps_it():
    target = DuplexTarget({**modern(), "acme/do": lambda request: {"tools": 7}})
    with Client(target) as client, pytest.raises(InvalidResult, match="tools") as caught:
        client.request("acme/do", result_type=types.ListToolsResult)
    assert caught.value.result == {"tools": 7}


@pytest.mark.parametrize("scripts", [modern(), legacy()], ids=["modern", "legacy"])
def test_any_notification_can_be_sent(scripts):
    target = DuplexTarget(scripts)
    with Client(target) as client:
        client.notify("acme/note", {"a": 1})
        client.notify("acme/bare")
        assert target.now.expect("acme/note")["params"]["a"] == 1
        assert "id" not in target.now.expect("acme/bare")


@pytest.mark.parametrize(
    "arguments", [{"a": float("nan")}, {"a": object}, {"a": "\ud800"}, {1.5: {(1,): 1}}], ids=repr
)
def test_what_json_cannot_hold_is_refused_by_its_path_and_harms_nothing(arguments):
    target = DuplexTarget(modern(tools_call=lambda request: text("done")))
    with Client(target) as client:
        with pytest.raises(UsageError):
            client.call_tool("x", arguments)
        with pytest.raises(UsageError):
            client.notify("acme/note", arguments)
        assert client.call_tool("x").text == "done"
        assert not client._engine._connection.calls


# --- what is known of the server -------------------------------------------------------------------------


def test_what_a_handshake_server_tells_of_itself():
    server = FakeServer([print], versions="legacy", instructions="be kind")
    with Client(InMemory(server)) as client:
        assert client.server_info.name == "fake-server"
        assert client.server_capabilities.tools is not None
        assert client.instructions == "be kind"
        assert client.protocol_version == LEGACY
        assert client.session_id is None


def test_what_a_stateless_server_tells_of_itself():
    server = FakeServer([print], versions="modern", instructions="be kind")
    with Client(InMemory(server)) as client:
        assert client.server_info.name == "fake-server"
        assert client.server_capabilities.tools is not None
        assert client.instructions == "be kind"
        assert client.protocol_version == MODERN


def test_a_server_that_was_not_asked_introduces_itself_by_its_first_result():
    with Client(InMemory(FakeServer([print])), mode=MODERN) as client:
        assert client.server_info is None
        assert client.server_capabilities.tools is None
        client.list_tools()
        assert client.server_info.name == "fake-server"


def test_rubbish_about_the_server_harms_nothing():
    result = {"supportedVersions": [MODERN], "capabilities": [], "instructions": 7, "_meta": []}
    with Client(DuplexTarget({"server/discover": lambda request: result})) as client:
        assert client.protocol_version == MODERN
        assert client.instructions is None
        assert client.server_info is None


def test_a_resource_is_subscribed_to_with_a_handshake():
    seen = []
    server = FakeServer(resources={"demo://1": "x"}, versions="legacy")
    with Client(InMemory(server), message_handler=seen.append) as client:
        client.subscribe_resource("demo://1")
        server.resource_updated("demo://1")
        server.resource_updated("demo://2")
        wait_until(lambda: seen)
        client.unsubscribe_resource("demo://1")
        server.resource_updated("demo://1")
        client._engine.router.worker.drain(client._deadline(5), 5)
    assert [message.params.uri for message in seen] == ["demo://1"]


def test_a_session_on_the_stateless_revision_needs_no_handshake():
    with ClientSession(InMemory(FakeServer([print]))) as session:
        assert session.discover().supported_versions == [MODERN]
        assert session.protocol_version == MODERN
        call = Background(session.list_tools)
        assert [tool.name for tool in call.result().tools] == ["print"]
