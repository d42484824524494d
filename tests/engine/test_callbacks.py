"""Callbacks: they may call the client, they see what was sent in order, and they harm nothing."""

from __future__ import annotations

import threading

import pytest

from mcp_sync import Client, InMemory, Limits, progress, types
from mcp_sync.testing import FakeServer, FakeTool, NotificationCollector

from .background import Background, wait_until
from .scripted import DuplexTarget, PostTarget, legacy, text

ROOTS = types.ListRootsResult(roots=[types.Root(uri="file:///work")])


def log(data):
    return {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": data}}


# --- calling the client ----------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["message_handler", "logging_callback"])
def test_a_notification_callback_may_call_the_client_while_a_call_waits(where):
    results = []

    def callback(message):
        results.append(client.call_tool("inner").text)

    def answer(request):
        return text("inner") if request["params"]["name"] == "inner" else None

    target = DuplexTarget(legacy(tools_call=answer))
    with Client(target, mode="legacy", **{where: callback}) as client:
        outer = Background(client.call_tool, "outer")
        request = target.now.expect("tools/call")
        target.now.say(log(1))
        wait_until(lambda: results)
        assert outer.running
        target.now.answer(request, text("outer"))
        assert outer.result().text == "outer"
    assert results == ["inner"]


def test_request_callbacks_may_call_the_client_and_so_on():
    def sample(context, params):
        inner = context.session.call_tool("inner", progress_callback=lambda *values: None)
        return types.CreateMessageResult(
            role="assistant", content={"type": "text", "text": inner.text}, model="m"
        )

    def roots(context):
        context.session.list_tools()
        return ROOTS

    def inner(context):
        context.progress(1)
        return f"{len(context.list_roots())} roots"

    def outer(context):
        return context.sample({"messages": [], "maxTokens": 1})["content"]["text"]

    for versions in ("legacy", "modern"):
        server = FakeServer([inner, outer], versions=versions)
        with Client(InMemory(server), sampling_callback=sample, list_roots_callback=roots) as client:
            assert client.call_tool("outer").text == "1 roots"


def test_a_progress_callback_may_ping_and_list_and_call():
    seen = []

    def work(context):
        context.progress(1)
        return "done"

    def callback(*values):
        client.send_ping()
        seen.extend(tool.name for tool in client.tools())
        seen.append(client.call_tool("work").text)

    for versions in ("legacy", "modern"):
        with Client(InMemory(FakeServer([work], versions=versions))) as client:
            assert client.call_tool("work", progress_callback=callback).text == "done"
    assert seen == ["work", "done"] * 2


def test_a_callback_that_is_blocked_for_ever_stops_no_answers():
    entered, leave = threading.Event(), threading.Event()

    def stuck(message):
        entered.set()
        assert leave.wait(10)

    target = DuplexTarget(legacy(tools_call=lambda request: text("done")))
    with Client(target, mode="legacy", message_handler=stuck) as client:
        target.now.say(log(1))
        assert entered.wait(10)
        for _ in range(20):
            assert client.call_tool("x").text == "done"
        leave.set()


def test_a_callback_that_calls_with_a_full_queue_does_not_wait_for_itself():
    results, entered, go = [], threading.Event(), threading.Event()

    def callback(message):
        if not results:
            entered.set()
            assert go.wait(10)
            results.append(client.call_tool("x", timeout=5).text)

    notes = [log(number) for number in range(5)]
    target = PostTarget(legacy(tools_call=lambda request: [*notes, text("done")]))
    with Client(target, mode="legacy", message_handler=callback, limits=Limits(queue_length=2)) as client:
        target.now.inbound.receive(log("first"))
        assert entered.wait(10)
        target.now.inbound.receive([log("more"), log("and more")])
        go.set()
        wait_until(lambda: results, 3)
    assert results == ["done"]


# --- notifications ---------------------------------------------------------------------------------------


def test_notifications_come_in_order_one_at_a_time_as_models():
    seen, at_once = [], []

    def handler(message):
        at_once.append(1)
        assert len(at_once) == 1
        seen.append(message)
        at_once.pop()

    target = DuplexTarget(legacy())
    with Client(target, mode="legacy", message_handler=handler) as client:
        for number in range(200):
            target.now.notify("acme/count", number=number)
        target.now.notify("notifications/tools/list_changed")
        target.now.notify("notifications/resources/updated", uri="demo://1")
        target.now.sync()
        client._engine.router.worker.drain(client._deadline(5), 5)
    assert [message.params["number"] for message in seen[:200]] == list(range(200))
    assert {type(message) for message in seen[:200]} == {types.UnknownNotification}
    assert isinstance(seen[200], types.ToolListChangedNotification)
    assert seen[201].params.uri == "demo://1"


def test_log_messages_reach_both_callbacks():
    logged, handled = NotificationCollector(), NotificationCollector()
    target = DuplexTarget(legacy())
    with Client(target, mode="legacy", logging_callback=logged, message_handler=handled):
        target.now.say(log({"a": 1}))
        params = logged.wait_for(types.LoggingMessageNotificationParams)
        handled.wait_for(types.LoggingMessageNotification)
    assert (params.level, params.data) == ("info", {"a": 1})
    assert len(logged) == len(handled) == 1


def test_what_a_notification_callback_raises_is_logged_and_the_next_one_comes(caplog):
    seen = []

    def handler(message):
        seen.append(message)
        raise SystemExit("bad handler")

    target = DuplexTarget(legacy(tools_call=lambda request: text("done")))
    with Client(target, mode="legacy", message_handler=handler) as client:
        target.now.say(log(1), log(2))
        assert client.call_tool("x").text == "done"
        wait_until(lambda: len(seen) == 2)
    assert "bad handler" in caplog.text


def test_when_nobody_keeps_up_the_oldest_notifications_are_dropped_with_one_warning(caplog):
    entered, leave, seen = threading.Event(), threading.Event(), []

    def slow(message):
        entered.set()
        assert leave.wait(10)
        seen.append(message.params.data)

    target = DuplexTarget(legacy(tools_call=lambda request: text("done")))
    with Client(target, mode="legacy", message_handler=slow, limits=Limits(queue_length=10)) as client:
        target.now.say(log("first"))
        assert entered.wait(10)
        for number in range(100):
            target.now.say(log(number))
        assert client.call_tool("x").text == "done"
        leave.set()
        client._engine.router.worker.drain(client._deadline(5), 5)
    assert seen == ["first", *range(90, 100)]
    assert len([record for record in caplog.records if "dropped" in record.getMessage()]) == 1


def test_a_caller_that_reads_its_own_response_waits_for_slow_callbacks_and_loses_nothing():
    seen, pause = [], threading.Event()

    def slow(message):
        pause.wait(0.002)
        seen.append(message.params.data)

    notes = [log(number) for number in range(50)]
    target = PostTarget(legacy(tools_call=lambda request: [*notes, text("done")]))
    with Client(target, mode="legacy", message_handler=slow, limits=Limits(queue_length=3)) as client:
        assert client.call_tool("x").text == "done"
        client._engine.router.worker.drain(client._deadline(5), 5)
    assert seen == list(range(50))


def test_without_callbacks_no_thread_is_started():
    target = DuplexTarget(legacy(tools_call=lambda request: text("done")))
    with Client(target, mode="legacy") as client:
        target.now.say(log(1))
        client.call_tool("x")
        names = [thread.name for thread in threading.enumerate() if client.name in thread.name]
        assert names == []


# --- forms -----------------------------------------------------------------------------------------------

FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "nobody"},
        "age": {"type": "integer", "default": 30},
        "email": {"type": "string"},
        "bad": {"type": "integer", "default": "x"},
    },
}


