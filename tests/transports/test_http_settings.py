"""Authorization, .netrc, proxies, and sessions that the user brings."""

from __future__ import annotations

import base64
import contextlib
import gc
import gzip
import io
import json
import socket
import threading
import traceback
from collections.abc import Iterator
from typing import Any, Callable

import pytest
import requests
from http_server import (
    LEGACY,
    LISTENING,
    PATIENCE,
    ScriptedServer,
    Turn,
    answer,
    connected,
    event,
    frame_of,
    in_thread,
    serving,
)
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase, HTTPDigestAuth
from urllib3.response import HTTPResponse

from mcp_sync._concurrency.deadline import Deadline
from mcp_sync.errors import (
    CallCancelled,
    CallTimeout,
    ConnectFailed,
    ConnectionLost,
    HTTPStatusError,
    InvalidMessage,
    TransportError,
    UsageError,
)

BASIC = "Basic " + base64.b64encode(b"u:p").decode()

pytestmark = pytest.mark.usefixtures("clean_environment")


@pytest.fixture
def session() -> Iterator[Callable[..., Any]]:
    """Make a server of a script and return a client of it."""
    with serving() as start:
        yield start


@pytest.fixture
def netrc(clean_environment: None, tmp_path: Any) -> None:
    """Have a .netrc that knows the server."""
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login u password p\n")


def echo(turn: Turn) -> None:
    """Answer with the ``Authorization`` that came."""
    turn.result(turn.headers.get("authorization", "nothing"), {"Mcp-Session-Id": "s"})


class Bearer(AuthBase):
    """Puts a token on each request."""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = "Bearer H"
        return request


# --- authorization ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "nothing"),
        ({"auth": Bearer()}, "Bearer H"),
        ({"auth": ("u", "p")}, BASIC),
        ({"headers": {"authorization": "Bearer T"}}, "Bearer T"),
        ({"headers": {"Authorization": "Bearer T"}, "auth": Bearer()}, "Bearer H"),
    ],
)
def test_authorization_is_sent_as_given(session: Any, options: Any, expected: Any) -> None:
    assert session(echo, **options).call() == expected


def test_a_header_of_one_call_wins_over_those_of_all(session: Any) -> None:
    client = session(echo, auth=Bearer(), headers={"X-A": "1", "X-B": "1"})
    assert client.call(headers={"authorization": "Bearer C", "x-a": "2"}) == "Bearer C"
    assert client.call(headers={"Authorization": "Bearer D"}) == "Bearer D"
    turn = client.server.turns[0]
    assert (turn.headers["x-a"], turn.headers["x-b"]) == ("2", "1")
    assert client.call() == "Bearer H"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, BASIC),
        ({"auth": Bearer()}, "Bearer H"),
        ({"headers": {"authorization": "Bearer T"}}, "Bearer T"),
    ],
)
@pytest.mark.parametrize("own", [True, False])
def test_netrc_is_used_only_where_nothing_was_given(
    session: Any, netrc: None, options: Any, expected: str, own: bool
) -> None:
    mine = requests.Session()
    extra = {} if own else {"session": mine}

    def script(turn: Turn) -> None:
        if turn.path == "/mcp":
            turn.reply(307, b"", {"Location": "/mcp/"})
        elif turn.method == "GET":
            turn.reply(405)
        elif turn.method == "DELETE":
            turn.reply(200)
        else:
            echo(turn)

    client = session(script, wire=LEGACY, **options, **extra)
    assert client.call("initialize") == expected
    assert client.call() == expected
    client.channel.configure(LISTENING)
    client.inbound.wait_until(lambda: bool(client.inbound.reports))
    client.channel.close(Deadline(PATIENCE))
    assert {turn.method for turn in client.server.turns} == {"POST", "GET", "DELETE"}
    assert {turn.headers.get("authorization") for turn in client.server.turns} == {expected}
    mine.close()


def test_netrc_does_not_replace_a_header_of_a_session(session: Any, netrc: None) -> None:
    with requests.Session() as mine:
        mine.headers["Authorization"] = "Bearer S"
        assert session(echo, session=mine).call() == "Bearer S"


