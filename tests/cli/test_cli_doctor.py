"""``mcp-sync doctor``: what it finds on the way to a server that cannot be reached."""

from __future__ import annotations

import json
import socket
import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Optional

import pytest
from command_line import DEMO_SERVER, invoke

from mcp_sync.cli._network import Report, _about_certificate, _bounded, _tell_clock
from mcp_sync.cli.demo_server import build
from mcp_sync.testing import FakeServer
from mcp_sync.testing._http import HTTPReply


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def steps(*words: str) -> dict[str, str]:
    return {each["step"]: each["state"] for each in invoke("doctor", "--json", *words).json["steps"]}


def test_a_server_that_is_well_passes_every_step() -> None:
    with build().serve_http() as endpoint:
        ran = invoke("doctor", endpoint.url)
        found = steps(endpoint.url, "--mode", "legacy")

    assert (ran.code, ran.err) == (0, "")
    assert "WARN" not in ran.out
    assert "FAILED" not in ran.out
    assert list(found) == ["name", "connection", "HTTP", "revision", "server", "session", "answer", "tools"]


def test_a_name_that_nobody_has_is_the_first_thing_to_fail() -> None:
    ran = invoke("doctor", "http://nobody.invalid/mcp")

    assert ran.code == 3
    assert ran.out.startswith("FAILED name           nobody.invalid: ")


def test_a_port_where_nobody_listens_is_told_from_a_name() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ran = invoke("doctor", f"http://127.0.0.1:{port}/mcp")

    assert ran.code == 3
    assert f"FAILED connection     port {port}: Connection refused" in ran.out
    assert "does the server run" in ran.out


def test_a_connection_that_something_swallows_is_told_from_one_that_is_refused() -> None:
    with ExitStack() as opened:
        full = opened.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            waiting = opened.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        ran = invoke("doctor", f"http://127.0.0.1:{full.getsockname()[1]}/mcp", "--timeout", "0.5")

    assert ran.code == 3
    assert "FAILED connection" in ran.out
    assert "something swallows the connection" in ran.out


@pytest.mark.parametrize(
    ("status", "code", "state"), [(503, 3, "warning"), (404, 3, "note"), (302, 3, "warning")]
)
def test_a_bad_status_is_shown(status: int, code: int, state: str) -> None:
    reply = HTTPReply(status, headers={"Location": "http://127.0.0.1:9/else"})
    with build().serve_http(intercept=lambda request: reply) as endpoint:
        ran = invoke("doctor", endpoint.url, "--timeout", "5")
        found = steps(endpoint.url, "--timeout", "5")

    assert ran.code in (code, 5)
    assert str(status) in ran.out
    assert (found["HTTP"], found["protocol"]) == (state, "failed")


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (200, "the answer does not come from an MCP server"),
        (429, "try again later"),
        (500, "its log says more"),
    ],
)
def test_what_answers_but_does_not_serve_has_its_advice(status: int, advice: str) -> None:
    page = HTTPReply(status, headers={"Content-Type": "text/html"}, body=b"<title>Log in</title>")
    with build().serve_http(intercept=lambda request: page) as endpoint:
        ran = invoke("doctor", "--json", endpoint.url, "--timeout", "5")

    assert advice in ran.json["steps"][-1]["advice"]


@pytest.mark.parametrize(("scheme", "step"), [("http", "HTTP"), ("https", "TLS")])
def test_a_server_that_drips_is_left_when_the_time_is_over(scheme: str, step: str) -> None:
    # The beginning of a head, and that of a message of TLS which never ends.
    begin = b"HTTP/1.1 200 OK\r\nX-Drip: " if scheme == "http" else b"\x16\x03\x03\x40\x00"
    gone = threading.Event()

    def drip(listener: socket.socket) -> None:
        connection = listener.accept()[0]
        with connection:
            try:
                connection.sendall(begin)
                while not gone.wait(0.05):
                    connection.sendall(b"a")
            except OSError:
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        dripping = threading.Thread(target=drip, args=(listener,))
        dripping.start()
        ran = invoke("doctor", f"{scheme}://127.0.0.1:{listener.getsockname()[1]}/mcp", "--timeout", "1")
        gone.set()
        dripping.join()

    assert ran.code == 3
    assert f"FAILED {step}" in ran.out
    assert "within 1 s" in ran.out


def test_it_is_all_the_same_which_clock_ends_the_wait_for_a_server() -> None:
    stream, other = socket.socketpair()
    with stream, other:
        stream.settimeout(0.01)
        with pytest.raises(socket.timeout), _bounded(stream, 3600) as is_over:
            stream.recv(1)

    assert is_over.is_set()


def test_a_401_without_metadata_asks_for_a_token() -> None:
    with build().serve_http(intercept=lambda request: HTTPReply(401)) as endpoint:
        ran = invoke("doctor", endpoint.url)

    assert ran.code == 6
    assert "names nobody who authorizes" in ran.out
    assert "--header" in ran.out


