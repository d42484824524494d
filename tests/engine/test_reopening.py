"""What happens when the connection is lost: to the calls in flight, and to those after."""

from __future__ import annotations

import threading

import pytest

from mcp_sync import Client, ClientSession
from mcp_sync.errors import ConnectFailed, ConnectionLost, SessionExpired

from .background import Background, wait_until
from .scripted import DuplexTarget, PostTarget, legacy, modern, text

GONE = ConnectionLost("the server exited with code 9", returncode=9, stderr_tail="out of memory")


def lose(client, target, calls):
    wait_until(lambda: target.channels and len(target.now.received("tools/call")) == len(calls))
    target.now.lose(GONE)
    return [call.error() for call in calls]


def test_all_calls_in_flight_fail_at_once_with_the_cause():
    target = DuplexTarget()
    with Client(target) as client:
        errors = lose(client, target, [Background(client.call_tool, str(n)) for n in range(4)])
    for error in errors:
        assert isinstance(error, ConnectionLost)
        assert (error.returncode, error.stderr_tail) == (9, "out of memory")
        assert error.request_sent is True
    assert len({id(error) for error in errors}) == 4


def test_a_client_opens_anew_on_the_next_call():
    target = DuplexTarget()
    with Client(target) as client:
        lose(client, target, [Background(client.call_tool, "x")])
        target.scripts = modern(tools_call=lambda request: text("again"))
        assert client.call_tool("x").text == "again"
        first, second = target.channels
        assert first.closed.is_set()
        assert not second.closed.is_set()


def test_ids_are_not_used_again_on_the_new_connection():
    target = DuplexTarget(modern(tools_call=lambda request: text("done")))
    with Client(target) as client:
        client.call_tool("x")
        target.now.lose(GONE)
        target.now.sync()
        client.call_tool("x")
    used = [message["id"] for channel in target.channels for message in channel.sent]
    assert len(used) == len(set(used)) == 4


def test_a_client_that_lost_its_server_while_idle_says_nothing_and_opens_anew():
    target = DuplexTarget(modern(tools_call=lambda request: text("done")))
    with Client(target) as client:
        target.now.lose(GONE)
        target.now.sync()
        assert client.call_tool("x").text == "done"
    assert len(target.channels) == 2


def test_a_client_whose_server_stays_away_says_so_each_time():
    target = DuplexTarget()
    with Client(target) as client:
        target.now.lose(GONE)
        target.now.sync()
        target.scripts = {"server/discover": lambda request: ConnectFailed("nobody there")}
        for _ in range(2):
            with pytest.raises(ConnectFailed):
                client.list_tools()


def test_a_session_does_not_open_anew_and_keeps_naming_the_cause():
    target = DuplexTarget(legacy())
    with ClientSession(target) as session:
        session.initialize()
        lose(session, target, [Background(session.call_tool, "x")])
        causes = []
        for _ in range(3):
            with pytest.raises(ConnectionLost, match="code 9") as caught:
                session.call_tool("x")
            causes.append(caught.value)
        assert len({id(cause) for cause in causes}) == 3
        assert causes[0].stderr_tail == "out of memory"
    assert len(target.channels) == 1


def test_a_call_on_a_session_that_was_lost_before_was_not_sent():
    target = DuplexTarget()
    with ClientSession(target) as session:
        session.discover()
        call = Background(session.call_tool, "x")
        target.now.expect("tools/call")
        target.now.lose(GONE)
        assert call.error().request_sent is True
        with pytest.raises(ConnectionLost) as caught:
            session.call_tool("x")
    assert caught.value.request_sent is False


def test_a_call_that_was_not_sent_any_more_says_so():
    target = DuplexTarget(legacy())
    with ClientSession(target) as session:
        connection = session.initialize() and session._engine._connection
        connection.lost(GONE)
        error = Background(session.call_tool, "x").error()
    assert isinstance(error, ConnectionLost)
    assert not error.request_sent


def test_only_the_first_loss_of_a_connection_counts():
    target = DuplexTarget(legacy())
    with ClientSession(target) as session:
        session.initialize()
        call = Background(session.call_tool, "x")
        target.now.expect("tools/call")
        target.now.lose(GONE)
        target.now.lose(ConnectionLost("something else"))
        target.now.sync()
        for error in (call.error(), Background(session.call_tool, "x").error()):
            assert isinstance(error, ConnectionLost)
            assert error.returncode == 9


