"""The web application of the page about logins, as two processes with one store; and logins nobody makes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Optional

import pytest

from mcp_sync import Client
from mcp_sync.auth import MemoryStore, OAuth
from mcp_sync.errors import AuthorizationRequired, InsufficientScope

from .oauth_server import agree

pytestmark = pytest.mark.heavy

PAGE = Path(__file__).parents[2] / "examples" / "authorization.md"
REDIRECT = "https://app.example.com/oauth/callback"

# A process of the application: one request in each line, one response in each line.
SERVE = """
import json, sys
for line in sys.stdin:
    view, *args = json.loads(line)
    print(json.dumps({"page": page, "callback": callback}[view](*args)), flush=True)
"""


class Process:
    """One process of the application."""

    def __init__(self, program: Path) -> None:
        command = [sys.executable, "-W", "error", str(program)]
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._child.communicate(timeout=30)
        assert self._child.returncode == 0

    def get(self, view: str, *args: str) -> tuple[int, str]:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        print(json.dumps([view, *args]), file=self._child.stdin, flush=True)
        status, text = json.loads(self._child.stdout.readline())
        return status, text


@pytest.fixture
def application(endpoint: Any, tmp_path: Path) -> Path:
    """The thirty lines of the page, as a program."""
    every = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (code,) = [each.partition("\n\n\nstatus, url =")[0] for each in every if "def oauth_of(user)" in each]
    code = code.replace("https://secure.example.com/mcp", endpoint.url)
    code = code.replace('"grants.sqlite"', repr(str(tmp_path / "grants.sqlite")))
    program = tmp_path / "application.py"
    program.write_text("from mcp_sync import Client, OAuth\n" + code + SERVE, "utf-8")
    return program


def test_the_application_of_the_page_runs_in_two_processes(application, server) -> None:
    with Process(application) as one, Process(application) as other:
        status, url = one.get("page", "ada")
        assert status == 302
        location = agree(url)
        assert other.get("callback", "bob", location)[0] == 400
        assert other.get("callback", "ada", location) == (302, "/page")
        assert one.get("page", "ada") == (200, '{"sum": 5}')
        assert other.get("page", "ada") == (200, '{"sum": 5}')
        for process in (one, other):
            status, text = process.get("callback", "ada", location)
            assert (status, "no login that waits" in text) == (400, True)
        assert one.get("page", "bob")[0] == 302
    assert server.asked["token"] == server.asked["register"] == 1


def test_more_scope_is_had_in_two_processes_as_well(application, server) -> None:
    with Process(application) as one, Process(application) as other:
        other.get("callback", "ada", agree(one.get("page", "ada")[1]))
        server.needed_scope = {"add": "write"}
        status, url = one.get("page", "ada")
        assert status == 302
        assert other.get("callback", "ada", agree(url)) == (302, "/page")
        assert one.get("page", "ada") == (200, '{"sum": 5}')


# --- logins that nobody makes ------------------------------------------------------------------------------


def call(url: str, auth: OAuth) -> Any:
    with Client(url, auth=auth) as client:
        return client.call_tool("add", {"a": 1, "b": 2}).structured_content


def keys(store: MemoryStore) -> set[str]:
    return {key.kind for key in store._values}


@pytest.mark.parametrize("redirect_uri", [None, REDIRECT])
def test_without_interaction_a_call_begins_no_login_at_all(server, endpoint, redirect_uri) -> None:
    store = MemoryStore()
    with pytest.raises(AuthorizationRequired) as caught:
        call(endpoint.url, OAuth(redirect_uri=redirect_uri, interactive=False, store=store))
    assert caught.value.url == ""
    assert "interactive=False" in str(caught.value)
    assert server.asked["register"] == server.asked["authorize"] == 0
    assert not keys(store) & {"pending", "client", "grant"}


def logged_in(store: MemoryStore, url: str, scopes: Optional[list[str]] = None) -> None:
    web = OAuth(redirect_uri=REDIRECT, store=store)
    web.finish(agree(web.begin(url, scopes=scopes).url))


def test_without_interaction_the_grant_of_a_web_login_is_used_and_refreshed(server, endpoint) -> None:
    store = MemoryStore()
    logged_in(store, endpoint.url)
    worker = OAuth(redirect_uri=REDIRECT, interactive=False, store=store)
    for _ in range(2):
        assert call(endpoint.url, worker) == {"sum": 3}
        server.expire_all()
    assert server.asked["refresh_token"] == 1
    assert server.asked["authorize"] == 1


def test_without_interaction_nobody_is_asked_for_more(server, endpoint) -> None:
    store = MemoryStore()
    logged_in(store, endpoint.url, ["read"])
    server.needed_scope = {"add": "write"}
    with pytest.raises(InsufficientScope) as caught:
        call(endpoint.url, OAuth(redirect_uri=REDIRECT, interactive=False, store=store))
    assert caught.value.url == ""
    assert caught.value.scopes == ("write",)


def test_what_a_user_begins_by_hand_is_begun_without_interaction_too(server, endpoint) -> None:
    """It is calls that ask nobody; `begin` has been asked for."""
    store = MemoryStore()
    web = OAuth(redirect_uri=REDIRECT, interactive=False, store=store)
    web.finish(agree(web.begin(endpoint.url).url))
    assert call(endpoint.url, web) == {"sum": 3}
