"""HTTP with SSE: authorization, cookies, TLS, proxies, and sessions that the user brings."""

from __future__ import annotations

import base64
import ssl
import threading
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import requests
from http_server import PATIENCE, ScriptedServer, Tunnel, Turn, answer, event
from requests.auth import AuthBase, HTTPDigestAuth
from sse_server import SSEScript, named, sse_client_of, sse_session

from mcp_sync.errors import ConnectFailed, HTTPStatusError
from mcp_sync.options import Timeouts

BASIC = "Basic " + base64.b64encode(b"u:p").decode()
pytestmark = pytest.mark.usefixtures("clean_environment")


class Bearer(AuthBase):
    """Gives a token, a new one after each 401."""

    def __init__(self) -> None:
        self.number = 0

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self.number}"
        request.register_hook("response", self._renew)
        return request

    def _renew(self, response: requests.Response, **kwargs: Any) -> requests.Response:
        if response.status_code != 401:
            return response
        self.number += 1
        response.content  # noqa: B018
        response.close()
        request = response.request.copy()
        request.headers["Authorization"] = f"Bearer {self.number}"
        again = response.connection.send(request, **kwargs)  # type: ignore[attr-defined]
        again.history.append(response)
        return again


def sent(client: Any, name: str) -> list[Any]:
    """Return a header of all requests so far."""
    return [turn.headers.get(name) for turn in client.server.turns]


def test_a_pair_is_basic_authorization_of_stream_and_messages() -> None:
    with sse_session(SSEScript(), auth=("u", "p")) as client:
        client.call()
        client.notify()
        assert sent(client, "authorization") == [BASIC] * 3


def test_a_hook_may_authorize_stream_and_messages_anew() -> None:
    script = SSEScript()

    def needs(token: str) -> Any:
        def handle(turn: Turn) -> None:
            if turn.headers["authorization"] != f"Bearer {token}":
                turn.reply(401)
            elif turn.method == "GET":
                script.open(turn)
            else:
                turn.accepted()
                script.say(event(answer(turn.id)))

        return handle

    script.on_get, script.on_post = needs("1"), needs("2")
    with sse_session(script, auth=Bearer()) as client:
        assert client.call() == {"ok": True}
        assert sent(client, "authorization") == ["Bearer 0", "Bearer 1", "Bearer 1", "Bearer 2"]


def test_digest_authorization_works() -> None:
    script = SSEScript()
    challenge = 'Digest realm="r", nonce="n", qop="auth", algorithm=MD5'

    def get(turn: Turn) -> None:
        if "authorization" in turn.headers:
            script.open(turn)
        else:
            turn.reply(401, headers={"WWW-Authenticate": challenge})

    script.on_get = get
    with sse_session(script, auth=HTTPDigestAuth("u", "p")) as client:
        assert client.call() == {"ok": True}
        assert sent(client, "authorization")[-1].startswith('Digest username="u"')


def test_a_refusal_without_credentials_hints_at_them() -> None:
    script = SSEScript()
    script.on_get = lambda turn: turn.reply(401)
    with (
        sse_session(script, start=False) as client,
        pytest.raises(HTTPStatusError, match="headers= or auth="),
    ):
        client.start()


def test_cookies_of_the_stream_and_of_messages_come_back() -> None:
    script = SSEScript()

    def get(turn: Turn) -> None:
        turn.stream(named(script.endpoint), headers={"Set-Cookie": "node=1; Path=/"})
        script._stream = turn
        turn.wait_for_close()

    def post(turn: Turn) -> None:
        turn.reply(202, headers={"Set-Cookie": "more=2; Path=/"})
        script.say(event(answer(turn.id)))

    script.on_get, script.on_post = get, post
    with sse_session(script) as client:
        client.call()
        client.call()
        assert sent(client, "cookie") == [None, "node=1", "node=1; more=2"]


def test_credentials_of_the_url_go_with_all_requests_and_show_nowhere() -> None:
    script = SSEScript()
    with ExitStack() as stack:
        server = stack.enter_context(ScriptedServer(script))
        client = stack.enter_context(sse_client_of(server.url.replace("http://", "http://u:p@")))
        client.start()
        client.call()
        assert [turn.headers["authorization"] for turn in server.turns] == [BASIC] * 2
        assert "u:p" not in client.channel.peer


# --- TLS and proxies ---------------------------------------------------------------------------------


def test_it_works_over_tls(tls: ssl.SSLContext, bundle: str) -> None:
    with sse_session(SSEScript(), tls=tls, verify=bundle) as client:
        assert client.call() == {"ok": True}


def test_a_certificate_of_nobody_known_is_refused(tls: ssl.SSLContext) -> None:
    fails = pytest.raises(ConnectFailed, match="certificate")
    with sse_session(SSEScript(), tls=tls, start=False) as client, fails:
        client.start()


def test_it_works_through_a_proxy() -> None:
    script = SSEScript()
    with ScriptedServer(script) as proxy:
        through = {"http": f"http://127.0.0.1:{proxy.port}"}
        with sse_client_of("http://far.example/sse", proxies=through) as client:
            client.start()
            assert client.call() == {"ok": True}
            assert [turn.path for turn in proxy.turns] == [
                "http://far.example/sse",
                "http://far.example/messages?sid=1",
            ]


def test_it_works_through_a_tunnel(tls: ssl.SSLContext, bundle: str) -> None:
    with Tunnel() as proxy:
        through = {"https": f"http://127.0.0.1:{proxy.port}"}
        with sse_session(SSEScript(), tls=tls, verify=bundle, proxies=through) as client:
            assert client.call() == {"ok": True}
            assert proxy.targets == [f"localhost:{client.server.port}"] * 2


def test_a_compressed_stream_is_read_as_it_comes() -> None:
    script = SSEScript()
    packer = zlib.compressobj(wbits=31)

    def gzipped(data: bytes) -> bytes:
        return packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH)

    def get(turn: Turn) -> None:
        turn.stream(gzipped(named(script.endpoint)), headers={"Content-Encoding": "gzip"})
        script._stream = turn
        turn.wait_for_close()

    def post(turn: Turn) -> None:
        turn.accepted()
        script.say(gzipped(event(answer(turn.id))))

    script.on_get, script.on_post = get, post
    with sse_session(script) as client:
        assert [client.call() for _ in range(3)] == [{"ok": True}] * 3


# --- a session of the user ---------------------------------------------------------------------------


@pytest.fixture
def users_session() -> Iterator[requests.Session]:
    """Make a session, as a user does."""
    with requests.Session() as session:
        session.headers["X-User"] = "1"
        yield session


def test_a_session_of_the_user_sends_everything(users_session: requests.Session) -> None:
    with sse_session(SSEScript(), session=users_session) as client:
        assert [client.call() for _ in range(3)] == [{"ok": True}] * 3
        assert sent(client, "x-user") == ["1"] * 4


def test_the_stream_of_a_users_session_ends_with_the_channel(users_session: requests.Session) -> None:
    script = SSEScript()
    with sse_session(script, session=users_session) as client:
        reader = client.channel._stream.threads[0]
        client.channel.discard()
        reader.join(PATIENCE)
        assert not reader.is_alive()
        assert script.ended.acquire(timeout=PATIENCE)


def test_the_stream_of_a_users_session_may_be_silent_for_longer_than_the_opening(
    users_session: requests.Session,
) -> None:
    script = SSEScript()
    with sse_session(script, start=False, session=users_session, timeouts=Timeouts(connect=0.3)) as client:
        client.start(0.3)
        threading.Event().wait(0.5)
        assert client.call() == {"ok": True}
