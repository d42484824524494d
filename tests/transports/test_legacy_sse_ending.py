"""HTTP with SSE: closing, forgetting, forking, and many threads at once."""

from __future__ import annotations

import gc
import os
import ssl
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from http_server import PATIENCE, ScriptedServer, Tunnel, Turn, answer, event, frame_of, in_thread
from sse_server import SSEScript, named, sse_client_of, sse_session

from mcp_sync._concurrency.deadline import Deadline
from mcp_sync.errors import CallTimeout, ConnectFailed, ConnectionLost, MCPError
from mcp_sync.options import Timeouts


@pytest.fixture(params=["http", "https", "http-proxy", "https-proxy"])
def way(
    request: Any, tls: ssl.SSLContext, bundle: str, monkeypatch: Any
) -> Iterator[tuple[SSEScript, dict[str, Any]]]:
    """Yield a script, and the options of a session that reaches it: with TLS or not, by a proxy or not."""
    monkeypatch.setenv("NO_PROXY", "")
    script = SSEScript()
    options: dict[str, Any] = {}
    if "https" in request.param:
        options.update(tls=tls, verify=bundle)
    if "proxy" not in request.param:
        yield script, options
    elif "https" in request.param:
        with Tunnel() as proxy:
            yield script, {**options, "proxies": {"https": f"http://127.0.0.1:{proxy.port}"}}
    else:
        with ScriptedServer(script) as proxy:
            yield script, {**options, "proxies": {"http": f"http://127.0.0.1:{proxy.port}"}}


# --- closing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["close", "discard"])
def test_the_reader_of_an_idle_stream_ends(way: Any, end: str) -> None:
    script, options = way
    with sse_session(script, **options) as client:
        assert client.call() == {"ok": True}
        assert client.threads() == ["mcp_sync-sse-test-reader"]
        reader = client.channel._stream.threads[0]
        if end == "close":
            client.channel.close(Deadline(PATIENCE))
            assert not reader.is_alive()
        else:
            client.channel.discard()
            reader.join(PATIENCE)
            assert not reader.is_alive()
        assert script.ended.acquire(timeout=PATIENCE)
        assert client.inbound.losses == []
        with pytest.raises(ConnectionLost, match="closed") as caught:
            client.call()
        assert caught.value.request_sent is False


def test_closing_wakes_whoever_waits_for_the_answer_to_a_post(way: Any) -> None:
    script, options = way
    posted = threading.Event()

    def post(turn: Turn) -> None:
        posted.set()
        turn.wait_for_close()

    script.on_post = post
    with ExitStack() as stack:
        client = stack.enter_context(sse_session(script, **options))
        sending = stack.enter_context(in_thread(client.send, client.pending()))
        notifying = stack.enter_context(in_thread(client.notify))
        assert posted.wait(PATIENCE)
        client.channel.close(Deadline(PATIENCE))
        for future in (sending, notifying):
            with pytest.raises(ConnectionLost):
                future.result()


