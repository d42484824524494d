"""Requests that are sent again by themselves, over real HTTP; and those that are not."""

from __future__ import annotations

import email.utils
import json
import threading
import time

import pytest

from mcp_sync import CancelToken, Client, ClientSession, Retry, streamablehttp_client
from mcp_sync.errors import (
    CallCancelled,
    ClientClosed,
    ConnectionLost,
    HTTPStatusError,
    NotSupported,
    SessionExpired,
    UsageError,
)
from mcp_sync.testing import FakeServer, HTTPReply
from mcp_sync.transports import LegacySSE, StreamableHTTP, WebSocket

from .background import Background

QUICK = Retry(backoff=0.01)


class Office:
    """A server with a door: what the door says to a request, it says instead of the server."""

    def __init__(self, *answers, method="tools/call", versions="modern", **http):
        self.answers = list(answers)
        self.method = method
        self.ran = []
        self.asked = []
        self.refused = threading.Event()
        self.server = FakeServer([self.work], versions=versions)
        self.endpoint = self.server.serve_http(intercept=self.door, **http)

    def work(self, n: int) -> str:
        self.ran.append(n)
        return f"done {n}"

    def door(self, request):
        message = json.loads(request.body) if request.body else {}
        if message.get("method") != self.method:
            return None
        self.asked.append(message["id"])
        if not self.answers:
            return None
        self.refused.set()
        return self.answers.pop(0)

    def __enter__(self):
        self.endpoint.__enter__()
        return self

    def __exit__(self, *error):
        return self.endpoint.__exit__(*error)

    @property
    def url(self):
        return self.endpoint.url


def busy(status=429, **headers):
    return HTTPReply(status, {name.replace("_", "-"): value for name, value in headers.items()}, b"later")


@pytest.mark.parametrize("versions", ["modern", "legacy"])
@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_is_busy_is_asked_again_when_it_says(status, versions):
    answers = [busy(status, Retry_After="0")] * 2
    with Office(*answers, versions=versions) as office, Client(office.url) as client:
        assert client.call_tool("work", {"n": 1}).text == "done 1"
    assert office.ran == [1]
    assert len(set(office.asked)) == 3, "each attempt is a request of its own"


def test_a_date_does_as_well_as_seconds():
    until = email.utils.formatdate(time.time() + 1, usegmt=True)
    with Office(busy(503, Retry_After=until)) as office, Client(office.url) as client:
        assert client.call_tool("work", {"n": 1}).text == "done 1"


def test_a_busy_server_that_names_no_time_is_asked_again_after_a_pause():
    with Office(busy(429)) as office, Client(office.url, retry=QUICK) as client:
        assert client.call_tool("work", {"n": 1}).text == "done 1"


def test_one_that_stays_busy_is_an_error_with_the_time():
    with Office(*[busy(429, Retry_After="0")] * 3) as office, Client(office.url) as client:
        with pytest.raises(HTTPStatusError) as caught:
            client.call_tool("work", {"n": 1})
        assert (caught.value.status, caught.value.retry_after) == (429, 0.0)
        assert caught.value.request_sent is False
        assert client.call_tool("work", {"n": 2}).text == "done 2"
    assert office.ran == [2]


def test_a_wait_that_no_one_would_sit_out_is_an_error_at_once():
    with Office(busy(429, Retry_After="86400")) as office, Client(office.url) as client:
        with pytest.raises(HTTPStatusError) as caught:
            client.call_tool("work", {"n": 1})
        assert caught.value.retry_after == 86400.0
        assert len(office.asked) == 1


def test_a_wait_beyond_the_calls_time_is_an_error_at_once():
    with Office(busy(429, Retry_After="20")) as office, Client(office.url) as client:
        with pytest.raises(HTTPStatusError):
            client.call_tool("work", {"n": 1}, timeout=10)
        assert len(office.asked) == 1


@pytest.mark.parametrize("status", [500, 502, 503, 504, 403])
def test_a_tool_is_not_called_again_when_it_may_have_run(status):
    with Office(busy(status)) as office, Client(office.url, retry=QUICK) as client:
        with pytest.raises(HTTPStatusError) as caught:
            client.call_tool("work", {"n": 1})
        assert caught.value.request_sent is True
        assert len(office.asked) == 1


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_list_is_asked_for_again(status):
    with Office(busy(status), method="tools/list") as office, Client(office.url, retry=QUICK) as client:
        assert [tool.name for tool in client.tools()] == ["work"]


