"""Session ids, versions, cookies and the end of a session."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any, Callable

import pytest
from http_server import (
    LEGACY,
    LISTENING,
    MODERN,
    PATIENCE,
    ScriptedServer,
    Turn,
    answer,
    connected,
    event,
    serving,
)

from mcp_sync._concurrency.deadline import Deadline
from mcp_sync.errors import HTTPStatusError, InvalidParams, SessionExpired
from mcp_sync.transports._base import Wire

OTHER = {"code": -32600, "message": "Session has been terminated"}
NOTE = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
NOT_FOUND = {"code": -32001, "message": "Session not found"}


@pytest.fixture
def session() -> Iterator[Callable[..., Any]]:
    """Make a server of a script and return a client of it."""
    with serving() as start:
        yield start


def opening(turn: Turn) -> None:
    """Answer like a server with sessions."""
    if turn.method == "DELETE":
        turn.reply(200)
    elif turn.method == "POST" and turn.message["method"] == "initialize":
        turn.result(headers={"Mcp-Session-Id": "s-1"})
    elif turn.method == "POST" and "id" in turn.message:
        turn.result()
    else:
        turn.accepted()


def test_the_session_id_of_initialize_goes_with_everything_after_it(session: Any) -> None:
    client = session(opening, wire=Wire(sessions=True))
    assert client.channel.session_id is None
    client.call("initialize")
    assert client.channel.session_id == "s-1"
    client.channel.configure(LEGACY)
    client.notify()
    client.call()
    client.channel.close(Deadline(PATIENCE))
    turns = client.server.turns
    assert [turn.method for turn in turns] == ["POST", "POST", "POST", "DELETE"]
    assert [turn.headers.get("mcp-session-id") for turn in turns] == [None, "s-1", "s-1", "s-1"]
    assert [turn.headers.get("mcp-protocol-version") for turn in turns] == [None] + ["2025-11-25"] * 3


def test_the_session_id_of_an_event_stream_counts_too(session: Any) -> None:
    def script(turn: Turn) -> None:
        turn.stream(event(answer(turn.id)), headers={"MCP-SESSION-ID": "s-2"})
        turn.end()

    client = session(script, wire=Wire(sessions=True))
    client.call("initialize")
    assert client.channel.session_id == "s-2"


def test_only_initialize_opens_a_session(session: Any) -> None:
    client = session(lambda turn: turn.result(headers={"Mcp-Session-Id": "x"}), wire=LEGACY)
    client.call()
    assert client.channel.session_id is None


def test_a_session_id_that_is_no_visible_ascii_is_not_taken(session: Any) -> None:
    client = session(lambda turn: turn.result(headers={"Mcp-Session-Id": "a b"}), wire=LEGACY)
    client.call("initialize")
    assert client.channel.session_id is None


def test_initialize_never_carries_a_session_id(session: Any) -> None:
    client = session(opening, wire=LEGACY)
    client.call("initialize")
    client.call("initialize")
    assert "mcp-session-id" not in client.server.turns[1].headers


def test_a_failed_initialize_opens_no_session(session: Any) -> None:
    client = session(lambda turn: turn.reply(500, b"", {"Mcp-Session-Id": "x"}), wire=LEGACY)
    with pytest.raises(HTTPStatusError):
        client.call("initialize")
    assert client.channel.session_id is None


def test_an_old_session_can_be_taken_up(session: Any) -> None:
    client = session(opening, wire=LEGACY, session_id="old")
    assert client.channel.session_id == "old"
    client.call()
    client.channel.close(Deadline(PATIENCE))
    assert [turn.headers["mcp-session-id"] for turn in client.server.turns] == ["old", "old"]
    assert client.server.turns[1].method == "DELETE"


def test_the_stateless_revision_knows_no_session(session: Any) -> None:
    client = session(lambda turn: turn.result(headers={"Mcp-Session-Id": "x"}), wire=MODERN)
    client.call("initialize")
    client.call()
    assert client.channel.session_id is None
    client.channel.close(Deadline(PATIENCE))
    assert [turn.method for turn in client.server.turns] == ["POST", "POST"]
    assert all("mcp-session-id" not in turn.headers for turn in client.server.turns)
    assert all("last-event-id" not in turn.headers for turn in client.server.turns)


# --- an expired session ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reply",
    [
        lambda turn: turn.reply(404),
        lambda turn: turn.reply(404, b"Session not found", {"Content-Type": "text/plain"}),
        lambda turn: turn.json({"jsonrpc": "2.0", "id": None, "error": NOT_FOUND}, 404),
        lambda turn: turn.json({"jsonrpc": "2.0", "id": turn.id, "error": NOT_FOUND}, 404),
        lambda turn: turn.json(
            {"jsonrpc": "2.0", "id": "server-error", "error": {"code": -32600, "message": "x"}}, 404
        ),
    ],
)
def test_404_in_a_session_means_that_it_has_expired(session: Any, reply: Any) -> None:
    client = session(lambda turn: opening(turn) if turn.number == 0 else reply(turn), wire=LEGACY)
    client.call("initialize")
    with pytest.raises(SessionExpired) as caught:
        client.call()
    assert caught.value.request_sent is False


def test_404_with_an_error_for_this_request_is_that_error(session: Any) -> None:
    error = {"code": -32602, "message": "no such tool"}

    def script(turn: Turn) -> None:
        if turn.number == 0:
            opening(turn)
        else:
            turn.json({"jsonrpc": "2.0", "id": turn.id, "error": error}, 404)

    client = session(script, wire=LEGACY)
    client.call("initialize")
    with pytest.raises(InvalidParams):
        client.call()


@pytest.mark.parametrize("wire", [LEGACY, MODERN])
def test_404_without_a_session_is_an_http_failure(session: Any, wire: Wire) -> None:
    client = session(lambda turn: turn.reply(404), wire=wire)
    with pytest.raises(HTTPStatusError) as caught:
        client.call("initialize")
    assert caught.value.status == 404


def test_404_to_a_notification_is_an_expiry_too_and_spoils_nothing(session: Any) -> None:
    def script(turn: Turn) -> None:
        opening(turn) if "id" in turn.message else turn.reply(404)

    client = session(script, wire=LEGACY)
    client.call("initialize")
    with pytest.raises(SessionExpired, match="notifications/initialized: ") as caught:
        client.notify()
    assert caught.value.request_sent is False
    assert client.channel.session_id == "s-1"
    client.call()


def test_404_to_a_notification_without_a_session_is_an_http_failure(session: Any) -> None:
    with pytest.raises(HTTPStatusError):
        session(lambda turn: turn.reply(404), wire=LEGACY).notify()


def test_404_to_initialize_concerns_no_session(session: Any) -> None:
    client = session(lambda turn: turn.reply(404), wire=LEGACY, session_id="old")
    with pytest.raises(HTTPStatusError):
        client.call("initialize")


@pytest.mark.parametrize(
    "reply",
    [Turn.accepted, lambda turn: turn.reply(200), lambda turn: turn.reply(204), lambda turn: turn.json({})],
)
def test_any_success_does_for_a_notification(session: Any, reply: Any) -> None:
    client = session(reply)
    client.notify()
    client.notify()
    assert client.server.connections == 1


def test_a_refused_notification_says_why(session: Any) -> None:
    client = session(lambda turn: turn.reply(400, b"who are you?", {"Content-Type": "text/plain"}))
    with pytest.raises(HTTPStatusError, match=r"notifications/initialized: .* answered 400: who are you\?"):
        client.notify()


# --- the end ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 202, 204, 400, 401, 404, 405, 500, 501])
def test_whatever_the_server_says_to_delete_close_is_quiet(session: Any, status: int, caplog: Any) -> None:
    caplog.set_level("INFO")
    client = session(
        lambda turn: turn.reply(status) if turn.method == "DELETE" else opening(turn), wire=LEGACY
    )
    client.call("initialize")
    client.channel.close(Deadline(PATIENCE))
    assert client.server.turns[-1].method == "DELETE"
    assert caplog.records == []


def test_a_discarded_channel_closes_its_connections_without_a_word(session: Any) -> None:
    closed = threading.Event()

    def script(turn: Turn) -> None:
        opening(turn)
        if turn.wait_for_close():
            closed.set()

    client = session(script, wire=LEGACY)
    client.call("initialize")
    client.channel.discard()
    assert closed.wait(PATIENCE)
    client.channel.close(Deadline(PATIENCE))
    assert [turn.method for turn in client.server.turns] == ["POST"]


def test_a_server_that_does_not_answer_delete_delays_close_little(session: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("mcp_sync.transports._http.channel._DELETE_SECONDS", 0.1)
    over = threading.Event()
    client = session(lambda turn: turn.wait(over) if turn.method == "DELETE" else opening(turn), wire=LEGACY)
    client.call("initialize")
    before = time.monotonic()
    client.channel.close(Deadline(PATIENCE))
    assert time.monotonic() - before < PATIENCE / 2
    over.set()


@pytest.mark.parametrize("what", ["request", "notification"])
def test_a_session_that_the_server_does_not_know_any_more_is_not_ended(session: Any, what: str) -> None:
    def script(turn: Turn) -> None:
        turn.reply(404) if "mcp-session-id" in turn.headers else opening(turn)

    client = session(script, wire=LEGACY)
    client.call("initialize")
    with pytest.raises(SessionExpired):
        client.call() if what == "request" else client.notify()
    client.channel.close(Deadline(PATIENCE))
    assert [turn.method for turn in client.server.turns] == ["POST", "POST"]


def test_close_is_quiet_when_the_server_is_gone() -> None:
    with ScriptedServer(opening) as server:
        context = connected(server.url, wire=LEGACY)
        client = context.__enter__()
        client.call("initialize")
    context.__exit__(None, None, None)


def test_without_a_session_nothing_is_sent_at_the_end(session: Any) -> None:
    client = session(lambda turn: turn.result(), wire=LEGACY)
    client.call("initialize")
    client.channel.close(Deadline(PATIENCE))
    assert [turn.method for turn in client.server.turns] == ["POST"]


# --- cookies ---------------------------------------------------------------------------------------------


def test_cookies_go_with_post_get_and_delete(session: Any) -> None:
    def script(turn: Turn) -> None:
        if turn.method == "GET":
            turn.stream(event(NOTE), headers={"Set-Cookie": "GET=2; Path=/"})
            turn.wait_for_close()
        elif turn.method == "POST" and turn.message["method"] == "initialize":
            turn.result(headers={"Mcp-Session-Id": "s", "Set-Cookie": "LB=node1; Path=/"})
        elif turn.method == "POST":
            turn.result(turn.headers.get("cookie"))
        else:
            turn.reply(200)

    client = session(script, wire=LEGACY)
    client.call("initialize")
    assert client.call() == "LB=node1"
    client.channel.configure(LISTENING)
    client.inbound.wait_until(lambda: bool(client.inbound.messages))
    assert set(client.call().split("; ")) == {"LB=node1", "GET=2"}
    client.channel.close(Deadline(PATIENCE))
    get, delete = (next(t for t in client.server.turns if t.method == method) for method in ("GET", "DELETE"))
    assert get.headers["cookie"] == "LB=node1"
    assert set(delete.headers["cookie"].split("; ")) == {"LB=node1", "GET=2"}


def test_cookies_are_shared_by_threads_and_follow_their_path(session: Any) -> None:
    def script(turn: Turn) -> None:
        headers = (
            {"Set-Cookie": "elsewhere=1; Path=/other"} if turn.number == 1 else {"Set-Cookie": f"n={turn.id}"}
        )
        turn.result(turn.headers.get("cookie"), headers)

    client = session(script)
    client.call()
    client.call()
    barrier = threading.Barrier(8)
    results: list[Any] = []

    def work() -> None:
        barrier.wait()
        for _ in range(20):
            results.append(client.call())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 160
    assert all(cookie.startswith("n=") and "elsewhere" not in cookie for cookie in results)
