"""Behind nginx, with the settings that real sites have."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import trustme
from concurrency.spy_server import answer
from interop.harness import HttpServer
from interop.install import venv_python
from transports.http_server import ScriptedServer, Turn, event

from mcp_sync import Client, ConnectionLost, HTTPStatusError
from mcp_sync.transports import StreamableHTTP

from .nginx import serving
from .spied import ROOT, meeting

TEXT = "wörld " * 30_000
# As most sites have it, with what event streams need switched on or not.
PROXY = "location /mcp {{ proxy_pass http://127.0.0.1:{port}; {more} }}"
STREAMING = "proxy_http_version 1.1; proxy_set_header Connection ''; proxy_buffering off;"
GZIP = "gzip on; gzip_min_length 1; gzip_proxied any; gzip_types application/json text/event-stream;"


@pytest.fixture(scope="session")
def sdk_servers() -> Iterator[Any]:
    """Start a server of an official SDK when it is first asked for."""
    started: dict[str, HttpServer] = {}

    def get(maker: str) -> HttpServer:
        if maker not in started:
            script = ROOT / "tests" / "interop" / "servers" / f"{maker}_server.py"
            command = [str(venv_python(maker)), "-W", "ignore", str(script), "http"]
            started[maker] = HttpServer.printing_its_port(command)
        return started[maker]

    # Before the guard of the first test takes stock.
    get("sdk1"), get("sdk2")
    yield get
    for server in started.values():
        server.end()


@pytest.fixture(scope="session")
def certificate(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Return the paths of a certificate for ``localhost`` and its key."""
    folder = tmp_path_factory.mktemp("certificate")
    issued = authority.issue_cert("localhost")
    issued.cert_chain_pems[0].write_to_path(str(folder / "chain.pem"))
    issued.private_key_pem.write_to_path(str(folder / "key.pem"))
    return str(folder / "chain.pem"), str(folder / "key.pem")


def tool_calls(server: ScriptedServer) -> int:
    return sum(turn.message.get("method") == "tools/call" for turn in list(server.turns) if turn.body)


# --- real servers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", ["default", "streaming", "streaming-gzip", "default-gzip-tls"])
@pytest.mark.parametrize(("maker", "mode"), [("sdk1", "auto"), ("sdk2", "auto"), ("sdk2", "legacy")])
def test_all_works_as_without_it(
    maker: str, mode: str, settings: str, sdk_servers: Any, bundle: str, certificate: Any, tmp_path: Path
) -> None:
    """By default nginx asks the server by HTTP/1.0 and holds back what it answers."""
    more = STREAMING if "streaming" in settings else ""
    proxy = PROXY.format(port=sdk_servers(maker).port, more=more + (GZIP if "gzip" in settings else ""))
    tls = certificate if "tls" in settings else None
    messages: list[Any] = []
    with serving(tmp_path, proxy, certificate=tls) as front:
        target = StreamableHTTP(front.url, verify=bundle)
        with Client(target, mode=mode, timeout=15, message_handler=messages.append) as client:
            assert "echo" in [tool.name for tool in client.tools()]
            assert client.call_tool("echo", {"text": TEXT}).text == TEXT
            steps: list[float] = []
            assert client.call_tool(
                "slow", {"steps": 3}, progress_callback=lambda progress, *_: steps.append(progress)
            ).text
            assert steps == [1, 2, 3]
            assert client.call_tool("add", {"a": 1, "b": 2}).structured_content == {"sum": 3}
            assert client.read_resource("note://hello").contents[0].text == "Hello, wörld"
        calls = [line for line in front.log_of(6) if line[0] == "POST"]
    assert {line[2] for line in calls} <= {"200", "202", "400"}, "the probe of an old server may be refused"
    assert any(line[3] != "-" for line in calls) == ("gzip" in settings)


