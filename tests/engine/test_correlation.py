"""Which answer belongs to which call, whatever servers do to ids and responses."""

from __future__ import annotations

import logging

import pytest

from mcp_sync import Client
from mcp_sync.errors import (
    CallTimeout,
    InvalidMessage,
    InvalidResult,
    MethodNotFound,
    ProtocolError,
    RemoteError,
)
from mcp_sync.testing import NotificationCollector

from .background import Background, wait_until
from .scripted import DuplexTarget, PostTarget, modern, text

RESULT = text("done")


@pytest.fixture
def target():
    return DuplexTarget()


@pytest.fixture
def client(target):
    with Client(target) as client:
        yield client


@pytest.fixture
def channel(client, target):
    return target.now


def call(client, name="x"):
    return Background(client.call_tool, name)


def test_answers_find_their_calls_in_any_order(client, channel):
    calls = {str(n): call(client, str(n)) for n in range(5)}
    requests = channel.expect("tools/call", 5)
    for request in reversed(requests):
        channel.answer(request, text(request["params"]["name"]))
    assert {name: each.result().text for name, each in calls.items()} == {str(n): str(n) for n in range(5)}


@pytest.mark.parametrize("change", [str, float], ids=["string", "float"])
def test_an_id_that_came_back_as_another_type_is_matched_with_one_warning(client, channel, change, caplog):
    with caplog.at_level(logging.WARNING):
        for count in (1, 2):
            waiting = call(client)
            request = channel.expect("tools/call", count)
            request = request if count == 1 else request[-1]
            channel.say({"jsonrpc": "2.0", "id": change(request["id"]), "result": RESULT})
            assert waiting.result().text == "done"
    assert len([record for record in caplog.records if "another type" in record.getMessage()]) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda number: f"0{number}",
        lambda number: f" {number}",
        lambda number: f"{number}.0",
        lambda number: number + 0.5,
        lambda number: number + 1000,
        lambda number: True,
        lambda number: None,
        lambda number: [number],
        lambda number: {"id": number},
        lambda number: "x" * 10_000,
        lambda number: -number,
        lambda number: 1e308,
    ],
)
def test_an_id_that_is_none_of_ours_is_dropped_and_harms_nothing(client, channel, change):
    waiting = call(client)
    request = channel.expect("tools/call")
    channel.say({"jsonrpc": "2.0", "id": change(request["id"]), "result": text("wrong")})
    channel.sync()
    assert waiting.running
    channel.answer(request, RESULT)
    assert waiting.result().text == "done"


def test_true_is_not_the_answer_to_request_one():
    target = DuplexTarget({})
    opening = Background(Client(target).open)
    wait_until(lambda: target.channels)
    probe = target.now.expect("server/discover")
    assert probe["id"] == 1
    target.now.say({"jsonrpc": "2.0", "id": True, "result": {"supportedVersions": ["2099-01-01"]}})
    target.now.answer(probe, {"supportedVersions": ["2026-07-28"]})
    client = opening.result()
    assert client.protocol_version == "2026-07-28"
    client.close()


def test_an_unreadable_answer_names_the_method_and_the_server(client, channel):
    waiting = call(client)
    channel.say({"jsonrpc": "2.0", "id": channel.expect("tools/call")["id"]})
    assert str(waiting.error()).startswith("tools/call: scripted server: the response has neither")


def test_a_timeout_tells_of_what_came_and_fits_no_call(target):
    with Client(target) as client:
        target.now.say("before the call")
        target.now.sync()
        waiting = Background(client.call_tool, "x", timeout=None)
        request = target.now.expect("tools/call")
        for odd in (9999, True):
            target.now.say({"jsonrpc": "2.0", "id": odd, "result": text("secret")})
        target.now.say({"id": str(request["id"]) + "0" * 90, "error": {"code": 1, "message": "secret"}})
        target.now.say("junk" * 99)
        target.now.sync()
        call = client._engine._connection.calls[request["id"]]
        error = client._engine._connection.timeout_error(call)
        call.fail(error)
        assert waiting.error() is error
    words = str(error)
    assert "it sent what fits no call: an answer with the id True, an answer with the id '" in words
    assert "9999" not in words  # Only the last few are kept.
    assert "secret" not in words
    assert "before the call" not in words
    assert len(words) < 400


