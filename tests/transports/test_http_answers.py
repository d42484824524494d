"""What the channel makes of the answer to one request."""

from __future__ import annotations

import gzip
import json
import socket
import sys
import threading
import zlib
from collections.abc import Iterator
from typing import Any, Callable

import pytest
import requests
from http_server import (
    LEGACY,
    Turn,
    answer,
    connected,
    event,
    frame_of,
    gzipped,
    in_thread,
    serving,
)

from mcp_sync._concurrency.deadline import Deadline
from mcp_sync._concurrency.pending import PendingCall
from mcp_sync.errors import (
    ConnectionLost,
    HTTPStatusError,
    InvalidMessage,
    InvalidParams,
    MessageTooLarge,
    MethodNotFound,
    RemoteError,
)
from mcp_sync.options import Limits
from mcp_sync.transports._http.inflating import Inflater

TEXT = "\u2705 \u5165\u53e3 \U0001f600 \x85"
EVENTS = {"Content-Type": "text/event-stream"}


@pytest.fixture
def session() -> Iterator[Callable[..., Any]]:
    """Make a server of a script and return a client of it."""
    with serving() as start:
        yield start


# --- JSON ------------------------------------------------------------------------------------------------


def test_a_json_answer_settles_the_call(session: Any) -> None:
    client = session(lambda turn: turn.result({"n": 1}))
    assert client.call() == {"n": 1}
    assert client.call() == {"n": 1}
    assert client.server.connections == 1


def test_the_request_is_one_post_with_the_headers_of_the_protocol(session: Any) -> None:
    client = session(lambda turn: turn.result())
    client.call(headers={"Mcp-Method": "tools/call", "Mcp-Name": "echo"})
    turn = client.server.turns[0]
    assert (turn.method, turn.path, turn.message["method"]) == ("POST", "/mcp", "tools/call")
    assert turn.headers["accept"] == "application/json, text/event-stream"
    assert turn.headers["content-type"] == "application/json"
    assert turn.headers["mcp-protocol-version"] == "2026-07-28"
    assert (turn.headers["mcp-method"], turn.headers["mcp-name"]) == ("tools/call", "echo")
    assert turn.headers["host"] == f"127.0.0.1:{client.server.port}"
    assert turn.headers["content-length"] == str(len(turn.body))
    assert "mcp-session-id" not in turn.headers


@pytest.mark.parametrize("kind", ["application/json; charset=iso-8859-1", "Application/JSON", ""])
def test_a_json_body_is_utf8_whatever_its_charset(session: Any, kind: str) -> None:
    def script(turn: Turn) -> None:
        body = json.dumps(answer(turn.id, TEXT), ensure_ascii=False).encode()
        turn.reply(200, body, {"Content-Type": kind} if kind else {})

    assert session(script).call() == TEXT


def test_a_json_body_may_come_in_chunks_and_byte_by_byte(session: Any) -> None:
    def script(turn: Turn) -> None:
        turn.head(200, {"Content-Type": "application/json", "Transfer-Encoding": "chunked"})
        for byte in json.dumps(answer(turn.id, TEXT), ensure_ascii=False).encode():
            turn.chunk(bytes([byte]))
        turn.end()

    client = session(script)
    assert [client.call(), client.call()] == [TEXT, TEXT]
    assert client.server.connections == 1


def test_a_json_body_may_end_with_the_connection(session: Any) -> None:
    def script(turn: Turn) -> None:
        turn.head_and({"Content-Type": "application/json"}, json.dumps(answer(turn.id, 1)).encode())
        turn.close()

    client = session(script)
    assert [client.call(), client.call()] == [1, 1]


