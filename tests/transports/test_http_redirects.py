"""Redirects: followed within the origin, with everything; never beyond it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, Callable, Optional

import pytest
import requests
from http_server import LEGACY, LISTENING, PATIENCE, ScriptedServer, Turn, answer, event, serving

from mcp_sync._concurrency.deadline import Deadline
from mcp_sync.errors import HTTPStatusError
from mcp_sync.transports._http.redirects import REDIRECTS, redirect

NOTE = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
SECRETS = {"Authorization": "Bearer T", "X-Api-Key": "K"}


@pytest.fixture
def session() -> Iterator[Callable[..., Any]]:
    """Make a server of a script and return a client of it."""
    with serving() as start:
        yield start


def moving(location: str, status: int = 307) -> Callable[[Turn], None]:
    """Redirect from ``/mcp``, and answer elsewhere with what arrived."""

    def script(turn: Turn) -> None:
        if turn.path == "/mcp":
            turn.reply(status, b"moved", {"Location": location.replace("PORT", str(turn.server.port))})
        elif turn.method == "POST":
            turn.result([turn.method, turn.path, turn.message["method"]], {"Mcp-Session-Id": "s"})
        else:
            turn.reply(200)

    return script


def hook(request: requests.PreparedRequest) -> requests.PreparedRequest:
    request.headers["Authorization"] = "Bearer H"
    return request


@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize(
    "location",
    [
        "/mcp/",
        "mcp/",
        "http://127.0.0.1:PORT/mcp/",
        "//127.0.0.1:PORT/mcp/",
        "http://u:p@127.0.0.1:PORT/mcp/#x",
    ],
)
@pytest.mark.parametrize("own", [True, False])
def test_a_redirect_within_the_origin_is_followed_and_remembered(
    session: Any, status: int, location: str, own: bool
) -> None:
    options = {} if own else {"session": requests.Session()}
    client = session(moving(location, status), wire=LEGACY, headers=SECRETS, **options)
    expected = ["POST", "/mcp/", "initialize"]
    assert client.call("initialize", headers={"X-Call": "1"}) == expected
    assert client.call() == ["POST", "/mcp/", "tools/call"]
    client.channel.close(Deadline(PATIENCE))
    turns = client.server.turns
    assert [turn.path for turn in turns] == ["/mcp", "/mcp/", "/mcp/", "/mcp/"]
    assert turns[3].method == "DELETE"
    for turn in turns:
        assert turn.headers["authorization"] == "Bearer T"
        assert turn.headers["x-api-key"] == "K"
    assert turns[1].headers["x-call"] == "1"
    assert turns[1].body == turns[0].body
    if own:
        assert client.server.connections == 1
    else:
        options["session"].close()


def test_a_location_is_quoted(session: Any) -> None:
    client = session(moving("/m c\u00e9p"))
    assert client.call()[1] in ("/m%20c%C3%A9p", "/m%20c%C3%83%C2%A9p")


def test_the_authorization_hook_runs_again_after_a_redirect(session: Any) -> None:
    client = session(moving("/mcp/"), auth=hook)
    client.call()
    assert [turn.headers["authorization"] for turn in client.server.turns] == ["Bearer H"] * 2


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_another_origin_is_never_followed(session: Any, own: bool, status: int) -> None:
    options = {} if own else {"session": requests.Session()}
    with ScriptedServer(lambda turn: turn.result()) as other:
        target = f"http://127.0.0.1:{other.port}/mcp?token=secret"
        client = session(
            lambda turn: turn.reply(status, b"", {"Location": target}), headers=SECRETS, **options
        )
        with pytest.raises(HTTPStatusError) as caught:
            client.call()
        assert other.connections == 0
    assert caught.value.status == status
    assert f"http://127.0.0.1:{other.port}/mcp" in str(caught.value)
    assert "another server" in str(caught.value)
    assert "secret" not in str(caught.value)
    if not own:
        options["session"].close()


@pytest.mark.parametrize("status", [301, 302, 303])
def test_a_redirect_that_would_drop_the_message_is_not_followed(session: Any, status: int) -> None:
    client = session(moving("/login", status))
    with pytest.raises(HTTPStatusError, match="/login is not followed") as caught:
        client.call()
    assert caught.value.status == status
    assert [turn.path for turn in client.server.turns] == ["/mcp"]


def test_redirects_in_a_circle_end(session: Any) -> None:
    client = session(lambda turn: turn.reply(307, b"", {"Location": "/mcp"}))
    with pytest.raises(HTTPStatusError, match="too many redirects"):
        client.call()
    assert len(client.server.turns) == 6


def test_a_redirect_without_a_location_is_a_failure(session: Any) -> None:
    client = session(lambda turn: turn.reply(307))
    with pytest.raises(HTTPStatusError, match="without a location"):
        client.call()


HERE = "https://mcp.example/mcp"


@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("/mcp/", "https://mcp.example/mcp/"),
        ("mcp/", "https://mcp.example/mcp/"),
        ("?v=2", "https://mcp.example/mcp?v=2"),
        ("//mcp.example/v2", "https://mcp.example/v2"),
        ("https://MCP.example:443/mcp/", "https://MCP.example:443/mcp/"),
        ("https://mcp.example./x y", "https://mcp.example./x%20y"),
    ],
)
def test_a_redirect_within_the_origin_is_followed(status: int, location: str, target: str) -> None:
    assert redirect(status, HERE, location) == (target, None)


@pytest.mark.parametrize(
    ("location", "why"),
    [
        (None, "without a location"),
        ("http://mcp.example/mcp/", "in clear"),
        ("http://other.example/mcp/", "in clear"),
        ("https://other.example/mcp", "another server"),
        ("https://mcp.example:444/mcp", "another server"),
        ("https://sub.mcp.example/mcp", "another server"),
        ("//other.example/mcp", "another server"),
        ("https://mcp.example@other.example/mcp", "another server"),
        ("file:///etc/passwd", "another server"),
    ],
)
def test_any_other_redirect_is_refused(location: Optional[str], why: str) -> None:
    for status in REDIRECTS:
        refusal = redirect(status, HERE, location, REDIRECTS).refusal
        assert refusal is not None
        assert why in refusal


@pytest.mark.parametrize("status", [301, 302, 303])
def test_a_redirect_that_drops_the_message_is_refused(status: int) -> None:
    refusal = redirect(status, HERE, "/mcp/").refusal
    assert refusal is not None
    assert "drop the message" in refusal
    assert redirect(status, HERE, "/mcp/", REDIRECTS).refusal is None


def test_a_method_that_has_moved_alone_moves_no_other(session: Any) -> None:
    def script(turn: Turn) -> None:
        if turn.method == "POST":
            turn.json(answer(1, turn.path))
        elif turn.path == "/mcp":
            turn.reply(307, b"", {"Location": "/events"})
        else:
            turn.stream(event(NOTE))
            turn.wait_for_close()

    client = session(script, wire=LISTENING, session_id="s")
    client.inbound.wait_until(lambda: NOTE in client.inbound.messages)
    assert client.call() == "/mcp"


def test_streams_and_resumption_use_the_new_url(session: Any) -> None:
    def script(turn: Turn) -> None:
        if turn.path == "/mcp":
            turn.reply(308, b"", {"Location": "/v2/mcp"})
        elif turn.method == "POST":
            turn.stream(b"id: 1\nretry: 1\ndata:\n\n")
            turn.end()
        else:
            turn.stream(event(answer(1, turn.path)))
            turn.end()

    assert session(script, wire=LEGACY).call() == "/v2/mcp"


def test_cookies_do_not_leave_the_origin(session: Any) -> None:
    seen: list[Any] = []
    with ScriptedServer(lambda turn: seen.append(turn)) as other:
        script = moving(f"http://127.0.0.1:{other.port}/mcp")
        client = session(
            lambda turn: turn.result(headers={"Set-Cookie": "a=1"}) if turn.number == 0 else script(turn)
        )
        client.call()
        with pytest.raises(HTTPStatusError):
            client.call()
    assert seen == []


def test_threads_may_be_redirected_together(session: Any) -> None:
    client = session(moving("/mcp/"))
    barrier = threading.Barrier(6)
    results = []

    def work() -> None:
        barrier.wait()
        results.append(client.call()[1])

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == ["/mcp/"] * 6
