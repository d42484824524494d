"""HTTP with SSE: messages go out by POST and come in on the stream; and what a POST may be answered with."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from http_server import MODERN, PATIENCE, Turn, answer, event, frame_of, in_thread, shut
from sse_server import SSEScript, named, sse_session

from mcp_sync._concurrency.deadline import Deadline
from mcp_sync._protocol.frames import Frame, Wire
from mcp_sync.errors import (
    CallCancelled,
    CallTimeout,
    ConnectFailed,
    ConnectionLost,
    HTTPStatusError,
    InvalidParams,
    MessageTooLarge,
    RemoteError,
)
from mcp_sync.options import Limits

PROGRESS = {
    "jsonrpc": "2.0",
    "method": "notifications/progress",
    "params": {"progressToken": 1, "progress": 1},
}


def test_a_call_is_posted_and_answered_on_the_stream() -> None:
    with sse_session(SSEScript()) as client:
        assert client.call() == {"ok": True}
        get, post = client.server.turns
        assert (get.method, get.headers["accept"], get.body) == ("GET", "text/event-stream", b"")
        assert (post.method, post.headers["content-type"]) == ("POST", "application/json")
        assert post.message == {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}}


def test_one_connection_serves_the_posts_of_one_thread() -> None:
    with sse_session(SSEScript()) as client:
        for _ in range(5):
            client.call()
        assert client.server.connections == 2


def test_headers_of_a_call_and_of_the_revision_go_with_its_post() -> None:
    with sse_session(SSEScript(), headers={"X-Always": "1"}) as client:
        client.channel.configure(Wire())
        client.send(client.pending(), {"X-Once": "2"})
        client.channel.configure(MODERN)
        client.call()
        get, first, second = client.server.turns
        assert [turn.headers.get("x-always") for turn in (get, first, second)] == ["1", "1", "1"]
        assert [turn.headers.get("x-once") for turn in (get, first, second)] == [None, "2", None]
        versions = [turn.headers.get("mcp-protocol-version") for turn in (get, first, second)]
        assert versions == [None, None, MODERN.version_header]


def test_everything_on_the_stream_is_delivered_and_comments_are_not() -> None:
    script = SSEScript()
    with sse_session(script) as client:
        script.say(b": ping - 12:00\n\n")
        script.say(event(PROGRESS) + b":\n\nevent: ping\ndata: {}\n\n" + event([PROGRESS, PROGRESS]))
        client.inbound.wait_until(lambda: len(client.inbound.messages) == 3)
        assert client.inbound.messages == [PROGRESS] * 3
        assert client.inbound.reports == []


def test_what_is_no_message_is_reported_and_skipped() -> None:
    script = SSEScript()
    with sse_session(script) as client:
        script.say(b"data: nonsense\n\n" + event(PROGRESS))
        client.inbound.wait_until(lambda: bool(client.inbound.messages))
        assert [report.excerpt for report in client.inbound.reports] == ["nonsense"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("size", [10, 100_000])
def test_text_is_utf_8_whatever_its_size(size: int) -> None:
    script = SSEScript()
    text = "\u2705\u5165" * size
    body = json.dumps({"jsonrpc": "2.0", "method": "n", "params": {"t": text}}, ensure_ascii=False)
    with sse_session(script) as client:
        data = f"data: {body}\n\n".encode()
        for start in range(0, len(data), 4001):
            script.say(data[start : start + 4001])
        client.inbound.wait_until(lambda: bool(client.inbound.messages))
        assert client.inbound.messages[0]["params"]["t"] == text


def test_a_notification_and_a_response_are_posted() -> None:
    with sse_session(SSEScript()) as client:
        client.notify()
        client.channel.send(Frame(b'{"jsonrpc":"2.0","id":"s1","result":{}}'), Deadline(PATIENCE))
        assert [turn.message.get("method") for turn in client.server.turns[1:]] == [
            "notifications/initialized",
            None,
        ]
        assert client.channel.try_send(Frame(b"{}")) is False
        assert len(client.server.turns) == 3


# --- answers to a POST that bring something ------------------------------------------------------------


def with_json(turn: Turn) -> None:
    turn.result({"here": 1})


def with_json_in_202(turn: Turn) -> None:
    turn.json(answer(turn.id, {"here": 1}), status=202)


def with_batch(turn: Turn) -> None:
    turn.json([PROGRESS, answer(turn.id, {"here": 1})])


def with_events(turn: Turn) -> None:
    turn.stream(event(PROGRESS), event(answer(turn.id, {"here": 1})))
    turn.end()


def with_error(turn: Turn) -> None:
    turn.json({"jsonrpc": "2.0", "id": turn.id, "error": {"code": -32602, "message": "no"}})


@pytest.mark.parametrize("post", [with_json, with_json_in_202, with_batch, with_events])
def test_an_answer_in_the_response_to_the_post_is_taken(post: Any) -> None:
    script = SSEScript()
    script.on_post = post
    with sse_session(script) as client:
        assert client.call() == {"here": 1}
        assert client.call() == {"here": 1}


def test_an_error_in_the_response_to_the_post_is_taken() -> None:
    script = SSEScript()
    script.on_post = with_error
    with sse_session(script) as client:
        assert client.call()["error"]["code"] == -32602


def test_an_answer_may_come_in_both_places() -> None:
    script = SSEScript()

    def post(turn: Turn) -> None:
        script.say(event(answer(turn.id)))
        turn.result()

    script.on_post = post
    with sse_session(script) as client:
        assert [client.call() for _ in range(20)] == [{"ok": True}] * 20
        assert client.inbound.losses == []


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"Accepted", "text/plain"),
        (b"", "application/json"),
        (b"null", "application/json"),
        (b'{"status": "accepted"}', "application/json"),
        (b"Accepted", "application/json"),
        (b"<p>ok</p>", "text/html"),
        (b"", "text/event-stream"),
    ],
)
def test_other_words_of_acceptance_are_overheard(body: bytes, kind: str) -> None:
    script = SSEScript()

    def post(turn: Turn) -> None:
        turn.reply(200, body, {"Content-Type": kind})
        script.say(event(answer(turn.id)))

    script.on_post = post
    with sse_session(script) as client:
        assert client.call() == {"ok": True}
        assert (client.inbound.messages, client.inbound.reports) == ([], [])


def test_an_answer_that_comes_before_the_post_is_accepted_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_sync.transports._legacy_sse.channel._AWAIT_ACCEPTED", PATIENCE)
    script = SSEScript()

    def post(turn: Turn) -> None:
        script.say(event(answer(turn.id)))
        turn.accepted()

    script.on_post = post
    with sse_session(script) as client:
        assert [client.call() for _ in range(20)] == [{"ok": True}] * 20
        assert client.server.connections == 2


def test_an_answer_on_the_stream_counts_at_once_while_the_post_is_held_open() -> None:
    script = SSEScript()
    has_returned = threading.Event()

    def post(turn: Turn) -> None:
        script.say(event(answer(turn.id)))
        turn.wait(has_returned)

    script.on_post = post
    with sse_session(script) as client:
        assert client.call() == {"ok": True}
        has_returned.set()
        script.on_post = None
        assert client.call() == {"ok": True}


def test_an_answer_in_the_response_has_a_limit() -> None:
    script = SSEScript()
    script.on_post = lambda turn: turn.result("x" * 5000)
    with sse_session(script, limits=Limits(message_bytes=1000)) as client:
        with pytest.raises(MessageTooLarge):
            client.call()
        script.on_post = None
        assert client.call() == {"ok": True}


# --- refusals ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 401, 403, 405, 413, 429, 500, 503])
def test_a_refused_post_fails_the_call_at_once_and_nothing_else(status: int) -> None:
    script = SSEScript()
    with sse_session(script) as client:
        script.on_post = lambda turn: turn.reply(status, b"no such luck")
        call = client.pending()
        with pytest.raises(HTTPStatusError) as caught:
            client.send(call)
        assert (caught.value.status, caught.value.body_excerpt) == (status, "no such luck")
        assert call.request_sent is True
        script.on_post = None
        assert client.call() == {"ok": True}
        assert client.inbound.losses == []


@pytest.mark.parametrize("status", [400, 404, 500])
def test_a_json_rpc_error_for_the_request_is_that_error(status: int) -> None:
    script = SSEScript()

    def post(turn: Turn) -> None:
        turn.json({"jsonrpc": "2.0", "id": turn.id, "error": {"code": -32602, "message": "no"}}, status)

    script.on_post = post
    with sse_session(script) as client:
        with pytest.raises(InvalidParams) as caught:
            client.call()
        assert caught.value.status == status
        assert client.inbound.losses == []


def test_a_redirect_of_a_post_is_followed_within_the_origin() -> None:
    script = SSEScript()

    def post(turn: Turn) -> None:
        if turn.path == "/messages?sid=1":
            turn.reply(307, headers={"Location": "/messages/?sid=1"})
        else:
            script.on_post = None
            script(turn)

    script.on_post = post
    with sse_session(script) as client:
        assert client.call() == {"ok": True}
        assert client.server.turns[-1].path == "/messages/?sid=1"
        assert client.server.turns[-1].message["method"] == "tools/call"


@pytest.mark.parametrize("status", [302, 307])
def test_a_redirect_of_a_post_that_would_lose_or_betray_it_is_not_followed(status: int) -> None:
    where = "/elsewhere" if status == 302 else "http://evil.example/m"
    script = SSEScript()
    script.on_post = lambda turn: turn.reply(status, headers={"Location": where})
    with sse_session(script) as client:
        with pytest.raises(HTTPStatusError):
            client.call()
        assert len(client.server.turns) == 2


@pytest.mark.parametrize("method", ["tools/call", "notification"])
def test_a_404_means_that_the_session_is_gone_for_all(method: str) -> None:
    script = SSEScript()
    with sse_session(script) as client:
        waiting, posted = client.pending(), threading.Event()
        script.on_post = lambda turn: (turn.accepted(), posted.set())
        client.channel.request(frame_of(waiting), waiting)
        assert posted.wait(PATIENCE)
        script.on_post = lambda turn: turn.reply(404, b"Could not find session")
        with pytest.raises(ConnectionLost) as caught:
            client.notify() if method == "notification" else client.call()
        assert caught.value.request_sent is True
        assert waiting.wait()
        with pytest.raises(ConnectionLost):
            waiting.result()
        assert len(client.inbound.losses) == 1
        assert script.ended.acquire(timeout=PATIENCE)
        with pytest.raises(ConnectionLost):
            client.notify()
        assert len(client.server.turns) == 3


def test_a_404_to_initialize_is_a_wrong_path_and_no_lost_session() -> None:
    script = SSEScript()
    script.on_post = lambda turn: turn.reply(404)
    with sse_session(script) as client:
        with pytest.raises(HTTPStatusError, match=r"/messages answered 404"):
            client.call("initialize")
        assert client.inbound.losses == []


def test_a_404_with_an_error_that_is_not_for_the_request_is_a_lost_session_too() -> None:
    script = SSEScript()
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32001, "message": "Session not found"}}
    script.on_post = lambda turn: turn.json(error, 404)
    with sse_session(script) as client:
        with pytest.raises(ConnectionLost) as caught:
            client.call()
        assert not isinstance(caught.value, RemoteError)


# --- the end of the stream -----------------------------------------------------------------------------


def ends(turn: Turn) -> None:
    turn.end()


def closes(turn: Turn) -> None:
    turn.close()


def resets(turn: Turn) -> None:
    turn.reset()


@pytest.mark.parametrize("end", [ends, closes, resets])
def test_the_end_of_the_stream_fails_every_call_in_flight(end: Any) -> None:
    script = SSEScript()
    accepted, over = threading.Semaphore(0), threading.Event()

    def get(turn: Turn) -> None:
        turn.stream(named(script.endpoint))
        turn.wait(over)
        end(turn)

    def post(turn: Turn) -> None:
        turn.accepted()
        accepted.release()

    script.on_get, script.on_post = get, post
    with sse_session(script) as client:
        calls = [client.pending() for _ in range(3)]
        for call in calls:
            client.channel.request(frame_of(call), call)
            assert accepted.acquire(timeout=PATIENCE)
        over.set()
        for call in calls:
            assert call.wait()
            with pytest.raises(ConnectionLost) as caught:
                call.result()
            assert (caught.value.__cause__ is None) == (end is ends)
        assert len(client.inbound.losses) == 1
        with pytest.raises(ConnectionLost) as lost:
            client.call()
        assert lost.value.request_sent is False
        assert len(client.server.turns) == 4


def test_the_loss_wakes_a_call_whose_post_is_not_answered() -> None:
    script = SSEScript()
    posted = threading.Event()

    def post(turn: Turn) -> None:
        posted.set()
        turn.wait_for_close()

    script.on_post = post
    with sse_session(script) as client:
        call = client.pending()
        with in_thread(client.send, call) as sending:
            assert posted.wait(PATIENCE)
            script.stream.close()
            with pytest.raises(ConnectionLost):
                sending.result()
        assert call.request_sent is True


def test_an_event_that_is_too_large_ends_the_connection() -> None:
    script = SSEScript()
    with sse_session(script, limits=Limits(message_bytes=1000)) as client:
        call = client.pending()
        script.on_post = lambda turn: (turn.accepted(), script.say(b"data: " + b"x" * 2000))
        client.channel.request(frame_of(call), call)
        assert call.wait()
        with pytest.raises(MessageTooLarge):
            call.result()


# --- time, and cancelling ------------------------------------------------------------------------------


def test_a_post_that_is_not_answered_ends_with_the_deadline() -> None:
    script = SSEScript()
    script.on_post = lambda turn: turn.wait_for_close()
    with sse_session(script) as client:
        call = client.pending(timeout=0.2)
        with pytest.raises(CallTimeout):
            client.channel.request(frame_of(call), call)
        assert call.request_sent is True


def test_a_post_that_nobody_takes_was_not_sent() -> None:
    script = SSEScript()
    with sse_session(script) as client:
        client.server._stopping = True
        shut(client.server._listener)
        call = client.pending()
        with pytest.raises(ConnectFailed):
            client.send(call)
        assert call.request_sent is False


def test_a_cancelled_call_ends_while_its_post_is_not_answered() -> None:
    script = SSEScript()
    posted = threading.Event()

    def post(turn: Turn) -> None:
        posted.set()
        turn.wait_for_close()

    script.on_post = post
    with sse_session(script) as client:
        call = client.pending()
        with in_thread(client.send, call) as sending:
            assert posted.wait(PATIENCE)
            call.fail(CallCancelled("enough"))
            with pytest.raises(CallCancelled):
                sending.result()
        script.on_post = None
        assert client.call() == {"ok": True}


def test_a_call_that_is_settled_already_is_not_sent() -> None:
    with sse_session(SSEScript()) as client:
        call = client.pending()
        call.fail(CallCancelled("enough"))
        client.channel.request(frame_of(call), call)
        assert len(client.server.turns) == 1