@pytest.mark.parametrize("coding", ["gzip", "deflate", "raw deflate", "two gzip members"])
def test_a_compressed_json_body_is_read(session: Any, coding: str) -> None:
    def script(turn: Turn) -> None:
        body = json.dumps(answer(turn.id, TEXT * 100_000)).encode()
        raw = zlib.compressobj(wbits=-15)
        packed = {
            "gzip": gzip.compress(body),
            "deflate": zlib.compress(body),
            "raw deflate": raw.compress(body) + raw.flush(),
            "two gzip members": gzip.compress(body[:1000]) + gzip.compress(body[1000:]),
        }[coding]
        name = "deflate" if "deflate" in coding else "gzip"
        turn.reply(200, packed, {"Content-Type": "application/json", "Content-Encoding": name})

    client = session(script)
    assert client.call() == TEXT * 100_000
    assert client.call() == TEXT * 100_000
    assert client.server.connections == 1
    assert client.server.turns[0].headers["accept-encoding"] == "gzip, deflate"


def test_an_unknown_coding_is_named(session: Any) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "br"}
    client = session(lambda turn: turn.reply(200, b"xxxx", headers))
    with pytest.raises(InvalidMessage, match=rf"^tools/call: {client.channel.peer}: .*'br'"):
        client.call()


def test_an_unknown_coding_does_not_hide_a_refusal(session: Any) -> None:
    client = session(lambda turn: turn.reply(403, b"xxxx", {"Content-Encoding": "br"}))
    with pytest.raises(HTTPStatusError, match="403"):
        client.call()


def test_an_integer_that_is_too_long_is_named(session: Any) -> None:
    body = b'{"jsonrpc": "2.0", "id": 1, "result": {"n": ' + b"9" * 5000 + b"}}"
    client = session(lambda turn: turn.reply(200, body, {"Content-Type": "application/json"}))
    with pytest.raises(InvalidMessage, match=r"^tools/call: .*an integer of more than 4300 digits"):
        client.call()


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_a_body_above_the_limit_is_refused(session: Any, packed: bool, framing: str) -> None:
    def script(turn: Turn) -> None:
        body = json.dumps(answer(turn.id, "x" * 20_000)).encode()
        headers = {"Content-Type": "application/json"}
        if packed:
            body, headers["Content-Encoding"] = gzip.compress(body), "gzip"
        if framing == "length":
            turn.reply(200, body, headers)
        else:
            turn.head(200, {**headers, "Transfer-Encoding": "chunked"})
            turn.chunk(body)
            turn.end()

    client = session(script, limits=Limits(message_bytes=10_000))
    with pytest.raises(MessageTooLarge) as caught:
        client.call()
    assert (caught.value.limit, caught.value.request_sent) == (10_000, True)
    assert str(caught.value).startswith(f"tools/call: {client.channel.peer}: ")


def test_a_small_packet_that_inflates_without_end_is_refused(session: Any) -> None:
    bomb = gzip.compress(b"[" + b" " * 50_000_000)
    assert len(bomb) < 100_000
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    client = session(lambda turn: turn.reply(200, bomb, headers), limits=Limits(message_bytes=1_000_000))
    with pytest.raises(MessageTooLarge):
        client.call()


def test_compressed_bytes_are_undone_a_piece_at_a_time() -> None:
    bomb = gzip.compress(b" " * 50_000_000)
    pieces = iter([bomb, b""])
    inflater = Inflater("gzip")
    looks: list[None] = []
    sizes = [
        len(data) for data in iter(lambda: inflater.next(pieces.__next__, lambda: looks.append(None)), b"")
    ]
    assert sum(sizes) == 50_000_000
    assert max(sizes) <= 1_000_000
    assert len(looks) == len(sizes) - 1, "one look before each piece but the first"


def test_what_the_look_between_two_pieces_raises_ends_the_reading() -> None:
    def late() -> None:
        raise socket.timeout("too late")

    nothing = gzip.compress(b"")
    with pytest.raises(socket.timeout):
        Inflater("gzip").next(lambda: nothing * 2, late)
    assert Inflater("gzip").next(lambda: nothing + gzip.compress(b"x"), lambda: None) == b"x"


def test_a_truncated_compressed_body_is_a_lost_connection(session: Any) -> None:
    def script(turn: Turn) -> None:
        body = gzip.compress(json.dumps(answer(turn.id, TEXT * 1000)).encode())
        turn.reply(200, body[:-20], {"Content-Type": "application/json", "Content-Encoding": "gzip"})

    with pytest.raises(ConnectionLost):
        session(script).call()


