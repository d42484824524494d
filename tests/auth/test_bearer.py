"""`BearerToken` against real servers, through a client and through requests alone."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable

import pytest
import requests
from requests.adapters import HTTPAdapter

from mcp_sync import Client
from mcp_sync.auth._bearer import BearerToken
from mcp_sync.errors import AuthError, AuthorizationRequired, HTTPStatusError, UsageError
from mcp_sync.testing import FakeServer
from mcp_sync.testing._http import HTTPEndpoint, HTTPReply, HTTPRequest
from mcp_sync.transports import LegacySSE, WebSocket

from .plain_server import PlainServer, Reply, Request

UNAUTHORIZED = {"WWW-Authenticate": 'Bearer error="invalid_token"'}


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))


def accepts(*tokens: str) -> Callable[[Request], Reply]:
    """Make a server that knows some tokens."""

    def answer(request: Request) -> Reply:
        if request.headers.get("authorization") in [f"Bearer {token}" for token in tokens]:
            return Reply()
        return Reply(401, b'{"error": "invalid_token"}', UNAUTHORIZED)

    return answer


def sent(server: PlainServer) -> list[str]:
    """Return the tokens that arrived, in order."""
    return [request.headers.get("authorization", "").removeprefix("Bearer ") for request in server.requests]


class Source:
    """A function that returns one token after the other; the last one for ever."""

    def __init__(self, *tokens: Any) -> None:
        self.tokens = list(tokens)
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        token = self.tokens.pop(0) if len(self.tokens) > 1 else self.tokens[0]
        if isinstance(token, BaseException) or token is OSError:
            raise token
        return str(token)


# --- through requests ----------------------------------------------------------------------------------


@pytest.fixture
def session() -> Iterator[requests.Session]:
    with requests.Session() as made:
        yield made


def test_a_text_is_sent_with_each_request(session: requests.Session) -> None:
    session.auth = BearerToken("t1")
    with PlainServer(accepts("t1")) as server:
        assert session.get(server.origin).status_code == 200
        assert session.post(server.origin, json={"a": 1}).status_code == 200
    assert sent(server) == ["t1", "t1"]
    assert server.connections == 1


def test_a_function_is_asked_for_each_request(session: requests.Session) -> None:
    session.auth = BearerToken(Source("t1", "t2", "t3"))
    with PlainServer(accepts("t1", "t2", "t3")) as server:
        for _ in range(3):
            assert session.get(server.origin).status_code == 200
    assert sent(server) == ["t1", "t2", "t3"]


def test_after_a_refusal_a_newer_token_is_tried_on_the_same_connection(session: requests.Session) -> None:
    source = Source("old", "new")
    with PlainServer(accepts("new")) as server:
        response = session.post(server.origin, data=b"body", auth=BearerToken(source))
        assert response.status_code == 200
        assert [each.status_code for each in response.history] == [401]
        assert response.history[0].json() == {"error": "invalid_token"}
        assert response.request.headers["Authorization"] == "Bearer new"
    assert sent(server) == ["old", "new"]
    assert [request.body for request in server.requests] == [b"body", b"body"]
    assert server.connections == 1
    assert source.calls == 2


def test_the_same_token_is_not_sent_again(session: requests.Session) -> None:
    source = Source("t1")
    with PlainServer(accepts()) as server:
        response = session.get(server.origin, auth=BearerToken(source))
        assert (response.status_code, response.json()) == (401, {"error": "invalid_token"})
    assert sent(server) == ["t1"]
    assert source.calls == 2


def test_a_request_is_sent_again_once_at_most(session: requests.Session) -> None:
    source = Source("t1", "t2", "t3", "t4")
    with PlainServer(accepts()) as server:
        assert session.get(server.origin, auth=BearerToken(source)).status_code == 401
    assert sent(server) == ["t1", "t2"]


def test_a_prepared_request_that_is_sent_again_begins_anew(session: requests.Session) -> None:
    known = {"token": "2"}
    with PlainServer(lambda request: accepts(known["token"])(request)) as server:
        auth = BearerToken(Source("1", "2", "3"))
        prepared = session.prepare_request(requests.Request("POST", server.origin, data=b"x", auth=auth))
        assert session.send(prepared).status_code == 200
        known["token"] = "3"
        assert session.send(prepared).status_code == 200
        assert sent(server) == ["1", "2", "2", "3"]


def test_a_text_that_is_refused_is_not_sent_again(session: requests.Session) -> None:
    with PlainServer(accepts()) as server:
        assert session.get(server.origin, auth=BearerToken("t1")).status_code == 401
    assert sent(server) == ["t1"]


@pytest.mark.parametrize("status", [200, 302, 400, 403, 404, 500, 503])
def test_no_other_status_has_the_function_asked_again(session: requests.Session, status: int) -> None:
    source = Source("t1", "t2")
    with PlainServer(lambda request: Reply(status)) as server:
        session.get(server.origin, auth=BearerToken(source), allow_redirects=False)
    assert sent(server) == ["t1"]
    assert source.calls == 1


def test_a_file_is_sent_again_from_where_it_began(session: requests.Session) -> None:
    body = io.BytesIO(b"before" + b"x" * 100_000)
    body.seek(6)
    with PlainServer(accepts("new")) as server:
        response = session.post(server.origin, data=body, auth=BearerToken(Source("old", "new")))
        assert response.status_code == 200
    assert [request.body for request in server.requests] == [b"x" * 100_000] * 2


def test_a_body_that_cannot_be_rewound_is_sent_once(session: requests.Session) -> None:
    with PlainServer(accepts("new")) as server:
        response = session.post(
            server.origin, data=iter([b"one", b"two"]), auth=BearerToken(Source("old", "new"))
        )
        assert response.status_code == 401
        assert response.json() == {"error": "invalid_token"}
    assert [request.body for request in server.requests] == [b"onetwo"]


def test_a_long_refusal_is_not_read_to_its_end(session: requests.Session) -> None:
    def answer(request: Request) -> Reply:
        if request.headers["authorization"] == "Bearer new":
            return Reply()
        return Reply(401, b"x" * 5_000_000)

    with PlainServer(answer) as server:
        response = session.get(server.origin, auth=BearerToken(Source("old", "new")))
        assert response.status_code == 200
        assert len(response.history[0].content) < 100_000
        assert response.history[0].raw.closed
    assert server.connections == 2


def test_a_refusal_that_breaks_off_does_not_keep_the_newer_token_from_being_tried(
    session: requests.Session,
) -> None:
    def answer(request: Request) -> Reply:
        if request.headers["authorization"] == "Bearer new":
            return Reply()
        return Reply(401, b"7\r\nbroken", {"Transfer-Encoding": "chunked", "Connection": "close"})

    with PlainServer(answer) as server:
        assert session.get(server.origin, auth=BearerToken(Source("old", "new"))).status_code == 200
    assert sent(server) == ["old", "new"]


def test_a_cookie_of_the_refusal_goes_with_the_second_request(session: requests.Session) -> None:
    def answer(request: Request) -> Reply:
        if request.headers["authorization"] == "Bearer new":
            return Reply()
        return Reply(401, headers={"Set-Cookie": "node=1"})

    with PlainServer(answer) as server:
        session.get(server.origin, auth=BearerToken(Source("old", "new")))
    assert server.requests[1].headers["cookie"] == "node=1"
    assert session.cookies.get("node") == "1"


def test_after_a_redirect_it_goes_on_with_the_newer_token(session: requests.Session) -> None:
    def answer(request: Request) -> Reply:
        if request.headers["authorization"] != "Bearer new":
            return Reply(401)
        return Reply(307, headers={"Location": "/x"}) if request.path == "/" else Reply()

    with PlainServer(answer) as server:
        response = session.post(server.origin, data=b"body", auth=BearerToken(Source("old", "new")))
        assert response.status_code == 200
    assert sent(server) == ["old", "new", "new"]
    assert [request.body for request in server.requests] == [b"body"] * 3


def test_a_refusal_after_a_redirect_does_not_have_it_sent_a_third_time(session: requests.Session) -> None:
    def answer(request: Request) -> Reply:
        is_new = request.headers["authorization"] == "Bearer t2"
        return Reply(307, headers={"Location": "/x"}) if is_new and request.path == "/" else Reply(401)

    with PlainServer(answer) as server:
        auth = BearerToken(Source("t1", "t2", "t3"))
        assert session.get(server.origin, auth=auth).status_code == 401
    assert sent(server) == ["t1", "t2", "t2"]


# --- where the token may go ----------------------------------------------------------------------------


def test_a_redirect_to_another_origin_gets_no_token(session: requests.Session) -> None:
    source = Source("t1", "t2")
    with PlainServer(accepts("t1", "t2")) as other:
        with PlainServer(lambda request: Reply(307, headers={"Location": f"{other.origin}/x"})) as server:
            response = session.post(server.origin, data=b"b", auth=BearerToken(source))
            assert response.status_code == 401
        assert sent(server) == ["t1"]
        assert [request.headers.get("authorization") for request in other.requests] == [None]
    assert source.calls == 1


def test_a_redirect_to_another_name_of_the_same_machine_gets_none_either(session: requests.Session) -> None:
    elsewhere: list[str] = []

    def answer(request: Request) -> Reply:
        if request.path == "/":
            return Reply(307, headers={"Location": elsewhere[0]})
        return accepts()(request)

    with PlainServer(answer) as server:
        elsewhere.append(f"http://localhost:{server.port}/x")
        session.get(server.origin, auth=BearerToken(Source("t1", "t2")))
    assert sent(server) == ["t1", ""]


def test_within_the_origin_a_redirect_keeps_the_token(session: requests.Session) -> None:
    def answer(request: Request) -> Reply:
        return Reply(307, headers={"Location": "/x"}) if request.path == "/" else accepts("t1")(request)

    with PlainServer(answer) as server:
        assert session.get(server.origin, auth=BearerToken("t1")).status_code == 200
    assert sent(server) == ["t1", "t1"]


def test_a_token_stays_with_the_server_of_its_first_request(session: requests.Session) -> None:
    auth = BearerToken("t1")
    with PlainServer(accepts("t1")) as server, PlainServer(accepts("t1")) as other:
        assert session.get(server.origin, auth=auth).status_code == 200
        with pytest.raises(UsageError, match=f"belongs to {server.origin}: .* for {other.origin}/x$"):
            session.get(f"{other.origin}/x?secret=1", auth=auth)
        assert session.get(server.origin, auth=auth).status_code == 200
        assert other.requests == []


@pytest.mark.parametrize(
    "url",
    [
        "http://mcp.example/mcp",
        "http://10.0.0.1/mcp",
        "http://localhost.example/mcp",
        "http://127.0.0.1.example/mcp",
        "HTTP://mcp.example/mcp",
        "http://[::2]/mcp",
    ],
)
def test_the_token_does_not_go_to_another_machine_in_clear(url: str) -> None:
    request = requests.Request("GET", url, auth=BearerToken("secret")).prepare
    with pytest.raises(UsageError, match="in clear") as caught:
        request()
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "https://mcp.example/mcp",
        "https://user:pw@mcp.example/mcp",
        "http://localhost:8000/mcp",
        "http://app.localhost/mcp",
        "http://127.0.0.1:8000/mcp",
        "http://127.1.2.3/mcp",
        "http://[::1]:8000/mcp",
    ],
)
def test_it_goes_over_https_and_to_this_machine(url: str) -> None:
    request = requests.Request("GET", url, auth=BearerToken("t1")).prepare()
    assert request.headers["Authorization"] == "Bearer t1"


def test_it_goes_in_clear_where_the_user_says_so() -> None:
    auth = BearerToken("t1", allow_http=True)
    request = requests.Request("GET", "http://mcp.example/mcp", auth=auth).prepare()
    assert request.headers["Authorization"] == "Bearer t1"


# --- what a token may be -------------------------------------------------------------------------------

BAD = ["", "a\r\nX-Evil: 1", "a\n", "a b", " a", "\x00", "\x7f", "ä", "a\u2028"]


@pytest.mark.parametrize("token", BAD)
def test_what_cannot_be_sent_is_refused_at_once(token: str) -> None:
    with pytest.raises(UsageError, match="the token of BearerToken"):
        BearerToken(token)


def test_the_refusal_does_not_show_the_token() -> None:
    with pytest.raises(UsageError) as caught:
        BearerToken("hunter2\n")
    assert "hunter2" not in f"{caught.value!r}"


@pytest.mark.parametrize("token", [*BAD, None, 5, b"t1"])
def test_what_a_function_returns_is_refused_before_anything_is_sent(
    session: requests.Session, token: Any
) -> None:
    with PlainServer(accepts()) as server:
        with pytest.raises(UsageError, match="the token of BearerToken"):
            session.get(server.origin, auth=BearerToken(lambda: token))
        assert server.requests == []


def test_a_token_is_given_without_its_scheme() -> None:
    for text in ("Bearer t1", "bearer t1"):
        with pytest.raises(UsageError, match="without the word Bearer"):
            BearerToken(text)


@pytest.mark.parametrize("source", [None, 5, b"t1", object()])
def test_what_is_neither_text_nor_function_is_refused(source: Any) -> None:
    with pytest.raises(UsageError):
        BearerToken(source)


def test_a_coroutine_function_is_refused() -> None:
    async def token() -> str:
        return "t1"

    with pytest.raises(UsageError, match="async def"):
        BearerToken(token)  # type: ignore[arg-type]


def test_a_function_that_fails_is_an_error_of_ours_with_its_own_as_the_cause(
    session: requests.Session,
) -> None:
    for failure in (OSError("no vault: hunter2"), KeyError("hunter2")):
        with PlainServer(accepts()) as server:
            with pytest.raises(AuthError, match=type(failure).__name__) as caught:
                session.get(server.origin, auth=BearerToken(Source(failure)))
            assert server.requests == []
        assert caught.value.__cause__ is failure
        assert "hunter2" not in str(caught.value)


def test_an_error_of_ours_from_a_function_stays_what_it_is(session: requests.Session) -> None:
    failure = AuthorizationRequired("log in", url="https://login.example")
    with PlainServer(accepts()) as server, pytest.raises(AuthorizationRequired) as caught:
        session.get(server.origin, auth=BearerToken(Source(failure)))
    assert caught.value is failure


def test_a_function_that_fails_after_a_refusal_leaves_no_connection_behind(session: requests.Session) -> None:
    responses = []

    class Recording(HTTPAdapter):
        def send(self, *args: Any, **options: Any) -> requests.Response:
            responses.append(super().send(*args, **options))
            return responses[-1]

    session.mount("http://", Recording())
    with PlainServer(accepts()) as server:
        with pytest.raises(AuthError):
            session.get(server.origin, auth=BearerToken(Source("t1", OSError)), stream=True)
        assert [response.raw.closed for response in responses] == [True]


def test_the_token_is_not_shown() -> None:
    auth = BearerToken("secret")
    assert "secret" not in f"{auth!r} {auth}"
    assert "BearerToken" in repr(auth)


# --- through a client ----------------------------------------------------------------------------------


def known(*tokens: str) -> Callable[[HTTPRequest], Any]:
    """Make what refuses all requests of a fake server but those with some token."""

    def intercept(request: HTTPRequest) -> Any:
        if request.headers.get("authorization") in [f"Bearer {token}" for token in tokens]:
            return None
        return HTTPReply(401, UNAUTHORIZED, b"no")

    return intercept


@pytest.fixture
def fake() -> FakeServer:
    def add(a: int, b: int) -> dict[str, int]:
        return {"sum": a + b}

    return FakeServer(tools=[add])


@contextmanager
def opened(endpoint: HTTPEndpoint, token: Any, **options: Any) -> Iterator[tuple[HTTPEndpoint, Client]]:
    """Open a client of an endpoint, and close both in the end."""
    with endpoint, Client(endpoint.url, auth=BearerToken(token), **options) as client:
        yield endpoint, client


def call(client: Client) -> Any:
    return client.call_tool("add", {"a": 1, "b": 2}, timeout=10).structured_content


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_presents_the_token_with_each_request(fake: FakeServer, mode: str) -> None:
    with opened(fake.serve_http(intercept=known("t1")), "t1", mode=mode) as (endpoint, client):
        assert call(client) == {"sum": 3}
        assert {request.headers.get("authorization") for request in endpoint.requests} == {"Bearer t1"}


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_goes_on_with_a_newer_token_when_the_old_one_is_refused(fake: FakeServer, mode: str) -> None:
    tokens = ["t1"]
    serving = fake.serve_http(intercept=known("t1"))
    with opened(serving, lambda: tokens[0], mode=mode) as (endpoint, client):
        assert call(client) == {"sum": 3}
        before = len(endpoint.requests)

        def rotate(request: HTTPRequest) -> Any:
            tokens[0] = "t2"
            return known("t2")(request)

        endpoint.intercept = rotate
        assert call(client) == {"sum": 3}
        first, second = endpoint.requests[before : before + 2]
        assert [each.headers["authorization"] for each in (first, second)] == ["Bearer t1", "Bearer t2"]
        assert first.body == second.body


def test_a_client_whose_token_is_refused_raises_what_the_server_said(fake: FakeServer) -> None:
    serving = fake.serve_http(intercept=known())
    with pytest.raises(HTTPStatusError) as caught, opened(serving, Source("t1")):
        pass
    assert caught.value.status == 401
    assert "invalid_token" in caught.value.headers["www-authenticate"]
    assert "t1" not in str(caught.value)


def test_a_function_that_fails_is_told_to_the_caller_of_a_client(fake: FakeServer) -> None:
    serving = fake.serve_http()
    with pytest.raises(AuthError, match="OSError"), opened(serving, Source(OSError)):
        pass
    assert serving.requests == []


def test_a_client_with_a_session_of_the_user_presents_the_token_too(
    fake: FakeServer, session: requests.Session
) -> None:
    serving = fake.serve_http(intercept=known("t2"))
    with opened(serving, Source("t1", "t2"), session=session) as (_, client):
        assert call(client) == {"sum": 3}


@pytest.mark.parametrize("kind", ["websocket", "sse"])
def test_the_other_transports_present_the_token_too(fake: FakeServer, kind: str) -> None:
    serving = getattr(fake, f"serve_{kind}")()
    serving.intercept = known("t2")
    target = {"websocket": WebSocket, "sse": LegacySSE}[kind](
        serving.url, auth=BearerToken(Source("t1", "t2"))
    )
    with serving, Client(target) as client:
        assert call(client) == {"sum": 3}
        tokens = [request.headers.get("authorization") for request in serving.requests]
    assert tokens[:2] == ["Bearer t1", "Bearer t2"]
    assert set(tokens[1:]) == {"Bearer t2"}


def test_many_threads_share_one_token(fake: FakeServer) -> None:
    tokens, start, failures = ["t1"], threading.Barrier(8), []

    serving = fake.serve_http(intercept=known("t1", "t2"))
    with opened(serving, lambda: tokens[0]) as (endpoint, client):
        call(client)

        def work() -> None:
            try:
                start.wait()
                for _ in range(10):
                    assert call(client) == {"sum": 3}
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work) for _ in range(7)]
        for thread in threads:
            thread.start()
        start.wait()
        tokens[0] = "t2"
        endpoint.intercept = known("t2")
        for thread in threads:
            thread.join()
    assert failures == []
