"""Whole clients over WebSocket: every revision, many threads, cancelling, losing, closing, forking."""

from __future__ import annotations

import gc
import os
import random
import signal
import ssl
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import trustme
from engine.background import Background, wait_until

from mcp_sync import CancelToken, Client, ClientSession, Timeouts, types, websocket_client
from mcp_sync._protocol.versions import TRAITS
from mcp_sync.errors import CallCancelled, CallTimeout, ClientClosed, ConnectionLost, MCPError
from mcp_sync.testing import FakeServer
from mcp_sync.transports import WebSocket

THREADS, CALLS = 16, 50
chance = random.Random(7)


def echo(text: str, delay: float = 0) -> str:
    """Return the text, after a while."""
    if delay:
        time.sleep(delay)
    return text


def steps(context: Any, count: int) -> str:
    """Report progress."""
    for step in range(1, count + 1):
        context.progress(step, count)
    return "done"


def greet(context: Any) -> str:
    """Ask for a name."""
    return f"Hello {context.elicit('Name?')['content']['name']}"


class Gate:
    """A tool that waits for the test."""

    def __init__(self) -> None:
        self.arrived = threading.Semaphore(0)
        self.open = threading.Event()

    def __call__(self) -> str:
        self.arrived.release()
        self.open.wait(20)
        return "open"


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def server(gate: Gate) -> FakeServer:
    def wait() -> str:
        return gate()

    return FakeServer(tools=[echo, steps, greet, wait], versions="all")


@pytest.fixture
def endpoint(server: FakeServer, gate: Gate) -> Iterator[Any]:
    with server.serve_websocket() as served:
        yield served
        gate.open.set()  # Or its end would wait for the tool.