def test_a_truncated_body_is_a_lost_connection(session: Any) -> None:
    def script(turn: Turn) -> None:
        turn.head_and({"Content-Type": "application/json", "Content-Length": "100"}, b'{"jsonrpc"')
        turn.close()

    with pytest.raises(ConnectionLost) as caught:
        session(script).call()
    assert caught.value.request_sent is True


# --- what is no answer -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "kind", "body"),
    [
        (200, "text/html", b"<html>Sign in</html>"),
        (200, "application/json", b"<html>Sign in</html>"),
        (200, "text/plain; charset=utf-8", b"Sign in"),
        (200, "", b"Sign in"),
    ],
)
def test_a_page_instead_of_a_message_is_named(session: Any, status: int, kind: str, body: bytes) -> None:
    headers = {"Content-Type": kind} if kind else {}
    client = session(lambda turn: turn.reply(status, body, headers))
    with pytest.raises(InvalidMessage) as caught:
        client.call("initialize")
    text = str(caught.value)
    for part in (client.server.url, str(status), kind or "no content type", "Sign in"):
        assert part in text
    assert "Sign in" in caught.value.excerpt


@pytest.mark.parametrize(
    ("status", "headers"), [(202, {}), (200, {}), (200, {"Content-Type": "application/json"})]
)
def test_an_empty_answer_to_a_request_is_refused_at_once(session: Any, status: int, headers: Any) -> None:
    client = session(lambda turn: turn.reply(status, b"", headers))
    with pytest.raises(InvalidMessage, match=f"answered {status}"):
        client.call()
    assert client.server.turns[0].id == 1


@pytest.mark.parametrize("message", [answer(99), [], "text", 5, [answer(99)]])
def test_json_that_answers_nothing_is_refused(session: Any, message: Any) -> None:
    client = session(lambda turn: turn.json(message))
    with pytest.raises(InvalidMessage, match="does not answer"):
        client.call()


def test_a_batch_with_the_answer_is_taken(session: Any) -> None:
    client = session(lambda turn: turn.json([{"jsonrpc": "2.0", "method": "x"}, answer(turn.id, 3)]))
    assert client.call() == 3
    assert client.inbound.messages == [{"jsonrpc": "2.0", "method": "x"}]


# --- failures --------------------------------------------------------------------------------------------

ERROR = {"code": -32602, "message": "bad arg", "data": {"at": 1}}


@pytest.mark.parametrize("request_id", ["own", "own as text", None, "absent"])
def test_a_jsonrpc_error_in_an_http_failure_is_raised(session: Any, request_id: Any) -> None:
    def script(turn: Turn) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "error": ERROR}
        if request_id != "absent":
            own = {"own": turn.id, "own as text": str(turn.id)}
            message["id"] = own.get(request_id, request_id)
        turn.json(message, 400)

    client = session(script)
    for _ in range(2):
        with pytest.raises(InvalidParams) as caught:
            client.call()
        assert (caught.value.code, caught.value.message, caught.value.data) == (-32602, "bad arg", {"at": 1})
        assert caught.value.status == 400
    assert client.server.connections == 1


def test_an_error_of_another_request_is_an_http_failure(session: Any) -> None:
    client = session(lambda turn: turn.json({"jsonrpc": "2.0", "id": 99, "error": ERROR}, 400))
    with pytest.raises(HTTPStatusError) as caught:
        client.call()
    assert "bad arg" in caught.value.body_excerpt


@pytest.mark.parametrize(
    ("status", "kind", "body"),
    [
        (400, "text/plain", b"nope"),
        (400, "text/plain", json.dumps({"jsonrpc": "2.0", "error": ERROR}).encode()),
        (500, "text/html", b"<html>" + b"x" * 2000),
        (500, "application/json", b"{"),
        (500, "application/json", b'{"error": "text"}'),
        (503, "", b""),
    ],
)
def test_another_http_failure_has_status_and_excerpt(
    session: Any, status: int, kind: str, body: bytes
) -> None:
    headers = {"Content-Type": kind, "Set-Cookie": "secret=1", "X-Other": "2"}
    client = session(lambda turn: turn.reply(status, body, headers) if turn.number == 0 else turn.result(1))
    with pytest.raises(HTTPStatusError) as caught:
        client.call()
    error = caught.value
    assert (error.status, error.url, error.request_sent) == (status, client.server.url, True)
    assert error.body_excerpt == body.decode()[:500]
    assert error.headers["x-other"] == "2"
    assert "set-cookie" not in error.headers
    assert client.call() == 1, "the channel stays usable"


