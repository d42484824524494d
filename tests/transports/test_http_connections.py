"""Connections: kept, replaced, as many as are needed, and inherited by a forked child."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import ssl
import stat
import threading
import weakref
from collections.abc import Iterator
from typing import Any, Callable

import pytest
from http_server import (
    MODERN,
    PATIENCE,
    Client,
    ScriptedServer,
    Tunnel,
    Turn,
    answer,
    connected,
    event,
    server_tls,
    serving,
)

from mcp_sync._concurrency.deadline import Deadline
from mcp_sync.errors import ConnectFailed, ConnectionLost, MCPError
from mcp_sync.options import Limits, Retry, Timeouts
from mcp_sync.transports import StreamableHTTP
from mcp_sync.transports._base import Settings
from mcp_sync.transports._http.adapter.timed_socket import TimedSocket


@pytest.fixture
def session() -> Iterator[Callable[..., Any]]:
    """Make a server of a script and return a client of it."""
    with serving() as start:
        yield start


def together(count: int, work: Callable[[int], None]) -> None:
    """Run a function in many threads at a time."""
    threads = [threading.Thread(target=work, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_many_threads_get_as_many_connections_as_they_need_and_keep_them(session: Any, caplog: Any) -> None:
    gate = threading.Barrier(32)

    def script(turn: Turn) -> None:
        if turn.message["method"] == "together":
            gate.wait(PATIENCE)
        turn.result(turn.id)

    client = session(script)

    def work(_: int) -> None:
        client.call("together")
        for _ in range(20):
            client.call()

    together(32, work)
    together(32, work)
    assert client.server.connections == 32
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


@pytest.mark.parametrize("kind", ["json", "events", "alive"])
def test_idle_connections_that_the_server_closed_are_closed_too(session: Any, kind: str) -> None:
    gate = threading.Barrier(6)
    late, tired = threading.Event(), threading.Event()
    shut_down, closed = threading.Semaphore(0), threading.Semaphore(0)

    def script(turn: Turn) -> None:
        if turn.message["method"] != "together":
            turn.result()
            return
        gate.wait(PATIENCE)
        if turn.id % 6 == 0:
            turn.wait(late)
        if kind == "json" or turn.id % 6 == 0:
            turn.result()
        else:
            turn.stream(event(answer(turn.id)))
        if turn.id % 6 == 0:
            return
        turn.wait(tired)
        if kind != "json":
            turn.end()
        if kind != "alive":
            turn.sock.shutdown(socket.SHUT_WR)
        shut_down.release()
        if kind != "alive" and turn.wait_for_close():
            closed.release()

    def call_together() -> None:
        calls = [client.pending("together") for _ in range(6)]
        threads = [threading.Thread(target=client.send, args=(call,)) for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads[:5]:
            thread.join(PATIENCE)
        late.set()
        threads[5].join(PATIENCE)

    client = session(script)
    call_together()
    tired.set()
    assert all(shut_down.acquire(timeout=PATIENCE) for _ in range(5))
    for _ in range(5):
        client.call()
    if kind == "alive":
        call_together()
    else:
        assert all(closed.acquire(timeout=PATIENCE) for _ in range(5))
    assert client.server.connections == 6


@pytest.mark.parametrize("kind", ["json", "events"])
def test_a_connection_that_the_server_closed_is_replaced_unnoticed(session: Any, kind: str) -> None:
    closed = threading.Event()

    def script(turn: Turn) -> None:
        if kind == "json":
            turn.result(turn.number)
        else:
            turn.stream(event(answer(turn.id, turn.number)))
            turn.end()
        if turn.number == 0:
            turn.close()
            closed.set()

    client = session(script)
    assert client.call() == 0
    assert closed.wait(PATIENCE)
    assert client.call() == 1
    assert client.server.connections == 2
    assert len(client.server.turns) == 2


def test_a_request_that_may_have_arrived_is_not_repeated(session: Any) -> None:
    def script(turn: Turn) -> None:
        if turn.number == 1:
            turn.close()
        else:
            turn.result(turn.number)

    client = session(script)
    assert client.call() == 0
    call = client.pending()
    with pytest.raises(ConnectionLost) as caught:
        client.send(call)
    assert caught.value.request_sent is True
    assert call.request_sent is True
    assert len(client.server.turns) == 2
    assert client.call() == 2


def test_a_connection_that_dies_while_it_is_chosen_is_replaced_too(session: Any, monkeypatch: Any) -> None:
    died = threading.Event()

    def script(turn: Turn) -> None:
        turn.result(turn.number)
        if turn.number == 0:
            turn.reset()
            died.set()

    client = session(script)
    assert client.call() == 0
    assert died.wait(PATIENCE)
    monkeypatch.setattr(TimedSocket, "is_silent", lambda self: True)
    assert client.call() == 1
    assert len(client.server.turns) == 2


def test_stray_bytes_between_answers_cost_the_connection_only(session: Any) -> None:
    sent = threading.Event()

    def script(turn: Turn) -> None:
        turn.result(turn.number)
        if turn.number == 0:
            turn.write(b"\r\nHTTP/1.1 408 Request Timeout\r\n\r\n")
            sent.set()

    client = session(script)
    assert client.call() == 0
    assert sent.wait(PATIENCE)
    assert client.call() == 1


@pytest.mark.parametrize(
    ("url", "words"),
    [("http://127.0.0.1:1/mcp?key=secret", "refused"), ("http://no-such-host.invalid/mcp", "no connection")],
)
def test_without_a_connection_nothing_was_sent(url: str, words: str) -> None:
    with connected(url) as client:
        call = client.pending()
        with pytest.raises(ConnectFailed, match=words) as caught:
            client.send(call)
        assert caught.value.request_sent is False
        assert call.request_sent is False
        assert "secret" not in str(caught.value)
        with pytest.raises(ConnectFailed):
            client.notify()


def test_a_host_name_that_is_none_is_a_failed_connection() -> None:
    with connected(f"http://{'a' * 70}.invalid/mcp") as client, pytest.raises(ConnectFailed):
        client.call()


def test_all_addresses_of_a_name_are_tried(session: Any, monkeypatch: Any) -> None:
    original = socket.getaddrinfo

    def several(host: str, port: int, *args: Any, **kwargs: Any) -> Any:
        (found,) = original("127.0.0.1", port, socket.AF_INET, socket.SOCK_STREAM)
        dead = (*found[:4], ("127.0.0.1", 1))
        return [dead, dead, found]

    client = session(lambda turn: turn.result(1))
    monkeypatch.setattr(socket, "getaddrinfo", several)
    assert client.call() == 1


def test_a_failed_connection_leaves_no_warning(recwarn: Any) -> None:
    with connected("http://127.0.0.1:1/mcp") as client, pytest.raises(ConnectFailed):
        client.call()
    gc.collect()
    assert [str(warning.message) for warning in recwarn] == []


# --- TLS -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["json", "events", "large"])
def test_tls_connections_are_kept(session: Any, authority: Any, bundle: str, kind: str) -> None:
    def script(turn: Turn) -> None:
        if kind == "events":
            turn.stream(event(answer(turn.id, turn.number)))
            turn.end()
        else:
            turn.result(turn.number if kind == "json" else "x" * 3_000_000)

    client = session(script, tls=server_tls(authority, "localhost"), verify=bundle)
    for number in range(5):
        assert client.call() == ("x" * 3_000_000 if kind == "large" else number)
    assert client.server.connections == 1


def test_the_bundle_of_the_environment_counts(
    session: Any, authority: Any, bundle: str, monkeypatch: Any
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", bundle)
    assert session(lambda turn: turn.result(1), tls=server_tls(authority, "localhost")).call() == 1


def test_a_certificate_of_a_stranger_is_refused(session: Any, authority: Any) -> None:
    client = session(lambda turn: turn.result(1), tls=server_tls(authority, "localhost"))
    with pytest.raises(ConnectFailed, match="certificate") as caught:
        client.call()
    assert caught.value.request_sent is False


def test_https_to_a_server_without_tls_comes_with_a_hint() -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def refuse() -> None:
        sock, _ = listener.accept()
        sock.recv(65536)
        sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        sock.close()

    thread = threading.Thread(target=refuse)
    thread.start()
    url = f"https://127.0.0.1:{listener.getsockname()[1]}/mcp"
    with (
        connected(url) as client,
        pytest.raises(ConnectFailed, match=r"\(does the server speak plain http\?\)"),
    ):
        client.call()
    thread.join(PATIENCE)
    listener.close()


def test_a_certificate_for_another_name_is_refused(session: Any, authority: Any, bundle: str) -> None:
    client = session(lambda turn: turn.result(1), tls=server_tls(authority, "other.example"), verify=bundle)
    with pytest.raises(ConnectFailed, match="certificate"):
        client.call()


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_verification_can_be_turned_off(session: Any, authority: Any) -> None:
    client = session(lambda turn: turn.result(1), tls=server_tls(authority, "other.example"), verify=False)
    assert client.call() == 1


def test_a_client_certificate_is_shown(session: Any, authority: Any, bundle: str, tmp_path: Any) -> None:
    context = server_tls(authority, "localhost")
    context.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(context)
    path = tmp_path / "client.pem"
    issued = authority.issue_cert("me@example.com")
    path.write_bytes(b"".join(blob.bytes() for blob in (issued.private_key_pem, *issued.cert_chain_pems)))
    client = session(lambda turn: turn.result(1), tls=context, verify=bundle, cert=str(path))
    assert client.call() == 1


# --- fork ------------------------------------------------------------------------------------------------


def open_connections(port: int) -> int:
    """Count the sockets of this process that are connected to a port."""
    found = 0
    for descriptor in range(1024):
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                with socket.socket(fileno=os.dup(descriptor)) as sock:
                    found += sock.getpeername()[1] == port
    return found


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.parametrize("secure", [False, True])
def test_a_forked_child_drops_connections_without_a_byte(
    session: Any, secure: bool, authority: Any, bundle: str
) -> None:
    options = {"tls": server_tls(authority, "localhost"), "verify": bundle} if secure else {}
    client = session(lambda turn: turn.result(turn.number), **options)
    assert client.call() == 0
    assert open_connections(client.server.port) == 1
    child = os.fork()
    if child == 0:
        left = 99
        try:
            client.channel.abandon()
            left = open_connections(client.server.port)
            gc.collect()
            client.channel.close(Deadline(1))
        finally:
            os._exit(left)
    status = os.waitpid(child, 0)[1]
    assert os.WEXITSTATUS(status) == 0, "the child keeps its copy of the socket"
    assert client.call() == 1
    assert client.server.connections == 1


# --- memory ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["json", "events"])
def test_calls_leave_nothing_to_the_garbage_collector(session: Any, kind: str) -> None:
    def script(turn: Turn) -> None:
        if kind == "json":
            turn.result(1)
        else:
            turn.stream(event(answer(turn.id, 1)))
            turn.end()

    client = session(script)
    client.call()
    gc.collect()
    gc.disable()
    try:
        for _ in range(20):
            client.call()
        assert gc.collect() < 20
    finally:
        gc.enable()


@pytest.mark.parametrize("kind", ["an error of JSON-RPC", "a page", "a lost session"])
def test_a_refusal_leaves_nothing_to_the_garbage_collector(session: Any, kind: str) -> None:
    def script(turn: Turn) -> None:
        if kind == "an error of JSON-RPC":
            turn.json({"jsonrpc": "2.0", "id": turn.id, "error": {"code": -32600, "message": "no"}}, 400)
        else:
            turn.reply(404 if kind == "a lost session" else 500, b"no")

    client = session(script)
    gc.collect()
    gc.disable()
    try:
        left = []
        for act in (client.call, client.notify):
            try:
                act()
            except MCPError as error:
                left.append(weakref.ref(error))
        assert len(left) == 2
        assert [error() for error in left] == [None, None]
    finally:
        gc.enable()


def test_a_forgotten_channel_closes_its_connections() -> None:
    closed = threading.Event()

    def script(turn: Turn) -> None:
        turn.result(1)
        if turn.wait_for_close():
            closed.set()

    with ScriptedServer(script) as server:
        client = Client(StreamableHTTP(server.url), MODERN, Settings("test", Timeouts(), Limits(), Retry()))
        assert client.call() == 1
        del client
        gc.collect()
        assert closed.wait(PATIENCE)


# --- SOCKS -----------------------------------------------------------------------------------------------


class SocksServer(Tunnel):
    """A proxy that speaks SOCKS5, without authorization."""

    def _serve(self, raw: socket.socket, connection: int) -> None:
        with raw:
            reader = raw.makefile("rb")
            assert reader.read(1) == b"\x05"
            reader.read(reader.read(1)[0])
            raw.sendall(b"\x05\x00")
            _, command, _, kind = reader.read(4)
            assert (command, kind) == (1, 3), "the name is resolved by the proxy"
            name = reader.read(reader.read(1)[0]).decode()
            port = int.from_bytes(reader.read(2), "big")
            self.targets.append(f"{name}:{port}")
            with socket.create_connection((name, port)) as upstream:
                raw.sendall(b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00")
                self.pass_on(raw, upstream)
            reader.close()


@pytest.mark.parametrize("secure", [False, True])
def test_a_socks_proxy_is_used(authority: Any, bundle: str, secure: bool) -> None:
    pytest.importorskip("socks")
    tls = server_tls(authority, "localhost") if secure else None
    with ScriptedServer(lambda turn: turn.result(turn.number), tls=tls) as server, SocksServer() as proxy:
        url = server.url.replace("127.0.0.1", "localhost")
        address = f"socks5h://127.0.0.1:{proxy.port}"
        with connected(url, proxies={"http": address, "https": address}, verify=bundle) as client:
            assert [client.call(), client.call()] == [0, 1]
        assert proxy.targets == [f"localhost:{server.port}"]


@pytest.mark.parametrize("secure", [False, True])
def test_a_tunnel_is_used_and_kept(authority: Any, bundle: str, secure: bool) -> None:
    tls = server_tls(authority, "localhost")
    proxy_tls = server_tls(authority, "localhost") if secure else None
    with ScriptedServer(lambda turn: turn.result(turn.number), tls=tls) as server, Tunnel(proxy_tls) as proxy:
        address = f"{'https' if secure else 'http'}://u:p@localhost:{proxy.port}"
        with connected(server.url, proxies={"https": address}, verify=bundle) as client:
            assert [client.call(), client.call()] == [0, 1]
        assert proxy.targets == [f"localhost:{server.port}"]
        assert proxy.turns[0].headers["proxy-authorization"].startswith("Basic ")
    assert "authorization" not in proxy.turns[0].headers


def test_a_proxy_that_refuses_is_a_failed_connection() -> None:
    with ScriptedServer(lambda turn: turn.reply(407, b"who?")) as proxy:
        proxies = {"https": f"http://127.0.0.1:{proxy.port}"}
        with connected("https://mcp.invalid/mcp", proxies=proxies) as client:
            with pytest.raises(ConnectFailed, match="407") as caught:
                client.call()
            assert caught.value.request_sent is False