def test_progress_comes_while_the_call_runs_where_nothing_is_held_back(tmp_path: Path) -> None:
    reported = threading.Event()

    def script(turn: Turn) -> None:
        params = turn.message.get("params", {}) if turn.body else {}
        if params.get("name") != "slow":
            answer(turn)
            return
        progress = {"progressToken": params["_meta"]["progressToken"], "progress": 1}
        turn.stream(event({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}))
        turn.wait(reported)
        result = {"resultType": "complete", "content": []}
        turn.chunk(event({"jsonrpc": "2.0", "id": turn.id, "result": result}))
        turn.end()

    with ScriptedServer(script) as server:
        proxy = PROXY.format(port=server.port, more=STREAMING + GZIP)
        with serving(tmp_path, proxy) as front, Client(front.url, timeout=8) as client:
            client.call_tool("slow", progress_callback=lambda *_: reported.set())


# --- failures of its own ---------------------------------------------------------------------------------


def test_a_call_that_takes_too_long_for_it_is_a_504_and_not_repeated(tmp_path: Path) -> None:
    with ScriptedServer(meeting()) as server:
        proxy = PROXY.format(port=server.port, more="proxy_read_timeout 1s;")
        with serving(tmp_path, proxy) as front, Client(front.url, timeout=15) as client:
            client.open()
            with pytest.raises(HTTPStatusError) as caught:
                client.call_tool("hang", {"text": "x"})
            assert client.call_tool("echo", {"text": "goes on"}).text == "goes on"
        assert tool_calls(server) == 2
    assert (caught.value.status, caught.value.request_sent) == (504, True)


@pytest.mark.parametrize("size", [5_000, 8_000_000])
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_body_that_is_too_large_for_it_is_a_413(size: int, mode: str, tmp_path: Path) -> None:
    """It answers, and closes the connection, while the rest of a large body is still being sent."""
    with ScriptedServer(answer) as server:
        proxy = PROXY.format(port=server.port, more="client_max_body_size 4k;")
        with serving(tmp_path, proxy) as front, Client(front.url, mode=mode, timeout=15) as client:
            assert client.call_tool("echo", {"text": "x"}).text == "x"
            for _ in range(3):
                with pytest.raises(HTTPStatusError) as caught:
                    client.call_tool("echo", {"text": "x" * size})
                assert caught.value.status == 413
                assert client.call_tool("echo", {"text": "goes on"}).text == "goes on"


def test_a_server_that_dies_during_a_call_is_a_502_and_the_call_is_not_repeated(tmp_path: Path) -> None:
    def script(turn: Turn) -> None:
        if turn.body and turn.message.get("params", {}).get("name") == "die":
            turn.reset()
        else:
            answer(turn)

    with ScriptedServer(script) as server:
        # Two upstreams: nginx itself must not pass the call on to the other one.
        upstream = f"upstream nodes {{ server 127.0.0.1:{server.port}; server localhost:{server.port}; }}"
        location = "location /mcp { proxy_pass http://nodes; }"
        with serving(tmp_path, location, upstream) as front, Client(front.url, timeout=15) as client:
            client.open()
            with pytest.raises(HTTPStatusError) as caught:
                client.call_tool("die", {})
            assert client.call_tool("echo", {"text": "goes on"}).text == "goes on"
        assert tool_calls(server) == 2
    assert (caught.value.status, caught.value.request_sent) == (502, True)


@pytest.mark.parametrize("more", ["", STREAMING, GZIP + "proxy_http_version 1.1;"])
def test_a_server_that_dies_in_the_midst_of_its_answer_is_told_of(more: str, tmp_path: Path) -> None:
    def script(turn: Turn) -> None:
        if turn.body and turn.message.get("params", {}).get("name") == "die":
            turn.stream(b": the answer begins\n\n")
            turn.reset()
        else:
            answer(turn)

    with ScriptedServer(script) as server:
        proxy = PROXY.format(port=server.port, more=more)
        with serving(tmp_path, proxy) as front, Client(front.url, timeout=15) as client:
            client.open()
            with pytest.raises((ConnectionLost, HTTPStatusError)) as caught:
                client.call_tool("die", {})
            assert client.call_tool("echo", {"text": "goes on"}).text == "goes on"
        assert tool_calls(server) == 2
    assert caught.value.request_sent is True