AUTHORIZE = " (give credentials by headers= or auth=)"
PATH = " (is the path right, such as /mcp?)"


@pytest.mark.parametrize(
    ("status", "options", "hint"),
    [
        (401, {}, AUTHORIZE),
        (403, {}, AUTHORIZE),
        (401, {"headers": {"authorization": "Bearer x"}}, ""),
        (403, {"auth": ("me", "word")}, ""),
        (404, {}, PATH),
        (404, {"wire": LEGACY}, PATH),
        (400, {}, ""),
        (405, {}, ""),
    ],
)
@pytest.mark.parametrize("own", [True, False])
def test_a_failure_that_is_often_ones_own_comes_with_a_hint(
    session: Any, status: int, options: Any, hint: str, own: bool
) -> None:
    with requests.Session() as mine:
        client = session(
            lambda turn: turn.reply(status, b"no"), **options, **({} if own else {"session": mine})
        )
        with pytest.raises(HTTPStatusError) as caught:
            client.call()
        assert str(caught.value).endswith(f" answered {status}: no{hint}")
        with pytest.raises(HTTPStatusError) as caught:
            client.notify()
        assert str(caught.value).endswith(f" answered {status}: no{hint}")


def test_a_challenge_is_passed_on(session: Any) -> None:
    challenge = 'Bearer resource_metadata="https://example.com/x"'
    client = session(lambda turn: turn.reply(401, b"", {"WWW-Authenticate": challenge}))
    with pytest.raises(HTTPStatusError) as caught:
        client.call()
    assert caught.value.headers["www-authenticate"] == challenge
    assert caught.value.status == 401


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("1", 1.0), ("86400", 86400.0), ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0), ("soon", None), ("", None)],
)
def test_retry_after_is_read_as_seconds(session: Any, value: str, seconds: Any) -> None:
    client = session(lambda turn: turn.reply(429, b"", {"Retry-After": value}))
    with pytest.raises(HTTPStatusError) as caught:
        client.call()
    assert caught.value.retry_after == seconds


def test_a_method_that_the_server_lacks_is_no_lost_session(session: Any) -> None:
    def script(turn: Turn) -> None:
        error = {"code": -32601, "message": "Method not found"}
        turn.json({"jsonrpc": "2.0", "id": turn.id, "error": error}, 404)

    with pytest.raises(MethodNotFound) as caught:
        session(script).call("server/discover")
    assert caught.value.status == 404


def test_the_body_of_a_failure_that_never_ends_is_not_waited_for(session: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("mcp_sync.transports._http.responses._EXCERPT_SECONDS", 0.05)
    over = threading.Event()

    def script(turn: Turn) -> None:
        turn.head_and({"Content-Type": "text/plain", "Content-Length": "100"}, b"overloaded", 503)
        turn.wait(over)

    client = session(script)
    try:
        with pytest.raises(HTTPStatusError) as caught:
            client.call()
    finally:
        over.set()
    assert caught.value.body_excerpt == "overloaded"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the reset may take the answer with it")
def test_a_refusal_before_the_request_was_read_is_seen() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)

        def refuse() -> None:
            sock, _ = listener.accept()
            sock.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            sock.shutdown(socket.SHUT_WR)
            sock.close()

        with in_thread(refuse), connected(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp") as client:
            call = client.pending(timeout=5)
            with pytest.raises(HTTPStatusError) as caught:
                client.channel.request(frame_of(call)._replace(body=b" " * 30_000_000), call)
            assert caught.value.status == 413


# --- event streams ---------------------------------------------------------------------------------------

NOTE = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"n": 1}}


