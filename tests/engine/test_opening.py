"""How a client opens: on first use, once for all who wait, by the rules of the negotiation."""

from __future__ import annotations

import contextlib
import threading
import time

import pytest

from mcp_sync import Client, ClientSession, InMemory, Timeouts
from mcp_sync.errors import (
    CallTimeout,
    ConnectFailed,
    ConnectionLost,
    InternalError,
    InvalidParams,
    NegotiationFailed,
    UsageError,
)
from mcp_sync.testing import FakeServer

from .background import PATIENCE, Background, wait_until
from .scripted import LEGACY, MODERN, DuplexTarget, PostTarget, legacy, modern, refusal, text

CALL = {"tools_call": lambda request: text("done")}


def methods_of(channel):
    return [message.get("method") for message in channel.sent]


# --- when ------------------------------------------------------------------------------------------------


def test_making_a_client_touches_nothing():
    target = DuplexTarget()
    Client(target)
    assert target.channels == []


def test_the_first_call_opens():
    target = DuplexTarget(modern(**CALL))
    client = Client(target)
    assert client.call_tool("x").text == "done"
    assert methods_of(target.now) == ["server/discover", "tools/call"]
    client.close()


def test_reading_what_is_known_of_the_server_opens_too():
    target = DuplexTarget(legacy())
    client = Client(target)
    assert client.protocol_version == LEGACY
    assert client.server_info.name == "scripted"
    client.close()


def test_opening_twice_opens_once():
    target = DuplexTarget()
    with Client(target) as client:
        assert client.open() is client
    assert len(target.channels) == 1


def test_a_client_that_was_opened_by_hand_can_be_used_in_a_with_block():
    target = DuplexTarget()
    with Client(target).open() as client:
        assert client.protocol_version == MODERN
    assert client.closed


# --- by what rules ---------------------------------------------------------------------------------------


def test_the_handshake_is_finished_before_anything_else_is_sent():
    target = DuplexTarget(legacy(**CALL))
    with Client(target) as client:
        client.call_tool("x")
    assert methods_of(target.now) == [
        "server/discover",
        "initialize",
        "notifications/initialized",
        "tools/call",
    ]


def test_a_handshake_carries_no_version_for_the_header_until_one_is_agreed():
    target = PostTarget(legacy("2025-06-18"))
    with Client(target, mode="legacy"):
        pass
    assert [wire.version_header for wire in target.now.wires] == [None, "2025-06-18"]


def test_the_standalone_stream_is_asked_for_only_where_somebody_listens_and_after_the_handshake():
    for handler, wanted in ((None, [False, False]), (lambda message: None, [False, False, True])):
        target = PostTarget(legacy())
        with Client(target, mode="legacy", message_handler=handler):
            pass
        assert [wire.get_stream for wire in target.now.wires] == wanted


def test_a_pinned_modern_revision_sends_nothing_before_the_first_call():
    target = DuplexTarget(modern(**CALL))
    with Client(target, mode=MODERN) as client:
        assert target.now.sent == []
        assert client.call_tool("x").text == "done"
        assert client.server_info is None


def test_a_server_that_stays_silent_to_the_probe_is_kept_and_greeted():
    target = DuplexTarget({**legacy(), "server/discover": lambda request: None})
    with Client(target, timeouts=Timeouts(probe=0.02)) as client:
        assert client.protocol_version == LEGACY
    assert len(target.channels) == 1


def test_the_probe_of_a_silent_server_costs_no_more_than_its_own_bound():
    target = DuplexTarget({**legacy(), "server/discover": lambda request: None})
    started = time.monotonic()
    with Client(target, timeouts=Timeouts(probe=0.05, open=None, silence=None, total=None)):
        assert time.monotonic() - started < PATIENCE


def test_a_server_with_a_request_for_the_probe_alone_may_be_slow_to_answer_it():
    asked, answer = threading.Event(), threading.Event()

    def hold_the_probe(request):
        if b"server/discover" in request.body:
            asked.set()
            answer.wait(10)

    with FakeServer().serve_http(intercept=hold_the_probe) as endpoint:
        opening = Background(Client(endpoint.url, timeouts=Timeouts(probe=1)).open)
        assert asked.wait(10)
        time.sleep(1.1)
        answer.set()
        client = opening.result()
        assert client.protocol_version == MODERN
        client.close()


def test_a_server_that_is_silent_to_a_probe_of_its_own_is_greeted_at_last():
    target = PostTarget({**legacy(), "server/discover": lambda request: None})
    with Client(target, timeouts=Timeouts(probe=0.02)) as client:
        assert client.protocol_version == LEGACY


