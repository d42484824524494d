"""Logging in and out from the command line, and what other commands make of a login."""

from __future__ import annotations

import json
import os
import stat
import threading
import urllib.request
import webbrowser
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from auth.oauth_server import OAuthServer, json_reply, protected
from command_line import invoke

from mcp_sync.auth import LoopbackBrowser
from mcp_sync.cli.demo_server import build
from mcp_sync.testing import FakeAuthorizationServer, RpcError
from mcp_sync.testing._http import HTTPEndpoint


@pytest.fixture
def authority() -> Iterator[FakeAuthorizationServer]:
    with FakeAuthorizationServer(user="ada") as found:
        yield found


@pytest.fixture
def endpoint(authority: FakeAuthorizationServer) -> Iterator[HTTPEndpoint]:
    with build().serve_http(intercept=authority.guard()) as served:
        yield served


@pytest.fixture(autouse=True)
def browser(authority: FakeAuthorizationServer, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A browser whose user agrees; returns the pages that it was sent to."""
    visited: list[str] = []

    def visit(url: str, *_: Any) -> bool:
        visited.append(url)
        with urllib.request.urlopen(authority.consent(url), timeout=20) as page:
            page.read()
        return True

    monkeypatch.setattr(webbrowser, "open", visit)
    return visited


def test_a_login_is_used_by_other_commands_and_forgotten_by_logout(
    endpoint: HTTPEndpoint, authority: FakeAuthorizationServer, browser: list[str]
) -> None:
    url = endpoint.url
    refused = invoke("call", url, "add", "a=1", "b=2")
    assert refused.code == 6
    assert "mcp-sync login" in refused.err

    ran = invoke("login", url)
    assert ran.code == 0
    assert ran.out.startswith(f"{url} valid, for ")
    assert browser[0] in ran.err
    assert invoke("call", url, "add", "a=1", "b=2").out == '{"sum": 3}\n'
    assert len(browser) == 1

    authority.expire_access_tokens()
    assert invoke("ping", url).code == 0
    assert len(browser) == 1

    assert invoke("logout", url).out == "logged out\n"
    assert authority.asked["/revoke"] > 0
    assert invoke("ping", url).code == 6
    assert invoke("logout", url).code == 2


def test_what_is_kept_can_be_read_by_nobody_else_and_has_no_secret_in_the_list(
    endpoint: HTTPEndpoint, own_home: Path
) -> None:
    assert invoke("login", endpoint.url).code == 0

    (login_file,) = (own_home / "logins").iterdir()
    assert json.loads(login_file.read_text()) == {"url": endpoint.url, "settings": {}}
    if os.name == "posix":
        for folder in (own_home, own_home / "tokens", own_home / "logins"):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE(login_file.stat().st_mode) == 0o600
    ran = invoke("status", "--json")
    (login,) = ran.json["logins"]
    assert (login["url"], login["state"]) == (endpoint.url, "valid")
    assert invoke("status", endpoint.url).out.startswith(f"{endpoint.url} valid, for ")
    tokens = "".join(path.read_text() for path in (own_home / "tokens").iterdir())
    assert json.dumps(login["issuer"])[1:-1] in tokens


def test_a_user_who_refuses_ends_it_with_6(
    endpoint: HTTPEndpoint, authority: FakeAuthorizationServer
) -> None:
    authority.denies = True
    ran = invoke("login", endpoint.url)

    assert ran.code == 6
    assert "Traceback" not in ran.err
    assert invoke("status").err == "There are no logins.\n"


def test_a_login_that_fails_does_not_advise_to_log_in(
    endpoint: HTTPEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda url: True)
    monkeypatch.setattr("mcp_sync.auth.LoopbackBrowser", partial(LoopbackBrowser, timeout=0.2))
    ran = invoke("login", endpoint.url)

    assert ran.code == 6
    assert "mcp-sync: nobody has logged in at " in ran.err
    assert "perhaps you have to log in" not in ran.err


def test_a_server_that_asks_nobody_needs_no_login() -> None:
    with build().serve_http() as served:
        ran = invoke("login", served.url)

    assert ran.code == 0
    assert "does not ask anybody to log in" in ran.err


def test_a_token_of_the_command_line_wins_over_a_login(endpoint: HTTPEndpoint) -> None:
    invoke("login", endpoint.url)
    ran = invoke("ping", endpoint.url, "--header", "Authorization: Bearer mine")

    assert ran.code == 6
    assert endpoint.requests[-1].headers["authorization"] == "Bearer mine"


def test_a_login_counts_for_a_name_of_a_configuration_too(endpoint: HTTPEndpoint, tmp_path: Path) -> None:
    path = tmp_path / "servers.json"
    path.write_text(json.dumps({"mcpServers": {"demo": {"url": endpoint.url}}}))

    assert invoke("login", "demo", "--config", str(path)).code == 0
    assert invoke("ping", "demo", "--config", str(path)).code == 0


def test_a_wrong_issuer_is_refused(endpoint: HTTPEndpoint) -> None:
    ran = invoke("login", endpoint.url, "--issuer", "https://other.example")

    assert ran.code == 6
    assert "other.example" in ran.err


@pytest.mark.parametrize(
    "words",
    [
        ["login", "--", "server"],
        ["login"],
        ["login", "http://localhost/mcp", "--device", "--paste"],
        ["login", "http://localhost/mcp", "--port", "0"],
        ["login", "http://localhost/mcp", "--client-id", "x", "--client-secret-env", "NOT_SET_ANYWHERE"],
        ["logout", "http://localhost/mcp"],
    ],
)
def test_wrong_use_exits_with_2(words: list[str]) -> None:
    assert invoke(*words).code == 2


def test_a_pasted_address_needs_a_terminal(endpoint: HTTPEndpoint) -> None:
    ran = invoke("login", endpoint.url, "--paste")

    assert ran.code == 6
    assert "no terminal" in ran.err


def test_a_damaged_list_of_logins_is_told(endpoint: HTTPEndpoint, own_home: Path) -> None:
    assert invoke("login", endpoint.url).code == 0
    (login_file,) = (own_home / "logins").iterdir()
    login_file.write_text("{")
    ran = invoke("ping", endpoint.url)

    assert ran.code == 2
    assert f"{login_file.name} is damaged" in ran.err


def test_a_place_for_logins_that_cannot_be_is_told_and_harms_nothing_else(
    endpoint: HTTPEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("MCP_SYNC_HOME", str(tmp_path / "file" / "home"))
    ran = invoke("login", endpoint.url)
    assert ran.code == 2
    assert f"{tmp_path / 'file' / 'home'} cannot be made: Not a directory; MCP_SYNC_HOME names" in ran.err
    assert "no login" in invoke("status").out + invoke("status").err
    assert invoke("ping", endpoint.url).code == 6

    monkeypatch.setenv("MCP_SYNC_HOME", str(tmp_path))
    (tmp_path / "logins").touch()
    ran = invoke("login", endpoint.url)
    assert ran.code == 2
    assert ".json cannot be written: File exists" in ran.err


def test_the_doctor_sees_that_somebody_can_log_in_and_leaves_nothing_behind(
    endpoint: HTTPEndpoint, authority: FakeAuthorizationServer
) -> None:
    ran = invoke("doctor", endpoint.url)

    assert ran.code == 6
    assert f"the metadata is there: {authority.issuer} authorizes" in ran.out
    assert authority.asked["/register"] == 0
    assert "-> log in: mcp-sync login" in ran.out


def test_a_login_that_waits_ends_at_its_timeout(
    endpoint: HTTPEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = threading.Event()
    monkeypatch.setattr(webbrowser, "open", lambda url: bool(waiting.set()) or True)
    ran = invoke("login", endpoint.url, "--timeout", "1")

    assert waiting.is_set()
    assert ran.code == 4
    assert ran.err.endswith("mcp-sync: the login was not finished in the browser within 1 s\n")


def test_a_login_is_kept_though_the_server_fails_then(authority: FakeAuthorizationServer) -> None:
    def fail(message: Any) -> Any:
        raise RpcError(-32603, "not now")

    server = build()
    server.on("ping", fail)
    with server.serve_http(intercept=authority.guard()) as endpoint:
        ran = invoke("login", endpoint.url, "--mode", "2025-11-25")
        assert (ran.code, "not now" in ran.err) == (5, True)
        assert invoke("call", endpoint.url, "add", "a=1", "b=2").out == '{"sum": 3}\n'


def test_a_code_is_shown_and_its_login_used_without_another_one(own_home: Path) -> None:
    codes = {
        "device_code": "d",
        "user_code": "AB-CD",
        "verification_uri": "https://x.example/d",
        "interval": 0,
    }
    with OAuthServer() as server, protected(server) as endpoint:
        server.metadata = {"device_authorization_endpoint": server.issuer + "/register"}
        server.clients["app"] = None
        server.on_token = lambda form: server._tokens("", 0)
        server._register = lambda request: json_reply(codes)  # type: ignore[method-assign]
        ran = invoke("login", endpoint.url, "--device", "--client-id", "app")

        assert ran.code == 0, ran
        assert "AB-CD" in ran.err
        assert "https://x.example/d" in ran.err
        assert "AB-CD" not in ran.out
        assert invoke("call", endpoint.url, "add", "a=1", "b=2").code == 0

    (login_file,) = (own_home / "logins").iterdir()
    assert json.loads(login_file.read_text())["settings"] == {"client_id": "app", "device": True}
