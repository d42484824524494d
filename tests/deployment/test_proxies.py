"""Real proxies: HTTP with and without credentials, SOCKS, and when which is used."""

from __future__ import annotations

import logging
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from concurrency.spy_server import answer
from transports.http_server import ScriptedServer

from mcp_sync import Client, ConnectFailed, HTTPStatusError, TransportError
from mcp_sync.transports import StreamableHTTP

from .spied import Program, program

VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin without any proxy of the environment."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


class Proxy:
    """A running proxy."""

    def __init__(self, running: Program, port: int) -> None:
        self.running = running
        self.port = port

    def url(self, credentials: str = "", scheme: str = "http") -> str:
        """Return its address with credentials."""
        return f"{scheme}://{credentials}{'@' if credentials else ''}127.0.0.1:{self.port}"


def _http_proxy(folder: Path, *options: str) -> Iterator[Proxy]:
    file = folder / "port"
    few = ["--hostname", "127.0.0.1", "--port", "0", "--port-file", str(file), "--num-workers", "1"]
    with program(["-m", "proxy", *few, "--num-acceptors", "1", *options], folder) as running:
        until = time.monotonic() + 20
        while not (file.exists() and file.read_text().strip()):
            assert time.monotonic() < until, running.output
            time.sleep(0.02)
        yield Proxy(running, int(file.read_text()))


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """Run an HTTP proxy that asks for credentials."""
    yield from _http_proxy(tmp_path_factory.mktemp("proxy"), "--basic-auth", "user:s3cret")


@pytest.fixture(scope="module")
def open_proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """Run an HTTP proxy that serves everybody."""
    yield from _http_proxy(tmp_path_factory.mktemp("open-proxy"))


@pytest.fixture
def socks_proxy(tmp_path: Path) -> Iterator[Proxy]:
    """Run a SOCKS5 proxy that asks for credentials. For one test: once given, it asks for them no more."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    address = f"socks5://127.0.0.1:{port}#user:s3cret"
    with program(["-m", "pproxy", "-l", address, "-v"], tmp_path) as running:
        running.wait_for("Serving on")
        yield Proxy(running, port)


@pytest.fixture(scope="module")
def address() -> str:
    """Return an address of this machine that is not loopback, which no proxy of the environment gets."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("198.51.100.1", 9))  # Sends nothing.
        found = str(probe.getsockname()[0])
    assert not found.startswith("127."), "these tests need a network address beside loopback"
    return found


@pytest.fixture(params=["http", "https"])
def far(request: pytest.FixtureRequest, authority: trustme.CA, address: str) -> Iterator[tuple[str, Any]]:
    """Run a server at that address; return its URL and itself."""
    tls = None
    if request.param == "https":
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(address, "localhost").configure_cert(tls)
    with ScriptedServer(answer, tls=tls, host=address) as server:
        yield f"{request.param}://{address}:{server.port}/mcp", server


def call(target: StreamableHTTP, mode: str = "legacy") -> str:
    with Client(target, mode=mode, timeout=15) as client:
        client.call_tool("echo", {"text": "x"})
        return client.call_tool("echo", {"text": "all is well"}).text


def came_through(server: Any, proxy: Proxy) -> bool:
    """Whether the proxy names the server in its log."""
    try:
        proxy.running.wait_for(f"{server.port}", 3)
    except AssertionError:
        return False
    return True