def test_a_server_that_is_down_is_a_502_until_it_is_back(tmp_path: Path) -> None:
    with ScriptedServer(answer) as server:
        flag = tmp_path / "up"
        proxied = PROXY.format(port=server.port, more=f"if (!-f {flag}) {{ return 502; }}")
        with serving(tmp_path, proxied) as front:
            client = Client(front.url, timeout=15)
            with pytest.raises(HTTPStatusError, match="502"):
                client.call_tool("echo", {"text": "x"})
            flag.touch()
            assert client.call_tool("echo", {"text": "x"}).text == "x"
            flag.unlink()
            with pytest.raises(HTTPStatusError, match="502"):
                client.call_tool("echo", {"text": "x"})
            flag.touch()
            assert client.call_tool("echo", {"text": "x"}).text == "x"
            client.close()
        assert tool_calls(server) == 2


# --- idle connections ------------------------------------------------------------------------------------


@pytest.mark.parametrize("secure", [False, True])
def test_connections_that_it_closes_after_a_few_requests_fail_no_call(
    secure: bool, bundle: str, certificate: Any, tmp_path: Path
) -> None:
    limits = "keepalive_requests 3; keepalive_timeout 1s;"
    with ScriptedServer(answer) as server:
        proxy = limits + PROXY.format(port=server.port, more="")
        tls = certificate if secure else None
        with serving(tmp_path, proxy, certificate=tls) as front, ThreadPoolExecutor(4) as pool:
            client = Client(StreamableHTTP(front.url, verify=bundle), timeout=15)

            def call(number: int) -> str:
                return client.call_tool("echo", {"text": str(number)}).text

            assert list(pool.map(call, range(80))) == [str(number) for number in range(80)]
            assert tool_calls(server) == 80
            connections = {line[4] for line in front.log_of(80)}
            assert len(connections) >= 80 / 3
            time.sleep(1.3)  # until it has closed the idle ones
            assert list(pool.map(call, range(8))) == [str(number) for number in range(8)]
            client.close()
    assert tool_calls(server) == 88


def test_calls_just_when_it_closes_the_idle_connection_hardly_ever_fail_and_run_once(tmp_path: Path) -> None:
    """Each call follows the last one by about the time after which the connection is closed.

    A request that crosses the end of the connection on its way may have run, so that it must not be repeated.
    """
    lost: list[ConnectionLost] = []
    with ScriptedServer(answer) as server:
        # nginx counts in milliseconds, so the end of the connection and the call meet.
        proxy = "keepalive_timeout 30ms;" + PROXY.format(port=server.port, more="")
        with serving(tmp_path, proxy) as front, Client(front.url, timeout=15) as client:
            client.open()
            for number in range(60):
                try:
                    assert client.call_tool("echo", {"text": str(number)}).text == str(number)
                except ConnectionLost as error:
                    lost.append(error)
                time.sleep(0.028 + number % 8 * 0.0007)
        assert 60 - len(lost) <= tool_calls(server) <= 60
    assert len(lost) <= 3
    assert all(error.request_sent for error in lost)


# --- redirects -------------------------------------------------------------------------------------------