def test_closing_is_idempotent_and_comes_from_any_thread() -> None:
    with sse_session(SSEScript()) as client:
        gate = threading.Barrier(8)

        def close() -> None:
            gate.wait(PATIENCE)
            client.channel.close(Deadline(PATIENCE))

        threads = [threading.Thread(target=close) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()
        client.channel.close(Deadline(PATIENCE))


def test_a_channel_that_never_opened_can_be_ended() -> None:
    with sse_client_of("http://127.0.0.1:9/sse") as client:
        client.channel.discard()
        client.channel.abandon()


def test_the_reader_may_close_its_own_channel() -> None:
    script = SSEScript()
    with sse_session(script) as client:
        closed = threading.Event()

        def close(message: Any) -> None:
            client.channel.close(Deadline(PATIENCE))
            closed.set()

        client.inbound.on_message = close
        script.say(event({"jsonrpc": "2.0", "method": "notifications/x"}))
        assert closed.wait(PATIENCE)
        assert script.ended.acquire(timeout=PATIENCE)


# --- forgetting --------------------------------------------------------------------------------------


def test_a_forgotten_channel_goes_away_with_its_thread_and_its_connections() -> None:
    script = SSEScript()
    with sse_session(script) as client:
        client.call()
        reader = client.channel._stream.threads[0]
        gone, intake_gone = weakref.ref(client.channel), weakref.ref(client.channel._intake)
        gc.disable()
        try:
            client.channel = _Nothing()
            # The reader may still be busy with the answer of the call.
            until = Deadline(PATIENCE)
            while intake_gone() is not None and not until.expired:
                threading.Event().wait(0.002)
            assert (gone(), intake_gone()) == (None, None)
        finally:
            gc.enable()
        reader.join(PATIENCE)
        assert not reader.is_alive()
        assert script.ended.acquire(timeout=PATIENCE)


def test_a_reader_that_has_delivered_something_keeps_nobody_alive() -> None:
    script = SSEScript()
    with sse_session(script) as client:
        client.call()
        reader, gone = client.channel._stream.threads[0], weakref.ref(client.channel)
        client.inbound.channel = client.channel  # As the engine has it.
        client.channel = client.inbound = _Nothing()
        until = Deadline(PATIENCE)
        while gone() is not None and not until.expired:
            gc.collect()
        assert gone() is None
        reader.join(PATIENCE)
        assert not reader.is_alive()


@pytest.mark.parametrize("is_broken", [True, False])
def test_a_lost_channel_is_no_circle(is_broken: bool) -> None:
    script = SSEScript()
    with sse_session(script) as client:
        reader = client.channel._stream.threads[0]
        if is_broken:
            script.stream.close()
        else:
            script.say(named("http://evil.example/m"))
        reader.join(PATIENCE)
        assert len(client.inbound.losses) == 1
        gone, intake_gone = weakref.ref(client.channel), weakref.ref(client.channel._intake)
        gc.disable()
        try:
            client.channel = _Nothing()
            assert (gone(), intake_gone()) == (None, None)
        finally:
            gc.enable()


class _Nothing:
    def close(self, deadline: Deadline) -> None:
        """Close nothing."""


# --- forking -----------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_drops_the_connections_and_the_parent_notices_nothing(way: Any) -> None:
    script, options = way
    with sse_session(script, **options) as client:
        client.call()
        inherited = [sock.fileno() for sock in client.channel._stream._exchange._sockets]
        assert len(inherited) == 1
        child = os.fork()
        if not child:
            code = 1
            try:
                client.channel.abandon()
                gc.collect()
                code = 2 if os.path.exists(f"/dev/fd/{inherited[0]}") else 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert [client.call() for _ in range(3)] == [{"ok": True}] * 3
        assert client.inbound.losses == []


# --- many threads ------------------------------------------------------------------------------------


@pytest.fixture
def tiny_switch_interval() -> Iterator[None]:
    """Have threads take turns all the time."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def echoing(script: SSEScript) -> None:
    """Have the script answer each request with its own id."""

    def post(turn: Turn) -> None:
        turn.accepted()
        script.say(event(answer(turn.id, {"id": turn.id})))

    script.on_post = post


def test_sixteen_threads_each_get_their_own_answers(tiny_switch_interval: None) -> None:
    script = SSEScript()
    echoing(script)
    gate = threading.Barrier(16)
    wrong: list[Any] = []

    with sse_session(script) as client:

        def work() -> None:
            gate.wait(PATIENCE)
            for _ in range(50):
                call = client.pending(timeout=60.0)
                if client.send(call) != {"id": call.id}:
                    wrong.append(call.id)

        threads = [threading.Thread(target=work) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        assert wrong == []
        posts = [turn for turn in client.server.turns if turn.method == "POST"]
        assert len(posts) == 800
        assert client.server.connections <= 17


@pytest.mark.parametrize("how", ["close", "loss"])
def test_calls_of_eight_threads_end_when_the_channel_does(how: str, tiny_switch_interval: None) -> None:
    script = SSEScript()
    echoing(script)
    warm = threading.Barrier(9)
    failures: list[Exception] = []

    with sse_session(script) as client:

        def work() -> None:
            client.call()
            warm.wait(PATIENCE)
            try:
                while True:
                    client.call(timeout=30.0)
            except MCPError as error:
                failures.append(error)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        warm.wait(PATIENCE)
        if how == "loss":
            script.stream.close()
        else:
            # The engine fails the calls first.
            client.inbound.lost(ConnectionLost("closing"))
            client.channel.close(Deadline(PATIENCE))
            for call in list(client.inbound.calls.values()):
                call.fail(ConnectionLost("closing"))
        for thread in threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()
        assert len(failures) == 8
        assert {type(error) for error in failures} <= {ConnectionLost, ConnectFailed}
        assert not any(isinstance(error, CallTimeout) for error in failures)


def test_streams_are_opened_and_closed_by_many_threads_at_once(tiny_switch_interval: None) -> None:
    class EachItsOwn(SSEScript):
        def open(self, turn: Turn, *events: bytes) -> None:
            turn.stream(named(self.endpoint))
            turn.wait_for_close()

    script = EachItsOwn()
    with ScriptedServer(script) as server:

        def work() -> None:
            for _ in range(10):
                with sse_client_of(server.url, Timeouts()) as client:
                    client.start()

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()


def test_frames_of_a_call_reach_the_server_unharmed() -> None:
    script = SSEScript()
    with sse_session(script) as client:
        call = client.pending()
        client.send(call)
        assert client.server.turns[-1].body == frame_of(call).body