# --- HTTP ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["proxies", "environment"])
def test_a_proxy_is_used_and_given_its_credentials(
    given: str, far: Any, proxy: Proxy, bundle: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, server = far
    address = proxy.url("user:s3cret")
    proxies = {"http": address, "https": address} if given == "proxies" else None
    if given == "environment":
        monkeypatch.setenv("HTTPS_PROXY", address)
        monkeypatch.setenv("http_proxy", address)
    assert call(StreamableHTTP(url, verify=bundle, proxies=proxies)) == "all is well"
    assert came_through(server, proxy)
    # They are for the proxy alone. (Later requests on a connection this proxy passes on unread.)
    assert "proxy-authorization" not in server.turns[0].headers
    assert {turn.method for turn in server.turns} >= {"POST", "DELETE"}


@pytest.mark.parametrize("given", ["proxies", "environment"])
def test_a_proxy_without_credentials_is_used(
    given: str, far: Any, open_proxy: Proxy, bundle: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, server = far
    proxies = {"http": open_proxy.url(), "https": open_proxy.url()} if given == "proxies" else None
    if given == "environment":
        monkeypatch.setenv("ALL_PROXY", open_proxy.url())
    assert call(StreamableHTTP(url, verify=bundle, proxies=proxies), "auto") == "all is well"
    assert came_through(server, open_proxy)


@pytest.mark.parametrize("credentials", ["", "user:wr0ng"])
def test_a_proxy_that_refuses_says_407_and_no_secret(
    credentials: str, far: Any, proxy: Proxy, bundle: str, caplog: pytest.LogCaptureFixture
) -> None:
    url, server = far
    caplog.set_level(logging.DEBUG, "mcp_sync")
    proxies = dict.fromkeys(("http", "https"), proxy.url(credentials))
    target = StreamableHTTP(url, verify=bundle, proxies=proxies, headers={"Authorization": "Bearer t0ken"})
    with pytest.raises((ConnectFailed, HTTPStatusError), match="407") as caught:
        call(target)
    if url.startswith("https"):
        assert isinstance(caught.value, ConnectFailed)
        assert caught.value.request_sent is False
    said = f"{caught.value!r} {caught.value} {caplog.text} {target!r}"
    assert "wr0ng" not in said
    assert "t0ken" not in said
    assert not server.turns


def test_a_proxy_that_is_not_there_is_a_failed_connection(far: Any, bundle: str) -> None:
    url, _ = far
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    proxies = dict.fromkeys(("http", "https"), f"http://user:s3cret@127.0.0.1:{port}")
    with pytest.raises(ConnectFailed) as caught:
        call(StreamableHTTP(url, verify=bundle, proxies=proxies))
    assert caught.value.request_sent is False
    assert "s3cret" not in f"{caught.value!r} {caught.value}"


# --- when none is used -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("excepted", "direct"),
    [
        ("ADDRESS", True),
        ("first.example, ADDRESS", True),
        ("ADDRESS/24", True),
        ("*", True),
        ("10.99.0.0/16", False),
        (".example", False),
        ("", False),
    ],
)
def test_no_proxy_excepts_addresses_and_networks(
    excepted: str, direct: bool, address: str, open_proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedServer(answer, host=address) as server:
        monkeypatch.setenv("HTTP_PROXY", open_proxy.url("user:s3cret"))
        monkeypatch.setenv("NO_PROXY", excepted.replace("ADDRESS", address))
        assert call(StreamableHTTP(server.url)) == "all is well"
        # This proxy signs what it passes on.
        assert ("via" not in server.turns[0].headers) is direct
        if direct:
            assert not any("proxy-authorization" in turn.headers for turn in server.turns)


@pytest.mark.parametrize(
    ("excepted", "direct"),
    [
        ("mcp.invalid", True),
        (".invalid", True),
        ("invalid", True),
        ("mcp.invalid:8080", True),
        ("mcp.invalid:81", False),
        ("other.invalid", False),
    ],
)
def test_no_proxy_excepts_hosts_and_domains(
    excepted: str, direct: bool, open_proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a name that nobody knows, this machine says so itself, or the proxy does by its 502."""
    monkeypatch.setenv("HTTP_PROXY", open_proxy.url())
    monkeypatch.setenv("NO_PROXY", excepted)
    with pytest.raises(TransportError) as caught:
        call(StreamableHTTP("http://mcp.invalid:8080/mcp"))
    assert isinstance(caught.value, ConnectFailed if direct else HTTPStatusError)


# --- SOCKS -----------------------------------------------------------------------------------------------


def test_a_socks_proxy_is_used_and_resolves_the_name(
    server_tls: ssl.SSLContext,
    socks_proxy: Proxy,
    bundle: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address = socks_proxy.url("user:s3cret", "socks5h")
    # Not even a look-up of a name happens here.
    usual = socket.getaddrinfo

    def only_the_proxy(host: Any, *args: Any, **options: Any) -> Any:
        assert host == "127.0.0.1", f"{host} was looked up on this side"
        return usual(host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", only_the_proxy)
    with ScriptedServer(answer, tls=server_tls) as server:
        target = StreamableHTTP(server.url, verify=bundle, proxies={"https": address})
        assert call(target) == "all is well"
        assert "localhost" in socks_proxy.running.wait_for(f":{server.port}")


def test_a_socks_proxy_that_refuses_is_a_failed_connection_without_its_secret(
    far: Any, socks_proxy: Proxy, bundle: str
) -> None:
    url, server = far
    proxies = dict.fromkeys(("http", "https"), socks_proxy.url("user:wr0ng", "socks5h"))
    with pytest.raises(ConnectFailed) as caught:
        call(StreamableHTTP(url, verify=bundle, proxies=proxies))
    assert "wr0ng" not in f"{caught.value!r} {caught.value}"
    assert caught.value.request_sent is False
    assert not server.turns
