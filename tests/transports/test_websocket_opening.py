"""How a WebSocket is opened: refusals, authorization, redirects, proxies, TLS, and bounds."""

from __future__ import annotations

import base64
import ssl
import threading
from typing import Any

import pytest
import requests
from http_server import ScriptedServer, Tunnel, Turn, in_thread, server_tls
from requests.auth import AuthBase, HTTPDigestAuth
from stdio_support import Recorder, settings
from websocket_server import PATIENCE, Peer, at, connected, hang, refuse_connections

from mcp_sync._concurrency.deadline import Deadline
from mcp_sync.errors import CallTimeout, ConnectFailed, HTTPStatusError, MCPError, UsageError
from mcp_sync.transports import WebSocket

BASIC = "Basic " + base64.b64encode(b"u:p").decode()
pytestmark = pytest.mark.usefixtures("clean_environment")


def serve(peer: Peer) -> None:
    """Be a server that answers all requests."""
    peer.shake()
    peer.serve()


def failure(url: str, timeout: float = PATIENCE, **options: Any) -> MCPError:
    """Return why a connection does not come about."""
    channel = WebSocket(url, **options).channel(settings())
    with pytest.raises(MCPError) as caught:
        channel.start(Recorder(), Deadline(timeout))
    channel.close(Deadline(PATIENCE))
    assert getattr(caught.value, "request_sent", False) is False
    return caught.value


# --- refusals --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 400, 403, 404, 426, 429, 500, 503])
def test_another_answer_is_an_http_error_with_its_body(status: int) -> None:
    def script(peer: Peer) -> None:
        peer.turn.reply(status, b"no WebSockets here", {"Retry-After": "7", "Set-Cookie": "a=b"})

    with at(script) as server:
        error = failure(server.url)
    assert isinstance(error, HTTPStatusError)
    assert (error.status, error.body_excerpt, error.retry_after) == (status, "no WebSockets here", 7)
    assert "set-cookie" not in error.headers
    assert error.url == server.url
    assert str(error).startswith(f"WebSocket handshake: {server.url} answered {status}: no WebSockets here")


def test_a_401_hints_at_credentials() -> None:
    with at(lambda peer: peer.turn.reply(401, b"", {"WWW-Authenticate": "Bearer"})) as server:
        error = failure(server.url)
        assert isinstance(error, HTTPStatusError)
        assert error.headers["www-authenticate"] == "Bearer"
        assert "headers= or auth=" in str(error)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"Sec_WebSocket_Accept": "bm9uc2Vuc2U="}, "Sec-WebSocket-Accept"),
        ({"Sec_WebSocket_Accept": None}, "Sec-WebSocket-Accept"),
        ({"Sec_WebSocket_Protocol": None}, "no subprotocol, where 'mcp' was offered"),
        ({"Sec_WebSocket_Protocol": "chat"}, "the subprotocol 'chat'"),
        ({"Upgrade": "h2c"}, "another protocol"),
        ({"Upgrade": None}, "another protocol"),
        ({"Connection": "keep-alive"}, "another protocol"),
        ({"Sec_WebSocket_Extensions": "permessage-deflate"}, "extension"),
    ],
)
def test_a_handshake_that_breaks_the_rules_is_refused(fields: Any, text: str) -> None:
    def script(peer: Peer) -> None:
        peer.shake(**fields)
        peer.wait_for_end()

    with at(script) as server:
        error = failure(server.url)
    assert isinstance(error, ConnectFailed)
    assert text in str(error)


def test_the_handshake_minds_no_case() -> None:
    def script(peer: Peer) -> None:
        peer.shake(Upgrade="WebSocket", Connection="keep-alive, upgrade")
        peer.serve()

    with at(script) as server, connected(server.url) as client:
        assert client.call("echo", {"a": 1}) == {"a": 1}


def test_nobody_there_is_a_failed_connection() -> None:
    sock, port = refuse_connections()
    with sock:
        error = failure(f"ws://127.0.0.1:{port}/ws")
    assert isinstance(error, ConnectFailed)
    assert "refused" in str(error)


def test_a_name_that_nobody_knows_is_a_failed_connection() -> None:
    assert isinstance(failure("ws://mcp.invalid/ws"), ConnectFailed)


def test_a_host_that_cannot_be_one_is_refused_with_the_channel() -> None:
    with pytest.raises(UsageError):
        WebSocket("ws://\u00fc" + "b" * 70 + ".example/mcp").channel(settings())


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 101 Swit", b"SSH-2.0-OpenSSH_9.6\r\n"])
def test_a_connection_that_ends_in_the_handshake_is_a_failed_connection(sent: bytes) -> None:
    with at(lambda peer: peer.write(sent)) as server:
        assert isinstance(failure(server.url), ConnectFailed)


# --- bounds ----------------------------------------------------------------------------------------------


def test_a_silent_server_is_left_in_time() -> None:
    with at(lambda peer: peer.wait_for_end() and None) as server:  # type: ignore[func-returns-value]
        error = failure(server.url, timeout=0.3)
        assert isinstance(error, CallTimeout)