@pytest.fixture
def tiny_switches() -> Iterator[None]:
    """Have the interpreter switch threads as often as it can."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.parametrize("mode", ["auto", "legacy", *TRAITS])
def test_every_revision_is_spoken(endpoint: Any, mode: str) -> None:
    seen: list[Any] = []

    def answer(context: Any, params: Any) -> Any:
        return types.ElicitResult.accept({"name": "Ada"})

    with Client(endpoint.url, mode=mode, elicitation_callback=answer) as client:
        if mode in TRAITS:
            assert client.protocol_version == mode
        result = client.call_tool("steps", {"count": 20}, progress_callback=lambda now, *_: seen.append(now))
        assert result.text == "done"
        assert seen == list(range(1, 21))
        assert {tool.name for tool in client.tools()} == {"echo", "steps", "greet", "wait"}
        if mode not in ("2024-11-05", "2025-03-26"):
            assert client.call_tool("greet").text == "Hello Ada"
        client.send_ping()
    assert len(endpoint.requests) == 1


def test_a_server_with_a_handshake_that_is_silent_to_the_probe_keeps_its_connection() -> None:
    server = FakeServer(tools=[echo], versions="legacy")
    server.on("server/discover", lambda *_: time.sleep(0.5), raw=True)
    with server.serve_websocket() as endpoint:
        with Client(endpoint.url, timeouts=Timeouts(probe=0.1)) as client:
            assert client.call_tool("echo", {"text": "x"}).text == "x"
        assert len(endpoint.requests) == 1


@pytest.mark.parametrize("secure", [False, True], ids=["ws", "wss"])
def test_every_thread_gets_its_own_answers(
    server: FakeServer, secure: bool, tiny_switches: None, tmp_path: Any
) -> None:
    context, options = None, {}
    if secure:
        authority = trustme.CA()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        options = {"verify": str(tmp_path / "ca.pem")}
    barrier = threading.Barrier(THREADS)

    def work(number: int) -> None:
        barrier.wait(20)
        for count in range(CALLS):
            nonce = f"{number}-{count}-{'x' * chance.randrange(3000)}"
            delay = chance.random() / 500
            assert client.call_tool("echo", {"text": nonce, "delay": delay}).text == nonce

    with server.serve_websocket(ssl_context=context) as served:
        with Client(WebSocket(served.url, **options)) as client:
            for thread in [Background(work, number) for number in range(THREADS)]:
                thread.result(50)
        assert len(served.requests) == 1


def test_closing_while_many_threads_call_ends_them_all(endpoint: Any, tiny_switches: None) -> None:
    client = Client(endpoint.url).open()
    begun = threading.Semaphore(0)

    def work() -> None:
        while True:
            client.call_tool("echo", {"text": "x"})
            begun.release()

    threads = [Background(work) for _ in range(8)]
    assert all(begun.acquire(timeout=20) for _ in range(40))
    client.close()
    for thread in threads:
        assert isinstance(thread.error(10), ClientClosed)


def test_closing_wakes_those_who_wait(endpoint: Any, gate: Gate) -> None:
    client = Client(endpoint.url).open()
    threads = [Background(client.call_tool, "wait") for _ in range(8)]
    assert all(gate.arrived.acquire(timeout=10) for _ in threads)
    client.close()
    for thread in threads:
        assert isinstance(thread.error(5), ClientClosed)


def test_a_lost_connection_fails_the_calls_and_the_next_call_opens_anew(endpoint: Any, gate: Gate) -> None:
    with Client(endpoint.url) as client:
        threads = [Background(client.call_tool, "wait") for _ in range(4)]
        assert all(gate.arrived.acquire(timeout=10) for _ in threads)
        endpoint.drop_connections()
        for thread in threads:
            error = thread.error(10)
            assert isinstance(error, ConnectionLost)
            assert error.request_sent is True
        gate.open.set()
        assert client.call_tool("echo", {"text": "again"}).text == "again"
        assert len(endpoint.requests) == 2


def test_a_session_does_not_open_anew(endpoint: Any) -> None:
    with websocket_client(endpoint.url) as transport, ClientSession(transport) as session:
        session.initialize()
        assert session.call_tool("echo", {"text": "x"}).text == "x"
        endpoint.drop_connections()
        for _ in range(2):
            with pytest.raises(ConnectionLost):
                session.call_tool("echo", {"text": "x"})


def test_a_timeout_and_a_cancelled_token_leave_the_connection_usable(
    server: FakeServer, endpoint: Any, gate: Gate
) -> None:
    token = CancelToken()
    with Client(endpoint.url, mode="legacy") as client:
        with pytest.raises(CallTimeout):
            client.call_tool("wait", timeout=0.2)
        call = Background(client.call_tool, "wait", cancel=token)
        assert all(gate.arrived.acquire(timeout=10) for _ in range(2))
        token.cancel("enough")
        assert isinstance(call.error(5), CallCancelled)
        assert client.call_tool("echo", {"text": "x"}).text == "x"
        assert len(server.received("notifications/cancelled")) == 2
    assert len(endpoint.requests) == 1


def test_ctrl_c_ends_a_call_and_nothing_else(server: FakeServer, endpoint: Any, gate: Gate) -> None:
    def interrupt() -> None:
        assert gate.arrived.acquire(timeout=10)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # type: ignore[arg-type]

    with Client(endpoint.url, mode="legacy") as client:
        thread = Background(interrupt)
        with pytest.raises(KeyboardInterrupt):
            client.call_tool("wait")
        thread.result()
        assert client.call_tool("echo", {"text": "x"}).text == "x"
        assert len(server.received("notifications/cancelled")) == 1
    assert len(endpoint.requests) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_forked_child_opens_a_connection_of_its_own(endpoint: Any) -> None:
    with Client(endpoint.url) as client:
        assert client.call_tool("echo", {"text": "parent"}).text == "parent"
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = client.call_tool("echo", {"text": "child"}, timeout=10).text != "child"
                client.close()
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        assert client.call_tool("echo", {"text": "parent"}).text == "parent"
        assert len(endpoint.requests) == 2


def test_a_forgotten_client_leaves_nothing(endpoint: Any) -> None:
    def work() -> None:
        client = Client(endpoint.url, name="forgotten")
        assert client.call_tool("echo", {"text": "x"}).text == "x"

    work()
    gc.collect()
    wait_until(lambda: not [each for each in threading.enumerate() if "forgotten-reader" in each.name])


def test_headers_and_auth_go_with_the_handshake(endpoint: Any) -> None:
    with Client(endpoint.url, headers={"X-Tenant": "blue"}, auth=("u", "p")) as client:
        client.send_ping()
    headers = endpoint.requests[0].headers
    assert headers["x-tenant"] == "blue"
    assert headers["authorization"].startswith("Basic ")


def test_a_server_that_is_not_there_is_told_as_such_and_looked_for_again(server: FakeServer) -> None:
    with server.serve_websocket() as endpoint:
        port = int(endpoint.url.rpartition(":")[2].partition("/")[0])
    client = Client(endpoint.url)
    for _ in range(2):
        with pytest.raises(MCPError) as caught:
            client.call_tool("echo", {"text": "x"})
        assert getattr(caught.value, "request_sent", None) is False
    with server.serve_websocket(port):
        assert client.call_tool("echo", {"text": "x"}).text == "x"
        client.close()


def test_the_command_line_takes_its_urls(endpoint: Any) -> None:
    from cli.command_line import invoke

    ran = invoke("call", endpoint.url, "echo", "text=hello", "--header", "X-A: b")
    assert (ran.code, ran.out, ran.err) == (0, "hello\n", "")
    assert endpoint.requests[0].headers["x-a"] == "b"
