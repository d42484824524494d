"""The fake server behind HTTP, seen from plain requests."""

from __future__ import annotations

import json
import queue
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

import pytest
import requests
import trustme
from plain_peer import PREFIX, Message, modern_meta, text_of

from mcp_sync._protocol.versions import HANDSHAKE_VERSIONS, LATEST_HANDSHAKE, LATEST_MODERN
from mcp_sync.testing import FakeServer, HTTPEndpoint, HTTPReply, HTTPRequest, ToolContext

ACCEPT = {"Accept": "application/json, text/event-stream"}


def add(a: int, b: int) -> dict[str, int]:
    return {"sum": a + b}


def work(context: ToolContext) -> str:
    context.progress(1, 1)
    return "done"


def greet(context: ToolContext) -> str:
    return f"Hello {context.elicit('Name?')['content']['name']}"


def events(response: requests.Response) -> Iterator[tuple[Optional[str], Any]]:
    """Yield id and message of each event with data."""
    event_id, data = None, ""
    for line in response.iter_lines(chunk_size=1):
        key, _, value = line.decode().partition(": ")
        if key == "id":
            event_id = value
        elif key == "data":
            data = value
        elif not key:
            if data:
                yield event_id, json.loads(data)
            event_id, data = None, ""


class Wire:
    """Posts messages to an endpoint."""

    def __init__(self, endpoint: HTTPEndpoint, session: requests.Session) -> None:
        self.url = endpoint.url
        self.session = session
        self.headers: dict[str, str] = dict(ACCEPT)
        self.number = 0

    def post(self, method: str, params: Optional[Message] = None, **headers: Any) -> requests.Response:
        self.number += 1
        message = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params or {}}
        return self.send(message, **headers)

    def send(self, message: Any, **headers: Any) -> requests.Response:
        fields = {**self.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
        return self.session.post(self.url, json=message, headers=fields, stream=True, timeout=20)

    def modern(self, method: str, meta: Optional[Message] = None, **params: Any) -> requests.Response:
        headers = {"MCP_Protocol_Version": LATEST_MODERN, "Mcp_Method": method}
        if "name" in params or "uri" in params:
            headers["Mcp_Name"] = params.get("name") or params.get("uri")
        return self.post(method, {**params, "_meta": {**modern_meta(), **(meta or {})}}, **headers)

    def initialize(self, version: str = LATEST_HANDSHAKE) -> requests.Response:
        params = {"protocolVersion": version, "capabilities": {"elicitation": {}}, "clientInfo": {}}
        response = self.post("initialize", params)
        if "Mcp-Session-Id" in response.headers:
            self.headers["Mcp-Session-Id"] = response.headers["Mcp-Session-Id"]
        return response

    def get(self, **headers: str) -> requests.Response:
        fields = {**self.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
        return self.session.get(self.url, headers=fields, stream=True, timeout=20)


@pytest.fixture
def server() -> FakeServer:
    return FakeServer(tools=[add, work, greet], resources={"demo://x": "x"})


@pytest.fixture
def tls(session: requests.Session, tmp_path: Path) -> ssl.SSLContext:
    """A context for HTTPS with an authority that the session trusts."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    session.verify = str(tmp_path / "ca.pem")
    return context


# --- every revision --------------------------------------------------------------------------------------


def test_faults_of_a_post_have_their_status(server: FakeServer, session: requests.Session) -> None:
    with server.serve_http() as endpoint:
        wire = Wire(endpoint, session)

        def status(url: str = endpoint.url, data: bytes = b"{}", **headers: Any) -> int:
            fields = {**ACCEPT, "Content-Type": "application/json", **headers}
            return session.post(url, data=data, headers=fields, timeout=20).status_code

        assert status(url=f"{endpoint.url}/elsewhere") == 404
        assert status(Origin="https://evil.example") == 403
        assert status(Accept="application/json") == 406
        assert status(**{"Content-Type": "text/plain"}) == 415
        assert status(data=b"{") == 400
        assert wire.send([]).status_code == 400
        assert session.put(endpoint.url, timeout=20).status_code == 501


def test_requests_are_recorded_and_can_be_intercepted(server: FakeServer, session: requests.Session) -> None:
    def busy(request: HTTPRequest) -> Optional[HTTPReply]:
        return HTTPReply(429, {"Retry-After": "7"}, b"slow down") if request.method == "POST" else None

    with server.serve_http(path="/deep/mcp", intercept=busy) as endpoint:
        response = Wire(endpoint, session).post("tools/list", X_Trace="t")
        assert (response.status_code, response.headers["Retry-After"]) == (429, "7")
        assert response.text == "slow down"
        endpoint.intercept = None
        assert Wire(endpoint, session).modern("tools/list").status_code == 200
    first = endpoint.requests[0]
    assert (first.method, first.path, first.headers["x-trace"]) == ("POST", "/deep/mcp", "t")
    assert json.loads(first.body)["method"] == "tools/list"


def test_https_is_served_with_a_context(
    server: FakeServer, session: requests.Session, tls: ssl.SSLContext
) -> None:
    with server.serve_http(ssl_context=tls) as endpoint:
        assert endpoint.url.startswith("https://")
        assert Wire(endpoint, session).modern("tools/list").status_code == 200


def test_closing_frees_clients_that_wait(server: FakeServer, session: requests.Session) -> None:
    endpoint = server.serve_http()
    response = Wire(endpoint, session).modern("subscriptions/listen", notifications={})
    stream = events(response)
    assert next(stream)[1]["method"] == "notifications/subscriptions/acknowledged"
    endpoint.close()
    with pytest.raises((StopIteration, requests.RequestException)):
        next(stream)
    assert server.subscriptions.open == []


# --- without sessions ------------------------------------------------------------------------------------


def test_a_modern_request_is_answered_with_json(server: FakeServer, session: requests.Session) -> None:
    with server.serve_http() as endpoint:
        response = Wire(endpoint, session).modern("tools/call", name="add", arguments={"a": 1, "b": 2})
        assert response.headers["Content-Type"] == "application/json"
        assert "Mcp-Session-Id" not in response.headers
        assert response.json()["result"]["structuredContent"] == {"sum": 3}


def test_progress_makes_the_answer_a_stream(server: FakeServer, session: requests.Session) -> None:
    with server.serve_http() as endpoint:
        response = Wire(endpoint, session).modern(
            "tools/call", {"progressToken": 7}, name="work", arguments={}
        )
        assert response.headers["Content-Type"] == "text/event-stream"
        (_, progress), (_, answer) = events(response)
        assert progress["params"]["progressToken"] == 7
        assert text_of(answer["result"]) == "done"


def test_every_answer_can_be_a_stream(server: FakeServer, session: requests.Session) -> None:
    with server.serve_http(answers="sse") as endpoint:
        response = Wire(endpoint, session).modern("tools/list")
        assert response.headers["Content-Type"] == "text/event-stream"
        assert len(list(events(response))) == 1


@pytest.mark.parametrize("answers", ["json", "sse"])
def test_modern_errors_have_their_status(session: requests.Session, server: FakeServer, answers: Any) -> None:
    with server.serve_http(answers=answers) as endpoint:
        wire = Wire(endpoint, session)
        cases = [
            (wire.modern("nope"), 404, -32601),
            (wire.modern("tools/call", name="nope"), 400, -32602),
            (wire.modern("tools/list", {f"{PREFIX}protocolVersion": "2099-01-01"}), 400, -32020),
            (wire.modern("tools/list", {f"{PREFIX}clientCapabilities": None}), 400, -32602),
            (
                wire.modern("tools/call", {f"{PREFIX}clientCapabilities": {}}, name="greet"),
                400,
                -32021,
            ),
        ]
    for response, status, code in cases:
        assert (response.status_code, response.json()["error"]["code"]) == (status, code)


def test_an_unknown_modern_revision_names_the_others(server: FakeServer, session: requests.Session) -> None:
    meta = modern_meta(version="2099-01-01")
    with server.serve_http() as endpoint:
        wire = Wire(endpoint, session)
        response = wire.post("tools/list", {"_meta": meta}, MCP_Protocol_Version="2099-01-01")
    assert response.status_code == 400
    assert response.json()["error"]["data"]["supported"][0] == LATEST_MODERN


def test_the_check_of_the_headers_can_be_turned_off(server: FakeServer, session: requests.Session) -> None:
    for check, status in ((True, 400), (False, 200)):
        with server.serve_http(check_headers=check) as endpoint:
            response = Wire(endpoint, session).post("tools/list", {"_meta": modern_meta()})
            assert response.status_code == status


def test_a_modern_only_endpoint_has_neither_get_nor_delete_nor_responses(session: requests.Session) -> None:
    with FakeServer(versions="modern").serve_http() as endpoint:
        wire = Wire(endpoint, session)
        assert wire.get().status_code == 405
        assert session.delete(endpoint.url, timeout=20).status_code == 405
        assert wire.send({"jsonrpc": "2.0", "id": 1, "result": {}}).status_code == 400
        assert wire.send({"jsonrpc": "2.0", "method": "notifications/x"}).status_code == 202
        response = wire.initialize()
        assert (response.status_code, response.json()["error"]["code"]) == (400, -32022)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_hanging_up_cancels_a_modern_request(
    session: requests.Session, tls: ssl.SSLContext, scheme: str
) -> None:
    started, cancelled = threading.Event(), threading.Event()

    def slow(context: ToolContext) -> None:
        context.progress(1)
        started.set()
        if context.cancelled.wait(20):
            cancelled.set()

    context = tls if scheme == "https" else None
    with FakeServer(tools=[slow]).serve_http(ssl_context=context) as endpoint:
        response = Wire(endpoint, session).modern("tools/call", {"progressToken": 1}, name="slow")
        assert started.wait(20)
        response.close()
        assert cancelled.wait(20)


def test_a_request_that_gets_no_answer_ends_with_an_empty_stream(
    server: FakeServer, session: requests.Session
) -> None:
    server.on("tools/list", lambda message: None)
    with server.serve_http() as endpoint:
        assert list(events(Wire(endpoint, session).modern("tools/list"))) == []


# --- with sessions ---------------------------------------------------------------------------------------


def test_a_session_begins_with_initialize_and_ends_with_delete(
    server: FakeServer, session: requests.Session
) -> None:
    with server.serve_http() as endpoint:
        wire = Wire(endpoint, session)
        missing = wire.post("tools/list")
        assert wire.initialize().json()["result"]["protocolVersion"] == LATEST_HANDSHAKE
        assert endpoint.sessions == (wire.headers["Mcp-Session-Id"],)
        noted = wire.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        listed = wire.post("tools/list", MCP_Protocol_Version=LATEST_HANDSHAKE)
        wrong = wire.post("tools/list", MCP_Protocol_Version="2020-01-01")
        ended = session.delete(endpoint.url, headers=wire.headers, timeout=20)
        unknown = wire.post("tools/list")
    assert [r.status_code for r in (missing, noted, listed, wrong, ended, unknown)] == [
        400,
        202,
        200,
        400,
        200,
        404,
    ]
    assert endpoint.sessions == ()


def test_sessions_expire_on_demand(server: FakeServer, session: requests.Session) -> None:
    with server.serve_http() as endpoint:
        wire = Wire(endpoint, session)
        wire.initialize()
        endpoint.expire_sessions()
        assert wire.post("tools/list").status_code == 404


def test_a_handshake_that_fails_leaves_no_session(server: FakeServer, session: requests.Session) -> None:
    server.on("initialize", lambda message: 1 / 0)
    with server.serve_http() as endpoint:
        response = Wire(endpoint, session).initialize()
        assert (response.status_code, endpoint.sessions) == (200, ())
        assert "Mcp-Session-Id" not in response.headers


def test_an_endpoint_may_do_without_session_ids(server: FakeServer, session: requests.Session) -> None:
    with server.serve_http(sessions=False) as endpoint:
        wire = Wire(endpoint, session)
        assert "Mcp-Session-Id" not in wire.initialize().headers
        assert wire.post("tools/list").status_code == 200
        assert session.delete(endpoint.url, headers=ACCEPT, timeout=20).status_code == 405
    with server.serve_http(sessions=False) as endpoint:
        assert "result" in Wire(endpoint, session).post("tools/list").json()


def test_a_legacy_error_comes_with_status_200(server: FakeServer, session: requests.Session) -> None:
    with server.serve_http() as endpoint:
        wire = Wire(endpoint, session)
        wire.initialize(HANDSHAKE_VERSIONS[1])
        response = wire.post("nope")
        assert (response.status_code, response.json()["error"]["code"]) == (200, -32601)


def test_two_sessions_know_nothing_of_each_other(server: FakeServer, session: requests.Session) -> None:
    with server.serve_http() as endpoint:
        old, new = Wire(endpoint, session), Wire(endpoint, session)
        assert old.initialize(HANDSHAKE_VERSIONS[-1]).json()["result"]["protocolVersion"] != LATEST_HANDSHAKE
        new.initialize()
        server.on("which", lambda message, context: {"version": context.version})
        assert old.post("which").json()["result"] == {"version": HANDSHAKE_VERSIONS[-1]}
        assert new.post("which").json()["result"] == {"version": LATEST_HANDSHAKE}


def test_a_question_of_the_server_comes_on_the_stream_and_its_answer_by_post(
    server: FakeServer, session: requests.Session
) -> None:
    with server.serve_http() as endpoint, requests.Session() as other:
        wire = Wire(endpoint, session)
        wire.initialize()
        stream = events(wire.post("tools/call", {"name": "greet"}))
        question = next(stream)[1]
        assert question["method"] == "elicitation/create"
        result = {"action": "accept", "content": {"name": "Ann"}}
        answer = {"jsonrpc": "2.0", "id": question["id"], "result": result}
        wire.session = other
        assert wire.send(answer).status_code == 202
        assert text_of(next(stream)[1]["result"]) == "Hello Ann"


def test_the_get_stream_carries_what_belongs_to_no_request(
    server: FakeServer, session: requests.Session
) -> None:
    with server.serve_http() as endpoint:
        wire = Wire(endpoint, session)
        wire.initialize()
        server.tools_changed()
        stream = events(wire.get())
        assert next(stream)[1]["method"] == "notifications/tools/list_changed"
        wire.post("resources/subscribe", {"uri": "demo://x"}).close()
        server.resource_updated("demo://x")
        assert next(stream)[1]["params"] == {"uri": "demo://x"}
        endpoint.expire_sessions()
        assert list(stream) == []


def test_a_later_get_takes_the_place_of_an_earlier_one(server: FakeServer, session: requests.Session) -> None:
    with server.serve_http() as endpoint:
        wire = Wire(endpoint, session)
        wire.initialize()
        first = wire.get()
        second = events(wire.get())
        assert list(events(first)) == []
        server.tools_changed()
        assert next(second)[1]["method"] == "notifications/tools/list_changed"


def test_the_get_stream_can_be_left_out(server: FakeServer, session: requests.Session) -> None:
    with server.serve_http(get_stream=False) as endpoint:
        wire = Wire(endpoint, session)
        wire.initialize()
        assert wire.get().status_code == 405


def test_a_get_without_the_right_accept_or_session_is_refused(
    server: FakeServer, session: requests.Session
) -> None:
    with server.serve_http() as endpoint:
        wire = Wire(endpoint, session)
        assert wire.get(Accept="application/json").status_code == 406
        assert wire.get().status_code == 400
        assert wire.get(Mcp_Session_Id="nope").status_code == 404
        wire.initialize()
        assert wire.get(Last_Event_ID="nope_1").status_code == 400


def test_a_stream_that_broke_off_can_be_taken_up(session: requests.Session) -> None:
    steps: queue.Queue[int] = queue.Queue()

    def work(context: ToolContext) -> str:
        for step in iter(steps.get, 0):
            context.progress(step)
        return "done"

    with FakeServer(tools=[work]).serve_http(event_ids=True) as endpoint:
        wire = Wire(endpoint, session)
        wire.initialize()
        params = {"name": "work", "_meta": {"progressToken": 1}}
        steps.put(1)
        response = wire.post("tools/call", params)
        event_id, message = next(events(response))
        assert message["params"]["progress"] == 1
        endpoint.drop_connections()
        response.close()
        for step in (2, 3, 0):
            steps.put(step)
        assert event_id is not None
        resumed = list(events(wire.get(Last_Event_ID=event_id)))
        again = list(events(wire.get(Last_Event_ID=event_id)))
    assert [message.get("params", {}).get("progress") for _, message in resumed] == [2, 3, None]
    assert text_of(resumed[-1][1]["result"]) == "done"
    assert again == resumed


def test_the_space_around_a_header_is_no_part_of_it(server: FakeServer, session: requests.Session) -> None:
    params = {"uri": "demo://x", "_meta": modern_meta()}
    headers = {"MCP_Protocol_Version": LATEST_MODERN, "Mcp_Method": "resources/read"}
    with server.serve_http() as endpoint:
        response = Wire(endpoint, session).post("resources/read", params, **headers, Mcp_Name="demo://x \t ")
    assert response.status_code == 200