def framed(turn: Turn, framing: str, pieces: list[bytes], waits: list[threading.Event]) -> None:
    """Send an event stream in one of the ways that HTTP knows, waiting before each piece but the first."""
    packer = zlib.compressobj(wbits=31)

    def packed(data: bytes) -> bytes:
        return packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH) if "gzip" in framing else data

    headers = dict(EVENTS)
    if "gzip" in framing:
        headers["Content-Encoding"] = "gzip"
    data = [packed(piece) for piece in pieces]
    if "chunked" in framing:
        headers["Transfer-Encoding"] = "chunked"
    elif "length" in framing:
        headers["Content-Length"] = str(sum(map(len, data)))
    turn.head(200, headers)
    for wait, piece in zip([None, *waits], data):
        if wait is not None:
            turn.wait(wait)
        turn.chunk(piece) if "chunked" in framing else turn.write(piece)
    if "chunked" in framing:
        turn.end()
    if "close" in framing:
        turn.close()


FRAMINGS = ["chunked", "close", "length", "gzip chunked", "gzip close", "gzip length"]


@pytest.mark.parametrize("framing", FRAMINGS)
def test_each_event_is_delivered_the_moment_it_arrives(session: Any, framing: str) -> None:
    arrived = [threading.Event(), threading.Event()]

    def script(turn: Turn) -> None:
        pieces = [event(NOTE), event(NOTE), event(answer(turn.id, TEXT))]
        framed(turn, framing, pieces, arrived)

    client = session(script)
    # The server goes on only when the event before has been delivered.
    client.inbound.on_message = lambda _: arrived[len(client.inbound.messages) - 1].set()
    assert client.call() == TEXT
    assert client.inbound.messages == [NOTE, NOTE]


@pytest.mark.parametrize("framing", ["chunked", "length"])
def test_the_connection_of_a_finished_stream_is_used_again(session: Any, framing: str) -> None:
    client = session(lambda turn: framed(turn, framing, [event(answer(turn.id, turn.number))], []))
    assert [client.call() for _ in range(5)] == [0, 1, 2, 3, 4]
    assert client.server.connections == 1


def test_the_end_of_a_stream_that_comes_after_the_answer_is_not_waited_for(session: Any) -> None:
    returned = threading.Event()

    def script(turn: Turn) -> None:
        turn.stream(event(answer(turn.id, turn.number)))
        if turn.number == 0:
            turn.wait(returned)
            turn.end()
            ended.set()

    ended = threading.Event()
    client = session(script)
    assert client.call() == 0
    returned.set()
    assert ended.wait(5)
    assert client.call() == 1
    assert client.server.connections == 1


def test_a_stream_that_stays_open_after_the_answer_is_closed_with_the_next_call(session: Any) -> None:
    closed = threading.Event()

    def script(turn: Turn) -> None:
        turn.stream(event(answer(turn.id, turn.number)))
        if turn.number == 0:
            if turn.wait_for_close():
                closed.set()
        else:
            turn.end()

    client = session(script)
    assert client.call() == 0
    assert client.call() == 1
    assert closed.wait(5)


def test_events_split_within_a_character_and_within_line_ends_are_read(session: Any) -> None:
    def script(turn: Turn) -> None:
        turn.stream()
        body = json.dumps(answer(turn.id, TEXT), ensure_ascii=False).encode()
        for byte in b"event: message\r\ndata: " + body + b"\r\n\r\n":
            turn.chunk(bytes([byte]))
        turn.end()

    assert session(script).call() == TEXT


@pytest.mark.parametrize(
    "priming",
    [b"id: s1_0\ndata: \n\n", b"id: s1_0\ndata:\n\n", b"id: s1_0\n\n", b"id: s1_0\nretry: 500\ndata:\n\n"],
)
def test_a_priming_event_delivers_nothing(session: Any, priming: bytes) -> None:
    client = session(
        lambda turn: turn.stream(priming, event(answer(turn.id, 5), b"event: message\nid: s1_1\n")),
        wire=LEGACY,
    )
    assert client.call() == 5
    assert client.inbound.messages == client.inbound.reports == []


