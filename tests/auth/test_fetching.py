"""Requests to authorization servers: where they may go, how long they take, what they carry."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import trustme

from mcp_sync._concurrency.deadline import Deadline
from mcp_sync.auth._addresses import Guard
from mcp_sync.auth._errand import Errand
from mcp_sync.auth._fetching import LARGEST_BODY, Fetcher
from mcp_sync.auth._steps import Answer, Conversation, Fetch, Pause
from mcp_sync.errors import AuthError, CallTimeout, ConnectionLost, TokenRequestFailed
from mcp_sync.testing import FakeServer
from mcp_sync.testing._http import HTTPReply
from mcp_sync.transports._http.exchange import Exchange

from .plain_server import PlainServer, Reply, Request


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def server() -> Iterator[PlainServer]:
    with PlainServer(lambda request: Reply(200, b'{"a": 1}')) as server:
        yield server


def one(step: Fetch) -> Conversation[Answer]:
    return (yield step)


def fetch(
    step: Fetch, *, guard: Any = None, deadline: Any = None, errand: Any = None, **options: Any
) -> Answer:
    guard = guard or Guard("http://127.0.0.1:1/mcp")
    return Fetcher(**options).run(one(step), deadline or Deadline(10), errand=errand, guard=guard)


def get(url: str, **options: Any) -> Answer:
    return fetch(Fetch("the metadata", url), **options)


def resolved(monkeypatch: pytest.MonkeyPatch, **hosts: str) -> list[str]:
    """Have the system know hosts (with ``_`` for the dot), and note what it is asked for."""
    real, asked = socket.getaddrinfo, []
    known = {name.replace("_", "."): address for name, address in hosts.items()}

    def resolve(host: Any, *args: Any, **kwargs: Any) -> Any:
        asked.append(host)
        return real(known.get(host, host), *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return asked


def test_an_answer_has_status_headers_and_body(server) -> None:
    answer = get(server.origin + "/x?y=1")
    assert (answer.status, json.loads(answer.body)) == (200, {"a": 1})
    assert answer.headers["content-length"] == "8"
    assert server.requests[0].path == "/x?y=1"


def test_a_request_carries_what_the_step_says_and_no_more(server, monkeypatch, tmp_path) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password s3cret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    fetch(Fetch("a token", server.origin, "POST", {"DPoP": "proof"}, form={"a": "b c"}))
    (request,) = server.requests
    assert request.body == b"a=b+c"
    assert request.headers["dpop"] == "proof"
    assert not {"authorization", "cookie"} & set(request.headers)


def test_json_is_sent_as_json(server) -> None:
    fetch(Fetch("the registration", server.origin, "POST", json={"a": [1]}))
    (request,) = server.requests
    assert request.headers["content-type"] == "application/json"
    assert json.loads(request.body) == {"a": [1]}


def test_cookies_are_not_kept() -> None:
    with PlainServer(lambda request: Reply(200, b"", {"Set-Cookie": "a=b"})) as server:

        def two() -> Conversation[None]:
            yield Fetch("x", server.origin)
            yield Fetch("x", server.origin)

        Fetcher().run(two(), Deadline(10), guard=Guard(server.origin))
        assert len(server.requests) == 2
        assert server.connections == 1
        assert all("cookie" not in request.headers for request in server.requests)


# --- where to
# ------------------------------------------------------------------------------------------------

PUBLIC = Guard("https://mcp.example/mcp")


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("127.0.0.1", "this machine"),
        ("127.8.8.8", "this machine"),
        ("::1", "this machine"),
        ("::ffff:127.0.0.1", "this machine"),
        ("0.0.0.0", "no address"),
        ("::", "no address"),
        ("10.1.2.3", "private"),
        ("172.16.0.1", "private"),
        ("192.168.1.1", "private"),
        ("::ffff:192.168.1.1", "private"),
        ("64:ff9b::c0a8:101", "private"),
        ("64:ff9b::a9fe:a9fe", "metadata"),
        ("2002:c0a8:0101::1", "private"),
        ("::192.168.1.1", "private"),
        ("fd12::1", "private"),
        ("100.64.1.1", "private"),
        ("100.100.100.200", "metadata"),
        ("169.254.169.254", "metadata"),
        ("::ffff:169.254.169.254", "metadata"),
        ("fe80::1%eth0", "metadata"),
        ("fd00:ec2::254", "metadata"),
        ("192.0.2.1", "private"),
        ("198.18.0.1", "private"),
        ("224.0.0.1", "no address"),
        ("ff02::1", "no address"),
        ("240.0.0.1", "private"),
        ("what", "no address"),
        # Addresses of IPv4 in those of IPv6: translated, local translators, 6to4, Teredo, ISATAP.
        ("::ffff:0:127.0.0.1", "this machine"),
        ("::ffff:0:10.1.2.3", "private"),
        ("::ffff:0:a9fe:a9fe", "metadata"),
        ("64:ff9b:1::a01:203", "private"),
        ("64:ff9b:1:a01:2:300::", "private"),
        ("2002:a9fe:a9fe::", "metadata"),
        ("2002:7f00:1::", "this machine"),
        ("2001:0:c0a8:101::f5ff:fffe", "private"),
        ("2001:0:4136:e378:8000:63bf:3fff:fdd2", "private"),
        ("2a00:1450:4001::5efe:a01:203", "private"),
        ("2a00:1450:4001::200:5efe:a9fe:a9fe", "metadata"),
        # Metadata services at addresses that look like any other.
        ("168.63.129.16", "metadata"),
        ("::ffff:168.63.129.16", "metadata"),
        ("192.0.0.192", "metadata"),
        ("fd20:ce::254", "metadata"),
        ("fd00:42::42", "metadata"),
        # What the versions of Python do not agree on, or do not know.
        ("fec0::1", "private"),
        ("5f00::1", "private"),
        ("3fff::1", "private"),
        ("100::1", "private"),
        ("4000::1", "private"),
        ("2001:db8::1", "private"),
        ("2001:20::1", "private"),
        ("192.0.0.8", "private"),
        ("192.88.99.1", "private"),
        ("198.51.100.1", "private"),
        ("203.0.113.1", "private"),
        ("255.255.255.255", "private"),
        ("0.1.2.3", "private"),
    ],
)
def test_a_public_server_cannot_have_other_addresses_asked(address, why) -> None:
    assert why in PUBLIC.objection("as.example", 443, address)


@pytest.mark.parametrize(
    "address",
    [
        *("93.184.215.14", "2606:2800:21f::1", "::ffff:93.184.215.14", "64:ff9b::5db8:d70e"),
        *("2002:5db8:d70e::1", "2a00:1450:4001:830::200e", "2400:cb00:2048:1::c629:d7a2"),
    ],
)
def test_public_addresses_may_be_asked(address) -> None:
    assert PUBLIC.objection("as.example", 443, address) == ""


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "100.64.1.1", "fd12::1", "fec0::1", "64:ff9b:1::a01:203", "2002:a01:203::"],
)
def test_allow_private_lets_private_addresses_pass(address) -> None:
    assert Guard("https://mcp.example/", (), True).objection("as.example", 443, address) == ""


@pytest.mark.parametrize(
    "address",
    [
        *("169.254.169.254", "100.100.100.200", "0.0.0.0", "fe80::1", "168.63.129.16", "2002:a9fe:a9fe::"),
        *("64:ff9b:1::a9fe:a9fe", "64:ff9b:1:a9fe:a9:fe00::", "2001:0:a9fe:a9fe::", "2001::5601:5601"),
    ],
)
def test_nothing_lets_metadata_services_pass(address) -> None:
    assert Guard("https://mcp.example/", (), True).objection("as.example", 443, address)


def test_a_server_on_this_machine_may_have_all_of_it_asked_and_no_more() -> None:
    guard = Guard("http://localhost:8000/mcp")
    assert guard.objection("127.0.0.1", 9000, "127.0.0.1") == ""
    assert "private" in guard.objection("as.example", 443, "10.1.2.3")


def test_what_the_user_has_named_may_be_anywhere_at_its_port() -> None:
    guard = Guard("https://mcp.corp.example/mcp", ["https://idp.corp.example:8443/x"])
    assert guard.objection("mcp.corp.example", 443, "10.1.2.3") == ""
    assert guard.objection("idp.corp.example", 8443, "10.1.2.4") == ""
    assert guard.objection("mcp.corp.example", 8080, "10.1.2.3")
    assert guard.objection("other.corp.example", 443, "10.1.2.3")


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "a.localhost",
        "intranet",
        "metadata.google.internal",
        "db.internal",
        "printer.local",
        "10.0.0.1",
        "::1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "169.254.169.254",
        "2002:a9fe:a9fe::",
        "kubernetes.default.svc",
        "router.home",
        "vault.private",
    ],
)
def test_what_a_proxy_resolves_is_judged_by_its_name(host) -> None:
    assert PUBLIC.objection_to_name(host, 443)


def test_a_public_name_may_be_asked_for_through_a_proxy() -> None:
    assert PUBLIC.objection_to_name("as.example.com", 443) == ""


def test_a_name_that_leads_into_this_network_is_not_asked(server, monkeypatch) -> None:
    resolved(monkeypatch, as_example="127.0.0.1")
    url = f"https://as.example:{server.port}/x"
    with pytest.raises(
        AuthError, match=r"as\.example has the address 127\.0\.0\.1, and that is this machine"
    ):
        get(url, guard=PUBLIC)
    assert server.connections == 0


def test_the_address_that_was_looked_at_is_the_one_that_is_asked(server, monkeypatch) -> None:
    """A name that has another address the next time is of no help: it is resolved once."""
    asked = resolved(monkeypatch, mcp_localhost="127.0.0.1")
    get(f"http://mcp.localhost:{server.port}/", guard=Guard(f"http://mcp.localhost:{server.port}/mcp"))
    assert asked.count("mcp.localhost") == 1


def test_tls_is_for_the_name_whatever_the_address(monkeypatch) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("as.example").configure_cert(context)
    resolved(monkeypatch, as_example="127.0.0.1", other_example="127.0.0.1")
    with (
        authority.cert_pem.tempfile() as bundle,
        FakeServer().serve_http(
            ssl_context=context, intercept=lambda request: HTTPReply(200, {}, b"{}")
        ) as endpoint,
    ):
        port = endpoint.url.split(":")[2].partition("/")[0]
        guard = Guard("https://mcp.example", (), True)
        assert get(f"https://as.example:{port}/", guard=guard, verify=bundle).status == 200
        with pytest.raises(AuthError, match="certificate"):
            get(f"https://other.example:{port}/", guard=guard, verify=bundle)


def test_http_is_for_this_machine_and_for_the_server_itself(monkeypatch) -> None:
    with pytest.raises(AuthError, match="not https"):
        get("http://as.example/x")


def test_a_private_name_is_not_asked_for_through_a_proxy() -> None:
    with PlainServer(lambda request: Reply(200)) as proxy:
        with pytest.raises(AuthError, match="private name"):
            get("https://vault.internal/x", guard=PUBLIC, proxies={"https": proxy.origin})
        assert proxy.requests == []


def test_a_proxy_at_a_private_address_is_used() -> None:
    seen = []

    def answer(request: Request) -> Reply:
        seen.append(request.path)
        return Reply(200)

    with PlainServer(answer) as proxy:
        url = "http://mcp.example.com/x"
        guard = Guard("http://mcp.example.com/mcp")
        assert get(url, guard=guard, proxies={"http": proxy.origin}).status == 200
    assert seen == [url]


# --- redirects -------------------------------------------------------------------------------------------


def redirecting(*locations: str) -> PlainServer:
    answers = iter([*(Reply(302, b"", {"Location": each}) for each in locations), *[Reply(200, b"end")] * 9])
    return PlainServer(lambda request: next(answers))


def test_redirects_of_a_get_are_followed() -> None:
    with redirecting("/a", "/b", "/c") as server:
        answer = get(server.origin + "/")
        assert answer.body == b"end"
        assert answer.url == server.origin + "/c"


def test_at_some_point_redirects_are_too_many() -> None:
    with redirecting("/a", "/b", "/c", "/d") as server, pytest.raises(AuthError, match="too many redirects"):
        get(server.origin + "/")


def test_a_redirect_to_another_scheme_is_not_followed() -> None:
    with redirecting("ftp://127.0.0.1/x") as server, pytest.raises(AuthError, match="another scheme"):
        get(server.origin + "/")


@pytest.mark.parametrize("location", ["http://[x", "//[::1", "http://127.0.0.1:99999/", "//127.0.0.1:x/"])
def test_a_redirect_to_what_is_no_url_is_an_error_that_names_where_it_came_from(location) -> None:
    with redirecting(location) as server, pytest.raises(AuthError, match="no URL") as caught:
        get(server.origin + "/")
    assert caught.value.url == server.origin + "/"


@pytest.mark.parametrize("url", ["http://[x", "http://h.example:99999/"])
def test_what_is_no_url_is_not_asked(url) -> None:
    with pytest.raises(AuthError, match="not https"):
        get(url)


def test_where_a_redirect_leads_is_looked_at_again(monkeypatch) -> None:
    with (
        PlainServer(lambda request: Reply(200)) as inner,
        redirecting(f"http://127.0.0.1:{inner.port}/") as outer,
    ):
        resolved(monkeypatch, mcp_example="127.0.0.1")
        url = f"http://mcp.example:{outer.port}/mcp"
        with pytest.raises(AuthError, match="this machine"):
            get(url, guard=Guard(url))
        assert inner.connections == 0


def test_a_post_is_never_redirected() -> None:
    with redirecting("/a") as server:
        assert fetch(Fetch("a token", server.origin, "POST", form={"secret": "s"})).status == 302
        assert len(server.requests) == 1


# --- time and size ---------------------------------------------------------------------------------------


def test_a_body_that_is_too_large_is_called_so() -> None:
    with PlainServer(lambda request: Reply(200, b"x" * LARGEST_BODY)) as server:
        assert len(get(server.origin).body) == LARGEST_BODY
    too_large = pytest.raises(AuthError, match="its answer is too large: more than 1048576 bytes")
    with PlainServer(lambda request: Reply(200, b"x" * (LARGEST_BODY + 1))) as server, too_large:
        get(server.origin)


class Dripping:
    """Sends the head of an answer, and then for ever a byte now and then."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Dripping:
        self._thread.start()
        return self

    def _serve(self) -> None:
        sock, _ = self._listener.accept()
        with sock:
            sock.recv(4096)
            try:
                sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                while not self._stop.wait(0.02):
                    sock.sendall(b"x")
            except OSError:
                pass

    def __exit__(self, *exc_info: object) -> None:
        self._stop.set()
        self._thread.join()
        self._listener.close()


