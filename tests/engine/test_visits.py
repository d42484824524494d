"""The error -32042 (2025-11-25): the user visits a page, and the call is made once more."""

from __future__ import annotations

import sys
import threading

import pytest

from mcp_sync import CallCancelled, CancelToken, Client, ClientClosed, InMemory, UrlElicitationRequired, types
from mcp_sync._concurrency.deadline import Deadline
from mcp_sync._concurrency.pending import PendingCall
from mcp_sync._engine.visits import _Visits
from mcp_sync.testing import FakeServer, ToolContext

from .background import Background
from .scripted import DuplexTarget, PostTarget, legacy, modern, refusal, text

COMPLETE = "notifications/elicitation/complete"


def page(name):
    return {"mode": "url", "url": f"https://pay.example/{name}", "message": "Pay", "elicitationId": name}


def first_visit(*names):
    return refusal(-32042, "visit first", {"elicitations": [page(name) for name in names]})


def in_turn(*outcomes):
    left = iter(outcomes)
    return legacy(tools_call=lambda request: next(left))


def agree(context, params):
    return types.ElicitResult.accept()


@pytest.fixture(params=[DuplexTarget, PostTarget])
def kind(request):
    return request.param


def tell(target, name):
    message = {"jsonrpc": "2.0", "method": COMPLETE, "params": {"elicitationId": name}}
    target.now.inbound.receive(message)


def test_without_a_callback_the_pages_are_raised(kind):
    target = kind(in_turn(first_visit("1", "2")))
    with Client(target) as client, pytest.raises(UrlElicitationRequired) as caught:
        client.call_tool("pay")
    found = [(each.url, each.message, each.elicitation_id) for each in caught.value.elicitations]
    assert found == [("https://pay.example/1", "Pay", "1"), ("https://pay.example/2", "Pay", "2")]
    assert len(target.now.received("tools/call")) == 1


def test_after_all_visits_the_call_is_made_once_more(kind):
    asked = []
    all_asked = threading.Event()

    def consent(context, params):
        asked.append((context.request_id, params.url, threading.current_thread()))
        if len(asked) == 2:
            all_asked.set()
        return types.ElicitResult.accept()

    told = []

    def pay(request):
        return text(f"after {' '.join(told)}") if asked else first_visit("1", "2")

    target = kind(legacy(tools_call=pay))
    with Client(target, elicitation_callback=consent) as client:
        call = Background(client.call_tool, "pay", {"a": 1})
        assert all_asked.wait(10)
        for name in ("other", "2", "2", "1"):
            told.append(name)
            tell(target, name)
        assert call.result().text == "after other 2 2 1"
    first, second = target.now.received("tools/call")
    assert first["params"] == second["params"]
    assert first["id"] != second["id"]
    assert [each[:2] for each in asked] == [("1", "https://pay.example/1"), ("2", "https://pay.example/2")]


def test_a_visit_that_is_over_before_the_callback_returns_counts(kind):
    target = kind(in_turn(first_visit("1"), text("paid")))

    def visit(context, params):
        tell(target, "1")
        return types.ElicitResult.accept()

    with Client(target, elicitation_callback=visit) as client:
        assert client.call_tool("pay").text == "paid"


def test_a_second_refusal_is_raised(kind):
    target = kind(in_turn(first_visit("1"), first_visit("2")))

    def visit(context, params):
        tell(target, params.elicitation_id)
        return types.ElicitResult.accept()

    with Client(target, elicitation_callback=visit) as client:
        with pytest.raises(UrlElicitationRequired) as caught:
            client.call_tool("pay")
        assert caught.value.elicitations[0].elicitation_id == "2"
    assert len(target.now.received("tools/call")) == 2


@pytest.mark.parametrize("answer", [types.ElicitResult.decline(), types.ElicitResult.cancel()])
def test_a_user_who_does_not_agree_ends_it(kind, answer):
    asked = []

    def refuse(context, params):
        asked.append(params.url)
        return answer

    target = kind(in_turn(first_visit("1", "2")))
    with Client(target, elicitation_callback=refuse) as client, pytest.raises(UrlElicitationRequired):
        client.call_tool("pay")
    assert asked == ["https://pay.example/1"]
    assert len(target.now.received("tools/call")) == 1