def test_without_repetition_there_is_none():
    once = Retry(attempts=1)
    with Office(busy(429, Retry_After="0")) as office, Client(office.url, retry=once) as client:
        with pytest.raises(HTTPStatusError):
            client.call_tool("work", {"n": 1})
        assert len(office.asked) == 1


@pytest.mark.parametrize("method", ["server/discover", "initialize"])
def test_a_busy_server_is_waited_for_while_it_is_opened(method):
    versions = "modern" if method == "server/discover" else "legacy"
    answer = busy(503, Retry_After="0")
    with Office(answer, method=method, versions=versions) as office, Client(office.url) as client:
        assert client.call_tool("work", {"n": 1}).text == "done 1"


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("way", ["websocket", "sse"])
def test_a_busy_server_is_waited_for_where_one_connection_carries_all(way, status):
    answers, refused = [busy(status, Retry_After="0")] * 2, []

    def door(request):
        if request.method == "GET" and answers:
            refused.append(request.path)
            return answers.pop()
        return None

    server = FakeServer({"work": lambda: "done"}, versions="legacy")
    serve, target = {
        "websocket": (server.serve_websocket, WebSocket),
        "sse": (server.serve_sse, LegacySSE),
    }[way]
    with serve(intercept=door) as endpoint, Client(target(endpoint.url)) as client:
        assert client.call_tool("work").text == "done"
    assert len(refused) == 2


@pytest.mark.parametrize("way", ["websocket", "sse"])
def test_closing_ends_the_wait_for_one_connection_that_carries_all(way):
    refused = threading.Event()

    def door(request):
        refused.set()
        return busy(429, Retry_After="25")

    server = FakeServer({"work": lambda: "done"}, versions="legacy")
    serve, target = {
        "websocket": (server.serve_websocket, WebSocket),
        "sse": (server.serve_sse, LegacySSE),
    }[way]
    with serve(intercept=door) as endpoint:
        client = Client(target(endpoint.url))
        call = Background(client.call_tool, "work")
        assert refused.wait(10)
        client.close()
        assert isinstance(call.error(), ClientClosed)


def test_a_token_ends_the_wait():
    token = CancelToken()
    with Office(busy(429, Retry_After="25")) as office, Client(office.url) as client:
        call = Background(client.call_tool, "work", {"n": 1}, cancel=token)
        assert office.refused.wait(10)
        token.cancel()
        assert isinstance(call.error(), CallCancelled)
    assert office.ran == []


def test_closing_ends_the_wait():
    with Office(busy(429, Retry_After="25")) as office:
        client = Client(office.url)
        call = Background(client.call_tool, "work", {"n": 1})
        assert office.refused.wait(10)
        client.close()
        assert isinstance(call.error(), ClientClosed)


def test_closing_ends_the_wait_of_an_opening():
    with Office(busy(429, Retry_After="25"), method="server/discover") as office:
        client = Client(office.url)
        call = Background(client.call_tool, "work", {"n": 1})
        assert office.refused.wait(10)
        client.close()
        assert isinstance(call.error(), ClientClosed)


def test_a_busy_server_leaves_no_old_connections_behind():
    answer = busy(429, Retry_After="0")
    with Office(answer, method="server/discover", versions="legacy") as office, Client(office.url) as client:
        for n in range(4):
            client.call_tool("work", {"n": n})
            office.endpoint.expire_sessions()
        client.call_tool("work", {"n": 4})
        assert len(client._engine._live.connections) == 1


@pytest.mark.parametrize("versions", ["modern", "legacy"])
def test_a_call_that_failed_for_the_opening_was_not_sent(versions):
    method = "server/discover" if versions == "modern" else "initialize"
    with Office(*[busy(500)] * 9, method=method, versions=versions) as office:
        client = Client(office.url)
        with pytest.raises(HTTPStatusError) as caught:
            client.call_tool("work", {"n": 1})
        client.close()
    assert caught.value.request_sent is False


