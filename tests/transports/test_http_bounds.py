"""Nothing waits longer than its deadline, and any wait can be ended from another thread."""

from __future__ import annotations

import gzip
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from typing import Any, Callable

import pytest
import requests
from http_server import (
    LISTENING,
    PATIENCE,
    ScriptedServer,
    Tunnel,
    Turn,
    answer,
    connected,
    event,
    frame_of,
    in_thread,
    serving,
)

from mcp_sync._concurrency.deadline import Deadline
from mcp_sync.errors import CallCancelled, CallTimeout, ConnectFailed, ConnectionLost
from mcp_sync.options import Timeouts
from mcp_sync.transports._http.adapter import connection
from mcp_sync.transports._http.adapter.timed_socket import TimedSocket
from mcp_sync.transports._http.exchange import Aborted, Exchange

# Seconds by which a loaded machine may be late: less than any wait here that would keep to no bound.
SLACK = 5.0


@pytest.fixture
def session() -> Iterator[Callable[..., Any]]:
    """Make a server of a script and return a client of it."""
    with serving() as start:
        yield start


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Return a port where connections are accepted by the system, but nobody says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(8)
        yield listener.getsockname()[1]


@pytest.fixture
def deaf_port() -> Iterator[int]:
    """Return a port to which no connection comes about: its queue is full."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        fillers = []
        for _ in range(8):
            filler = socket.socket()
            filler.settimeout(0.05)
            fillers.append(filler)
            try:
                filler.connect(listener.getsockname())
            except OSError:
                break
        else:
            pytest.skip("this system accepts any number of connections")
        yield listener.getsockname()[1]
        for filler in fillers:
            filler.close()


def assert_times_out(call: Callable[[], Any], timeout: float) -> CallTimeout:
    started = time.monotonic()
    with pytest.raises(CallTimeout) as caught:
        call()
    taken = time.monotonic() - started
    assert timeout * 0.9 <= taken < timeout + SLACK
    return caught.value


# --- deadlines -------------------------------------------------------------------------------------------


def drip(turn: Turn, data: bytes, over: threading.Event) -> None:
    """Send a few bytes now and then, until the test is over."""
    for index in range(len(data)):
        if over.wait(0.02):
            return
        turn.write(data[index : index + 1])


@pytest.mark.parametrize(
    "kind", ["nothing", "head", "headers without end", "body", "chunks", "events", "comments"]
)
@pytest.mark.parametrize("secure", [False, True])
def test_a_server_that_drips_is_not_waited_for(
    session: Any, kind: str, secure: bool, tls: Any, bundle: str
) -> None:
    over = threading.Event()
    json_head = {"Content-Type": "application/json"}

    def script(turn: Turn) -> None:
        if turn.number == 0:
            turn.result()
        elif kind == "nothing":
            turn.wait(over)
        elif kind == "head":
            drip(turn, b"HTTP/1.1 200 OK\r\nX-Slow: " + b"x" * 5000, over)
        elif kind == "headers without end":
            turn.write(b"HTTP/1.1 200 OK\r\n")
            drip(turn, b"a: b\r\n" * 1000, over)
        elif kind == "body":
            turn.head(200, {**json_head, "Content-Length": "5000"})
            drip(turn, b" " * 5000, over)
        elif kind == "chunks":
            turn.head(200, {**json_head, "Transfer-Encoding": "chunked"})
            drip(turn, b"1\r\n \r\n" * 1000, over)
        elif kind == "events":
            turn.head(200, {"Content-Type": "text/event-stream"})
            drip(turn, b"data: 1\n\n" * 1000, over)
        else:
            turn.head(200, {"Content-Type": "text/event-stream"})
            drip(turn, b": ping\n\n" * 1000, over)

    client = session(script, **({"tls": tls, "verify": bundle} if secure else {}))
    client.call()
    try:
        error = assert_times_out(lambda: client.call(timeout=0.4), 0.4)
    finally:
        over.set()
    assert (error.timeout, error.request_sent) == (0.4, True)
    assert "tools/call" in str(error)


def test_messages_that_reset_the_silence_keep_a_call_alive(session: Any, monkeypatch: Any) -> None:
    now = [time.monotonic()]
    monkeypatch.setattr("mcp_sync._concurrency.deadline._now", lambda: now[0])
    seen = threading.Semaphore(0)

    def script(turn: Turn) -> None:
        turn.stream()
        for _ in range(8):
            now[0] += 0.4
            turn.chunk(event({"jsonrpc": "2.0", "method": "x"}))
            assert seen.acquire(timeout=PATIENCE)
        turn.chunk(event(answer(turn.id, 1)))
        turn.end()

    def note(message: Any) -> None:
        call.deadline.touch()
        seen.release()

    client = session(script)
    call = client.pending()
    call.deadline = Deadline(PATIENCE, silence=0.6)
    client.inbound.on_message = note
    assert client.send(call) == 1


def test_a_short_bound_does_not_shorten_the_next_call(session: Any) -> None:
    is_slow, go = threading.Event(), threading.Event()

    def script(turn: Turn) -> None:
        if is_slow.is_set():
            turn.wait(go)
        turn.result()

    client = session(script)
    for seconds in (0.2, 0.1):
        answered = None
        while answered is None:  # Until the machine is quick enough.
            with suppress(CallTimeout):
                answered = client.call(timeout=seconds)
    connections = client.server.connections
    is_slow.set()
    timer = threading.Timer(0.4, go.set)
    timer.start()
    client.call(timeout=PATIENCE)
    timer.join()
    assert client.server.connections == connections


def test_a_server_that_does_not_read_is_not_waited_for(session: Any) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        with connected(url) as client:
            body = b" " * 50_000_000
            call = client.pending(timeout=2.5)  # So that it is sent before, on a busy machine, too.
            frame = frame_of(call)._replace(body=body)
            error = assert_times_out(lambda: client.channel.request(frame, call), 2.5)
            assert error.request_sent is True


def test_connecting_is_bounded_by_the_deadline(deaf_port: int) -> None:
    with connected(f"http://127.0.0.1:{deaf_port}/mcp") as client:
        error = assert_times_out(lambda: client.call(timeout=0.3), 0.3)
        assert error.request_sent is False


def test_connecting_is_bounded_by_the_connect_timeout(deaf_port: int) -> None:
    with connected(f"http://127.0.0.1:{deaf_port}/mcp", timeouts=Timeouts(connect=0.3)) as client:
        started = time.monotonic()
        with pytest.raises(ConnectFailed) as caught:
            client.call(timeout=10)
        assert 0.25 < time.monotonic() - started < 0.3 + SLACK
        assert caught.value.request_sent is False


@pytest.mark.parametrize("bound", ["deadline", "connect"])
def test_a_silent_tls_handshake_is_bounded(silent_port: int, bound: str) -> None:
    timeouts = Timeouts(connect=0.3 if bound == "connect" else 10)
    with connected(f"https://127.0.0.1:{silent_port}/mcp", timeouts=timeouts) as client:
        started = time.monotonic()
        with pytest.raises(ConnectFailed if bound == "connect" else CallTimeout) as caught:
            client.call(timeout=10 if bound == "connect" else 0.3)
        assert 0.25 < time.monotonic() - started < 0.3 + SLACK
        assert caught.value.request_sent is False  # type: ignore[attr-defined]


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_connection_that_comes_about_when_the_time_is_over_is_none(
    silent_port: int, scheme: str, monkeypatch: Any
) -> None:
    connect = connection._DirectConnection._await_connect

    def stall(self: Any, sock: socket.socket, bound: Deadline) -> int:
        fault = connect(self, sock, bound)
        while not self._bound.expired:
            threading.Event().wait(0.01)
        return fault

    monkeypatch.setattr(connection._DirectConnection, "_await_connect", stall)
    with connected(f"{scheme}://127.0.0.1:{silent_port}/mcp", timeouts=Timeouts(connect=0.3)) as client:
        with pytest.raises(ConnectFailed, match="took too long") as caught:
            client.call(timeout=PATIENCE)
        assert caught.value.request_sent is False


def test_a_proxy_that_drips_its_answer_is_bounded(silent_port: int) -> None:
    over = threading.Event()

    def script(turn: Turn) -> None:
        drip(turn, b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 1000, over)

    with ScriptedServer(script) as proxy:
        proxies = {"https": f"http://127.0.0.1:{proxy.port}"}
        with connected(f"https://127.0.0.1:{silent_port}/mcp", proxies=proxies) as client:
            try:
                assert_times_out(lambda: client.call(timeout=0.3), 0.3)
            finally:
                over.set()


def test_notifications_are_bounded_too(silent_port: int) -> None:
    with connected(f"http://127.0.0.1:{silent_port}/mcp") as client:
        frame = frame_of(client.pending())._replace(method="notifications/x")
        error = assert_times_out(lambda: client.channel.send(frame, Deadline(0.3)), 0.3)
        assert error.request_sent is True


# --- waking ----------------------------------------------------------------------------------------------


def started(client: Any, call: Any) -> Any:
    return in_thread(client.channel.request, frame_of(call), call)


def assert_wakes(client: Any, ready: threading.Event, on_server: threading.Event) -> None:
    """Cancel a call that waits, and see that its thread returns at once and that the server learns of it."""
    call = client.pending()
    with started(client, call) as work:
        assert ready.wait(PATIENCE)
        before = time.monotonic()
        assert call.fail(CallCancelled("enough"))
        work.result()
        assert time.monotonic() - before < SLACK
    assert on_server.wait(PATIENCE), "the server saw no close"


@pytest.mark.parametrize("where", ["head", "half a head", "body", "events", "gzip events"])
@pytest.mark.parametrize("secure", [False, True])
def test_a_cancelled_call_closes_its_stream_at_once(
    session: Any, where: str, secure: bool, tls: Any, bundle: str
) -> None:
    ready, closed = threading.Event(), threading.Event()

    def script(turn: Turn) -> None:
        if turn.number:
            turn.result(2)
            return
        events = {"Content-Type": "text/event-stream"}
        if where == "half a head":
            turn.write(b"HTTP/1.1 200 OK\r\nX-")
        elif where == "body":
            turn.head(200, {"Content-Type": "application/json", "Content-Length": "100"})
        elif where == "events":
            turn.stream(b": ping\n\n")
        elif where == "gzip events":
            turn.head(200, {**events, "Content-Encoding": "gzip"})
        ready.set()
        if turn.wait_for_close():
            closed.set()

    client = session(script, **({"tls": tls, "verify": bundle} if secure else {}))
    assert_wakes(client, ready, closed)
    assert client.call() == 2, "the channel stays usable"


def test_a_call_that_connects_can_be_cancelled(deaf_port: int) -> None:
    with connected(f"http://127.0.0.1:{deaf_port}/mcp") as client:
        assert_connecting_wakes(client)


def test_a_call_in_a_tls_handshake_can_be_cancelled() -> None:
    greeted = threading.Event()

    def accept(listener: socket.socket) -> bytes:
        sock, _ = listener.accept()
        with sock:
            sock.settimeout(PATIENCE)
            assert sock.recv(65536)
            greeted.set()
            return sock.recv(1)

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        with connected(f"https://127.0.0.1:{listener.getsockname()[1]}/mcp") as client:
            call = client.pending()
            with in_thread(accept, listener) as server, started(client, call) as work:
                assert greeted.wait(PATIENCE)
                before = time.monotonic()
                call.fail(CallCancelled("enough"))
                work.result()
                assert time.monotonic() - before < SLACK
                assert server.result() == b"", "the server sees the end"
        assert call.request_sent is False


def test_an_address_that_swallows_everything_leaves_time_for_the_next(
    session: Any, deaf_port: int, monkeypatch: Any
) -> None:
    def several(host: str, port: int, *args: Any, **kwargs: Any) -> Any:
        kind = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
        return [(*kind, ("127.0.0.1", deaf_port)), (*kind, ("127.0.0.1", port))]

    # As much for either.
    client = session(lambda turn: turn.result(1), timeouts=Timeouts(connect=6))
    monkeypatch.setattr(socket, "getaddrinfo", several)
    assert client.call() == 1


def test_a_socket_that_is_named_after_the_end_is_refused() -> None:
    with socket.socket() as one, socket.socket() as other:
        exchange = Exchange(Deadline(1))
        exchange.publish(one)
        assert exchange.withdraw(one)
        exchange.publish(one)
        exchange.abort()
        assert not exchange.withdraw(one)
        with pytest.raises(Aborted):
            exchange.publish(other)
        assert not exchange.withdraw(other)


def assert_connecting_wakes(client: Any) -> None:
    call = client.pending()
    is_under_way = threading.Event()
    attach = call.attach

    class Watched(type(call)):  # type: ignore[misc]
        __slots__ = ()

        def attach(self, abort: Any, answered: Any = None) -> bool:
            is_under_way.set()
            return bool(attach(abort, answered))

    call.__class__ = Watched
    with started(client, call) as work:
        assert is_under_way.wait(PATIENCE)
        before = time.monotonic()
        call.fail(CallCancelled("enough"))
        work.result()
        assert time.monotonic() - before < SLACK
    assert call.request_sent is False


def test_a_call_that_is_cancelled_before_is_not_sent(session: Any) -> None:
    client = session(lambda turn: turn.result())
    call = client.pending()
    call.fail(CallCancelled("enough"))
    client.channel.request(frame_of(call), call)
    assert client.server.connections == 0


def test_a_late_cancel_does_not_hit_the_next_call_on_the_connection(session: Any) -> None:
    aborts: list[Any] = []
    client = session(lambda turn: turn.result(turn.number))
    call = client.pending()
    original = call.attach

    class Watched(type(call)):  # type: ignore[misc]
        __slots__ = ()

        def attach(self, abort: Any, answered: Any = None) -> bool:
            aborts.append(abort)
            return bool(original(abort, answered))

    call.__class__ = Watched
    assert client.send(call) == 0
    aborts[0]()
    assert client.call() == 1
    assert client.server.connections == 1


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("head", ["sent", "withheld"])
def test_closing_is_quick_while_the_get_stream_is_idle(
    session: Any, secure: bool, head: str, tls: Any, bundle: str
) -> None:
    ready, closed = threading.Event(), threading.Event()

    def script(turn: Turn) -> None:
        if turn.method == "GET":
            if head == "sent":
                turn.stream(b": hello\n\n")
            ready.set()
            if turn.wait_for_close():
                closed.set()
        else:
            turn.reply(200)

    client = session(script, wire=LISTENING, **({"tls": tls, "verify": bundle} if secure else {}))
    assert ready.wait(PATIENCE)
    before = time.monotonic()
    client.channel.close(Deadline(PATIENCE))
    assert time.monotonic() - before < SLACK
    assert closed.wait(PATIENCE)
    assert not [thread for thread in threading.enumerate() if "get-stream" in thread.name]


def test_closing_is_quick_through_a_proxy(tls: Any, bundle: str) -> None:
    ready = threading.Event()

    def script(turn: Turn) -> None:
        turn.stream(b": hello\n\n")
        ready.set()
        turn.wait_for_close()

    with ScriptedServer(script, tls=tls) as server, Tunnel() as tunnel:
        proxies = {"https": f"http://127.0.0.1:{tunnel.port}"}
        with connected(server.url, wire=LISTENING, proxies=proxies, verify=bundle) as client:
            assert ready.wait(PATIENCE)
            before = time.monotonic()
            client.channel.close(Deadline(PATIENCE))
            assert time.monotonic() - before < SLACK
        assert tunnel.targets == [f"localhost:{server.port}"]


def test_closing_wakes_a_notification_that_waits(silent_port: int) -> None:
    with connected(f"http://127.0.0.1:{silent_port}/mcp") as client, in_thread(client.notify) as work:
        while not any(exchange.sent for exchange in list(client.channel._live)):
            threading.Event().wait(0.001)
        client.channel.close(Deadline(5))
        with pytest.raises(ConnectionLost):
            work.result()


def test_a_closed_channel_refuses_calls(session: Any) -> None:
    client = session(lambda turn: turn.result(1))
    client.channel.close(Deadline(1))
    client.channel.close(Deadline(1))
    with pytest.raises(ConnectionLost) as caught:
        client.call()
    assert caught.value.request_sent is False
    with pytest.raises(ConnectionLost):
        client.notify()


def test_what_is_at_hand_after_the_deadline_is_read_up_to_a_limit() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        timed = TimedSocket(ours)
        timed.deadline = Deadline(0.0)
        buffer = bytearray(10)
        theirs.sendall(b"x" * 30)
        assert [timed.readinto(buffer) for _ in range(3)] == [10, 10, 10]
        timed.deadline = Deadline(PATIENCE)
        theirs.sendall(b"x" * 10_000)
        assert timed.readinto(buffer) == 10
        timed.deadline = Deadline(0.0)
        with pytest.raises(socket.timeout):
            for _ in range(900):
                timed.readinto(buffer)


@pytest.mark.parametrize("is_users", [False, True])
def test_a_stream_that_never_pauses_ends_with_the_deadline(session: Any, is_users: bool) -> None:
    def script(turn: Turn) -> None:
        turn.stream(b": hello\n\n")
        while not turn.server._stopping:
            turn.chunk(b": still here\n\n" * 20)

    with requests.Session() as users:
        client = session(script, session=users if is_users else None)
        started = time.monotonic()
        with pytest.raises(CallTimeout):
            client.call(timeout=0.2)
        assert time.monotonic() - started < 0.2 + SLACK


@pytest.mark.parametrize("is_users", [False, True])
@pytest.mark.parametrize("how", ["deadline", "cancel", "close"])
def test_a_body_that_swells_to_nothing_but_blank_lines_holds_nobody_up(
    session: Any, how: str, is_users: bool
) -> None:
    packed = gzip.compress(b"\n" * (1 << 24)) * 16
    sent = threading.Event()

    def script(turn: Turn) -> None:
        turn.stream(packed, headers={"Content-Encoding": "gzip"})
        sent.set()
        turn.wait_for_close()

    with requests.Session() as users:
        client = session(script, session=users if is_users else None)
        call = client.pending(timeout=0.2 if how == "deadline" else PATIENCE)
        with started(client, call) as work:
            assert sent.wait(PATIENCE)
            before = time.monotonic()
            if how == "cancel":
                call.fail(CallCancelled("enough"))
            elif how == "close":
                client.channel.close(Deadline(PATIENCE))
            fault = {"deadline": CallTimeout, "cancel": None, "close": ConnectionLost}[how]
            with pytest.raises(fault) if fault else nullcontext():
                work.result()
            assert time.monotonic() - before < 0.2 + SLACK


@pytest.mark.parametrize("is_users", [False, True])
@pytest.mark.parametrize(
    "earlier", [requests.ConnectTimeout("elsewhere"), ConnectionRefusedError(111, "refused elsewhere")]
)
def test_what_the_caller_is_handling_says_nothing_of_an_exchange(
    session: Any, is_users: bool, earlier: OSError
) -> None:
    def script(turn: Turn) -> None:
        turn.head(200, {"Content-Type": "application/json", "Content-Length": "100"})
        turn.close()

    with requests.Session() as users:
        client = session(script, session=users if is_users else None)
        try:
            raise earlier
        except OSError:
            # As a program does which goes to a second server when the first one is away.
            with pytest.raises(ConnectionLost) as caught:
                client.call()
        error = caught.value
        assert error.request_sent is not False
        assert "elsewhere" not in str(error)
        assert error.__cause__ is not earlier
        assert len(client.server.turns) == 1


def test_a_session_that_raises_the_exception_that_is_handled_already_has_failed(session: Any) -> None:
    class Stubborn(requests.Session):
        fault = requests.ConnectionError("always the same")

        def send(self, request: Any, **options: Any) -> Any:
            raise self.fault

    with Stubborn() as users:
        client = session(lambda turn: None, session=users)
        try:
            raise users.fault
        except requests.ConnectionError:
            with pytest.raises((ConnectFailed, ConnectionLost)):
                client.call()