def test_the_date_of_the_server_shows_a_clock_that_is_wrong() -> None:
    report = Report(None)
    _tell_clock("Mon, 01 Jan 2001 00:00:00 GMT", report)
    _tell_clock("nonsense", report)
    _tell_clock(None, report)

    assert [(each.step, each.state) for each in report.all] == [("clock", "warning"), ("clock", "note")]
    assert "s behind" in report.all[0].text


@contextmanager
def tls_server(folder: Path) -> Iterator[int]:
    """Serve TLS with a certificate that nobody trusts; ends after one connection."""
    trustme = pytest.importorskip("trustme")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("localhost").configure_cert(context)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            stream, _ = listening.accept()
            with stream:
                try:
                    context.wrap_socket(stream, server_side=True).close()
                except OSError:
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()[1]
        thread.join(20)


def test_a_certificate_that_nobody_trusts_is_told_from_a_connection(tmp_path: Path) -> None:
    with tls_server(tmp_path) as port:
        ran = invoke("doctor", f"https://localhost:{port}/mcp")

    assert ran.code == 3
    assert "FAILED certificate    " in ran.out
    assert "REQUESTS_CA_BUNDLE" in ran.out


def test_http_where_https_was_meant_fails_at_tls() -> None:
    with build().serve_http() as endpoint:
        ran = invoke("doctor", endpoint.url.replace("http:", "https:"))

    assert ran.code == 3
    assert "FAILED TLS" in ran.out


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("certificate has expired", "clock"),
        ("certificate is not yet valid", "clock"),
        ("self-signed certificate", "REQUESTS_CA_BUNDLE"),
        ("Hostname mismatch", "another name"),
    ],
)
def test_each_fault_of_a_certificate_has_its_advice(message: str, said: str) -> None:
    assert said in _about_certificate(message)


def test_a_proxy_is_named_and_looked_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://user:geheim@127.0.0.1:9")
    ran = invoke("doctor", "http://server.example/mcp")

    assert ran.code == 3
    assert "all goes through 127.0.0.1:9" in ran.out
    assert "FAILED connection     port 9" in ran.out
    assert "geheim" not in ran.out


def test_a_command_that_does_not_exist_is_told_before_it_is_started() -> None:
    ran = invoke("doctor", "--", "no-such-command-anywhere")

    assert ran.code == 3
    assert "FAILED command        no-such-command-anywhere is not found" in ran.out


def test_a_command_that_dies_shows_its_last_words() -> None:
    ran = invoke("doctor", "--", sys.executable, "-c", "import sys; sys.exit('\x1b[31moh no')")

    assert ran.code == 3
    assert "ok     command" in ran.out
    assert "oh no" in ran.out
    assert "\x1b[31moh" not in ran.out


def test_a_command_that_says_nothing_ends_at_the_timeout() -> None:
    script = "import sys; sys.stdin.read()"
    ran = invoke("doctor", "--timeout", "1.5", "--", sys.executable, "-c", script)

    assert ran.code == 4
    assert "FAILED protocol       not done within 1.5 s: the server was not ready\n" in ran.out
    assert "must print nothing but messages" in ran.out


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ((), 403, "give credentials by --header, or log in"),
        (("--mode", "2025-06-18"), 200, "--mode 2025-06-18 admits"),
    ],
)
def test_advice_is_in_words_that_can_be_typed(words: tuple[str, ...], status: int, said: str) -> None:
    def intercept(request: object) -> Optional[HTTPReply]:
        return None if status == 200 else HTTPReply(status)

    server = FakeServer(tools=[lambda: "x"], versions="modern")
    with server.serve_http(intercept=intercept) as endpoint:
        ran = invoke("doctor", endpoint.url, *words)

    assert said in ran.out
    assert "mode=" not in ran.out
    assert "auth=" not in ran.out


def test_a_list_of_tools_that_fails_is_one_finding() -> None:
    server = FakeServer(tools=[lambda: "x"])
    server.on("tools/list", lambda message: {"tools": 1})
    with server.serve_http() as endpoint:
        ran = invoke("doctor", endpoint.url)

    assert ran.code == 5
    assert "ok     answer" in ran.out
    assert "FAILED tools" in ran.out
    assert ran.out.count("FAILED") == 1


def test_a_command_that_is_well_passes() -> None:
    assert list(steps("--", *DEMO_SERVER)) == ["command", "revision", "server", "answer", "tools"]


def test_json_is_one_document() -> None:
    told = json.loads(invoke("doctor", "--json", "--", "no-such-command-anywhere").out)

    assert (told["server"], told["ok"]) == ("no-such-command-anywhere", False)
    assert told["steps"][0]["advice"]