def test_credentials_in_the_url_become_basic_authorization() -> None:
    with ScriptedServer(echo) as server:
        url = server.url.replace("http://", "http://u:p@")
        with connected(url) as client:
            assert client.call() == BASIC
            assert "u:p" not in client.channel.peer
        with connected(url, headers={"Authorization": "Bearer T"}) as client:
            assert client.call() == "Bearer T"
        assert server.turns[0].headers["host"] == f"127.0.0.1:{server.port}"


@pytest.mark.parametrize("kind", ["json", "events"])
def test_digest_authorization_works(session: Any, kind: str) -> None:
    def script(turn: Turn) -> None:
        if "authorization" not in turn.headers:
            challenge = 'Digest realm="r", nonce="n", qop="auth", algorithm=MD5'
            turn.reply(401, b"who?", {"WWW-Authenticate": challenge, "Set-Cookie": "c=1"})
        elif kind == "json":
            turn.result(turn.headers["cookie"])
        else:
            turn.stream(event(answer(turn.id, turn.headers["cookie"])))
            turn.end()

    client = session(script, auth=HTTPDigestAuth("u", "p"))
    assert [client.call(), client.call()] == ["c=1", "c=1"]
    first, second, third = client.server.turns
    assert second.headers["authorization"].startswith('Digest username="u"')
    assert "authorization" in third.headers
    assert first.body == second.body
    assert client.server.connections == 1


class Refreshing(AuthBase):
    """Gets a new token when the server refuses the old one, as OAuth does."""

    def __init__(self) -> None:
        self.token = "old"
        self.seen: list[requests.Response] = []

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self.token}"
        request.register_hook("response", self.handle)
        return request

    def handle(self, response: requests.Response, **kwargs: Any) -> requests.Response:
        self.seen.append(response)
        if response.status_code != 401:
            return response
        assert response.text == "stale"
        assert response.headers["www-authenticate"] == "Bearer"
        response.close()
        self.token = "new"
        again = response.request.copy()
        again.headers["Authorization"] = "Bearer new"
        answered: requests.Response = response.connection.send(again, **kwargs)
        answered.history.append(response)
        answered.request = again
        return answered


def test_a_hook_may_repeat_the_request(session: Any) -> None:
    def script(turn: Turn) -> None:
        if turn.headers["authorization"] == "Bearer old":
            turn.reply(401, b"stale", {"WWW-Authenticate": "Bearer", "Content-Type": "text/plain"})
        else:
            turn.result(turn.headers["authorization"])

    auth = Refreshing()
    client = session(script, auth=auth)
    assert [client.call(), client.call()] == ["Bearer new", "Bearer new"]
    assert client.server.connections == 1
    for response in auth.seen:
        response.close()
    assert client.call() == "Bearer new"
    assert client.server.connections == 1, "a hook that closes an old response hits no other call"


def test_a_hook_may_read_the_response_itself(session: Any) -> None:
    bodies: list[bytes] = []

    class Reading(AuthBase):
        def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
            request.register_hook("response", lambda response, **_: bodies.append(response.content))
            return request

    client = session(lambda turn: turn.result(turn.number), auth=Reading())
    assert [client.call(), client.call()] == [0, 1]
    assert len(bodies) == 2
    assert client.server.connections == 1


@pytest.mark.parametrize("kind", ["json", "events"])
def test_a_hook_may_look_at_the_raw_response(session: Any, kind: str) -> None:
    class Looking(AuthBase):
        def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
            request.register_hook("response", self.look)
            return request

        @staticmethod
        def look(response: requests.Response, **_: Any) -> None:
            assert response.raw.status == response.status_code == 200
            assert response.ok
            assert response.encoding in ("utf-8", "ISO-8859-1")
            assert dict(response.cookies) == {"c": "1"}
            assert response.raw.headers["Content-Type"] == response.headers["content-type"]

    def script(turn: Turn) -> None:
        if kind == "json":
            turn.result(turn.number, {"Set-Cookie": "c=1"})
        else:
            turn.stream(event(answer(turn.id, turn.number)), headers={"Set-Cookie": "c=1"})
            turn.end()

    client = session(script, auth=Looking())
    assert [client.call() for _ in range(4)] == [0, 1, 2, 3]