def test_a_timeout_is_not_blamed_on_what_came_before_the_call(client, channel):
    channel.say({"jsonrpc": "2.0", "id": 9999, "result": RESULT})
    channel.sync()
    with pytest.raises(CallTimeout) as caught:
        client.call_tool("x", timeout=0)
    assert "9999" not in str(caught.value)


def test_a_refusal_names_the_method_and_the_server(client, channel):
    waiting = call(client)
    request = channel.expect("tools/call")
    channel.say({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32000, "message": "go away"}})
    error = waiting.error()
    assert str(error) == "tools/call: scripted server answered: go away (-32000)"
    assert (error.message, error.code) == ("go away", -32000)


def test_a_second_answer_to_the_same_call_is_dropped(client, channel):
    waiting = call(client)
    request = channel.expect("tools/call")
    channel.answer(request, text("first"))
    channel.answer(request, text("second"))
    channel.sync()
    assert waiting.result().text == "first"
    assert not client._engine._connection.calls


def test_an_answer_that_nobody_waits_for_is_dropped_quietly(client, channel, caplog):
    with caplog.at_level(logging.INFO):
        channel.say({"jsonrpc": "2.0", "id": 4711, "result": RESULT})
        channel.sync()
    assert not caplog.records
    waiting = call(client)
    channel.answer(channel.expect("tools/call"), RESULT)
    assert waiting.result().text == "done"


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({}, InvalidMessage),
        ({"result": None}, InvalidMessage),
        ({"error": None}, InvalidMessage),
        ({"result": None, "error": None}, InvalidMessage),
        ({"error": "bad"}, InvalidMessage),
        ({"error": {}}, InvalidMessage),
        ({"error": {"message": "no code"}}, InvalidMessage),
        ({"error": {"code": True, "message": "x"}}, InvalidMessage),
        ({"result": []}, InvalidResult),
        ({"result": "done"}, InvalidResult),
        ({"result": {"content": 3}}, InvalidResult),
        ({"result": {}}, InvalidResult),
    ],
    ids=repr,
)
def test_an_answer_that_is_none_fails_its_call_at_once_and_no_other(client, channel, members, problem):
    bad, good = call(client, "bad"), call(client, "good")
    for request in channel.expect("tools/call", 2):
        if request["params"]["name"] == "bad":
            channel.say({"jsonrpc": "2.0", "id": request["id"], **members})
        else:
            later = request
    with pytest.raises(problem, match="tools/call"):
        bad.result()
    channel.answer(later, RESULT)
    assert good.result().text == "done"


@pytest.mark.parametrize(
    "members",
    [{"result": RESULT, "error": None}, {"result": RESULT, "extra": 1}],
    ids=["null error", "extra member"],
)
def test_an_answer_with_odd_members_beside_a_result_is_taken(client, channel, members):
    waiting = call(client)
    request = channel.expect("tools/call")
    channel.say({"id": request["id"], **members})
    assert waiting.result().text == "done"


def test_an_answer_with_a_result_and_an_error_is_an_error(client, channel):
    waiting = call(client)
    request = channel.expect("tools/call")
    fault = {"code": -32601, "message": "no such method", "data": {"why": 1}}
    channel.say({"jsonrpc": "2.0", "id": request["id"], "result": RESULT, "error": fault})
    with pytest.raises(MethodNotFound) as caught:
        waiting.result()
    assert (caught.value.code, caught.value.message, caught.value.data) == (
        -32601,
        "no such method",
        {"why": 1},
    )


@pytest.mark.parametrize("code", ["-32000", -32000.0])
def test_an_error_code_of_another_type_is_read(client, channel, code):
    waiting = call(client)
    request = channel.expect("tools/call")
    channel.say({"id": request["id"], "error": {"code": code, "message": None}})
    with pytest.raises(RemoteError) as caught:
        waiting.result()
    assert caught.value.code == -32000