def test_a_head_that_drips_is_left_in_time() -> None:
    stopped = threading.Event()

    def script(peer: Peer) -> None:
        while not stopped.wait(0.02):
            peer.write(b"HTTP/1.1 101 Switching\r\n" if not peer.turn.body else b"X-A: b\r\n")
            peer.turn.body = b"begun"

    with at(script) as server:
        error = failure(server.url, timeout=0.3)
        stopped.set()
        assert isinstance(error, CallTimeout)


def test_closing_ends_an_opening() -> None:
    arrived = threading.Event()

    def script(peer: Peer) -> None:
        arrived.set()
        peer.wait_for_end()

    with at(script) as server:
        channel = WebSocket(server.url).channel(settings())
        with in_thread(channel.start, Recorder(), Deadline(PATIENCE)) as opening:
            assert arrived.wait(PATIENCE)
            channel.close(Deadline(PATIENCE))
            with pytest.raises(ConnectFailed):
                opening.result()


# --- authorization and redirects ---------------------------------------------------------------------------


class Bearer(AuthBase):
    """Puts a token on each request."""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        assert request.url is not None
        assert request.url.startswith("http://")
        request.headers["Authorization"] = "Bearer H"
        return request


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, None),
        ({"auth": Bearer()}, "Bearer H"),
        ({"auth": ("u", "p")}, BASIC),
        ({"headers": {"Authorization": "Bearer T"}}, "Bearer T"),
    ],
)
def test_authorization_is_sent_with_the_handshake(options: Any, expected: Any) -> None:
    with at(serve) as server, connected(server.url, **options) as client:
        client.call("echo")
        assert server.turns[0].headers.get("authorization") == expected


def test_credentials_in_the_url_are_sent_and_not_shown() -> None:
    with at(serve) as server, connected(server.url.replace("//", "//u:p@")) as client:
        client.call("echo")
        assert server.turns[0].headers["authorization"] == BASIC
        assert client.channel.peer == server.url


@pytest.mark.parametrize(
    ("options", "expected"), [({}, BASIC), ({"headers": {"Authorization": "Bearer T"}}, "Bearer T")]
)
def test_netrc_is_used_only_where_nothing_was_given(tmp_path: Any, options: Any, expected: str) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login u password p\n")
    with at(serve) as server, connected(server.url, **options) as client:
        client.call("echo")
        assert server.turns[0].headers["authorization"] == expected


def test_a_hook_that_repeats_the_handshake_works() -> None:
    def script(peer: Peer) -> None:
        if "authorization" not in peer.headers:
            challenge = 'Digest realm="r", nonce="n", qop="auth", algorithm=MD5'
            peer.turn.reply(401, b"who?", {"WWW-Authenticate": challenge, "Connection": "close"})
        else:
            serve(peer)

    with at(script) as server, connected(server.url, auth=HTTPDigestAuth("u", "p")) as client:
        assert client.call("echo", {"a": 1}) == {"a": 1}
        assert server.turns[1].headers["authorization"].startswith("Digest ")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_within_the_origin_is_followed(status: int) -> None:
    def script(peer: Peer) -> None:
        if peer.turn.path == "/mcp":
            peer.turn.reply(status, b"", {"Location": "/mcp/", "Connection": "close"})
        else:
            serve(peer)

    with at(script) as server, connected(server.url, headers={"X-A": "b"}) as client:
        assert client.call("echo", {"a": 1}) == {"a": 1}
        assert server.turns[1].headers["x-a"] == "b"


def test_a_redirect_to_another_server_is_refused() -> None:
    with at(hang) as other:

        def script(peer: Peer) -> None:
            peer.turn.reply(302, b"", {"Location": other.url.replace("ws", "http")})

        with at(script) as server:
            error = failure(server.url, headers={"Authorization": "Bearer T"})
        assert isinstance(error, HTTPStatusError)
        assert error.status == 302
        assert "another server" in str(error)
        assert other.connections == 0


# --- TLS -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["verify", "REQUESTS_CA_BUNDLE"])
def test_a_private_authority_is_trusted_where_it_is_named(
    authority: Any, bundle: str, how: str, monkeypatch: Any
) -> None:
    options: dict[str, Any] = {"verify": bundle} if how == "verify" else {}
    if how != "verify":
        monkeypatch.setenv(how, bundle)
    tls = server_tls(authority, "localhost")
    with at(serve, tls) as server, connected(server.url, **options) as client:
        text = "x" * 3_000_000
        assert client.call("echo", {"text": text}) == {"text": text}
        assert client.call("echo", {"a": 1}) == {"a": 1}


def test_a_refusal_over_tls_names_the_url_as_it_was_given(authority: Any, bundle: str) -> None:
    with at(lambda peer: peer.turn.reply(404), server_tls(authority, "localhost")) as server:
        error = failure(server.url, verify=bundle)
        assert isinstance(error, HTTPStatusError)
        assert error.url == server.url
        assert server.url.startswith("wss://")
        assert server.url in str(error)