class Keeping(AuthBase):
    """Looks at the raw responses, and keeps them."""

    def __init__(self) -> None:
        self.kept: list[requests.Response] = []

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.register_hook("response", self.keep)
        return request

    def keep(self, response: requests.Response, **_: Any) -> None:
        assert response.raw.status == 200
        self.kept.append(response)


@pytest.mark.parametrize("how", ["forgotten", "closed"])
def test_a_response_that_a_hook_kept_does_no_harm_to_later_calls(session: Any, how: str) -> None:
    asked, go = threading.Event(), threading.Event()

    def script(turn: Turn) -> None:
        if turn.number == 1:
            asked.set()
            turn.wait(go)
        turn.stream(event(answer(turn.id, turn.number)))
        turn.end()

    auth = Keeping()
    client = session(script, auth=auth)
    assert client.call() == 0
    with in_thread(client.call) as work:
        assert asked.wait(PATIENCE)
        for response in auth.kept if how == "closed" else ():
            response.close()
        auth.kept.clear()
        gc.collect()
        go.set()
        assert work.result() == 1
    assert client.server.connections == 1


def test_an_unfinished_response_that_a_hook_looked_at_is_not_mixed_with_the_next(session: Any) -> None:
    rest = b": the rest\n\n"

    def script(turn: Turn) -> None:
        if turn.number == 1 and turn.connection == 1:
            turn.write(rest)  # of the first response, after the second request
        body = event(answer(turn.id, turn.number))
        headers = {"Content-Type": "text/event-stream", "Content-Length": str(len(body + rest))}
        turn.head_and(headers, body + rest if turn.number else body)

    auth = Keeping()
    client = session(script, auth=auth)
    assert client.call() == 0
    auth.kept.clear()
    gc.collect()
    assert client.call() == 1
    assert client.server.connections == 2


def test_an_error_of_a_hook_is_passed_on_and_nothing_leaks(session: Any) -> None:
    class Failing(AuthBase):
        def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
            request.register_hook("response", self.fail)
            return request

        @staticmethod
        def fail(response: requests.Response, **_: Any) -> None:
            raise ZeroDivisionError("a fault of the hook")

    client = session(lambda turn: turn.result(), auth=Failing())
    with pytest.raises(ZeroDivisionError):
        client.call()


def test_the_time_of_a_repeated_request_counts(session: Any) -> None:
    over = threading.Event()

    def script(turn: Turn) -> None:
        if turn.number == 0:
            turn.reply(401, b"stale", {"WWW-Authenticate": "Bearer", "Content-Type": "text/plain"})
        else:
            turn.wait(over)

    client = session(script, auth=Refreshing())
    with pytest.raises(CallTimeout):
        client.call(timeout=0.3)
    over.set()


# --- headers ---------------------------------------------------------------------------------------------


def test_headers_of_the_protocol_win_over_the_users(session: Any) -> None:
    client = session(
        lambda turn: turn.result(),
        headers={"accept": "text/html", "MCP-PROTOCOL-VERSION": "1", "User-Agent": "me"},
    )
    client.call(headers={"content-type": "text/plain"})
    turn = client.server.turns[0]
    assert turn.headers["accept"] == "application/json, text/event-stream"
    assert turn.headers["content-type"] == "application/json"
    assert turn.headers["mcp-protocol-version"] == "2026-07-28"
    assert turn.headers["user-agent"] == "me"
    assert len(turn.names) == len({name.lower() for name in turn.names})


def test_a_header_may_be_latin1(session: Any) -> None:
    client = session(lambda turn: turn.result(turn.headers["x-name"]))
    assert client.call(headers={"X-Name": "caf\u00e9"}) == "caf\u00e9"


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\rb", "\u2705", 5, None])
def test_a_header_that_cannot_be_sent_is_refused_before_sending(session: Any, value: Any) -> None:
    client = session(lambda turn: turn.result())
    with pytest.raises(UsageError):
        client.call(headers={"X-Name": value})
    assert client.server.turns == []