def test_an_error_for_what_is_no_request_fails_no_call():
    """A server may answer a notification, although it must not; it has read it, so it is no call of ours."""
    seen = NotificationCollector()
    target = DuplexTarget()
    with Client(target, message_handler=seen) as client:
        call = Background(client.call_tool, "x")
        request = target.now.expect("tools/call")
        target.now.say({"jsonrpc": "2.0", "id": None, "error": {"code": -32601, "message": "no such thing"}})
        target.now.answer(request, text("done"))
        assert call.result().text == "done"
        seen.wait_for(ProtocolError)


def test_an_error_without_id_on_a_stream_of_its_own_concerns_no_post():
    target = PostTarget(modern(tools_call=lambda request: [deliver, text("done")]))

    def deliver():
        target.now.inbound.receive({"id": None, "error": {"code": -32600, "message": "no"}})

    with Client(target) as client:
        assert client.call_tool("x").text == "done"


def test_an_error_without_an_id_belongs_to_the_only_call_in_flight(client, channel):
    waiting = call(client)
    channel.expect("tools/call")
    channel.say({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "cannot read"}})
    with pytest.raises(RemoteError, match="cannot read"):
        waiting.result()


def test_an_error_without_an_id_fails_nobody_when_several_calls_are_in_flight(client, channel):
    calls = [call(client), call(client)]
    requests = channel.expect("tools/call", 2)
    channel.say({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "cannot read"}})
    channel.sync()
    assert all(each.running for each in calls)
    for request in requests:
        channel.answer(request, RESULT)
    assert [each.result().text for each in calls] == ["done", "done"]


def test_a_batch_is_taken_apart(client, channel):
    calls = [call(client, str(n)) for n in range(2)]
    requests = channel.expect("tools/call", 2)
    channel.say(
        [
            {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}},
            *({"jsonrpc": "2.0", "id": r["id"], "result": text(r["params"]["name"])} for r in requests),
        ]
    )
    assert [each.result().text for each in calls] == ["0", "1"]


RUBBISH = [
    None,
    True,
    7,
    1.5,
    "hello",
    [],
    [[]],
    [None, 3],
    {},
    {"jsonrpc": "2.0"},
    {"method": None},
    {"method": 7, "id": 1},
    {"method": "x", "id": None},
    {"method": "x", "id": {}},
    {"method": "x", "id": True},
    {"id": {}, "result": {}},
    {"method": "notifications/progress"},
    {"method": "notifications/progress", "params": []},
    {"method": "notifications/progress", "params": {"progressToken": []}},
    {"method": "notifications/cancelled"},
    {"method": "notifications/cancelled", "params": []},
    {"method": "notifications/cancelled", "params": {"requestId": []}},
    {"method": "notifications/cancelled", "params": {"requestId": {}}},
    {"method": "notifications/message", "params": 5},
    {"method": "", "params": None},
]


@pytest.mark.parametrize("rubbish", RUBBISH, ids=repr)
def test_no_rubbish_ends_the_reader_or_a_call(rubbish):
    target, seen = DuplexTarget(), []
    with Client(target, message_handler=seen.append, logging_callback=seen.append) as client:
        waiting = call(client)
        request = target.now.expect("tools/call")
        target.now.say(rubbish)
        target.now.answer(request, RESULT)
        assert waiting.result().text == "done"


def test_what_is_no_message_is_reported_to_the_message_handler():
    target, seen = DuplexTarget(), NotificationCollector()
    with Client(target, message_handler=seen) as client:
        waiting = call(client)
        request = target.now.expect("tools/call")
        target.now.say("rubbish", {"jsonrpc": "2.0"})
        target.now.answer(request, RESULT)
        waiting.result()
        seen.wait_for(InvalidMessage, count=2)
    assert "rubbish" in seen.messages[0].excerpt
    assert len(seen) == 2
