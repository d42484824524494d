"""How a person is asked: the port that waits for the browser."""

from __future__ import annotations

import http.client
import os
import socket
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable, Optional

import pytest

from mcp_sync._concurrency.deadline import Deadline
from mcp_sync.auth import LoopbackBrowser
from mcp_sync.auth import _callback_server as callback_module
from mcp_sync.auth import _interaction as interaction_module
from mcp_sync.auth._callback_server import CallbackServer, listen
from mcp_sync.errors import AuthError, CallTimeout, UsageError

STATE = "the-state"
URL = f"https://as.example/authorize?client_id=me&state={STATE}"


def check() -> None:
    pass


def ask(
    visit: Callable[[str], Any],
    *,
    known: tuple[str, ...] = (),
    deadline: Optional[Deadline] = None,
    check: Callable[[], None] = check,
    **options: Any,
) -> Any:
    """Ask, with a browser that does ``visit(redirect_uri)``."""
    uris: list[str] = []
    browser = LoopbackBrowser(open=lambda url: visit(uris[0]) or True, **options)
    with browser.listening(known) as asking:
        uris.append(asking.redirect_uri)
        return asking.ask(URL, deadline or Deadline(10), check)


def get(url: str, method: str = "GET") -> tuple[int, bytes, dict[str, str]]:
    request = urllib.request.Request(url, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, response.read(), dict(response.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(), dict(error.headers)


def answer(uri: str, **params: str) -> tuple[int, bytes, dict[str, str]]:
    return get(f"{uri}?{urllib.parse.urlencode({'code': 'c', 'state': STATE, **params})}")


def test_the_answer_comes_back_with_all_its_parameters() -> None:
    assert ask(lambda uri: answer(uri, iss="https://as.example", code="a b&c")) == {
        "code": "a b&c",
        "state": STATE,
        "iss": "https://as.example",
    }


def test_the_url_is_opened_as_it_is() -> None:
    opened: list[str] = []
    uris: list[str] = []

    def open_it(url: str) -> bool:
        opened.append(url)
        answer(uris[0])
        return True

    with LoopbackBrowser(open=open_it).listening() as asking:
        uris.append(asking.redirect_uri)
        asking.ask(URL, Deadline(10), check)
    assert opened == [URL]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_it_listens_at_each_loopback_address(host: str) -> None:
    seen: list[str] = []

    def visit(uri: str) -> None:
        seen.append(uri)
        port = urllib.parse.urlsplit(uri).port
        if host == "localhost":
            for address in ("127.0.0.1", "[::1]"):
                assert get(f"http://{address}:{port}/favicon.ico")[0] == 404
        answer(uri)

    assert ask(visit, host=host)["code"] == "c"
    shown = f"[{host}]" if ":" in host else host
    assert seen[0].startswith(f"http://{shown}:")


def test_whatever_else_comes_is_refused_and_does_not_end_the_wait() -> None:
    statuses: list[int] = []

    def visit(uri: str) -> None:
        origin = uri.rpartition("/")[0]
        statuses.append(get(origin + "/favicon.ico")[0])
        statuses.append(get(origin + f"/callback/?code=c&state={STATE}")[0])
        statuses.append(get(uri)[0])
        statuses.append(answer(uri, state="another")[0])
        statuses.append(get(f"{uri}?code=c&state=%C3%A4")[0])
        statuses.append(get(f"{uri}?state={STATE}")[0])
        statuses.append(get(f"{uri}?code=c&code=d&state={STATE}")[0])
        statuses.append(get(f"{uri}?code=c&state={STATE}", "POST")[0])
        statuses.append(get(f"{uri}?code=c&state={STATE}", "HEAD")[0])
        statuses.append(answer(uri, code="the right one")[0])

    assert ask(visit)["code"] == "the right one"
    assert statuses == [404] * 7 + [405] * 2 + [200]


def test_the_page_says_it_plainly_and_gives_nothing_away() -> None:
    pages: list[tuple[int, bytes, dict[str, str]]] = []
    ask(lambda uri: pages.append(answer(uri, code="a-secret-code")))
    ask(lambda uri: pages.append(get(f"{uri}?error=access_denied&error_description=%3Cb%3E&state={STATE}")))
    for status, body, headers in pages:
        assert status == 200
        assert b'<html lang="en">' in body
        assert b"<script" not in body
        assert b"<b>" not in body
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cache-Control"] == "no-store"
        assert headers["Content-Type"] == "text/html; charset=utf-8"
        for secret in (b"a-secret-code", STATE.encode()):
            assert secret not in body
    assert b"You can close this page" in pages[0][1]
    assert b"refused" in pages[1][1]


def test_silent_connections_are_in_nobodys_way() -> None:
    """Browsers open connections ahead of time, on which they send nothing."""
    idle: list[socket.socket] = []

    def visit(uri: str) -> None:
        parts = urllib.parse.urlsplit(uri)
        for _ in range(callback_module._MOST_CONNECTIONS + 8):
            idle.append(socket.create_connection((parts.hostname, parts.port)))
        idle[-1].sendall(b"GET /callb")
        idle[0].settimeout(5)
        assert idle[0].recv(1) == b""  # Of more than enough the oldest is dropped.
        answer(uri)

    try:
        assert ask(visit)["code"] == "c"
    finally:
        for sock in idle:
            sock.close()


def test_a_connection_that_is_dropped_while_it_has_something_to_say_is_left_alone(monkeypatch) -> None:
    """The oldest one ends in the moment in which one more comes."""
    monkeypatch.setattr(callback_module, "_MOST_CONNECTIONS", 1)
    server = callback_module.CallbackServer(callback_module.listen("127.0.0.1", [0]), "/callback")
    socks: list[socket.socket] = []

    def connect() -> None:
        socks.append(socket.create_connection(("127.0.0.1", server.port)))

    def check() -> None:
        if not socks:
            connect()
        elif len(socks) == 1 and server._heads:
            connect()
            socks[0].close()
        elif len(socks) == 2:
            connect()
            socks[2].sendall(f"GET /callback?code=c&state={STATE} HTTP/1.1\r\n\r\n".encode())

    try:
        assert server.wait(STATE, Deadline(5), check)["code"] == "c"
    finally:
        server.close()
        for sock in socks:
            sock.close()


def test_a_head_without_end_is_cut_off() -> None:
    def visit(uri: str) -> None:
        parts = urllib.parse.urlsplit(uri)
        with socket.create_connection((parts.hostname, parts.port)) as sock:
            try:
                for _ in range(64):
                    sock.sendall(b"GET / HTTP/1.1\r\nX: " + b"x" * 4096)
                assert sock.recv(1) == b""
            except OSError:
                pass  # It was closed already.
        answer(uri)

    assert ask(visit)["code"] == "c"


def test_a_slow_head_is_waited_for_a_while_only(monkeypatch) -> None:
    monkeypatch.setattr(callback_module, "_HEAD_SECONDS", 0.1)
    ended = threading.Event()

    def visit(uri: str) -> None:
        parts = urllib.parse.urlsplit(uri)
        with socket.create_connection((parts.hostname, parts.port)) as sock:
            sock.sendall(b"GET /cal")
            assert sock.recv(1) == b""
            ended.set()
        answer(uri)

    ask(visit)
    assert ended.is_set()


def test_a_head_that_comes_in_pieces_is_put_together() -> None:
    def visit(uri: str) -> None:
        parts = urllib.parse.urlsplit(uri)
        with socket.create_connection((parts.hostname, parts.port)) as sock:
            for piece in (
                b"GET /callback?code=c&st",
                f"ate={STATE} HTTP/1.1\r\nHo".encode(),
                b"st: x\r\n\r",
                b"\n",
            ):
                sock.sendall(piece)
            assert sock.recv(100).startswith(b"HTTP/1.1 200")

    assert ask(visit)["code"] == "c"


def test_garbage_is_refused() -> None:
    def visit(uri: str) -> None:
        parts = urllib.parse.urlsplit(uri)
        for garbage in (b"\x00\xff\n\n", b"\r\n\r\n", b"GET\r\n\r\n"):
            with socket.create_connection((parts.hostname, parts.port)) as sock:
                sock.sendall(garbage)
                assert b"200" not in sock.recv(20)
        answer(uri)

    assert ask(visit)["code"] == "c"


def test_the_wait_has_an_end() -> None:
    with pytest.raises(CallTimeout):
        ask(lambda uri: None, deadline=Deadline(0.2))


def test_whoever_waits_no_more_is_not_served_any_more() -> None:
    def gone() -> None:
        raise KeyError("nobody waits")

    with pytest.raises(KeyError):
        ask(lambda uri: None, check=gone)


def test_afterwards_nobody_listens() -> None:
    uris: list[str] = []

    def visit(uri: str) -> None:
        uris.append(uri)
        answer(uri)

    ask(visit)
    parts = urllib.parse.urlsplit(uris[0])
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((parts.hostname, parts.port))


def test_where_there_is_no_browser_the_url_is_written_to_standard_error(capfd) -> None:
    def failing(url: str) -> bool:
        raise OSError("no display")

    for unable in (lambda url: False, failing):
        with LoopbackBrowser(open=unable).listening() as asking, pytest.raises(CallTimeout):
            asking.ask(URL, Deadline(0.3), check)
        out, err = capfd.readouterr()
        assert URL in err
        assert out == ""


def test_nothing_is_asked_of_the_user_any_more_when_the_login_was_given_up(capfd) -> None:
    seen: list[Any] = []
    threads: list[threading.Thread] = []

    def slow(url: str) -> bool:
        threads.append(threading.current_thread())
        while not seen[0]._is_over:
            time.sleep(0.01)
        return False

    with LoopbackBrowser(open=slow).listening() as asking:
        seen.append(asking)
        with pytest.raises(CallTimeout):
            asking.ask("https://as.example/authorize?state=s", Deadline(0.5), check)
    threads[0].join()
    assert capfd.readouterr().err == ""


def test_a_browser_that_does_not_come_back_holds_nothing_up() -> None:
    release = threading.Event()

    def visit(uri: str) -> None:
        answer(uri)
        release.wait(1)

    try:
        assert ask(visit)["code"] == "c"
    finally:
        release.set()


def test_a_browser_that_does_not_come_back_is_not_waited_for_past_the_deadline(monkeypatch) -> None:
    monkeypatch.setattr(interaction_module, "_BROWSER_SECONDS", 30.0)
    release, ended = threading.Event(), threading.Event()

    def visit(uri: str) -> None:
        release.wait(5)
        ended.set()

    try:
        with pytest.raises(CallTimeout):
            ask(visit, deadline=Deadline(0.2))
        assert not ended.is_set()
    finally:
        release.set()
        ended.wait(5)


@contextmanager
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        yield sock.getsockname()[1]


def free_port() -> int:
    with taken() as port:
        return port


def test_the_first_free_port_of_several_is_taken() -> None:
    free = free_port()
    with taken() as port, LoopbackBrowser(ports=[port, free]).listening() as asking:
        assert asking.redirect_uri == f"http://127.0.0.1:{free}/callback"


def test_without_a_free_port_it_says_so() -> None:
    with taken() as port, pytest.raises(AuthError, match=r"no port of 127\.0\.0\.1"):
        LoopbackBrowser(ports=port).listening().__enter__()


def test_the_port_that_the_client_is_registered_with_is_preferred() -> None:
    free = free_port()
    known = ("http://127.0.0.1:1/other", f"http://127.0.0.1:{free}/callback")
    with LoopbackBrowser().listening(known) as asking:
        assert asking.redirect_uri == known[1]
    with taken() as port, LoopbackBrowser().listening((f"http://127.0.0.1:{port}/callback",)) as asking:
        assert asking.redirect_uri != f"http://127.0.0.1:{port}/callback"


@pytest.mark.parametrize(
    "options",
    [
        {"ports": 70000},
        {"ports": []},
        {"ports": ["a"]},
        {"host": "0.0.0.0"},
        {"host": "example.com"},
        {"path": "x"},
        {"path": "/?a"},
        {"timeout": None},
        {"timeout": -1},
        {"open": "firefox"},
    ],
)
def test_what_cannot_be_is_refused_at_once(options) -> None:
    with pytest.raises(UsageError):
        LoopbackBrowser(**options)


def test_connections_are_closed_after_one_answer() -> None:
    def visit(uri: str) -> None:
        parts = urllib.parse.urlsplit(uri)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 0, timeout=5)
        connection.request("GET", f"/callback?code=c&state={STATE}")
        response = connection.getresponse()
        assert response.getheader("Connection") == "close"
        response.read()
        connection.close()

    assert ask(visit)["code"] == "c"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_leaves_the_port_to_its_parent() -> None:
    server = CallbackServer(listen("127.0.0.1", [0]), "/callback")
    reader, writer = os.pipe()
    over, end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(end)
            try:
                server.wait("state", Deadline(5), lambda: None)
            except AuthError as error:
                os.write(writer, str(error).encode())
            os.read(over, 1)  # It lives on, as a worker does.
        finally:
            os._exit(0)
    try:
        os.close(writer)
        with open(reader) as said:
            text = os.read(said.fileno(), 1000).decode()
        assert text == "this login was begun by another process, before a fork"
        server.close()
        for sock in listen("127.0.0.1", [server.port]):
            sock.close()
    finally:
        os.close(over)
        os.close(end)
        os.waitpid(pid, 0)