def test_an_event_that_is_no_message_is_reported_and_passed_over(session: Any) -> None:
    client = session(lambda turn: turn.stream(b"data: {oops\n\n", event(answer(turn.id, 5))))
    assert client.call() == 5
    assert [type(error) for error in client.inbound.reports] == [InvalidMessage]


def test_requests_of_the_server_come_through(session: Any) -> None:
    ask = {"jsonrpc": "2.0", "id": "s1", "method": "sampling/createMessage", "params": {}}
    client = session(lambda turn: turn.stream(event(ask), event(answer(turn.id, 5))), wire=LEGACY)
    assert client.call() == 5
    assert client.inbound.messages == [ask]


@pytest.mark.parametrize("wire", [LEGACY, None])
@pytest.mark.parametrize("how", ["no event", "an event", "a cut event", "reset"])
def test_a_stream_that_ends_without_the_answer_fails_the_call_at_once(
    session: Any, how: str, wire: Any
) -> None:
    received = threading.Event()

    def script(turn: Turn) -> None:
        turn.stream()
        if how != "no event":
            turn.chunk(event(NOTE))
            turn.wait(received)
        if how == "a cut event":
            turn.chunk(b'data: {"jsonrpc": "2.0", "id": 1, "result": ')
        if how == "reset":
            turn.reset()
            return
        turn.end()

    client = session(script, **({"wire": wire} if wire else {}))
    client.inbound.on_message = lambda _: received.set()
    with pytest.raises(ConnectionLost, match="ended without the answer") as caught:
        client.call()
    assert caught.value.request_sent is True
    assert [turn.method for turn in client.server.turns] == ["POST"]


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b'{"jsonrpc": "2.0", "id": 1}', """; it held '{"jsonrpc": "2.0", "id": 1}'"""),
        (b"\xef\xbb\xbf: hello\n<html>\n\n<p>\n\n", "; it held '<html>'"),
        (b"data: no JSON\n\n", "; it held 'no JSON'"),
        (b'data: {"cut', """; it held 'data: {"cut'"""),
        (b"\xff" * 5000, f"; it held '{chr(0xFFFD) * 100}'"),
        (event({"jsonrpc": "2.0", "id": 9999, "result": {}}), "; it held an answer with the id 9999"),
        (b": hello\n\nid: 1\nretry: 5\nevent: x\n\n: bye", ""),
        (b"\n", ""),
        (b"", ""),
    ],
)
def test_a_stream_without_the_answer_is_shown(session: Any, body: bytes, shown: str, at_once: bool) -> None:
    def script(turn: Turn) -> None:
        turn.stream(*([body] if body and at_once else [bytes([byte]) for byte in body]))
        turn.end()

    with pytest.raises(ConnectionLost) as caught:
        session(script).call()
    assert str(caught.value).endswith("ended without the answer" + shown)


def test_a_broken_stream_is_never_taken_up_on_the_stateless_revision(session: Any) -> None:
    def script(turn: Turn) -> None:
        turn.stream(b"id: 1\nretry: 1\ndata:\n\n")
        turn.end()

    client = session(script)
    with pytest.raises(ConnectionLost):
        client.call()
    assert [turn.method for turn in client.server.turns] == ["POST"]


def test_an_event_above_the_limit_is_refused(session: Any) -> None:
    closed = threading.Event()

    def script(turn: Turn) -> None:
        turn.stream(b"data: " + b"x" * 20_000)
        if turn.wait_for_close():
            closed.set()

    client = session(script, limits=Limits(message_bytes=10_000))
    with pytest.raises(MessageTooLarge, match=f"^tools/call: {client.channel.peer}: "):
        client.call()
    assert closed.wait(5)


def test_an_error_in_the_stream_settles_the_call(session: Any) -> None:
    client = session(lambda turn: turn.stream(event({"jsonrpc": "2.0", "id": turn.id, "error": ERROR})))
    assert client.call()["error"] == ERROR


