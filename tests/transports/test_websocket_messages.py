"""What comes in over WebSocket: messages, fragments, control frames, rubbish, and the end."""

from __future__ import annotations

import json
import logging
import queue
import socket
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from http_server import in_thread
from stdio_support import poll
from websocket_server import (
    BINARY,
    CLOSE,
    CONTINUATION,
    PATIENCE,
    PING,
    PONG,
    TEXT,
    Peer,
    fragments,
    frame,
    serving,
)

from mcp_sync._concurrency.deadline import Deadline
from mcp_sync.errors import CallTimeout, ConnectionLost, MessageTooLarge
from mcp_sync.options import Limits
from mcp_sync.transports._base import Frame
from mcp_sync.transports._websocket import reader
from mcp_sync.transports._websocket.reader import Vigil

LOST = "mcp_sync.websocket"


def response(message: Any, text: str = "x") -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"text": text}}).encode()


def test_a_request_is_answered_and_the_parting_is_mutual() -> None:
    seen: list[tuple[int, bytes]] = []

    def script(peer: Peer) -> None:
        peer.shake()
        peer.answer(peer.message())
        seen.append(peer.read())
        peer.close(1000)
        peer.wait_for_end()

    with serving(script) as client:
        assert client.call("echo", {"a": "\u00fc"}) == {"a": "\u00fc"}
    assert seen == [(CLOSE, b"\x03\xe8")]
    assert [type(error) for error in client.inbound.losses] == [ConnectionLost]


def test_the_handshake_is_that_of_the_rfc() -> None:
    heads: list[dict[str, str]] = []

    def script(peer: Peer) -> None:
        heads.append(peer.headers)
        peer.shake()
        peer.serve()

    with serving(script, headers={"X-Tenant": "blue"}) as client:
        client.call("ping")
    (head,) = heads
    assert (head["connection"], head["upgrade"]) == ("Upgrade", "websocket")
    assert (head["sec-websocket-version"], head["sec-websocket-protocol"]) == ("13", "mcp")
    assert len(head["sec-websocket-key"]) == 24
    assert head["x-tenant"] == "blue"
    assert "origin" not in head
    assert "sec-websocket-extensions" not in head


def test_messages_that_came_with_the_handshake_are_not_lost() -> None:
    def script(peer: Peer) -> None:
        peer.shake(frame(b'{"jsonrpc":"2.0","method":"note"}'))
        peer.serve()

    with serving(script) as client:
        client.inbound.wait(lambda: client.inbound.notes == ["note"])


def test_fragments_are_joined_and_control_frames_between_them_are_heeded() -> None:
    pongs: list[tuple[int, bytes]] = []

    def script(peer: Peer) -> None:
        peer.shake()
        message = peer.message()
        body = response(message, "w\u00f6rld \U0001f600")
        first, *others = fragments(body, 3, 3, len(body) - 2)
        peer.write(first + frame(b"are you there", PING))
        pongs.append(peer.read())
        peer.write(frame(b"unasked", PONG) + b"".join(others))
        peer.serve()

    with serving(script) as client:
        assert client.call("echo") == {"text": "w\u00f6rld \U0001f600"}
    assert pongs == [(PONG, b"are you there")]


def test_a_message_may_come_byte_by_byte() -> None:
    def script(peer: Peer) -> None:
        peer.shake()
        message = peer.message()
        data = b"".join(fragments(response(message, "y" * 70000), 10, 200))
        for start in range(300):
            peer.write(data[start : start + 1])
        peer.write(data[300:])
        peer.serve()

    with serving(script) as client:
        assert client.call("echo") == {"text": "y" * 70000}


def test_many_messages_in_one_piece_come_in_order() -> None:
    def script(peer: Peer) -> None:
        peer.shake()
        message = peer.message()
        notes = [frame(b'{"jsonrpc":"2.0","method":"n%d"}' % n) for n in range(500)]
        peer.write(b"".join(notes) + frame(response(message)))
        peer.serve()

    with serving(script) as client:
        client.call("echo")
        assert client.inbound.notes == [f"n{n}" for n in range(500)]


def test_large_messages_go_both_ways() -> None:
    text = "0123456789abcdef" * 500_000

    def script(peer: Peer) -> None:
        peer.shake()
        peer.serve()

    with serving(script) as client:
        assert client.call("echo", {"text": text}) == {"text": text}