def test_an_answer_to_the_probe_that_comes_late_makes_the_server_modern_after_all():
    target = DuplexTarget({})
    opening = Background(Client(target, timeouts=Timeouts(probe=0.02)).open)
    greeting = _channel(target).expect("initialize")
    probe = target.now.expect("server/discover")
    target.now.answer(probe, {"supportedVersions": [MODERN], "capabilities": {"tools": {}}})
    target.now.answer(greeting, refusal(-32601, "Method not found"))
    client = opening.result()
    assert client.protocol_version == MODERN
    assert client.server_capabilities.tools is not None
    client.close()


def test_a_slow_modern_server_that_refuses_the_handshake_is_asked_again():
    answers = iter([None, {"supportedVersions": [MODERN]}])
    refused = refusal(-32022, "Unsupported protocol version", {"supported": [MODERN]})
    target = DuplexTarget(
        {"server/discover": lambda request: next(answers), "initialize": lambda request: refused}
    )
    with Client(target, timeouts=Timeouts(probe=0.02)) as client:
        assert client.protocol_version == MODERN
    assert methods_of(target.now) == ["server/discover", "initialize", "server/discover"]


def test_a_late_answer_to_the_probe_of_a_legacy_server_changes_nothing():
    target = DuplexTarget({**legacy(**CALL), "server/discover": lambda request: None})
    with Client(target, timeouts=Timeouts(probe=0.02)) as client:
        target.now.answer(target.now.expect("server/discover"), refusal(-32601))
        target.now.sync()
        assert client.call_tool("x").text == "done"
        assert client.protocol_version == LEGACY


def test_a_server_that_dies_of_the_probe_is_started_again_and_greeted_first():
    def probe(request):
        return ConnectionLost("exited with code 1", returncode=1)

    target = DuplexTarget({**legacy(), "server/discover": probe})
    with Client(target) as client:
        assert client.protocol_version == LEGACY
        dead, alive = target.channels
        assert dead.closed.is_set()
        assert methods_of(alive)[0] == "initialize"


def test_a_server_that_was_found_to_be_legacy_is_not_probed_again():
    target = DuplexTarget(legacy())
    for _ in range(2):
        with Client(target):
            pass
    assert methods_of(target.channels[0])[:2] == ["server/discover", "initialize"]
    assert methods_of(target.channels[1])[0] == "initialize"


def test_a_remembered_server_that_has_become_modern_is_found_out_and_forgotten():
    target = DuplexTarget(legacy())
    with Client(target):
        pass
    target.scripts = {**modern(), "initialize": lambda request: refusal(-32601)}
    for _ in range(2):
        with Client(target) as client:
            assert client.protocol_version == MODERN
    assert methods_of(target.channels[1]) == ["initialize", "server/discover"]
    assert methods_of(target.channels[2]) == ["server/discover"]


def test_a_remembered_server_that_cannot_be_opened_is_probed_the_next_time():
    target = DuplexTarget(legacy())
    with Client(target):
        pass
    target.scripts = {"initialize": lambda request: ConnectionLost("exited")}
    client = Client(target)
    with pytest.raises(ConnectionLost):
        client.open()
    target.scripts = modern()
    assert client.open().protocol_version == MODERN
    assert methods_of(target.now) == ["server/discover"]
    client.close()


# --- together --------------------------------------------------------------------------------------------


def waiters(client):
    opening = client._engine._opening
    return len(opening.waiters) if opening is not None else 0


def _channel(target):
    wait_until(lambda: target.channels)
    return target.now


def test_sixteen_threads_share_one_opening():
    target = DuplexTarget({"tools/call": lambda request: text(request["params"]["name"])})
    client = Client(target)
    barrier = threading.Barrier(16)

    def call(number):
        barrier.wait(10)
        return client.call_tool(str(number)).text

    calls = [Background(call, number) for number in range(16)]
    target_probe = _channel(target).expect("server/discover")
    target.now.answer(target_probe, {"supportedVersions": [MODERN]})
    assert [call.result() for call in calls] == [str(number) for number in range(16)]
    assert len(target.channels) == 1
    assert len(target.now.received("server/discover")) == 1
    client.close()


def test_a_caller_that_gives_up_spoils_the_opening_for_no_other():
    target = DuplexTarget({"tools/call": lambda request: text("done")})
    client = Client(target, timeouts=Timeouts(probe=PATIENCE))
    hasty = Background(client.call_tool, "x", timeout=0.05)
    patient = Background(client.call_tool, "x", timeout=10)
    probe = _channel(target).expect("server/discover")
    with pytest.raises(CallTimeout) as caught:
        hasty.result()
    assert caught.value.timeout == 0.05
    assert caught.value.request_sent is False
    target.now.answer(probe, {"supportedVersions": [MODERN]})
    assert patient.result().text == "done"
    client.close()


