"""The standalone GET stream, and response streams that are taken up again."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any, Callable

import pytest
from http_server import (
    LEGACY,
    LISTENING,
    PATIENCE,
    Client,
    ScriptedServer,
    Turn,
    answer,
    event,
    frame_of,
    serving,
    shut,
)

from mcp_sync._concurrency.deadline import Deadline
from mcp_sync.errors import CallCancelled, CallTimeout, ConnectionLost, HTTPStatusError, SessionExpired
from mcp_sync.options import Limits, Retry, Timeouts
from mcp_sync.transports import StreamableHTTP
from mcp_sync.transports._base import Settings
from mcp_sync.transports._http.adapter.timed_socket import TimedSocket
from mcp_sync.transports._http.streams import GetStream

NOTE = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
PRIMING = b"id: 1\ndata:\n\n"


@pytest.fixture
def session() -> Iterator[Callable[..., Any]]:
    """Make a server of a script and return a client of it."""
    with serving() as start:
        yield start


def stream_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if "get-stream" in thread.name]


def gets(client: Any) -> list[Turn]:
    return [turn for turn in client.server.turns if turn.method == "GET"]


# --- the standalone stream -------------------------------------------------------------------------------


def test_messages_of_the_get_stream_are_delivered(session: Any) -> None:
    def script(turn: Turn) -> None:
        turn.stream(event(NOTE), event(NOTE))
        turn.wait_for_close()

    client = session(script, wire=LISTENING, session_id="s")
    client.inbound.wait_until(lambda: len(client.inbound.messages) == 2)
    turn = client.server.turns[0]
    assert (turn.method, turn.headers["accept"]) == ("GET", "text/event-stream")
    assert turn.headers["mcp-session-id"] == "s"
    assert turn.headers["mcp-protocol-version"] == "2025-11-25"
    assert "content-type" not in turn.headers
    assert "content-length" not in turn.headers
    assert [thread.name for thread in stream_threads()] == ["mcp_sync-test-get-stream"]


@pytest.mark.parametrize(
    "reply",
    [
        lambda turn: turn.reply(405),
        lambda turn: turn.reply(404),
        lambda turn: turn.reply(400, b"no"),
        lambda turn: turn.reply(406),
        lambda turn: turn.reply(500),
        lambda turn: turn.reply(501),
        lambda turn: turn.reply(401, b"", {"WWW-Authenticate": "Bearer"}),
        lambda turn: turn.reply(302, b"", {"Location": "/login"}),
        lambda turn: turn.reply(307, b"", {"Location": "https://other.example/"}),
        lambda turn: turn.json({}),
        lambda turn: turn.reply(204),
    ],
)
def test_a_refused_get_stream_leaves_a_channel_that_posts(session: Any, reply: Any, caplog: Any) -> None:
    caplog.set_level("INFO")
    client = session(lambda turn: reply(turn) if turn.method == "GET" else turn.result(1), wire=LISTENING)
    client.inbound.wait_until(lambda: bool(client.inbound.reports))
    assert client.call() == 1
    assert isinstance(client.inbound.reports[0], HTTPStatusError)
    assert len(gets(client)) == 1
    assert [record.levelname for record in caplog.records] == ["INFO"]
    for thread in stream_threads():
        thread.join(PATIENCE)
    assert stream_threads() == []


def test_a_withheld_head_holds_up_neither_calls_nor_closing(session: Any) -> None:
    asked = threading.Event()

    def script(turn: Turn) -> None:
        if turn.method == "GET":
            asked.set()
            turn.wait_for_close()
        else:
            turn.result(1)

    client = session(script, wire=LEGACY)
    client.channel.configure(LISTENING)
    assert client.call(timeout=PATIENCE) == 1
    assert asked.wait(PATIENCE)
    before = time.monotonic()
    client.channel.close(Deadline(PATIENCE))
    assert time.monotonic() - before < PATIENCE / 2


def test_a_dropped_get_stream_is_opened_again_where_it_ended(session: Any) -> None:
    times: list[float] = []

    def script(turn: Turn) -> None:
        times.append(time.monotonic())
        if turn.number == 0:
            turn.stream(b"id: 7\nretry: 150\ndata:\n\n")
            turn.end()
        elif turn.number == 1:
            turn.stream(event(NOTE, b"id: 8\n"))
            turn.reset()
        else:
            turn.stream(event(NOTE))
            turn.wait_for_close()

    client = session(script, wire=LISTENING)
    client.inbound.wait_until(lambda: len(client.inbound.messages) == 2)
    assert [turn.headers.get("last-event-id") for turn in client.server.turns] == [None, "7", "8"]
    assert times[1] - times[0] >= 0.15
    assert times[2] - times[1] >= 0.15
    assert client.inbound.reports == []


def test_a_delay_that_no_clock_can_wait_does_not_end_the_thread(session: Any) -> None:
    def script(turn: Turn) -> None:
        turn.stream(event(NOTE, b"retry: 999999999999999\n"))
        turn.end()

    client = session(script, wire=LISTENING)
    client.inbound.wait_until(lambda: bool(client.inbound.messages))
    (thread,) = stream_threads()
    thread.join(0.2)
    assert thread.is_alive()
    assert client.inbound.reports == []
    client.channel.close(Deadline(PATIENCE))
    assert not thread.is_alive()


@pytest.mark.parametrize("how", ["ends", "comments", "reset", "refused"])
def test_a_get_stream_that_does_not_stay_is_given_up(how: str, caplog: Any) -> None:
    caplog.set_level("INFO")

    def script(turn: Turn) -> None:
        if turn.method == "POST":
            turn.result(1)
        elif how == "reset":
            turn.reset()
        else:
            turn.stream(*([b"retry: 0\n: hi\n\n"] if how == "comments" else []))
            turn.end()

    with serving() as start:
        client = start(script, wire=LEGACY)
        if how == "refused":
            client.server.__exit__(None, None, None)
        client.channel.configure(LISTENING)
        client.inbound.wait_until(lambda: bool(client.inbound.reports))
        assert isinstance(client.inbound.reports[0], ConnectionLost)
        assert len(gets(client)) == (0 if how == "refused" else 3)
        assert [record.levelname for record in caplog.records] == ["INFO"]


def test_the_engine_hears_what_becomes_of_the_get_stream(session: Any) -> None:
    def script(turn: Turn) -> None:
        if turn.number in (0, 1):
            turn.stream(b": hi\n\n")
            turn.end()
        elif turn.number == 2:
            turn.reply(405)
        elif turn.number == 3:
            turn.stream(event(NOTE, b"id: 7\n"))
            turn.end()
        else:
            turn.stream(event(NOTE))
            turn.wait_for_close()

    client = session(script, wire=LISTENING)
    inbound = client.inbound
    inbound.wait_until(lambda: bool(inbound.streams_lost))
    assert inbound.gaps == [False, True]
    assert isinstance(inbound.streams_lost[0], HTTPStatusError)
    # To ask for it once more is to try it once more.
    client.channel.configure(LISTENING)
    inbound.wait_until(lambda: len(inbound.gaps) == 4)
    # What comes between two streams is brought by the second, where events have ids.
    assert inbound.gaps[2:] == [True, False]


def test_a_session_that_is_unknown_to_the_get_stream_has_expired_if_that_had_stood(session: Any) -> None:
    def script(turn: Turn) -> None:
        if turn.number == 0:
            turn.stream(b": hi\n\n")
            turn.end()
        else:
            turn.reply(404)

    client = session(script, wire=LISTENING, session_id="s")
    client.inbound.wait_until(lambda: bool(client.inbound.streams_lost))
    assert isinstance(client.inbound.streams_lost[0], SessionExpired)


def test_the_get_stream_ends_when_nobody_listens_any_more(session: Any) -> None:
    closed = threading.Event()
    opened = threading.Event()

    def script(turn: Turn) -> None:
        turn.stream(b": hello\n\n")
        opened.set()
        if turn.wait_for_close():
            closed.set()

    client = session(script, wire=LISTENING)
    assert opened.wait(PATIENCE)
    client.channel.configure(LISTENING)
    client.channel.configure(LEGACY)
    assert closed.wait(PATIENCE)
    assert client.server.connections == 1


def test_a_forgotten_channel_ends_its_thread() -> None:
    opened = threading.Event()

    def script(turn: Turn) -> None:
        turn.stream(b": hello\n\n")
        opened.set()
        turn.wait_for_close()

    with ScriptedServer(script) as server:
        settings = Settings("test", Timeouts(), Limits(), Retry())
        client = Client(StreamableHTTP(server.url), LISTENING, settings)
        assert opened.wait(PATIENCE)
        (thread,) = stream_threads()
        gone = weakref.ref(client.channel)
        client.inbound.channel = client.channel  # type: ignore[attr-defined]
        del client
        gc.collect()
        assert gone() is None
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_a_channel_that_is_closed_while_it_opens_its_stream_leaves_no_thread(
    session: Any, monkeypatch: Any
) -> None:
    client = session(lambda turn: turn.wait_for_close())

    class ClosedMeanwhile(GetStream):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            client.channel.close(Deadline(PATIENCE))

    monkeypatch.setattr("mcp_sync.transports._http.channel.GetStream", ClosedMeanwhile)
    client.channel.configure(LISTENING)
    for thread in stream_threads():
        thread.join(PATIENCE)
    assert not stream_threads()


# --- resumption ------------------------------------------------------------------------------------------


def test_a_broken_stream_is_taken_up_with_get_after_the_servers_delay(session: Any) -> None:
    times: list[float] = []

    def script(turn: Turn) -> None:
        times.append(time.monotonic())
        if turn.method == "POST":
            turn.stream(PRIMING, b"retry: 250\n\n")
            turn.end()
        else:
            turn.stream(event(NOTE, b"id: 2\n"), event(answer(1, "late"), b"id: 3\n"))
            turn.end()

    client = session(script, wire=LEGACY, session_id="s")
    assert client.call() == "late"
    assert client.inbound.messages == [NOTE]
    post, get = client.server.turns
    assert (post.method, get.method, get.body) == ("POST", "GET", b"")
    assert get.headers["last-event-id"] == "1"
    assert get.headers["accept"] == "text/event-stream"
    assert get.headers["mcp-session-id"] == "s"
    assert get.headers["mcp-protocol-version"] == "2025-11-25"
    assert times[1] - times[0] >= 0.25


@pytest.mark.parametrize("how", ["end", "reset", "cut"])
def test_any_break_is_taken_up(session: Any, how: str) -> None:
    def script(turn: Turn) -> None:
        if turn.method == "GET":
            turn.stream(event(answer(1, turn.headers["last-event-id"])))
            turn.end()
            return
        turn.stream(b"id: \xc3\xa9-1\nretry: 1\ndata:\n\n", event(NOTE), b'id: 9\ndata: {"cut')
        client.inbound.wait_until(lambda: bool(client.inbound.messages))
        turn.end() if how == "end" else turn.reset() if how == "reset" else turn.close()

    client = session(script, wire=LEGACY)
    assert client.call() == "\u00c3\u00a9-1", "the id goes back as the UTF-8 that came"


def test_a_server_that_is_asked_again_and_again_may_take_its_time(session: Any) -> None:
    def script(turn: Turn) -> None:
        if turn.method == "GET" and turn.number == 8:
            turn.stream(event(answer(1, "at last")))
        else:
            turn.stream(b"id: %d\nretry: 1\ndata:\n\n" % turn.number)
        turn.end()

    client = session(script, wire=LEGACY)
    assert client.call() == "at last"
    assert [turn.headers["last-event-id"] for turn in gets(client)] == [str(n) for n in range(8)]


def test_a_server_that_asks_for_haste_is_not_asked_without_a_pause(session: Any) -> None:
    times: list[float] = []

    def script(turn: Turn) -> None:
        times.append(time.monotonic())
        if turn.number == 5:
            turn.stream(event(answer(1, "at last")))
        else:
            turn.stream(b"id: %d\nretry: 0\ndata:\n\n" % turn.number)
        turn.end()

    client = session(script, wire=LEGACY)
    assert client.call() == "at last"
    assert times[-1] - times[0] >= 0.01 + 0.02 + 0.04 + 0.08 + 0.16


@pytest.mark.parametrize(
    "how", ["500", "empty", "comments", "no message", "the same event", "reset", "no stream"]
)
def test_attempts_that_bring_nothing_are_counted(session: Any, how: str) -> None:
    def script(turn: Turn) -> None:
        if turn.method == "POST":
            turn.stream(PRIMING)
            turn.end()
        elif how == "500":
            turn.reply(500)
        elif how == "empty":
            turn.stream()
            turn.end()
        elif how == "comments":
            turn.stream(b": still here\nretry: 0\n\n")
            turn.end()
        elif how == "no message":
            turn.stream(b"data: <html>\nretry: 0\n\n")
            turn.end()
        elif how == "the same event":
            turn.stream(PRIMING)
            turn.end()
        elif how == "reset":
            turn.reset()
        else:
            turn.json({})

    client = session(script, wire=LEGACY)
    with pytest.raises(ConnectionLost, match="ended without the answer") as caught:
        client.call()
    assert caught.value.request_sent is True
    assert len(gets(client)) == 3


def test_a_server_that_knows_no_resumption_is_asked_once(session: Any) -> None:
    def script(turn: Turn) -> None:
        if turn.method == "POST":
            turn.stream(PRIMING)
            turn.end()
        else:
            turn.reply(405)

    client = session(script, wire=LEGACY, session_id="s")
    with pytest.raises(ConnectionLost):
        client.call()
    assert len(gets(client)) == 1


def test_the_deadline_bounds_the_waiting_for_another_attempt(session: Any) -> None:
    def script(turn: Turn) -> None:
        turn.stream(b"id: 1\nretry: 60000\ndata:\n\n")
        turn.end()

    client = session(script, wire=LEGACY)
    before = time.monotonic()
    with pytest.raises(CallTimeout) as caught:
        client.call(timeout=0.3)
    assert 0.25 < time.monotonic() - before < PATIENCE
    assert caught.value.request_sent is True


def test_a_get_that_is_not_sent_does_not_unsay_the_request(session: Any, monkeypatch: Any) -> None:
    chosen, gone = threading.Event(), threading.Event()

    def seems_silent(timed: TimedSocket) -> bool:
        chosen.set()
        return gone.wait(PATIENCE)

    def script(turn: Turn) -> None:
        turn.stream(b"id: 1\nretry: 1\ndata:\n\n")
        turn.end()
        turn.wait(chosen)
        shut(client.server._listener)
        turn.reset()
        gone.set()

    monkeypatch.setattr(TimedSocket, "is_silent", seems_silent)
    client = session(script, wire=LEGACY, retry=Retry(resume=1_000_000))
    call = client.pending(timeout=0.5)
    with pytest.raises(CallTimeout) as caught:
        client.send(call)
    assert len(client.server.turns) == 1
    assert caught.value.request_sent is True
    assert call.request_sent is True


def test_a_call_that_waits_for_another_attempt_can_be_cancelled(session: Any) -> None:
    ended = threading.Event()

    def script(turn: Turn) -> None:
        turn.stream(b"id: 1\nretry: 60000\ndata:\n\n")
        turn.end()
        ended.set()

    client = session(script, wire=LEGACY)
    call = client.pending()
    thread = threading.Thread(target=lambda: (ended.wait(PATIENCE), call.fail(CallCancelled("x"))))
    thread.start()
    before = time.monotonic()
    client.channel.request(frame_of(call), call)
    assert time.monotonic() - before < PATIENCE
    thread.join()