def test_what_is_no_message_is_skipped_with_one_warning(caplog: Any) -> None:
    def script(peer: Peer) -> None:
        peer.shake()
        message = peer.message()
        peer.write(frame(b"hello") + frame(b"\x00\x01", BINARY) + frame(b"{}", BINARY) + frame(b"{"))
        peer.write(frame(response(message)))
        peer.serve()

    with caplog.at_level(logging.DEBUG, logger=LOST), serving(script) as client:
        assert client.call("echo") == {"text": "x"}
        assert len(client.inbound.reports) == 4
    levels = [record.levelno for record in caplog.records if "Skipped" in record.message]
    assert sorted(levels) == [logging.DEBUG, logging.DEBUG, logging.DEBUG, logging.WARNING]


def test_invalid_utf8_is_replaced() -> None:
    def script(peer: Peer) -> None:
        peer.shake()
        message = peer.message()
        peer.write(frame(response(message, "a-b").replace(b"a-b", b"a\xff\xc3b")))
        peer.serve()

    with serving(script) as client:
        assert client.call("echo") == {"text": "a\ufffd\ufffdb"}


@pytest.mark.parametrize("kind", ["one frame", "fragments", "a huge length"])
def test_a_message_above_the_limit_ends_the_connection(kind: str) -> None:
    seen: list[bytes] = []

    def script(peer: Peer) -> None:
        peer.shake()
        body = response(peer.message(), "x" * 1000)
        if kind == "one frame":
            peer.write(frame(body))
        elif kind == "fragments":
            peer.write(b"".join(fragments(body, *range(1, 1000))))
        else:
            peer.write(b"\x81\x7f\xff\xff\xff\xff\xff\xff\xff\xff")
        seen.append(peer.wait_for_end())

    with serving(script, Limits(message_bytes=500)) as client:
        with pytest.raises(MessageTooLarge) as caught:
            client.call("echo")
        assert caught.value.limit == 500
        with pytest.raises(ConnectionLost):
            client.call("echo")
        assert poll(lambda: seen)
    assert (seen[0][:2], len(seen[0])) == (b"\x88\x82", 8)


def test_a_message_of_just_the_limit_is_taken() -> None:
    def script(peer: Peer) -> None:
        peer.shake()
        for cut in ((), (7,)):
            message = peer.message()
            body = response(message)
            peer.write(b"".join(fragments(body.ljust(500), *cut)))
        peer.serve()

    with serving(script, Limits(message_bytes=500)) as client:
        assert client.call("echo") == client.call("echo") == {"text": "x"}