def test_a_call_that_fails_on_its_own_connection_does_not_end_the_others():
    answers = iter([ConnectionLost("reset"), text("fine")])
    target = PostTarget(modern(tools_call=lambda request: next(answers)))
    with Client(target) as client:
        with pytest.raises(ConnectionLost, match="reset"):
            client.call_tool("x")
        assert client.call_tool("x").text == "fine"
    assert len(target.channels) == 1


def test_an_expired_session_is_opened_anew_by_the_next_call_at_the_latest():
    answers = iter([SessionExpired("404", request_sent=False), text("fine"), text("fine")])
    target = PostTarget(legacy(tools_call=lambda request: next(answers)))
    with Client(target, mode="legacy") as client:
        try:
            client.call_tool("x")
        except SessionExpired:
            pass
        assert client.call_tool("x").text == "fine"
    assert len(target.channels) == 2


def test_losing_and_reopening_many_times_keeps_no_old_connection():
    target = DuplexTarget(modern(tools_call=lambda request: text("done")))
    with Client(target) as client:
        for _ in range(20):
            client.call_tool("x")
            target.now.lose(GONE)
            target.now.sync()
        client.call_tool("x")
        assert len(client._engine._live.connections) == 1
    assert all(channel.closed.is_set() for channel in target.channels)


def test_a_request_that_a_forgotten_session_rejects_is_sent_once_more_on_a_new_one():
    channels = []

    def call(request):
        channels.append(target.now)
        if len(set(map(id, channels))) == 1:
            return SessionExpired("the session is not known", request_sent=False)
        return text("again")

    target = PostTarget(legacy(tools_call=call))
    with Client(target) as client:
        assert client.call_tool("x").text == "again"
    assert len(channels) == 2


def test_a_request_is_not_sent_again_when_the_server_may_have_acted():
    calls = []

    def call(request):
        calls.append(request)
        return SessionExpired("the session is not known any more", request_sent=True)

    with Client(PostTarget(legacy(tools_call=call))) as client, pytest.raises(SessionExpired):
        client.call_tool("x")
    assert len(calls) == 1


def test_a_session_that_is_forgotten_again_at_once_is_an_error_and_no_loop():
    calls = []

    def call(request):
        calls.append(request)
        return SessionExpired("the session is not known", request_sent=False)

    with Client(PostTarget(legacy(tools_call=call))) as client, pytest.raises(SessionExpired):
        client.call_tool("x")
    assert len(calls) == 2


def test_eight_threads_that_hit_a_forgotten_session_share_one_new_handshake():
    gate = threading.Barrier(8)
    first = []

    def call(request):
        if target.now is first[0]:
            gate.wait(10)
            return SessionExpired("the session is not known", request_sent=False)
        return text("again")

    target = PostTarget(legacy(tools_call=call))
    with Client(target) as client:
        first.append(target.now)
        calls = [Background(client.call_tool, "x") for _ in range(8)]
        assert {each.result().text for each in calls} == {"again"}
    assert len(target.channels) == 2


def test_a_failing_new_handshake_leaves_calls_on_the_old_session_alone():
    arrived, answer = threading.Event(), threading.Event()

    def call(request):
        if request["params"]["name"] == "slow":
            arrived.set()
            answer.wait(10)
            return text("slow but right")
        return SessionExpired("the session is not known", request_sent=False)

    fails = []
    scripts = legacy(tools_call=call)
    greet = scripts["initialize"]
    scripts["initialize"] = lambda request: ConnectFailed("refused") if fails else greet(request)
    with Client(PostTarget(scripts)) as client:
        slow = Background(client.call_tool, "slow")
        assert arrived.wait(10)
        fails.append(True)
        with pytest.raises(ConnectFailed):
            client.call_tool("quick")
        answer.set()
        assert slow.result().text == "slow but right"


def test_a_late_refusal_by_an_old_session_leaves_the_new_one_alone():
    arrived, refuse, first = threading.Event(), threading.Event(), []

    def call(request):
        is_old = target.now is first[0]
        if request["params"]["name"] == "late" and is_old:
            arrived.set()
            assert refuse.wait(10)
        return SessionExpired("the session is not known", request_sent=False) if is_old else text("again")

    target = PostTarget(legacy(tools_call=call))
    with Client(target) as client:
        first.append(target.now)
        late = Background(client.call_tool, "late")
        assert arrived.wait(10)
        assert client.call_tool("x").text == "again"
        refuse.set()
        assert late.result().text == "again"
        assert client.call_tool("x").text == "again"
    assert len(target.channels) == 2