# --- proxies ---------------------------------------------------------------------------------------------


@pytest.fixture
def proxy() -> Iterator[ScriptedServer]:
    """Run a proxy that answers by itself."""
    with ScriptedServer(
        lambda turn: turn.result([turn.path, turn.headers.get("proxy-authorization")])
    ) as server:
        yield server


@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY", "ALL_PROXY"])
def test_a_proxy_of_the_environment_is_used(proxy: ScriptedServer, monkeypatch: Any, variable: str) -> None:
    monkeypatch.setenv(variable, f"http://user:word@127.0.0.1:{proxy.port}")
    with connected("http://mcp.invalid/mcp?x=1") as client:
        path, authorization = client.call()
        assert path == "http://mcp.invalid/mcp?x=1"
        assert authorization == "Basic " + base64.b64encode(b"user:word").decode()
        client.call()
    assert proxy.connections == 1
    assert proxy.turns[0].headers["host"] == "mcp.invalid"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_loopback_is_not_sent_to_a_proxy_of_the_environment(
    proxy: ScriptedServer, monkeypatch: Any, host: str
) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
    address = "::1" if "::" in host else "127.0.0.1"
    try:
        direct = ScriptedServer(lambda turn: turn.result("direct"), host=address)
    except OSError:
        pytest.skip("no such address here")
    with direct, connected(f"http://{host}:{direct.port}/mcp") as client:
        assert client.call() == "direct"
        assert direct.turns[0].headers["host"] == f"{host}:{direct.port}"
    assert proxy.connections == 0


def test_an_explicit_proxy_is_used_for_loopback_too(proxy: ScriptedServer) -> None:
    with connected("http://127.0.0.1:1/mcp", proxies={"http": f"http://127.0.0.1:{proxy.port}"}) as client:
        assert client.call()[0] == "http://127.0.0.1:1/mcp"


def test_no_proxy_is_obeyed(proxy: ScriptedServer, monkeypatch: Any) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
    monkeypatch.setenv("no_proxy", ".invalid")
    with connected("http://mcp.invalid/mcp") as client, pytest.raises(ConnectFailed):
        client.call()
    assert proxy.connections == 0


def test_a_socks_proxy_without_its_package_is_named(monkeypatch: Any) -> None:
    monkeypatch.setattr("requests.adapters.SOCKSProxyManager", _without_socks)
    proxies = {"http": "socks5h://127.0.0.1:1"}
    with (
        connected("http://mcp.invalid/mcp", proxies=proxies) as client,
        pytest.raises(UsageError, match="PySocks"),
    ):
        client.call()


@pytest.mark.parametrize("proxy", ["foo://127.0.0.1:1", "socks9://127.0.0.1:1", "http://"])
def test_a_proxy_that_cannot_be_one_is_named(proxy: str) -> None:
    with (
        connected("http://mcp.invalid/mcp", proxies={"http": proxy}) as client,
        pytest.raises(UsageError, match=r"^tools/call: the proxy for http://mcp\.invalid/mcp has"),
    ):
        client.call()


def _without_socks(*args: Any, **kwargs: Any) -> None:
    raise requests.exceptions.InvalidSchema("Missing dependencies for SOCKS support.")


# --- a session of the user -------------------------------------------------------------------------------


def test_a_session_of_the_user_is_used_as_it_is(session: Any) -> None:
    hooked: list[int] = []
    with requests.Session() as mine:
        mine.headers["X-Mine"] = "1"
        mine.auth = ("u", "p")
        mine.cookies.set("own", "2")
        mine.hooks["response"].append(lambda response, **_: hooked.append(response.status_code))
        before = (dict(mine.headers), mine.auth, dict(mine.cookies), dict(mine.adapters))
        client = session(
            lambda turn: turn.result([turn.headers["x-mine"], turn.headers["cookie"]]), session=mine
        )
        assert client.call() == ["1", "own=2"]
        turn = client.server.turns[0]
        assert turn.headers["authorization"] == BASIC
        assert turn.headers["accept"] == "application/json, text/event-stream"
        assert hooked == [200]
        assert (dict(mine.headers), mine.auth, dict(mine.cookies), dict(mine.adapters)) == before
        client.channel.close(Deadline(PATIENCE))
        assert mine.post(client.server.url, json={"id": 1, "method": "x"}).status_code == 200