BROKEN = {
    "a reserved bit": b"\xc1\x00",
    "an unknown opcode": b"\x83\x00",
    "a masked frame": b"\x81\x80\x00\x00\x00\x00",
    "a control frame in parts": b"\x09\x00",
    "a control frame that is too long": frame(b"x" * 126, PING),
    "an end without a beginning": frame(b"x", CONTINUATION),
    "a message within a message": frame(b"x", TEXT, final=False) + frame(b"x"),
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_a_server_that_breaks_the_rules_is_left(data: bytes) -> None:
    ends: list[bytes] = []

    def script(peer: Peer) -> None:
        peer.shake()
        message = peer.message()
        peer.write(frame(response(message)))
        peer.message()
        peer.write(data)
        ends.append(peer.wait_for_end())

    with serving(script) as client:
        assert client.call("echo") == {"text": "x"}
        with pytest.raises(ConnectionLost, match="broke the rules of WebSocket"):
            client.call("echo")
        assert poll(lambda: ends)
    assert ends[0][:2] == b"\x88\x82"


@pytest.mark.parametrize(
    ("code", "reason", "text"),
    [
        (1001, "shutting down", r"code 1001 \(going away\): shutting down"),
        (1011, "", r"code 1011 \(internal error\)"),
        (4000, "try\nlater", "code 4000: try later"),
        (None, "", "without a code"),
        (1006, "", "code 1006"),
    ],
)
def test_the_server_may_close_and_says_why(code: Any, reason: str, text: str) -> None:
    seen: list[tuple[int, bytes]] = []

    def script(peer: Peer) -> None:
        peer.shake()
        peer.message()
        peer.close(code, reason)
        seen.append(peer.read())

    with serving(script) as client:
        with pytest.raises(ConnectionLost, match=text) as caught:
            client.call("echo")
        assert caught.value.close_code == code
        assert client.inbound.loss().close_code == code  # type: ignore[attr-defined]
        assert poll(lambda: seen)
    opcode, payload = seen[0]
    assert opcode == CLOSE
    assert payload == (b"" if code in (None, 1006) else code.to_bytes(2, "big"))


def test_an_answer_before_the_close_counts() -> None:
    def script(peer: Peer) -> None:
        peer.shake()
        peer.write(frame(response(peer.message())) + frame(b"\x03\xe8", CLOSE))
        peer.wait_for_end()

    with serving(script) as client:
        assert client.call("echo") == {"text": "x"}
        assert client.inbound.loss().close_code == 1000  # type: ignore[attr-defined]


@pytest.mark.parametrize("sent", [b"", b"\x81", frame(b"x" * 300)[:100], frame(b"x", TEXT, final=False)])
def test_a_connection_that_just_ends_is_lost_even_in_a_frame(sent: bytes) -> None:
    def script(peer: Peer) -> None:
        peer.shake()
        peer.message()
        peer.write(sent)

    with serving(script) as client:
        with pytest.raises(ConnectionLost) as caught:
            client.call("echo")
        assert caught.value.close_code is None


def test_a_reset_is_a_loss() -> None:
    def script(peer: Peer) -> None:
        peer.shake()
        peer.message()
        peer.turn.reset()

    with serving(script) as client, pytest.raises(ConnectionLost):
        client.call("echo")


def test_later_calls_on_a_lost_channel_fail_with_the_cause() -> None:
    def script(peer: Peer) -> None:
        peer.shake()
        peer.message()
        peer.close(1012, "back soon")

    with serving(script) as client:
        with pytest.raises(ConnectionLost, match="back soon"):
            client.call("echo")
        with pytest.raises(ConnectionLost, match="back soon") as caught:
            client.call("echo")
        assert (caught.value.request_sent, caught.value.close_code) == (False, 1012)
        with pytest.raises(ConnectionLost, match="back soon"):
            client.notify("note")


# --- signs of life ---------------------------------------------------------------------------------------


INTERVAL = 0.05


class Silence:
    """The silence of a server, which lasts as long as a test has it, however busy the machine is.

    Attributes:
        may_begin: Set by the test, once nothing is being written which a ping would have to wait for.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.noted: queue.Queue[str] = queue.Queue()
        self.may_begin = threading.Event()

    def passes(self, after: str) -> None:
        """Let an interval pass as soon as the client has noted that it ``"heard"`` or ``"asked"``."""
        self.awaits(after)
        self.now += INTERVAL

    def awaits(self, note: str) -> None:
        """Wait until the client has noted that."""
        assert self.may_begin.wait(PATIENCE)
        while self.noted.get(timeout=PATIENCE) != note:
            pass


@pytest.fixture
def silence(monkeypatch: pytest.MonkeyPatch) -> Silence:
    silence = Silence()

    class Watched(Vigil):
        def heard(self) -> None:
            super().heard()
            silence.noted.put("heard")

        def ask(self) -> None:
            super().ask()
            silence.noted.put("asked")

    monkeypatch.setattr(reader, "Vigil", Watched)
    monkeypatch.setattr(reader, "time", SimpleNamespace(monotonic=lambda: silence.now))
    return silence


def test_a_silent_server_is_asked_and_its_pong_keeps_the_connection(silence: Silence) -> None:
    asked = threading.Semaphore(0)

    def script(peer: Peer) -> None:
        peer.shake()
        for _ in range(3):
            silence.passes(after="heard")
            opcode, payload = peer.read()
            assert (opcode, payload) == (PING, b"")
            peer.write(frame(payload, PONG))
            asked.release()
        peer.serve()

    with serving(script, ping_interval=INTERVAL) as client:
        silence.may_begin.set()
        assert all(asked.acquire(timeout=PATIENCE) for _ in range(3))
        assert client.call("echo", {"a": 1}) == {"a": 1}
        assert client.inbound.losses == []


def test_a_server_that_answers_no_ping_is_gone(silence: Silence) -> None:
    def script(peer: Peer) -> None:
        peer.shake()
        peer.message()
        silence.passes(after="heard")
        assert peer.read() == (PING, b"")
        silence.passes(after="asked")
        peer.wait_for_end()

    with serving(script, ping_interval=INTERVAL) as client:
        call = client.begin("echo")
        silence.may_begin.set()
        assert call.wait()
        with pytest.raises(ConnectionLost, match=r"no ping within 0\.05 s \(ping_interval\)"):
            call.result()


def test_any_byte_is_a_sign_of_life(silence: Silence) -> None:
    go_on = threading.Event()

    def script(peer: Peer) -> None:
        peer.shake()
        body = frame(response(peer.message()))
        for start in range(10):
            silence.passes(after="heard")
            # Instead of a pong comes another byte.
            assert peer.read() == (PING, b"")
            peer.write(body[start : start + 1])
        peer.write(body[10:])
        go_on.wait(PATIENCE)

    with serving(script, ping_interval=INTERVAL) as client:
        call = client.begin("echo")
        silence.may_begin.set()
        try:
            assert call.wait()
            assert call.result()["result"] == {"text": "x"}
        finally:
            go_on.set()


def test_a_server_that_takes_a_long_message_slowly_is_not_given_up(silence: Silence) -> None:
    def script(peer: Peer) -> None:
        peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        peer.shake()
        got = len(peer.sock.recv(1))
        silence.may_begin.set()
        for _ in range(5):
            # Only then has the client noted what moved before.
            silence.awaits("heard")
            while not client.channel._link.stream.has_moved:
                got += len(peer.sock.recv(65536))
            silence.now += INTERVAL
        while got < 8_000_000:
            got += len(peer.sock.recv(65536))
        peer.wait_for_end()

    with serving(script, ping_interval=INTERVAL) as client:
        client.channel._link.stream._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        client.channel.send(Frame(b" " * 8_000_000), Deadline(PATIENCE))
        assert client.inbound.losses == []


def test_nobody_is_asked_where_that_is_not_wanted() -> None:
    assert Vigil(None).left() is None
    assert Vigil(3600).left() is not None


# --- what goes out ---------------------------------------------------------------------------------------


def test_a_call_into_a_full_connection_gives_up_in_time_and_the_stream_stays_whole() -> None:
    go_on = threading.Event()
    sizes: list[int] = []

    def script(peer: Peer) -> None:
        peer.shake_and_stall(go_on)
        while True:
            message = peer.message()
            sizes.append(len(message["params"]["text"]))
            if message["method"] == "last":
                peer.answer(message)
                break
        peer.serve()

    with serving(script) as client:
        with pytest.raises(CallTimeout) as caught:
            client.call("first", {"text": "x" * 8_000_000}, timeout=1)
        assert caught.value.request_sent is True
        with pytest.raises(CallTimeout) as again:
            client.call("second", {"text": "y"}, timeout=0.1)
        assert again.value.request_sent is False
        with in_thread(client.call, "last", {"text": "zz"}) as last:
            go_on.set()
            assert last.result() == {"text": "zz"}
    assert sizes == [8_000_000, 2]


def test_a_pong_that_cannot_be_sent_at_once_is_sent_later() -> None:
    seen: list[tuple[int, bytes]] = []
    full, read_on = threading.Event(), threading.Event()

    def script(peer: Peer) -> None:
        peer.shake()
        peer.turn.wait(full)
        peer.write(frame(b"first", PING) + frame(b"second", PING))
        peer.turn.wait(read_on)
        large = peer.message()
        seen.append(peer.read())
        peer.answer(large, {"got": len(large["params"]["text"])})
        peer.serve()

    with serving(script) as client, in_thread(client.call, "large", {"text": "x" * 8_000_000}) as call:
        channel: Any = client.channel
        assert poll(lambda: channel._link is not None and channel._link.outlet._frame is not None)
        full.set()
        assert poll(lambda: channel._link.reader._owed)
        read_on.set()
        assert call.result() == {"got": 8_000_000}
    assert seen == [(PONG, b"second")]


def test_small_messages_are_posted_unless_the_connection_is_full() -> None:
    read_on = threading.Event()

    def script(peer: Peer) -> None:
        peer.shake()
        peer.turn.wait(read_on)
        peer.wait_for_end()

    with serving(script) as client:
        assert client.channel.try_send(Frame(b"{}"))
        assert not client.channel.try_send(Frame(b" " * 20_000))
        with pytest.raises(CallTimeout):
            # Long enough for a first byte: a frame of which nothing was written is withdrawn.
            client.channel.send(Frame(b" " * 30_000_000), Deadline(2))
        assert not client.channel.try_send(Frame(b"{}"))
        read_on.set()
