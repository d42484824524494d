"""Certificates: the same ones count as for requests, and what is refused says why."""

from __future__ import annotations

import datetime
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import trustme
from http_server import ScriptedServer, connected, server_tls

from mcp_sync.errors import ConnectFailed, TransportError

VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin without any certificates of the environment."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server(authority: trustme.CA) -> Iterator[ScriptedServer]:
    """Run a server with a certificate of that authority."""
    tls = server_tls(authority, "localhost")
    with ScriptedServer(lambda turn: turn.result("trusted"), tls=tls) as running:
        yield running


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("variable", [*VARIABLES, "none"])
def test_the_environment_counts_exactly_as_it_does_for_requests(
    variable: str, verify: bool, server: ScriptedServer, bundle: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, str(Path(bundle).parent) if variable == "SSL_CERT_DIR" else bundle)
    monkeypatch.setattr("warnings.warn", lambda *args, **options: None)  # about what is not verified
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    try:
        with requests.Session() as session:
            theirs = session.post(server.url, json=body, verify=verify, timeout=10).json()["result"]
    except requests.exceptions.SSLError:
        theirs = "refused"
    try:
        with connected(server.url, verify=verify) as client:
            ours = client.call()
    except ConnectFailed:
        ours = "refused"
    assert ours == theirs
    if variable == "REQUESTS_CA_BUNDLE" or not verify:
        assert ours == "trusted"


def test_a_bundle_that_is_given_wins_over_the_environment(
    server: ScriptedServer, bundle: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "other.pem"))
    with connected(server.url, verify=bundle) as client:
        assert client.call() == "trusted"
    with connected(server.url) as client, pytest.raises(ConnectFailed, match="certificate was refused"):
        client.call()


def test_a_bundle_that_is_not_there_is_named(server: ScriptedServer) -> None:
    with connected(server.url, verify="/no/such/bundle.pem") as client:
        with pytest.raises(TransportError) as caught:
            client.call()
        assert caught.value.request_sent is False
    assert "/no/such/bundle.pem" in str(caught.value)


def test_an_expired_certificate_is_named(authority: trustme.CA, bundle: str) -> None:
    yesterday = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=1)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost", not_after=yesterday).configure_cert(tls)
    with ScriptedServer(lambda turn: turn.result(), tls=tls) as server:
        with connected(server.url, verify=bundle) as client:
            with pytest.raises(ConnectFailed, match="expired") as caught:
                client.call()
            assert caught.value.request_sent is False
        assert not server.turns


@pytest.mark.parametrize("shown", ["none", "of a stranger", "the right one"])
def test_a_server_that_wants_a_client_certificate(
    shown: str, authority: trustme.CA, bundle: str, tmp_path: Path
) -> None:
    """With TLS 1.3 the refusal comes after the handshake, in the place of an answer."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(tls)
    authority.configure_trust(tls)
    tls.verify_mode = ssl.CERT_REQUIRED
    options: dict[str, Any] = {}
    if shown != "none":
        issuer = authority if shown == "the right one" else trustme.CA()
        issuer.issue_cert("client@example.com").private_key_and_cert_chain_pem.write_to_path(
            str(tmp_path / "client.pem")
        )
        options["cert"] = str(tmp_path / "client.pem")
    with ScriptedServer(lambda turn: turn.result("welcome"), tls=tls) as server:
        with connected(server.url, verify=bundle, **options) as client:
            if shown == "the right one":
                assert client.call() == "welcome"
            else:
                with pytest.raises(TransportError):
                    client.call()
        assert bool(server.turns) is (shown == "the right one")