MOVED = "location /mcp/ {{ proxy_pass http://127.0.0.1:{port}; }} location = /mcp {{ {rule} }}"


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize(
    "rule",
    [
        "return 307 /mcp/;",
        "return 308 /mcp/;",
        "absolute_redirect off; return 307 /mcp/;",
        "return 307 $scheme://$http_host/mcp/;",
        "return 308 $scheme://localhost:PORT/mcp/;",
    ],
)
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_missing_slash_is_redirected_with_everything(
    rule: str, secure: bool, mode: str, bundle: str, certificate: Any, tmp_path: Path
) -> None:
    with ScriptedServer(answer) as server:
        settings = MOVED.format(port=server.port, rule=rule)
        with serving(tmp_path, settings, certificate=certificate if secure else None) as front:
            target = StreamableHTTP(front.url, verify=bundle, headers={"Authorization": "Bearer T"})
            with Client(target, mode=mode, timeout=15, message_handler=lambda message: None) as client:
                assert client.call_tool("echo", {"text": "x"}).text == "x"
                assert client.call_tool("echo", {"text": "y"}).text == "y"
            moved = [line for line in front.log if line[2] in ("307", "308")]
        assert len(moved) == 1, "the new address is remembered"
        assert {turn.headers.get("authorization") for turn in server.turns} == {"Bearer T"}
        assert {turn.path for turn in server.turns} == {"/mcp/"}
        if mode == "legacy":
            assert {turn.method for turn in server.turns} >= {"POST", "DELETE"}


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("return 301 /mcp/;", "it would drop the message"),
        ("return 302 /mcp/;", "it would drop the message"),
        ("return 307 https://$http_host/mcp/;", "it is another server"),
        ("port_in_redirect off; return 307 /mcp/;", "it is another server"),
        ("return 308 http://127.0.0.1:PORT/mcp/;", "it is another server"),
    ],
)
def test_a_redirect_that_must_not_be_followed_says_where_and_why(
    rule: str, words: str, tmp_path: Path
) -> None:
    with ScriptedServer(answer) as server:
        with serving(tmp_path, MOVED.format(port=server.port, rule=rule)) as front:
            client = Client(StreamableHTTP(front.url, headers={"Authorization": "Bearer T"}), timeout=15)
            with pytest.raises(HTTPStatusError, match=words) as caught, client:
                client.call_tool("echo", {"text": "x"})
        assert not server.turns
    assert "/mcp/" in str(caught.value)
    assert "Bearer" not in str(caught.value)


def test_a_redirect_from_https_to_http_is_refused(bundle: str, certificate: Any, tmp_path: Path) -> None:
    """What an application that does not know of the TLS in front of it answers."""
    with ScriptedServer(answer) as server:
        settings = MOVED.format(port=server.port, rule="return 307 http://$http_host/mcp/;")
        with serving(tmp_path, settings, certificate=certificate) as front:
            client = Client(StreamableHTTP(front.url, verify=bundle), timeout=15)
            with pytest.raises(HTTPStatusError, match="it would send the request in clear"), client:
                client.call_tool("echo", {"text": "x"})
        assert not server.turns


# --- load balancing --------------------------------------------------------------------------------------


def node() -> ScriptedServer:
    """Make a server that knows its own sessions only."""
    sessions: set[str] = set()

    def script(turn: Turn) -> None:
        session_id = turn.headers.get("mcp-session-id")
        if session_id is not None and session_id not in sessions:
            turn.reply(404)
        elif turn.body and turn.message.get("method") == "initialize":
            sessions.add(f"session-{turn.number}-{turn.server.port}")
            turn.number = f"{turn.number}-{turn.server.port}"  # type: ignore[assignment]
            answer(turn)
        else:
            answer(turn)

    return ScriptedServer(script)


def test_the_cookie_of_a_load_balancer_keeps_a_session_on_its_node(tmp_path: Path) -> None:
    """POST, GET and DELETE of all threads; without the cookie, chance decides on the node."""
    with node() as one, node() as two:
        http = f"""
            split_clients "$request_id" $chance {{ 50% {one.port}; * {two.port}; }}
            map $cookie_lb $node {{ default $cookie_lb; "" $chance; }}
        """
        location = """
            location /mcp {
                add_header Set-Cookie "lb=$node; Path=/; HttpOnly" always;
                proxy_pass http://127.0.0.1:$node;
                proxy_buffering off;
            }
        """
        used = set()
        with serving(tmp_path, location, http) as front:
            for number in range(8):
                changed = threading.Event()
                before = {server: len(server.turns) for server in (one, two)}
                with Client(
                    front.url,
                    mode="legacy",
                    timeout=15,
                    name=f"client {number}",
                    message_handler=lambda message, changed=changed: changed.set(),
                ) as client:
                    with ThreadPoolExecutor(4) as pool:
                        texts = list(
                            pool.map(lambda n: client.call_tool("echo", {"text": str(n)}).text, range(12))
                        )
                    assert texts == [str(n) for n in range(12)]
                    assert changed.wait(10), "the GET stream"
                new = {server: server.turns[count:] for server, count in before.items()}
                (turns,) = [turns for turns in new.values() if turns]
                assert {turn.method for turn in turns} == {"POST", "GET", "DELETE"}
                used.add(turns[0].server)
    # By chance alone all eight land on one node once in 128 runs; the cookie is what is tested.
    assert used
