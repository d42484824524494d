"""A client over HTTP with SSE, and a URL that turns out to be served by nothing else."""

from __future__ import annotations

import json
import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from mcp_sync import CancelToken, Client, ClientSession, LegacySSE, StreamableHTTP, Timeouts, sse_client
from mcp_sync.client import make_target
from mcp_sync.errors import (
    CallCancelled,
    CallTimeout,
    ClientClosed,
    ConnectFailed,
    ConnectionLost,
    HTTPStatusError,
    MCPError,
    NegotiationFailed,
    RemoteError,
)
from mcp_sync.testing import FakeServer, HTTPReply, HTTPRequest, ToolContext
from mcp_sync.types import ElicitResult

from .background import PATIENCE, Background, collected, wait_until

LATEST = "2025-11-25"


class Gate:
    """A tool that runs until it is let go."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.go = threading.Event()
        self.runs = 0

    def wait(self, context: ToolContext) -> str:
        self.runs += 1
        self.begun.release()
        while not self.go.wait(0.01) and not context.cancelled.is_set():
            pass
        return "done"


def add(a: int, b: int) -> dict[str, int]:
    return {"sum": a + b}


@contextmanager
def served(**options: Any) -> Iterator[Any]:
    """Serve HTTP with SSE; yields server, endpoint and the gate of its tool."""
    gate = Gate()
    server = FakeServer(tools={"add": add, "wait": gate.wait}, versions=options.pop("versions", "legacy"))
    with server.serve_sse(**options) as endpoint:
        try:
            yield server, endpoint, gate
        finally:
            gate.go.set()


def requests_of(endpoint: Any) -> list[str]:
    """Return what arrived: method and path, and the JSON-RPC method."""
    found = []
    for request in endpoint.requests:
        method = json.loads(request.body).get("method", "") if request.body else ""
        found.append(f"{request.method} {request.path.split('?')[0]} {method}".strip())
    return found


# --- calls -----------------------------------------------------------------------------------------------


def test_the_handshake_comes_first_and_all_goes_to_the_endpoint():
    with served() as (_, endpoint, _), Client(LegacySSE(endpoint.url)) as client:
        assert client.protocol_version == LATEST
        assert client.session_id is None
        assert client.call_tool("add", {"a": 1, "b": 2}).structured_content == {"sum": 3}
        assert requests_of(endpoint) == [
            "GET /sse",
            "POST /messages initialize",
            "POST /messages notifications/initialized",
            "POST /messages tools/call",
        ]
        versions = [request.headers.get("mcp-protocol-version") for request in endpoint.requests]
        assert versions == [None, None, LATEST, LATEST]


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18"])
def test_an_older_revision_is_spoken_with_the_headers_that_it_has(version):
    with served(versions=version) as (_, endpoint, _), Client(LegacySSE(endpoint.url)) as client:
        assert client.protocol_version == version
        client.list_tools()
        expected = version if version == "2025-06-18" else None
        assert endpoint.requests[-1].headers.get("mcp-protocol-version") == expected


def test_headers_of_one_call_go_with_it_alone():
    with served() as (_, endpoint, _), Client(LegacySSE(endpoint.url, headers={"X-All": "1"})) as client:
        client.call_tool("add", {"a": 1, "b": 2}, headers={"X-One": "2"})
        client.list_tools()
        assert [request.headers.get("x-one") for request in endpoint.requests[-2:]] == ["2", None]
        assert {request.headers.get("x-all") for request in endpoint.requests} == {"1"}


def test_sse_client_opens_a_session_as_the_official_sdk_does():
    with ExitStack() as stack:
        _, endpoint, _ = stack.enter_context(served())
        transport = stack.enter_context(sse_client(endpoint.url))
        session = stack.enter_context(ClientSession(transport))
        assert session.initialize().protocol_version == LATEST
        assert session.call_tool("add", {"a": 1, "b": 2}).structured_content == {"sum": 3}


def test_progress_questions_and_pings_come_on_the_stream():
    def ask(context: ToolContext) -> str:
        context.progress(1, 2, "half")
        return str(context.elicit("Who?", {"type": "object", "properties": {"n": {"type": "string"}}}))

    seen: list[Any] = []
    server = FakeServer(tools=[ask], versions="legacy")
    with (
        server.serve_sse() as endpoint,
        Client(
            LegacySSE(endpoint.url),
            elicitation_callback=lambda context, params: ElicitResult(action="accept", content={"n": "Bob"}),
        ) as client,
    ):
        result = client.call_tool("ask", progress_callback=lambda *report: seen.append(report))
        assert "Bob" in result.text
        assert seen == [(1, 2, "half")]
        answers = [item for item in server.requests if isinstance(item, dict) and "result" in item]
        assert len(answers) == 1


def test_a_ping_of_the_server_is_answered_by_a_post():
    with served() as (server, endpoint, _), Client(LegacySSE(endpoint.url)):
        pump = next(iter(endpoint.pumps.values()))
        pump._connection.send({"jsonrpc": "2.0", "id": "p1", "method": "ping"})
        answer = {"jsonrpc": "2.0", "id": "p1", "result": {}}
        wait_until(lambda: answer in server.requests)


def test_a_cancelled_call_tells_the_server():
    with served() as (server, endpoint, gate), Client(LegacySSE(endpoint.url)) as client:
        token = CancelToken()
        call = Background(client.call_tool, "wait", cancel=token)
        assert gate.begun.acquire(timeout=PATIENCE)
        token.cancel("enough")
        assert isinstance(call.error(), CallCancelled)
        wait_until(lambda: server.received("notifications/cancelled"))
        assert client.call_tool("add", {"a": 1, "b": 1}).structured_content == {"sum": 2}


def test_a_cancelled_call_tells_the_server_without_a_handshake_too():
    with ExitStack() as stack:
        server, endpoint, gate = stack.enter_context(served(versions="modern"))
        client = stack.enter_context(Client(LegacySSE(endpoint.url), mode="2026-07-28"))
        token = CancelToken()
        call = Background(client.call_tool, "wait", cancel=token)
        assert gate.begun.acquire(timeout=PATIENCE)
        token.cancel()
        assert isinstance(call.error(), CallCancelled)
        wait_until(lambda: server.received("notifications/cancelled"))
        assert endpoint.requests[1].headers["mcp-method"] == "tools/call"


def test_a_call_ends_in_time_and_the_client_goes_on():
    with served() as (_, endpoint, gate), Client(LegacySSE(endpoint.url)) as client:
        with pytest.raises(CallTimeout) as caught:
            client.call_tool("wait", timeout=0.2)
        assert caught.value.request_sent is True
        gate.go.set()
        assert client.call_tool("add", {"a": 1, "b": 1}).structured_content == {"sum": 2}


# --- loss ------------------------------------------------------------------------------------------------


def test_a_lost_stream_fails_calls_at_once_and_the_next_one_opens_anew():
    with served() as (_, endpoint, gate), Client(LegacySSE(endpoint.url)) as client:
        calls = [Background(client.call_tool, "wait") for _ in range(3)]
        for _ in calls:
            assert gate.begun.acquire(timeout=PATIENCE)
        endpoint.drop_connections()
        for call in calls:
            error = call.error()
            assert isinstance(error, ConnectionLost)
            assert error.request_sent is True
        assert client.call_tool("add", {"a": 1, "b": 1}).structured_content == {"sum": 2}
        assert gate.runs == 3
        assert requests_of(endpoint).count("GET /sse") == 2


def test_a_session_that_was_lost_stays_lost():
    with ExitStack() as stack:
        _, endpoint, gate = stack.enter_context(served())
        transport = stack.enter_context(sse_client(endpoint.url))
        session = stack.enter_context(ClientSession(transport))
        session.initialize()
        call = Background(session.call_tool, "wait")
        assert gate.begun.acquire(timeout=PATIENCE)
        endpoint.drop_connections()
        assert isinstance(call.error(), ConnectionLost)
        with pytest.raises(ConnectionLost):
            session.list_tools()


def test_a_forgotten_session_is_opened_anew_and_no_tool_is_called_twice():
    with served() as (server, endpoint, _), Client(LegacySSE(endpoint.url)) as client:
        client.list_tools()
        forgotten = dict(endpoint.pumps)
        endpoint.pumps.clear()
        with pytest.raises(ConnectionLost) as caught:
            client.call_tool("add", {"a": 1, "b": 1})
        assert caught.value.request_sent is True
        assert server.received("tools/call") == []
        endpoint.pumps.update(forgotten)
        assert client.call_tool("add", {"a": 1, "b": 1}).structured_content == {"sum": 2}
        assert len(server.received("initialize")) == 2
        assert len(server.received("tools/call")) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_opens_a_stream_of_its_own():
    with served() as (_, endpoint, gate), Client(LegacySSE(endpoint.url)) as client:
        call = Background(client.call_tool, "wait")
        assert gate.begun.acquire(timeout=PATIENCE)
        child = os.fork()
        if not child:
            code = 1
            try:
                code = 0 if client.call_tool("add", {"a": 1, "b": 1}).structured_content == {"sum": 2} else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        gate.go.set()
        assert call.result().text == "done"
        assert requests_of(endpoint).count("GET /sse") == 2


def test_closing_while_eight_threads_call_ends_all_of_them():
    with served() as (_, endpoint, _):
        client = Client(LegacySSE(endpoint.url)).open()
        gate = threading.Barrier(9)

        def work() -> None:
            gate.wait(PATIENCE)
            while True:
                client.call_tool("add", {"a": 1, "b": 1})

        calls = [Background(work) for _ in range(8)]
        gate.wait(PATIENCE)
        client.close()
        assert {type(call.error()) for call in calls} == {ClientClosed}


def test_a_forgotten_client_goes_away_with_its_reader():
    with served() as (_, endpoint, _):
        client = Client(LegacySSE(endpoint.url), name="forgotten").open()
        gone = weakref.ref(client)
        del client
        assert collected(gone)
        wait_until(lambda: not [t for t in threading.enumerate() if "forgotten" in t.name])
        wait_until(lambda: not endpoint.pumps)


# --- a URL -----------------------------------------------------------------------------------------------


def refusing(reply: HTTPReply) -> Any:
    """Answer every POST to the stream's URL like this."""

    def intercept(request: HTTPRequest) -> Any:
        return reply if request.method == "POST" and request.path == "/sse" else None

    return intercept