def test_a_body_that_drips_does_not_outlast_the_limit() -> None:
    with Dripping() as server, pytest.raises(AuthError, match=r"no answer within 0\.3 s"):
        get(server.url, deadline=Deadline(0.3))


def test_the_end_of_the_request_that_it_is_for_is_a_timeout() -> None:
    errand = Errand(Exchange(Deadline(0.3)))
    with Dripping() as server, pytest.raises(CallTimeout):
        get(server.url, deadline=errand.within(30), errand=errand)


def test_giving_up_the_request_that_it_is_for_ends_it_at_once() -> None:
    exchange = Exchange(Deadline(None))
    with Dripping() as server:
        threading.Timer(0.1, exchange.abort).start()
        with pytest.raises(ConnectionLost, match="given up"):
            get(server.url, errand=Errand(exchange))


def test_a_pause_ends_with_the_request_that_it_is_for() -> None:
    def waiting() -> Conversation[None]:
        yield Pause(60)

    exchange = Exchange(Deadline(0.1))
    with pytest.raises(CallTimeout):
        Fetcher().run(waiting(), Deadline(100), errand=Errand(exchange))


def test_nobody_there_is_a_failure_that_may_pass_and_names_the_url() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    url = f"http://127.0.0.1:{port}/token"
    with pytest.raises(TokenRequestFailed, match="a token could not be had") as caught:
        fetch(Fetch("a token", url + "?secret=1", "POST", form={}))
    assert caught.value.transient
    assert caught.value.url == url
    assert "secret" not in str(caught.value)
    with pytest.raises(AuthError) as other:
        get(url)
    assert not isinstance(other.value, TokenRequestFailed)


def test_failures_reach_the_conversation_which_may_go_on(server) -> None:
    def trying() -> Conversation[int]:
        try:
            yield Fetch("x", "https://as.example:1/")
        except AuthError:
            answer = yield Fetch("x", server.origin)
            return answer.status
        return 0

    assert Fetcher().run(trying(), Deadline(10), guard=Guard(server.origin)) == 200


def test_a_conversation_may_end_at_once() -> None:
    def nothing() -> Conversation[int]:
        return 1
        yield

    assert Fetcher().run(nothing(), Deadline(1)) == 1


def test_garbage_is_a_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            sock, _ = listener.accept()
            with sock:
                sock.recv(4096)
                sock.sendall(b"\x00\x01 garbage\r\n\r\n")

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(AuthError):
            get(f"http://127.0.0.1:{listener.getsockname()[1]}/")
        thread.join()