def test_a_call_that_failed_in_a_later_round_may_have_run():
    def ask(context) -> str:
        ran.append(1)
        context.elicit("?", {"type": "object", "properties": {}})
        return "done"

    ran = []
    server = FakeServer([ask], versions="modern")
    rounds = []

    def door(request):
        if request.body and json.loads(request.body)["method"] == "tools/call":
            rounds.append(1)
            return busy(429, Retry_After="3600") if len(rounds) == 2 else None
        return None

    def accept(context, params):
        return {"action": "accept", "content": {}}

    with server.serve_http(intercept=door) as endpoint:
        client = Client(endpoint.url, elicitation_callback=accept)
        with client, pytest.raises(HTTPStatusError) as caught:
            client.call_tool("ask")
    assert ran
    assert caught.value.request_sent is True


# --- broken responses ------------------------------------------------------------------------------------


class Breaking(Office):
    """A server whose first response ends without the answer, although it has acted."""

    def __init__(self, method, **http):
        reply = HTTPReply(200, {"Content-Type": "text/event-stream"}, b": a comment\n\n")
        super().__init__(reply, method=method, **http)


@pytest.mark.parametrize("versions", ["modern", "legacy"])
def test_a_broken_answer_to_a_harmless_request_is_asked_for_again(versions):
    with Breaking("tools/list", versions=versions) as office, Client(office.url, retry=QUICK) as client:
        assert [tool.name for tool in client.tools()] == ["work"]
    assert len(set(office.asked)) == 2


def test_a_broken_answer_of_a_tool_is_an_error_that_says_so():
    with Breaking("tools/call") as office, Client(office.url, retry=QUICK) as client:
        with pytest.raises(ConnectionLost) as caught:
            client.call_tool("work", {"n": 1})
        assert caught.value.request_sent is True
        assert client.call_tool("work", {"n": 2}).text == "done 2"
    assert len(office.asked) == 2


# --- sessions --------------------------------------------------------------------------------------------


def test_a_new_session_is_told_what_the_old_one_was():
    seen = []
    heard = threading.Event()

    def handle(message):
        seen.append(message)
        heard.set()

    server = FakeServer([], {"demo://a": "A", "demo://b": "B", "demo://c": "C"}, versions="legacy")
    with server.serve_http() as endpoint, Client(endpoint.url, message_handler=handle) as client:
        client.set_logging_level("error")
        for uri in ("demo://a", "demo://b", "demo://c"):
            client.subscribe_resource(uri)
        client.unsubscribe_resource("demo://b")
        endpoint.expire_sessions()
        assert client.read_resource("demo://a").contents[0].text == "A"
        assert [each["params"]["level"] for each in server.received("logging/setLevel")] == ["error"] * 2
        again = [each["params"]["uri"] for each in server.received("resources/subscribe")][3:]
        assert again == ["demo://a", "demo://c"]
        # The standing stream is there again, too.
        heard.clear()
        while not heard.wait(0.05):
            server.notify("notifications/resources/updated", {"uri": "demo://a"})
    assert seen[-1].params.uri == "demo://a"


def test_thirty_two_threads_with_an_expired_session_share_one_handshake():
    server = FakeServer([lambda_tool], versions="legacy")
    with server.serve_http() as endpoint, Client(endpoint.url) as client:
        client.call_tool("lambda_tool", {"n": 0})
        for turn in range(3):
            endpoint.expire_sessions()
            start = threading.Barrier(32)
            calls = [Background(call_together, client, start, n) for n in range(32)]
            assert [call.result() for call in calls] == [str(n) for n in range(32)]
            assert len(server.received("initialize")) == 2 + turn


def lambda_tool(n: int) -> str:
    return str(n)


def call_together(client, start, n):
    start.wait(10)
    return client.call_tool("lambda_tool", {"n": n}).text


def test_a_session_of_the_users_is_not_replaced():
    server = FakeServer([lambda_tool], versions="legacy")
    with server.serve_http() as endpoint, ClientSession(StreamableHTTP(endpoint.url)) as session:
        session.initialize()
        endpoint.expire_sessions()
        with pytest.raises(SessionExpired):
            session.call_tool("lambda_tool", {"n": 1})
    assert len(server.received("initialize")) == 1


def test_a_session_is_taken_up_over_an_opened_transport_too():
    server = FakeServer([lambda_tool], versions="legacy")
    with server.serve_http() as endpoint, Client(endpoint.url) as first:
        kept, version = first.session_id, first.protocol_version
        with streamablehttp_client(endpoint.url, session_id=kept) as transport:
            with Client(transport, mode=version) as second:
                assert second.call_tool("lambda_tool", {"n": 1}).text == "1"
                assert second.session_id == kept
            with ClientSession(transport) as session, pytest.raises(UsageError, match="take it up"):
                session.initialize()
    assert len(server.received("initialize")) == 1