def rpc(status: int, code: int, request_id: Any = None) -> HTTPReply:
    body = json.dumps({"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": "no"}})
    return HTTPReply(status, {"Content-Type": "application/json"}, body.encode())


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize(
    "reply",
    [
        HTTPReply(400),
        HTTPReply(404, {"Content-Type": "text/html"}, b"<h1>Not Found</h1>"),
        HTTPReply(405, {"Allow": "GET"}),
        rpc(400, -32000),
    ],
    ids=["400", "404", "405", "400 with an error that is not modern"],
)
def test_a_url_falls_back_to_http_with_sse(mode, reply):
    with served(intercept=refusing(reply)) as (_, endpoint, _), Client(endpoint.url, mode=mode) as client:
        assert client.call_tool("add", {"a": 1, "b": 2}).structured_content == {"sum": 3}
        probe = ["POST /sse server/discover"] if mode == "auto" else []
        assert requests_of(endpoint)[: len(probe) + 3] == [
            *probe,
            "POST /sse initialize",
            "GET /sse",
            "POST /messages initialize",
        ]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (HTTPReply(500), HTTPStatusError),
        (HTTPReply(401), HTTPStatusError),
        (HTTPReply(403), HTTPStatusError),
        (HTTPReply(410), HTTPStatusError),
        (rpc(200, -32603), RemoteError),
        (rpc(400, -32022), MCPError),
        (rpc(404, -32601), (RemoteError, NegotiationFailed)),
        (rpc(400, -32020), MCPError),
    ],
)
def test_a_url_does_not_fall_back_for_another_reason(mode, reply, kind):
    with served(intercept=refusing(reply)) as (_, endpoint, _):
        client = Client(endpoint.url, mode=mode)
        with pytest.raises(kind):
            client.list_tools()
        client.close()
        assert "GET /sse" not in requests_of(endpoint)


