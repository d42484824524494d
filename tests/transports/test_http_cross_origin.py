"""Nothing goes to another origin: no message, no header, no cookie, whichever request is redirected."""

from __future__ import annotations

import threading
from typing import Any, Callable

import pytest
import requests
from http_server import LEGACY, LISTENING, PATIENCE, ScriptedServer, Turn, connected, event

from mcp_sync._concurrency.deadline import Deadline
from mcp_sync.errors import ConnectionLost, HTTPStatusError

HEADERS = {"Authorization": "Bearer T", "X-Api-Key": "K"}


def redirecting(method: str, elsewhere: str, done: threading.Event) -> Callable[[Turn], None]:
    """Open a session with a cookie, and redirect every request of one method that belongs to it."""

    def script(turn: Turn) -> None:
        is_opening = turn.method == "POST" and turn.message.get("method") == "initialize"
        if turn.method == method and not is_opening:
            assert turn.headers["mcp-session-id"] == "S"
            assert turn.headers["cookie"] == "node=1"
            turn.reply(307, b"", {"Location": elsewhere})
            done.set()
        elif turn.method == "POST" and turn.message.get("method") == "tools/broken":
            turn.stream(event({"jsonrpc": "2.0", "method": "notifications/x"}, before=b"id: 1\n"))
            turn.end()
        elif turn.method == "POST":
            turn.result({}, {"Mcp-Session-Id": "S", "Set-Cookie": "node=1; Path=/"})
        else:
            turn.reply(200)

    return script


def own_session() -> requests.Session:
    session = requests.Session()
    session.headers.update(HEADERS)
    return session


@pytest.mark.parametrize("own", [False, True], ids=["ours", "the users session"])
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE", "resumption"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_redirected_request_reaches_no_other_origin(host: str, method: str, own: bool) -> None:
    """Another port of the same host is another origin, and so is another name of it."""
    done = threading.Event()
    options: dict[str, Any] = {"session": own_session()} if own else {"headers": HEADERS}
    wire = LISTENING if method == "GET" else LEGACY
    with ScriptedServer(lambda turn: turn.result({})) as other:
        elsewhere = f"http://{host}:{other.port}/mcp"
        script = redirecting("GET" if method == "resumption" else method, elsewhere, done)
        with ScriptedServer(script) as server, connected(server.url, LEGACY, **options) as client:
            client.call("initialize")
            client.channel.configure(wire)
            if method == "POST":
                with pytest.raises(HTTPStatusError, match="it is another server") as caught:
                    client.call()
                assert caught.value.status == 307
                with pytest.raises(HTTPStatusError, match="it is another server"):
                    client.notify()
            elif method == "resumption":
                with pytest.raises((HTTPStatusError, ConnectionLost)):
                    client.call("tools/broken")
            elif method == "GET":
                client.inbound.wait_until(lambda: bool(client.inbound.reports))
                assert "it is another server" in str(client.inbound.reports[0])
            client.channel.close(Deadline(PATIENCE))
            assert done.wait(PATIENCE)
        assert not other.turns
        assert other.connections == 0
    if own:
        options["session"].close()


def test_the_authorization_hook_does_not_run_for_another_origin() -> None:
    asked: list[str] = []

    def hook(request: requests.PreparedRequest) -> requests.PreparedRequest:
        asked.append(request.url or "")
        request.headers["Authorization"] = "Bearer H"
        return request

    with ScriptedServer(lambda turn: turn.result({})) as other:
        location = {"Location": f"http://127.0.0.1:{other.port}/mcp"}
        with ScriptedServer(lambda turn: turn.reply(308, b"", location)) as server:
            with connected(server.url, LEGACY, auth=hook) as client, pytest.raises(HTTPStatusError):
                client.call()
            assert asked == [server.url]
        assert other.connections == 0
