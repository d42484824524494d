"""What tests share: certificates, an environment that names no proxies, the ways to notice an end."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import pytest
import trustme
from http_server import server_tls


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep the machine's own proxies and .netrc out."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """Make a certificate authority that nobody else knows."""
    return trustme.CA()


@pytest.fixture
def tls(authority: trustme.CA) -> ssl.SSLContext:
    """Return the TLS settings of a server on this machine."""
    return server_tls(authority, "localhost", "127.0.0.1")


@pytest.fixture
def bundle(authority: trustme.CA, tmp_path: Path) -> str:
    """Return the path of the authority's certificate."""
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return str(path)


@pytest.fixture(params=["pidfd", "no pidfd"])
def either_way_to_notice(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the end of a process be noticed with and without a descriptor for it."""
    if request.param == "no pidfd":
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    elif not hasattr(os, "pidfd_open"):
        pytest.skip("this system has no pidfd")