@pytest.mark.parametrize("versions", ["2025-06-18", "2025-11-25", "2026-07-28"])
@pytest.mark.parametrize(
    ("result", "content"),
    [
        (types.ElicitResult(action="accept", content={"age": 7}), {"age": 7, "name": "nobody"}),
        (types.ElicitResult(action="accept"), {"name": "nobody", "age": 30}),
        ({"action": "accept", "content": {"name": None}}, {"name": None, "age": 30}),
        (types.ElicitResult(action="decline"), None),
        (types.ElicitResult(action="cancel"), None),
    ],
    ids=["partly", "nothing", "null", "decline", "cancel"],
)
def test_an_accepted_form_gets_the_defaults_of_what_it_leaves_out(versions, result, content):
    answers = []

    def ask(context):
        answers.append(context.elicit("who?", FORM))
        return "thanks"

    server = FakeServer([ask], versions=versions)
    with Client(InMemory(server), elicitation_callback=lambda context, params: result) as client:
        assert client.call_tool("ask").text == "thanks"
    assert answers[-1].get("content") == content


def test_an_accepted_url_gets_no_content():
    answers = []

    def ask(context):
        answers.append(context.elicit_url("please sign in", "https://example.com/login"))
        return "thanks"

    def elicit(context, params):
        assert isinstance(params, types.ElicitRequestURLParams)
        return types.ElicitResult(action="accept")

    with Client(InMemory(FakeServer([ask])), elicitation_callback=elicit) as client:
        assert client.call_tool("ask").text == "thanks"
    assert answers == [{"action": "accept"}]


# --- reporting one's own progress ------------------------------------------------------------------------


def test_a_callback_reports_its_own_progress_summed_up_where_the_server_asked_for_it():
    def roots(context):
        with progress(context, total=10) as report:
            report.progress(3, "started")
            report.progress(4.5)
            assert report.current == 7.5
        return ROOTS

    target = DuplexTarget(legacy())
    with Client(target, mode="legacy", list_roots_callback=roots):
        params = {"_meta": {"progressToken": "t-1"}}
        target.now.say({"jsonrpc": "2.0", "id": 1, "method": "roots/list", "params": params})
        target.now.expect(None)
    sent = [message["params"] for message in target.now.received("notifications/progress")]
    assert sent == [
        {"progressToken": "t-1", "progress": 3, "total": 10, "message": "started"},
        {"progressToken": "t-1", "progress": 7.5, "total": 10},
    ]


def test_a_token_of_zero_is_reported_to():
    def roots(context):
        with progress(context) as report:
            report.progress(1)
        return ROOTS

    target = DuplexTarget(legacy())
    with Client(target, mode="legacy", list_roots_callback=roots):
        params = {"_meta": {"progressToken": 0}}
        target.now.say({"jsonrpc": "2.0", "id": 1, "method": "roots/list", "params": params})
        target.now.expect(None)
    assert target.now.received("notifications/progress")[0]["params"] == {"progressToken": 0, "progress": 1}


@pytest.mark.parametrize("versions", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("meta", [{}, {"_meta": {"progressToken": "t"}}], ids=["no token", "token"])
def test_the_same_callback_works_where_nobody_asked_and_where_the_revision_has_no_such_thing(versions, meta):
    def roots(context):
        with progress(context, total=1) as report:
            report.progress(1)
        return ROOTS

    def ask(context):
        return str(context.ask_all({"k": {"method": "roots/list", "params": meta}})["k"])

    server = FakeServer({"ask": FakeTool(ask)}, versions=versions)
    with Client(InMemory(server), list_roots_callback=roots) as client:
        result = client.call_tool("ask")
        assert "file:///work" in result.text
        assert not result.is_error