@pytest.mark.parametrize("mode", ["2024-11-05", LATEST])
def test_a_url_falls_back_with_a_pinned_handshake_revision_too(mode):
    with served() as (_, endpoint, _), Client(endpoint.url, mode=mode) as client:
        assert client.protocol_version == mode


def test_a_target_does_not_fall_back():
    with served() as (_, endpoint, _):
        with pytest.raises(HTTPStatusError, match="405"), Client(StreamableHTTP(endpoint.url)):
            pass
        assert "GET /sse" not in requests_of(endpoint)


def test_if_both_fail_one_error_shows_both_and_the_first_one_first():
    server = FakeServer(versions="legacy")
    with server.serve_http() as endpoint:
        client = Client(endpoint.url.replace("/mcp", "/nowhere"))
        with pytest.raises(HTTPStatusError) as caught:
            client.list_tools()
        client.close()
    error = caught.value
    assert error.status == 404
    assert str(error).startswith("initialize: ")
    assert "HTTP with SSE: GET: " in str(error)
    assert isinstance(error.__cause__, HTTPStatusError)


def test_a_stream_that_names_no_endpoint_is_not_waited_for_for_long():
    def intercept(request: HTTPRequest) -> Any:
        return HTTPReply(400) if request.method == "POST" else None

    server = FakeServer(versions="legacy")
    with server.serve_http(sessions=False, intercept=intercept) as endpoint:
        client = Client(endpoint.url, timeouts=Timeouts(connect=0.3))
        with pytest.raises(HTTPStatusError) as caught:
            client.list_tools()
        client.close()
    assert caught.value.status == 400
    assert isinstance(caught.value.__cause__, ConnectFailed)


