"""How a WebSocket channel ends: closed, discarded, forgotten, forked; and who waits meanwhile."""

from __future__ import annotations

import gc
import json
import os
import ssl
import threading
import time
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import trustme
from http_server import in_thread
from stdio_support import Recorder, poll, settings
from websocket_server import CLOSE, PATIENCE, PING, TEXT, Peer, at, connected, frame, hang, serving

from mcp_sync._concurrency.deadline import Deadline
from mcp_sync.errors import CallTimeout, ConnectFailed, ConnectionLost
from mcp_sync.transports import WebSocket
from mcp_sync.transports._base import Frame
from mcp_sync.transports._websocket.stream import SocketStream


def serve(peer: Peer) -> None:
    """Be a server that answers all requests."""
    peer.shake()
    peer.serve()


def readers() -> list[threading.Thread]:
    """Return the reading threads that run."""
    return [thread for thread in threading.enumerate() if thread.name == "mcp_sync-test-reader"]


def test_closing_does_not_wait_for_a_server_that_never_answers() -> None:
    seen: list[Any] = []

    def script(peer: Peer) -> None:
        peer.shake()
        seen.append(peer.read())
        peer.wait_for_end()

    with serving(script) as client:
        start = time.monotonic()
        client.channel.close(Deadline(PATIENCE))
        assert time.monotonic() - start < PATIENCE / 2
        assert readers() == []
    assert seen == [(CLOSE, b"\x03\xe8")]


def test_closing_keeps_to_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_sync.transports._websocket.channel._AWAIT_CLOSE", PATIENCE)
    with serving(hang) as client:
        start = time.monotonic()
        client.channel.close(Deadline(0.05))
        assert time.monotonic() - start < PATIENCE / 2
        assert poll(lambda: not readers())


def test_closing_ends_although_the_server_reads_nothing() -> None:
    never = threading.Event()
    with serving(lambda peer: peer.shake_and_stall(never)) as client:
        with in_thread(client.call, "echo", {"text": "x" * 8_000_000}) as call:
            channel: Any = client.channel
            assert poll(lambda: channel._link.outlet._frame is not None)
            client.channel.close(Deadline(PATIENCE))
            with pytest.raises(ConnectionLost):
                call.result()
        assert readers() == []
        never.set()