# --- calls that are taken up -----------------------------------------------------------------------------


def test_a_call_is_taken_up_by_another_client_with_its_token():
    going, go_on = threading.Event(), threading.Event()
    runs, tokens, told = [], [], []

    def long(context) -> str:
        runs.append(1)
        context.progress(1, 2)
        going.set()
        assert go_on.wait(10)
        context.progress(2, 2)
        return "at last"

    server = FakeServer([long], versions="legacy")
    # A client whose connection breaks, and which does not take the stream up itself.
    with server.serve_http(event_ids=True) as endpoint, Client(endpoint.url, retry=Retry(resume=0)) as first:
        call = Background(
            first.call_tool,
            "long",
            progress_callback=lambda *values: None,
            on_resumption_token_update=tokens.append,
        )
        assert going.wait(10)
        while not tokens:
            time.sleep(0.005)
        endpoint.drop_connections()
        assert isinstance(call.error(), ConnectionLost)
        session_id, version = first.session_id, first.protocol_version
        with Client(endpoint.url, session_id=session_id, mode=version) as second:
            rest = Background(
                second.call_tool,
                "long",
                resumption_token=tokens[-1],
                progress_callback=lambda *values: told.append(values),
            )
            go_on.set()
            assert rest.result().text == "at last"
    assert len(runs) == 1
    assert told[-1] == (2.0, 2.0, None)


def test_a_failing_callback_for_tokens_breaks_no_call(caplog):
    def fail(token):
        raise ValueError("no room for tokens")

    def work(context) -> str:
        context.progress(1)
        return "done"

    server = FakeServer([work], versions="legacy")
    with server.serve_http(event_ids=True) as endpoint, Client(endpoint.url) as client:
        result = client.call_tool("work", on_resumption_token_update=fail, reset_on_progress=True)
    assert result.text == "done"
    assert "no room for tokens" in caplog.text


def test_a_token_of_a_session_that_is_gone_is_a_lost_session():
    server = FakeServer([lambda_tool], versions="legacy")
    with server.serve_http(event_ids=True) as endpoint:
        with Client(endpoint.url, session_id="gone", mode="2025-11-25") as client:
            for options in ({"resumption_token": "x_1"}, {}):
                with pytest.raises(SessionExpired):
                    client.call_tool("lambda_tool", {"n": 1}, **options)
        posts = [each for each in endpoint.requests if each.method == "POST"]
    assert len(posts) == 1, "it is not sent again with the same id"


def test_a_session_may_be_left_for_another_client():
    server = FakeServer([lambda_tool], versions="legacy")
    with server.serve_http() as endpoint:
        with Client(StreamableHTTP(endpoint.url, terminate_on_close=False)) as first:
            first.call_tool("lambda_tool", {"n": 1})
            kept, version = first.session_id, first.protocol_version
        with Client(endpoint.url, session_id=kept, mode=version) as second:
            assert second.call_tool("lambda_tool", {"n": 2}).text == "2"
        assert endpoint.sessions == ()
    assert len(server.received("initialize")) == 1


def test_a_token_that_the_server_does_not_know_is_an_error_that_says_what_it_said():
    server = FakeServer([lambda_tool], versions="legacy")
    with server.serve_http(event_ids=True) as endpoint, Client(endpoint.url) as client:
        with pytest.raises(ConnectionLost, match="answered 4"):
            client.call_tool("lambda_tool", {"n": 1}, resumption_token="unknown_7")
        assert client.call_tool("lambda_tool", {"n": 2}).text == "2"
    assert len(server.received("tools/call")) == 1


def test_what_cannot_be_taken_up_is_refused():
    server = FakeServer([lambda_tool], versions="modern")
    with server.serve_http() as endpoint, Client(endpoint.url) as client:
        with pytest.raises(NotSupported):
            client.call_tool("lambda_tool", {"n": 1}, resumption_token="x_1")
        assert client.call_tool("lambda_tool", {"n": 1}, on_resumption_token_update=print).text == "1"
        with pytest.raises(UsageError, match="resumption_token"):
            client.call_tool("lambda_tool", {"n": 1}, resumption_token="")
        with pytest.raises(UsageError, match="on_resumption_token_update"):
            client.call_tool("lambda_tool", {"n": 1}, on_resumption_token_update=7)
    assert len(server.received("tools/call")) == 1