def test_headers_beside_a_session_of_the_user_are_sent_and_leave_it_unchanged(session: Any) -> None:
    with requests.Session() as mine:
        mine.headers.update({"X-Mine": "1", "X-Both": "mine"})
        before = dict(mine.headers)
        client = session(
            lambda turn: turn.result([turn.headers.get(name) for name in ("x-mine", "x-both", "x-given")]),
            session=mine,
            headers={"x-both": "given", "X-Given": "2"},
        )
        assert client.call(headers={"X-Call": "3"}) == ["1", "given", "2"]
        assert dict(mine.headers) == before
        sent = mine.post(client.server.url, json={"jsonrpc": "2.0", "id": 1, "method": "x"})
        assert sent.json()["result"] == ["1", "mine", None]


@pytest.mark.parametrize("kind", ["length", "chunked", "gzip", "events", "gzip events", "many events"])
def test_a_session_of_the_user_reads_all_kinds_of_answers(session: Any, kind: str) -> None:

    def script(turn: Turn) -> None:
        body = json.dumps(answer(turn.id, "x" * 100_000)).encode()
        note = event({"jsonrpc": "2.0", "method": "n"})
        headers = {"Content-Type": "application/json"}
        if kind == "length":
            turn.reply(200, body, headers)
        elif kind == "gzip":
            turn.reply(200, gzip.compress(body), {**headers, "Content-Encoding": "gzip"})
        elif kind == "chunked":
            turn.head(200, {**headers, "Transfer-Encoding": "chunked"})
            turn.chunk(body[:10])
            turn.chunk(body[10:])
            turn.end()
        elif kind == "gzip events":
            turn.stream(gzip.compress(b"data: " + body + b"\n\n"), headers={"Content-Encoding": "gzip"})
            turn.end()
        else:
            turn.stream(*[note] * (50 if kind == "many events" else 0), b"data: " + body + b"\n\n")
            turn.end()

    with requests.Session() as mine:
        client = session(script, session=mine)
        for _ in range(3):
            assert client.call() == "x" * 100_000
        assert client.server.connections == 1


@pytest.mark.parametrize("framing", ["chunked", "close"])
def test_a_session_of_the_user_delivers_events_at_once(session: Any, framing: str) -> None:
    arrived = threading.Event()

    def script(turn: Turn) -> None:
        note = event({"jsonrpc": "2.0", "method": "n"})
        if framing == "chunked":
            turn.stream(note)
            turn.wait(arrived)
            turn.chunk(event(answer(turn.id, 1)))
            turn.end()
        else:
            turn.head(200, {"Content-Type": "text/event-stream", "Connection": "close"})
            turn.write(note)
            turn.wait(arrived)
            turn.write(event(answer(turn.id, 1)))
            turn.close()

    with requests.Session() as mine:
        client = session(script, session=mine)
        client.inbound.on_message = lambda _: arrived.set()
        assert client.call() == 1


def test_a_reader_in_a_session_of_the_user_is_woken(session: Any) -> None:
    closed = threading.Event()

    def script(turn: Turn) -> None:
        turn.stream(event({"jsonrpc": "2.0", "method": "n"}))
        if turn.wait_for_close():
            closed.set()

    with requests.Session() as mine:
        client = session(script, session=mine)
        call = client.pending()
        client.inbound.on_message = lambda _: call.fail(CallCancelled("enough"))
        with in_thread(client.channel.request, frame_of(call), call) as work:
            work.result()
        assert closed.wait(PATIENCE)


def test_a_body_that_drips_into_a_session_of_the_user_is_bounded(session: Any) -> None:
    over = threading.Event()

    def script(turn: Turn) -> None:
        turn.head(200, {"Content-Type": "application/json", "Content-Length": "1000"})
        while not over.wait(0.02):
            turn.write(b" ")

    with requests.Session() as mine:
        client = session(script, session=mine)
        with pytest.raises(CallTimeout):
            client.call(timeout=0.3)
    over.set()