def test_closing_twice_and_from_many_threads_does_no_harm() -> None:
    with serving(serve) as client:
        threads = [
            threading.Thread(target=client.channel.close, args=(Deadline(PATIENCE),)) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()
        client.channel.close(Deadline(PATIENCE))
        with pytest.raises(ConnectionLost) as caught:
            client.call("echo")
        assert caught.value.request_sent is False


def test_closing_before_the_start_leaves_nothing() -> None:
    with at(hang) as server:
        channel = WebSocket(server.url).channel(settings())
        channel.close(Deadline(1))
        with pytest.raises(ConnectFailed):
            channel.start(Recorder(), Deadline(PATIENCE))
        assert readers() == []


def test_closing_fails_the_calls_that_wait() -> None:
    with serving(hang) as client:
        call = client.begin("echo")
        client.channel.close(Deadline(PATIENCE))
        assert call.settled
        with pytest.raises(ConnectionLost, match="closed on this side"):
            call.result()


def test_a_discarded_channel_ends_at_once() -> None:
    seen: list[Any] = []

    def script(peer: Peer) -> None:
        peer.shake()
        seen.append(peer.read())
        peer.wait_for_end()

    with serving(script) as client:
        client.channel.discard()
        client.channel.discard()
        assert poll(lambda: not readers())
    assert seen == [(CLOSE, b"\x03\xe8")]


def test_a_forgotten_channel_ends_its_thread_and_its_connection() -> None:
    ended = threading.Event()

    def script(peer: Peer) -> None:
        peer.shake()
        peer.answer(peer.message())
        peer.wait_for_end()
        ended.set()

    def work(url: str) -> None:
        with_it = connected(url)
        client = with_it.__enter__()
        assert client.call("echo", {"a": 1}) == {"a": 1}
        client.channel.close = lambda deadline: None  # type: ignore[method-assign]

    with at(script) as server:
        work(server.url)
        gc.collect()
        assert ended.wait(PATIENCE)
        assert poll(lambda: not readers())


@pytest.fixture(scope="module")
def tls() -> tuple[ssl.SSLContext, trustme.CA]:
    """Make a certificate authority and a server's side of TLS."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    return context, authority


@pytest.fixture
def secured(tls: Any, tmp_path: Any) -> Any:
    """Return what runs a script for one channel under TLS."""
    context, authority = tls
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))

    @contextmanager
    def start(script: Any) -> Any:
        with at(script, context) as server, connected(server.url, verify=str(tmp_path / "ca.pem")) as client:
            yield client

    return start


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.parametrize("secure", [False, True], ids=["ws", "wss"])
def test_a_forked_child_drops_the_connection_without_a_byte(secure: bool, secured: Any) -> None:
    with (secured if secure else serving)(serve) as client:
        assert client.call("echo", {"a": 1}) == {"a": 1}
        child = os.fork()
        if child == 0:
            try:
                client.channel.abandon()
                gc.collect()
                client.channel.discard()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert client.call("echo", {"a": 2}) == {"a": 2}
        assert client.inbound.losses == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_finaliser_in_a_forked_child_leaves_the_parents_connection_alone() -> None:
    with serving(serve) as client:
        channel: Any = client.channel
        child = os.fork()
        if child == 0:
            try:
                channel._finalizer()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert client.call("echo", {"a": 2}) == {"a": 2}


def test_a_writer_is_told_why_the_server_left_even_if_the_reader_is_busy() -> None:
    failed, go_on = threading.Event(), threading.Event()

    def script(peer: Peer) -> None:
        peer.shake()
        peer.message()
        peer.send({"jsonrpc": "2.0", "method": "busy"})
        peer.close(1012, "back soon")

    with serving(script) as client:
        receive = client.inbound.receive

        def busy(message: Any, call: Any = None) -> None:
            receive(message, call)
            go_on.wait(PATIENCE)

        client.inbound.receive = busy  # type: ignore[method-assign]
        client.notify("begin")
        client.inbound.wait(lambda: client.inbound.notes == ["busy"])
        channel: Any = client.channel
        stream, write = channel._link.stream, channel._link.stream.write

        def watched(data: Any, taken: list[int]) -> None:
            try:
                write(data, taken)
            except OSError:
                failed.set()
                raise

        def notify() -> None:
            while True:
                client.notify("note")

        stream.write = watched
        with in_thread(notify) as writer:
            assert failed.wait(PATIENCE)
            go_on.set()
            with pytest.raises(ConnectionLost, match="back soon") as caught:
                writer.result()
            assert caught.value.close_code == 1012


def test_a_message_without_a_connection_is_refused() -> None:
    channel = WebSocket("ws://127.0.0.1:9/ws").channel(settings())
    assert not channel.try_send(Frame(b"{}"))
    with pytest.raises(ConnectionLost) as caught:
        channel.send(Frame(b"{}"), Deadline(1))
    assert caught.value.request_sent is False
    channel.abandon()
    channel.discard()
    channel.close(Deadline(1))


# --- the stream ------------------------------------------------------------------------------------------


def test_a_write_of_tls_that_was_interrupted_breaks_the_stream(secured: Any) -> None:
    with secured(serve) as client:
        channel: Any = client.channel
        stream: SocketStream = channel._link.stream

        class Struck:
            """Raises in the midst of a write, as a signal handler may."""

            def __init__(self, sock: Any) -> None:
                self.sock = sock

            def send(self, data: bytes) -> int:
                self.sock.send(data)
                raise KeyboardInterrupt

            def __getattr__(self, name: str) -> Any:
                return getattr(self.sock, name)

        whole, stream._sock = stream._sock, Struck(stream._sock)
        with pytest.raises(KeyboardInterrupt):
            client.call("echo", {"a": 1})
        stream._sock = whole
        with pytest.raises(ConnectionLost):
            client.call("echo", {"a": 2})
        assert [type(loss) for loss in client.inbound.losses] == [ConnectionLost]


def test_a_record_of_tls_that_does_not_fit_is_finished_before_the_next(secured: Any) -> None:
    """The server reads nothing for a while; a call gives up in the middle of its message."""
    go_on = threading.Event()
    seen: list[int] = []

    def script(peer: Peer) -> None:
        peer.shake_and_stall(go_on)
        seen.append(len(peer.message()["params"]["text"]))
        peer.serve()

    with secured(script) as client:
        channel: Any = client.channel
        with in_thread(client.call, "large", {"text": "x" * 8_000_000}) as large:
            assert poll(lambda: channel._link.stream._begun), "no record was begun"
            client.inbound.calls.popitem()[1].fail(CallTimeout("the caller gives up"))
            with pytest.raises(CallTimeout):
                large.result()
        with in_thread(client.call, "small", {"text": "y"}) as small:
            go_on.set()
            assert small.result() == {"text": "y"}
    assert seen == [8_000_000]


def test_pings_are_answered_while_a_call_is_written_and_read(secured: Any) -> None:
    """Reading and writing at the same time, under TLS."""
    pongs: list[bytes] = []

    def script(peer: Peer) -> None:
        peer.shake()
        answered = 0
        while answered < 200:
            peer.write(frame(b"%d" % answered, PING))
            opcode, payload = peer.read()
            if opcode != TEXT:
                pongs.append(payload)
                continue
            peer.answer(json.loads(payload))
            answered += 1
        peer.serve()

    def work(number: int) -> None:
        for count in range(50):
            text = f"{number}-{count}" * 1000
            assert client.call("echo", {"text": text}) == {"text": text}

    with secured(script) as client, ExitStack() as stack:
        for future in [stack.enter_context(in_thread(work, number)) for number in range(4)]:
            future.result()
    assert pongs