def test_an_unknown_authority_is_refused(authority: Any) -> None:
    with at(serve, server_tls(authority, "localhost")) as server:
        error = failure(server.url)
    assert isinstance(error, ConnectFailed)
    assert "certificate was refused" in str(error)


def test_the_certificate_of_another_host_is_refused(authority: Any, bundle: str) -> None:
    with at(serve, server_tls(authority, "other.example")) as server:
        error = failure(server.url, verify=bundle)
        assert isinstance(error, ConnectFailed)
        assert "certificate was refused" in str(error)
        with pytest.warns(Warning, match="Unverified"), connected(server.url, verify=False) as client:
            client.call("echo")


def test_a_client_certificate_is_shown(authority: Any, bundle: str, tmp_path: Any) -> None:
    tls = server_tls(authority, "localhost")
    tls.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(tls)
    certificate = authority.issue_cert("client@example.com")
    certificate.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "client.pem"))
    with at(serve, tls) as server:
        with connected(server.url, verify=bundle, cert=str(tmp_path / "client.pem")) as client:
            assert client.call("echo", {"a": 1}) == {"a": 1}
        assert isinstance(failure(server.url, verify=bundle), ConnectFailed)


# --- proxies ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("secure", [False, True], ids=["ws", "wss"])
@pytest.mark.parametrize("proxy_secure", [False, True], ids=["http proxy", "https proxy"])
def test_a_proxy_passes_everything_on(authority: Any, bundle: str, secure: bool, proxy_secure: bool) -> None:
    tls = server_tls(authority, "localhost") if secure else None
    proxy_tls = server_tls(authority, "localhost") if proxy_secure else None
    with at(serve, tls) as server, Tunnel(proxy_tls) as proxy:
        address = f"{'https' if proxy_secure else 'http'}://u:p@localhost:{proxy.port}"
        url = server.url.replace("127.0.0.1", "localhost")
        with connected(url, proxies={"http": address, "https": address}, verify=bundle) as client:
            text = "x" * 1_000_000
            assert client.call("echo", {"text": text}) == {"text": text}
            assert client.call("echo", {"a": 1}) == {"a": 1}
        assert proxy.targets == [f"localhost:{server.port}"]
        assert proxy.turns[0].headers["proxy-authorization"] == BASIC
        assert "proxy-authorization" not in server.turns[0].headers
        assert server.turns[0].path == "/mcp"


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_a_proxy_of_the_environment_is_used_but_not_for_this_machine(monkeypatch: Any, name: str) -> None:
    with Tunnel() as proxy:
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        with at(serve) as server, connected(server.url) as client:
            client.call("echo")
        assert proxy.targets == []
        error = failure("ws://mcp.invalid:8123/mcp")
        assert isinstance(error, ConnectFailed)
        assert proxy.targets == ["mcp.invalid:8123"]


def test_no_proxy_counts(monkeypatch: Any) -> None:
    with Tunnel() as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("NO_PROXY", ".invalid")
        assert isinstance(failure("ws://mcp.invalid:8123/mcp"), ConnectFailed)
        assert proxy.targets == []


def test_a_proxy_that_refuses_is_a_failed_connection() -> None:
    def script(turn: Turn) -> None:
        turn.reply(407, b"who?")
        turn.close()

    with ScriptedServer(script) as proxy:
        error = failure("ws://mcp.invalid/mcp", proxies={"http": f"http://127.0.0.1:{proxy.port}"})
    assert isinstance(error, ConnectFailed)
    assert "407" in str(error)


def test_a_silent_proxy_is_left_when_the_channel_is_closed() -> None:
    arrived = threading.Event()

    def script(turn: Turn) -> None:
        arrived.set()
        turn.wait_for_close()

    with ScriptedServer(script) as proxy:
        target = WebSocket("ws://mcp.invalid/mcp", proxies={"http": f"http://127.0.0.1:{proxy.port}"})
        channel = target.channel(settings())
        with in_thread(channel.start, Recorder(), Deadline(PATIENCE)) as opening:
            assert arrived.wait(PATIENCE)
            channel.close(Deadline(PATIENCE))
            with pytest.raises(ConnectFailed):
                opening.result()


@pytest.mark.parametrize("secure", [False, True], ids=["ws", "wss"])
def test_a_socks_proxy_is_used(authority: Any, bundle: str, secure: bool) -> None:
    pytest.importorskip("socks")
    from test_http_connections import SocksServer

    tls = server_tls(authority, "localhost") if secure else None
    with at(serve, tls) as server, SocksServer() as proxy:
        address = f"socks5h://127.0.0.1:{proxy.port}"
        url = server.url.replace("127.0.0.1", "localhost")
        with connected(url, proxies={"http": address, "https": address}, verify=bundle) as client:
            assert client.call("echo", {"a": 1}) == {"a": 1}
        assert proxy.targets == [f"localhost:{server.port}"]
