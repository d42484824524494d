"""HTTP with SSE: how the stream is opened, and where the server wants its messages."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from http_server import PATIENCE, ScriptedServer, Turn, event, in_thread
from sse_server import SSEScript, named, sse_client_of, sse_session

from mcp_sync.errors import (
    CallTimeout,
    ConnectFailed,
    ConnectionLost,
    HTTPStatusError,
    InvalidMessage,
    MCPError,
    MessageTooLarge,
    ProtocolError,
    UsageError,
)
from mcp_sync.options import Limits, Timeouts
from mcp_sync.transports import LegacySSE, StreamableHTTP
from mcp_sync.transports._legacy_sse.stream import resolved

STREAM = "https://h.example/p/sse"


def posted(client: Any) -> list[str]:
    """Return the paths that messages were sent to."""
    return [turn.path for turn in client.server.turns if turn.method == "POST"]


def opening_fault(script: Any, timeout: float = PATIENCE, **options: Any) -> Exception:
    """Open a stream that does not come about, and return the error."""
    with ScriptedServer(script) as server, sse_client_of(server.url, **options) as client:
        with pytest.raises(MCPError) as caught:
            client.start(timeout)
        assert client.threads() == []
    return caught.value


# --- the endpoint --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("/messages?sid=1", "https://h.example/messages?sid=1"),
        ("messages?sid=1", "https://h.example/p/messages?sid=1"),
        ("?sid=1", "https://h.example/p/sse?sid=1"),
        ("./m", "https://h.example/p/m"),
        ("../m", "https://h.example/m"),
        ("//h.example/m", "https://h.example/m"),
        ("https://h.example/m?sid=1", "https://h.example/m?sid=1"),
        ("https://h.example:443/m", "https://h.example:443/m"),
        ("HTTPS://H.example/m", "https://H.example/m"),
        ("/m?q=a%2Fb%7e%20c+d&e=%C3%A9", "https://h.example/m?q=a%2Fb%7e%20c+d&e=%C3%A9"),
        ("/a%2fb/m", "https://h.example/a%2fb/m"),
        ("/m?to=https://other.example/x", "https://h.example/m?to=https://other.example/x"),
        ("/m#part", "https://h.example/m"),
        ("/m;v=1?a=;", "https://h.example/m;v=1?a=;"),
        ("/a b/\u00e9?q=\u5165", "https://h.example/a%20b/%C3%A9?q=%E5%85%A5"),
        ("  /m  ", "https://h.example/m"),
        ("https://user:secret@h.example/m", "https://h.example/m"),
    ],
)
def test_the_endpoint_is_resolved_against_the_stream(reference: str, expected: str) -> None:
    assert resolved(STREAM, reference, "peer") == expected


@pytest.mark.parametrize(
    ("stream", "reference", "there", "here"),
    [
        (STREAM, "https://evil.example/m?k=secret", "https://evil.example:443", "https://h.example:443"),
        (STREAM, "//evil.example/secret", "https://evil.example:443", "https://h.example:443"),
        (STREAM, "http://h.example/m", "http://h.example:80", "https://h.example:443"),
        (STREAM, "https://h.example:8443/m", "https://h.example:8443", "https://h.example:443"),
        (STREAM, "https://h.example@evil.example/m", "https://evil.example:443", "https://h.example:443"),
        ("http://[::1]:80/sse", "http://[::2]/m", "http://[::2]:80", "http://[::1]:80"),
        (STREAM, "javascript:secret", "javascript://", "https://h.example:443"),
    ],
)
def test_an_endpoint_of_another_origin_is_refused(stream: str, reference: str, there: str, here: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        resolved(stream, reference, "the peer")
    assert there in str(caught.value)
    assert here in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "reference", ["http://[::1/m", "https://h.example:port/m", "https://h.example:99999/"]
)
def test_an_endpoint_that_is_no_url_is_refused(reference: str) -> None:
    with pytest.raises(ProtocolError, match="no URL"):
        resolved(STREAM, reference, "the peer")


@pytest.mark.parametrize(
    ("endpoint", "path"),
    [
        ("/messages?sid=1", "/messages?sid=1"),
        ("messages?sid=a%2Fb%7E", "/messages?sid=a%2Fb%7E"),
        ("?sid=1", "/mcp?sid=1"),
    ],
)
def test_messages_go_to_the_endpoint(endpoint: str, path: str) -> None:
    with sse_session(SSEScript(endpoint)) as client:
        assert client.call() == {"ok": True}
        client.notify()
        assert posted(client) == [path, path]


def test_an_absolute_endpoint_of_the_same_origin_is_taken() -> None:
    script = SSEScript()
    script.on_get = lambda turn: script.open(turn, named(f"http://{turn.headers['host']}/m?sid=1"))
    with sse_session(script) as client:
        assert client.call() == {"ok": True}
        assert posted(client) == ["/m?sid=1"]


@pytest.mark.parametrize(
    "events",
    [
        b"event: endpoint\r\ndata: /m?sid=1\r\n\r\n",
        b"event:endpoint\rdata:/m?sid=1\r\r",
        b": hello\n\nretry: 100\n\nevent: other\ndata: x\n\n" + named("/m?sid=1"),
        b"\xef\xbb\xbf" + named("/m?sid=1"),
    ],
)
def test_the_endpoint_is_found_however_the_event_is_written(events: bytes) -> None:
    script = SSEScript()
    script.on_get = lambda turn: script.open(turn, events)
    with sse_session(script) as client:
        client.call()
        assert posted(client) == ["/m?sid=1"]


def test_the_last_of_several_endpoints_counts() -> None:
    script = SSEScript()
    with sse_session(script) as client:
        client.call()
        script.say(named("/other?sid=2"))
        script.say(event({"jsonrpc": "2.0", "method": "notifications/x"}))
        client.inbound.wait_until(lambda: bool(client.inbound.messages))
        client.call()
        assert posted(client) == ["/messages?sid=1", "/other?sid=2"]


def test_a_later_endpoint_of_another_origin_ends_the_connection() -> None:
    script = SSEScript()
    with sse_session(script) as client:
        call = client.pending()
        script.on_post = lambda turn: (turn.accepted(), script.say(named("http://evil.example/m")))
        client.channel.request(*_framed(call))
        assert call.wait()
        with pytest.raises(ProtocolError, match="evil"):
            call.result()
        assert script.ended.acquire(timeout=PATIENCE)


def test_a_redirect_of_the_stream_moves_the_base_of_the_endpoint() -> None:
    script = SSEScript("messages?sid=1")

    def get(turn: Turn) -> None:
        if turn.path == "/mcp":
            turn.reply(302, headers={"Location": "/deep/path/sse?x=1"})
        else:
            script.open(turn)

    script.on_get = get
    with sse_session(script) as client:
        assert client.call() == {"ok": True}
        assert posted(client) == ["/deep/path/messages?sid=1"]


def test_a_redirect_of_the_stream_to_another_server_is_not_followed() -> None:
    script = SSEScript()
    script.on_get = lambda turn: turn.reply(307, headers={"Location": "http://evil.example/sse?k=secret"})
    error = opening_fault(script)
    assert isinstance(error, HTTPStatusError)
    assert "evil.example" in str(error)
    assert "secret" not in str(error)


# --- what may come instead -----------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 500, 503])
def test_a_refusal_of_the_stream_is_told_with_its_status(status: int) -> None:
    script = SSEScript()
    script.on_get = lambda turn: turn.reply(status, b"no such luck", {"WWW-Authenticate": "Bearer"})
    error = opening_fault(script)
    assert isinstance(error, HTTPStatusError)
    assert (error.status, error.body_excerpt) == (status, "no such luck")
    assert error.headers["www-authenticate"] == "Bearer"


def test_what_is_no_event_stream_is_told() -> None:
    script = SSEScript()
    script.on_get = lambda turn: turn.reply(200, b"<html>", {"Content-Type": "text/html"})
    error = opening_fault(script)
    assert isinstance(error, InvalidMessage)
    assert "text/html" in str(error)


def test_a_stream_that_ends_before_the_endpoint_is_told() -> None:
    script = SSEScript()
    script.on_get = lambda turn: (turn.stream(b"nonsense\n\n"), turn.end())
    error = opening_fault(script)
    assert isinstance(error, ConnectFailed)
    assert "nonsense" in str(error)


def test_a_stream_that_breaks_before_the_endpoint_is_told() -> None:
    script = SSEScript()
    script.on_get = lambda turn: (turn.stream(b": hello\n\n"), turn.reset())
    assert isinstance(opening_fault(script), ConnectionLost)


def test_an_endpoint_at_another_server_fails_the_opening() -> None:
    assert isinstance(opening_fault(SSEScript("http://evil.example/m")), ProtocolError)


def test_an_endless_first_event_is_too_large() -> None:
    script = SSEScript()
    script.on_get = lambda turn: turn.stream(b"data: " + b"x" * 5000)
    assert isinstance(opening_fault(script, limits=Limits(message_bytes=1000)), MessageTooLarge)


def test_nobody_there_is_a_failed_connection() -> None:
    with ScriptedServer(SSEScript()) as server:
        url = server.url
    with sse_client_of(url) as client, pytest.raises(ConnectFailed):
        client.start()


# --- bounds --------------------------------------------------------------------------------------------


def dripping(data: bytes) -> Any:
    """Return a script that sends the same bytes again and again, after the head if there is one."""

    def get(turn: Turn) -> None:
        turn.stream(b": hello\n\n")
        while not turn.server._stopping:
            turn.chunk(data)

    return get


def silent(turn: Turn) -> None:
    turn.wait_for_close()


def only_head(turn: Turn) -> None:
    turn.stream(b": hello\n\n")
    turn.wait_for_close()


@pytest.mark.parametrize("get", [silent, only_head, dripping(b": still here\n\n"), dripping(b"data: 1\n")])
def test_an_endpoint_that_never_comes_ends_with_the_bound_of_connecting(get: Any) -> None:
    error = opening_fault(get, timeouts=Timeouts(connect=0.2))
    assert isinstance(error, ConnectFailed)
    assert "Timeouts.connect" in str(error)


@pytest.mark.parametrize("get", [silent, only_head, dripping(b": still here\n\n")])
def test_an_endpoint_that_never_comes_ends_with_the_deadline(get: Any) -> None:
    error = opening_fault(get, timeout=0.2)
    assert isinstance(error, CallTimeout)


def test_the_stream_may_be_silent_for_longer_than_the_opening() -> None:
    script = SSEScript()
    with sse_session(script, start=False, timeouts=Timeouts(connect=0.2)) as client:
        client.start(0.2)
        call = client.pending()
        threading.Event().wait(0.4)  # Longer than all bounds of the opening.
        assert client.send(call) == {"ok": True}


def test_closing_ends_an_opening_under_way() -> None:
    script = SSEScript()
    begun = threading.Event()

    def get(turn: Turn) -> None:
        turn.stream(b": hello\n\n")
        begun.set()
        turn.wait_for_close()

    script.on_get = get
    with sse_session(script, start=False) as client, in_thread(client.start) as opening:
        assert begun.wait(PATIENCE)
        client.channel.discard()
        with pytest.raises(ConnectionLost, match="closed on this side"):
            opening.result()


def test_a_channel_that_was_closed_does_not_open() -> None:
    with sse_session(SSEScript(), start=False) as client:
        client.channel.discard()
        with pytest.raises(ConnectionLost):
            client.start()
        assert client.server.turns == []


# --- the target ----------------------------------------------------------------------------------------


def test_the_target_shows_no_secret_and_has_an_identity_of_its_own() -> None:
    target = LegacySSE("https://u:p@H.example/sse?key=k", headers={"X-Key": "k"})
    assert repr(target) == "LegacySSE('https://H.example/sse')"
    assert target.identity() == ("sse", ("https", "h.example", 443), "/sse")
    assert target == LegacySSE(target.url, headers={"X-Key": "k"})
    assert target != StreamableHTTP(target.url, headers={"X-Key": "k"})
    assert hash(target) == hash(LegacySSE(target.url))


@pytest.mark.parametrize(
    "options",
    [{"url": "ftp://h/x"}, {"auth": "word"}, {"session": 3}, {"verify": 1.5}, {"cert": 3}, {"proxies": "p"}],
)
def test_options_that_cannot_work_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        LegacySSE(**{"url": "http://h.example/sse", **options})


def _framed(call: Any) -> tuple[Any, Any]:
    from http_server import frame_of

    return frame_of(call), call