def test_a_visit_that_takes_too_long_leaves_the_call_to_be_made_later(kind):
    target = kind(in_turn(first_visit("1")))
    with Client(target, elicitation_callback=agree) as client, pytest.raises(UrlElicitationRequired):
        client.call_tool("pay", timeout=0.2)
    assert len(target.now.received("tools/call")) == 1


def test_what_the_callback_raises_comes_out_of_the_call(kind):
    def fail(context, params):
        raise RuntimeError("no browser")

    with (
        Client(kind(in_turn(first_visit("1"))), elicitation_callback=fail) as client,
        pytest.raises(RuntimeError, match="no browser"),
    ):
        client.call_tool("pay")


def test_the_wait_can_be_cancelled_and_ends_with_the_client(kind):
    for end, error in ((lambda client, token: token.cancel(), CallCancelled), (_close, ClientClosed)):
        asked, token = threading.Event(), CancelToken()

        def consent(context, params, asked=asked):
            asked.set()
            return types.ElicitResult.accept()

        target = kind(in_turn(first_visit("1")))
        with Client(target, elicitation_callback=consent) as client:
            call = Background(client.call_tool, "pay", cancel=token)
            assert asked.wait(10)
            end(client, token)
            assert isinstance(call.error(), error)
        assert client._engine.router._watching == ()


def _close(client, token):
    client.close()


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        {"elicitations": []},
        {"elicitations": [3]},
        {"elicitations": [{**page("1"), "elicitationId": None}]},
    ],
)
def test_a_refusal_that_does_not_say_how_to_go_on_is_raised_as_it_is(data):
    asked = []
    target = DuplexTarget(in_turn(refusal(-32042, "visit first", data)))
    client = Client(target, elicitation_callback=lambda *given: asked.append(given))
    with client, pytest.raises(UrlElicitationRequired):
        client.call_tool("pay")
    assert asked == []


def test_without_a_handshake_it_is_an_error_like_any_other():
    target = DuplexTarget(modern(tools_call=lambda request: first_visit("1")))
    with Client(target, elicitation_callback=agree) as client, pytest.raises(UrlElicitationRequired):
        client.call_tool("pay")
    assert len(target.now.received("tools/call")) == 1


def files(context: ToolContext) -> str:
    """List files, once the user has connected the account."""
    context.require_url("Connect your account", "https://example.com/connect", "connect-1")
    return "files"


def test_with_a_server_over_http_and_in_memory():
    server = FakeServer(tools=[files], versions="2025-11-25")

    @server.add_tool
    def connect(context: ToolContext) -> str:
        """Stand in for the page; the word of it comes on the stream of this very call."""
        server.completed_elicitations.add("connect-1")
        context.notify(COMPLETE, {"elicitationId": "connect-1"})
        return "connected"

    def visit(context, params):
        assert params.url == "https://example.com/connect"
        assert context.session.call_tool("connect").text == "connected"
        return types.ElicitResult.accept()

    with server.serve_http() as endpoint:
        for target in (endpoint.url, InMemory(server)):
            server.completed_elicitations.clear()
            with Client(target, elicitation_callback=visit) as client:
                assert client.call_tool("files").text == "files"


def test_the_last_visit_is_never_missed_by_a_caller_that_begins_to_wait():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for number in range(300):
            visits, turn = _Visits({"1"}), PendingCall(number, "tools/call", Deadline(10))
            start = threading.Barrier(2)

            def finish(visits=visits, start=start):
                start.wait()
                visits.notified({"method": COMPLETE, "params": {"elicitationId": "1"}})

            thread = threading.Thread(target=finish)
            thread.start()
            start.wait()
            visits.wake(turn)
            assert turn.wait()
            thread.join()
    finally:
        sys.setswitchinterval(interval)