def test_what_was_found_is_remembered_for_the_process():
    with served() as (_, endpoint, _):
        with Client(endpoint.url):
            pass
        before = len(endpoint.requests)
        with Client(endpoint.url) as client:
            client.list_tools()
        assert requests_of(endpoint)[before : before + 2] == ["GET /sse", "POST /messages initialize"]


def test_a_server_that_moved_on_is_found_again():
    with served() as (_, endpoint, _):
        port = int(endpoint.url.split(":")[2].split("/")[0])
        with Client(endpoint.url):
            pass
    server = FakeServer(tools=[add])
    with server.serve_http(port, path="/sse") as endpoint:
        for _ in range(2):
            with Client(endpoint.url) as client:
                assert client.protocol_version == "2026-07-28"
        assert requests_of(endpoint) == ["GET /sse", "POST /sse server/discover", "POST /sse server/discover"]


def test_a_client_that_fell_back_opens_anew_over_the_same_transport():
    with served() as (_, endpoint, _), Client(endpoint.url) as client:
        endpoint.drop_connections()
        wait_until(lambda: not endpoint.pumps)
        wait_until(lambda: _works(client))
        assert requests_of(endpoint).count("POST /sse initialize") == 1


def _works(client: Client) -> bool:
    try:
        return bool(client.call_tool("add", {"a": 1, "b": 1}))
    except ConnectionLost:
        return False


def test_the_options_of_a_url_go_along():
    with served() as (_, endpoint, _):
        with Client(endpoint.url, headers={"X-Key": "k"}, auth=("u", "p")) as client:
            client.list_tools()
        assert {request.headers.get("x-key") for request in endpoint.requests} == {"k"}
        assert all(request.headers["authorization"].startswith("Basic ") for request in endpoint.requests)


def test_a_url_shows_itself_without_secrets_and_a_session_is_not_taken_up_elsewhere():
    target: Any = make_target("https://u:p@h.example/mcp?key=k", {})
    assert repr(target) == "'https://h.example/mcp'"
    assert target.identity() == StreamableHTTP("https://h.example/mcp").identity()
    assert isinstance(target.fallback(), LegacySSE)
    assert make_target("https://h.example/mcp", {"session_id": "s"}).fallback() is None