def test_failures_in_a_session_of_the_user_are_translated(session: Any) -> None:
    def script(turn: Turn) -> None:
        if turn.number == 0:
            turn.reset()
        elif turn.number == 1:
            turn.reply(400, b"nope")
        elif turn.number == 2:
            turn.reply(200, b"<html>", {"Content-Type": "text/html"})
        else:
            turn.head_and({"Content-Type": "application/json", "Content-Length": "9"}, b"{")
            turn.close()

    with requests.Session() as mine:
        client = session(script, session=mine)
        with pytest.raises(ConnectionLost) as lost:
            client.call()
        assert lost.value.request_sent is True
        for kind in (HTTPStatusError, InvalidMessage, ConnectionLost):
            with pytest.raises(kind):
                client.call()
    with requests.Session() as mine, connected("http://127.0.0.1:1/mcp?key=secret", session=mine) as client:
        call = client.pending()
        with pytest.raises(ConnectFailed) as refused:
            client.send(call)
        assert refused.value.request_sent is call.request_sent is False
        assert "secret" not in "".join(traceback.format_exception(None, refused.value, refused.tb))


def test_tls_that_breaks_in_a_session_of_the_user_leaves_open_what_was_sent() -> None:
    def serve() -> None:
        sock, _ = listener.accept()
        with sock:
            sock.recv(4096)
            sock.sendall(b"HTTP/1.1 400 This is no TLS\r\n\r\n")
            with contextlib.suppress(OSError):
                sock.recv(4096)

    with socket.create_server(("127.0.0.1", 0)) as listener, requests.Session() as mine:
        thread = threading.Thread(target=serve)
        thread.start()
        url = f"https://127.0.0.1:{listener.getsockname()[1]}/mcp"
        with connected(url, session=mine) as client, pytest.raises(ConnectionLost) as broken:
            client.call()
        thread.join()
    assert broken.value.request_sent is None


def test_a_bad_header_of_a_hook_in_a_session_of_the_user_is_refused_without_its_value(session: Any) -> None:
    def hook(request: Any) -> Any:
        request.headers["Authorization"] = "Bearer secret\r\n"
        return request

    with requests.Session() as mine:
        client = session(lambda turn: turn.result(), session=mine, auth=hook)
        with pytest.raises(UsageError) as refused:
            client.call()
    assert "secret" not in "".join(traceback.format_exception(None, refused.value, refused.tb))


def test_a_proxy_that_is_no_url_is_told_without_its_password(session: Any) -> None:
    client = session(lambda turn: turn.result(), proxies={"http": "http://u:secret/x@proxy.invalid"})
    with pytest.raises(TransportError) as refused:
        client.call()
    assert "secret" not in "".join(traceback.format_exception(None, refused.value, refused.tb))


def test_a_proxy_that_refuses_is_named_without_its_password(session: Any) -> None:
    client = session(lambda turn: turn.result(), proxies={"http": "http://u:secret@127.0.0.1:1"})
    with pytest.raises(ConnectFailed, match=r"through the proxy http://127\.0\.0\.1:1") as refused:
        client.call()
    assert "secret" not in "".join(traceback.format_exception(None, refused.value, refused.tb))


class Canned(HTTPAdapter):
    """An adapter without any network, as test libraries mount."""

    def send(self, request: Any, *args: Any, **kwargs: Any) -> requests.Response:

        body = json.dumps(answer(json.loads(request.body)["id"], "canned")).encode()
        raw = HTTPResponse(io.BytesIO(body), {"Content-Type": "application/json"}, 200, preload_content=False)
        return self.build_response(request, raw)


def test_an_adapter_of_the_user_may_answer_by_itself() -> None:
    with requests.Session() as mine:
        mine.mount("http://canned.invalid", Canned())
        with connected("http://canned.invalid/mcp", session=mine) as client:
            assert client.call() == "canned"