def test_a_failed_opening_gives_each_waiter_an_exception_of_its_own():
    target = DuplexTarget({})
    client = Client(target, mode="legacy")
    calls = [Background(client.list_tools) for _ in range(8)]
    greeting = _channel(target).expect("initialize")
    wait_until(lambda: waiters(client) == 8)
    target.now.answer(greeting, refusal(-32603, "broken", {"why": "it is"}))
    errors = [call.error() for call in calls]
    assert {type(error) for error in errors} == {InternalError}
    assert all(error.data == {"why": "it is"} for error in errors)
    assert len({id(error) for error in errors}) == 8
    client.close()


def test_an_exception_of_a_failed_opening_does_not_grow_with_each_waiter():
    def depth(trace):
        return 0 if trace is None else 1 + depth(trace.tb_next)

    target = DuplexTarget(legacy(initialize=lambda request: refusal(-32603)))
    client = Client(target, mode="legacy")
    depths = set()
    for _ in range(5):
        with pytest.raises(InternalError) as caught:
            client.list_tools()
        depths.add(depth(caught.value.__traceback__))
    assert len(depths) == 1
    client.close()


def test_a_failed_opening_leaves_a_client_that_can_be_opened_later():
    outcomes = iter([ConnectFailed("nobody there"), None])

    class Target(DuplexTarget):
        def channel(self, settings):
            problem = next(outcomes)
            if problem is not None:
                raise problem
            return super().channel(settings)

    client = Client(Target())
    with pytest.raises(ConnectFailed):
        client.open()
    assert client.open().protocol_version == MODERN
    client.close()


def test_a_with_block_that_cannot_be_entered_leaves_nothing_open():
    target = DuplexTarget(legacy("2099-01-01"))
    client = Client(target, mode="legacy")
    with pytest.raises(NegotiationFailed), client:
        pass
    assert client.closed
    assert target.now.closed.is_set()


@pytest.mark.parametrize(
    ("scripts", "problem"),
    [
        (legacy("2099-01-01"), NegotiationFailed),
        (legacy(initialize=lambda request: refusal(-32603)), InternalError),
        (legacy(initialize=lambda request: ConnectionLost("exited", returncode=3)), ConnectFailed),
        ({}, CallTimeout),
    ],
)
def test_whatever_ends_an_opening_its_channel_is_closed(scripts, problem):
    target = DuplexTarget(scripts)
    client = Client(target, mode="legacy", timeouts=Timeouts(open=0.1))
    with pytest.raises(problem):
        client.open()
    assert target.now.closed.is_set()
    client.close()


def test_a_server_process_that_ends_while_it_starts_is_told_with_code_and_words():
    lost = ConnectionLost("exited with code 3: KEY missing", returncode=3, stderr_tail="KEY missing")
    target = DuplexTarget({"initialize": lambda request: lost})
    client = Client(target, mode="legacy")
    with pytest.raises(ConnectFailed, match="KEY missing") as caught:
        client.open()
    assert (caught.value.returncode, caught.value.stderr_tail) == (3, "KEY missing")
    client.close()


def test_an_opening_has_a_bound_of_its_own():
    target = DuplexTarget({})
    client = Client(target, mode="legacy", timeouts=Timeouts(open=0.05))
    with pytest.raises(CallTimeout, match=r"0\.05") as caught:
        client.list_tools()
    assert caught.value.request_sent is False
    client.close()


def test_a_connection_that_dies_as_soon_as_it_stands_is_not_opened_over_and_over():
    class Target(DuplexTarget):
        def channel(self, settings):
            channel = super().channel(settings)
            send = channel.send

            def dying(frame, deadline):
                send(frame, deadline)
                channel.inbound.lost(ConnectionLost("died after the handshake"))

            channel.send = dying
            return channel

    target = Target(legacy())
    client = Client(target, mode="legacy")
    with pytest.raises(ConnectionLost, match="died after"):
        client.call_tool("x")
    assert len(target.channels) == 1
    client.close()


class Picky(Exception):
    """Cannot be copied: it needs more than its message."""

    def __init__(self, words, *, detail):
        super().__init__(words)
        self.detail = detail


@pytest.mark.parametrize("problem", [Picky("odd", detail=1), ValueError("bad port"), SystemExit(3)], ids=repr)
def test_what_a_target_raises_reaches_the_caller(problem, caplog):
    class Target(DuplexTarget):
        def channel(self, settings):
            raise problem

    client = Client(Target())
    for _ in range(2):
        with pytest.raises(type(problem), match=str(problem)):
            client.open(timeout=5)
    client.close()


def test_an_opening_that_cannot_get_a_thread_fails_and_blocks_no_later_one(monkeypatch):
    def no_thread(*args):
        raise RuntimeError("can't start new thread")

    client = Client(DuplexTarget())
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        with pytest.raises((ConnectFailed, RuntimeError)):
            client.open(timeout=1)
    assert client.open(timeout=5).protocol_version == MODERN
    client.close()