# --- heads -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200\r\nContent-Type: application/json\r\n",
        b"HTTP/1.1 200 \r\ncontent-type:application/json\r\n",
        b"HTTP/1.1 200 OK\r\nX-Folded: a\r\n b\r\nContent-Type: application/json\r\n",
        b"HTTP/1.1 200 OK\nContent-Type: application/json\n",
        b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\nConnection: keep-alive\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: application/json\r\n",
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: application/json\r\n",
        b"HTTP/1.1 200 OK\r\n"
        + b"".join(b"X-%d: y\r\n" % n for n in range(90))
        + b"Content-Type: application/json\r\n",
        b"HTTP/1.1 200 OK\r\nX-Long: " + b"y" * 60_000 + b"\r\nContent-Type: application/json\r\n",
        b"HTTP/1.1 200 OK\r\nX-Odd: \xe9\xff\r\nContent-Type:\tapplication/json \r\n",
        b"HTTP/1.1 200 OK\r\nX-A: 1\r\nX-A: 2\r\nContent-Type: application/json\r\n",
    ],
)
@pytest.mark.parametrize("framing", ["length", "chunked", "split"])
def test_odd_heads_are_understood(session: Any, head: bytes, framing: str) -> None:
    end = b"\n" if head.endswith(b"json\n") else b"\r\n"

    def script(turn: Turn) -> None:
        body = json.dumps(answer(turn.id, 5)).encode()
        if framing == "chunked" and not head.startswith(b"HTTP/1.0"):
            turn.write(
                head + b"Transfer-Encoding: Chunked" + end * 2 + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
            )
            return
        data = head + b"Content-Length: %d" % len(body) + end * 2 + body
        if framing == "split":
            for cut in range(0, len(data), 1 + len(data) // 40):
                turn.write(data[cut : cut + 1 + len(data) // 40])
        else:
            turn.write(data)

    client = session(script)
    assert [client.call(), client.call()] == [5, 5]
    assert client.server.connections == 1


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"garbage\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_rubbish_is_a_lost_connection(session: Any, data: bytes) -> None:
    def script(turn: Turn) -> None:
        turn.write(data)
        turn.close()

    with pytest.raises(ConnectionLost) as caught:
        session(script).call()
    assert caught.value.request_sent is True


def test_what_follows_the_body_is_not_taken_for_the_next_answer(session: Any) -> None:
    def script(turn: Turn) -> None:
        body = json.dumps(answer(turn.id, turn.number)).encode()
        surplus = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n{}"
        turn.head_and({"Content-Type": "application/json", "Content-Length": str(len(body))}, body + surplus)

    client = session(script)
    assert [client.call() for _ in range(3)] == [0, 1, 2]
    assert client.server.connections == 3


def test_connection_close_is_obeyed(session: Any) -> None:
    client = session(lambda turn: turn.result(turn.number, {"Connection": "close"}))
    assert [client.call(), client.call()] == [0, 1]
    assert client.server.connections == 2


def test_answers_of_all_kinds_do_not_mix_between_threads(session: Any) -> None:
    def script(turn: Turn) -> None:
        if turn.id % 3 == 0:
            turn.stream(event(NOTE), event(answer(turn.id, turn.id)))
            turn.end()
        elif turn.id % 3 == 1:
            turn.result(turn.id)
        else:
            turn.json({"jsonrpc": "2.0", "id": turn.id, "error": {"code": turn.id, "message": "x"}}, 500)

    client = session(script)
    barrier = threading.Barrier(8)
    wrong: list[Any] = []

    def work(first: int) -> None:
        barrier.wait()
        for number in range(first, first + 300, 8):
            call = PendingCall(number, "tools/call", Deadline(10))
            try:
                if client.send(call) != number:
                    wrong.append(number)
            except RemoteError as error:
                if error.code != number:
                    wrong.append(number)

    workers = [in_thread(work, 1 + index) for index in range(8)]
    for worker in workers:
        worker.__enter__()
    for worker in workers:
        worker.__exit__(None, None, None)
    assert wrong == []
    assert client.server.connections <= 8


def test_gzipped_pieces_are_each_complete() -> None:
    assert zlib.decompressobj(wbits=31).decompress(gzipped(b"data: 1\n\n")) == b"data: 1\n\n"