# --- sessions --------------------------------------------------------------------------------------------


def test_a_session_does_not_open_by_itself():
    target = DuplexTarget()
    session = ClientSession(target)
    with pytest.raises(UsageError, match="initialize"):
        session.list_tools()
    assert target.channels == []


def test_a_session_is_opened_by_the_handshake():
    target = DuplexTarget(legacy(**CALL))
    with ClientSession(target) as session:
        result = session.initialize()
        assert (result.protocol_version, result.server_info.name) == (LEGACY, "scripted")
        assert session.initialize().server_info.name == "scripted"
        assert session.call_tool("x").text == "done"
    assert methods_of(target.now)[0] == "initialize"
    assert len(target.now.received("initialize")) == 1


def test_a_session_is_opened_by_discovery():
    target = DuplexTarget(modern(**CALL))
    with ClientSession(target) as session:
        assert session.discover().supported_versions == [MODERN]
        assert session.call_tool("x").text == "done"


def test_a_session_that_was_opened_one_way_refuses_the_other():
    with ClientSession(DuplexTarget()) as session:
        session.discover()
        with pytest.raises(UsageError, match="discover"):
            session.initialize()
    with ClientSession(DuplexTarget(legacy())) as session:
        session.initialize()
        with pytest.raises(UsageError, match="initialize"):
            session.discover()


def test_a_session_whose_handshake_failed_can_try_again():
    outcomes = iter([refusal(-32603), legacy()["initialize"]({})])
    target = DuplexTarget({"initialize": lambda request: next(outcomes)})
    with ClientSession(target) as session:
        with pytest.raises(InternalError):
            session.initialize()
        assert session.initialize().protocol_version == LEGACY


# --- a revision that the server was said to speak ---------------------------------------------------------


@contextlib.contextmanager
def older_server(transport):
    server = FakeServer([double], versions="2025-06-18")
    if transport == "memory":
        yield InMemory(server)
        return
    with server.serve_http() if transport == "http" else server.serve_websocket() as endpoint:
        yield endpoint.url


def double(n: int) -> dict:
    raise AssertionError("nobody may run it")


@pytest.mark.parametrize("transport", ["memory", "http", "websocket"])
def test_a_server_that_does_not_speak_the_revision_it_is_said_to_is_told_with_the_way_out(transport):
    with older_server(transport) as target, Client(target, mode=MODERN) as client:
        for _ in range(2):
            with pytest.raises(NegotiationFailed, match="mode='auto' finds") as caught:
                client.call_tool("double", {"n": 1})
            assert caught.value.client_versions == (MODERN,)
            assert caught.value.__cause__ is not None
    with older_server(transport) as target, Client(target) as client:
        assert client.protocol_version == "2025-06-18"


@pytest.mark.parametrize("kind", [DuplexTarget, PostTarget])
def test_what_a_server_refuses_that_speaks_the_revision_is_raised_as_it_is(kind):
    target = kind(modern(tools_call=lambda request: refusal(-32602, "no such tool")))
    with Client(target, mode=MODERN) as client:
        for _ in range(2):
            with pytest.raises(InvalidParams, match="no such tool"):
                client.call_tool("x")
    # It is asked once.
    assert methods_of(target.now) == ["tools/call", "server/discover", "tools/call"]


def test_a_server_that_has_answered_is_not_asked_what_it_speaks():
    outcomes = iter([text("done"), refusal(-32602)])
    target = DuplexTarget(modern(tools_call=lambda request: next(outcomes)))
    with Client(target, mode=MODERN) as client:
        assert client.call_tool("x").text == "done"
        with pytest.raises(InvalidParams):
            client.call_tool("x")
    assert methods_of(target.now) == ["tools/call", "tools/call"]


@pytest.mark.parametrize(("script", "first"), [(modern, ["server/discover"]), (legacy, None)])
def test_a_server_with_which_a_revision_was_settled_is_not_asked_again(script, first):
    target = DuplexTarget(script(tools_call=lambda request: refusal(-32602)))
    with Client(target, mode="auto" if first else LEGACY) as client, pytest.raises(InvalidParams):
        client.call_tool("x")
    first = first or ["initialize", "notifications/initialized"]
    assert methods_of(target.now) == [*first, "tools/call"]


def test_a_server_that_leaves_the_question_open_has_its_refusal_raised():
    scripts = modern(tools_call=lambda request: refusal(-32602))
    scripts["server/discover"] = lambda request: None
    client = Client(DuplexTarget(scripts), mode=MODERN, timeouts=Timeouts(probe=0.05))
    with client, pytest.raises(InvalidParams):
        client.call_tool("x")
