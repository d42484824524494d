"""Servers that lie or talk garbage, answers that are not ours, disks that are full, clocks that are wrong."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import requests
from auth.store_worker import open_store

from mcp_sync import (
    AuthError,
    Client,
    HTTPStatusError,
    IssuerMismatch,
    TokenRequestFailed,
)
from mcp_sync.auth import FileStore, MemoryStore, OAuth

from .conftest import World
from .harness import Robot
from .test_machines import PEM, register
from .users import CALLBACK, by_robot, echo, make_expired, query, silent

pytestmark = pytest.mark.interop

HTML = "<!doctype html><title>Sign in</title><p>canary-page, please log in to the Wi-Fi.</p>"
HOUR = 3600.0

# Calls a tool with what a store holds, on a machine whose clock is wrong.
ELSEWHEN = """
import sys, time
right, offset = time.time, float(sys.argv[1])
time.time = lambda: right() + offset
from mcp_sync import Client
from mcp_sync.auth import FileStore, OAuth
with Client(sys.argv[2], auth=OAuth(store=FileStore(sys.argv[3]), interactive=False)) as client:
    print(client.call_tool("echo", {"text": "hello"}, timeout=30).text)
"""

SIGNING = """
import sys, time
right, offset = time.time, float(sys.argv[1])
time.time = lambda: right() + offset
from mcp_sync import Client, TokenRequestFailed
from mcp_sync.auth import ClientCredentials
try:
    Client(sys.argv[2], auth=ClientCredentials("robot", private_key=sys.stdin.read())).open()
except TokenRequestFailed as error:
    print(error.error, error.url, error)
"""


def fault(world: World, path: str, **answer: Any) -> None:
    """Have Authlib answer something else at a path."""
    world.authlib.set(faults={path: {"times": 1, **answer}})


def logged_in(world: World, robot: Robot, store: Any) -> str:
    """Log in with a store; return the URL of the server."""
    url = world.protected["sdk2", "authlib"].url
    with Client(url, auth=by_robot(robot, store=store)) as client:
        assert echo(client) == "hello"
    return url


@contextmanager
def full_disk() -> Iterator[None]:
    """Let this process write no byte to any file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


# --- what authorization servers answer -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"body": HTML}, "status 200"),
        ({"body": HTML, "status": 503}, "status 503"),
        ({"body": "", "status": 502}, "status 502"),
        ({"body": "[" * 100_000, "type": "application/json"}, "status 200"),
    ],
)
def test_a_refresh_that_is_answered_by_garbage_leaves_the_grant_as_it_was(
    world: World, robot: Robot, answer: dict[str, Any], words: str
) -> None:
    store = MemoryStore()
    url = logged_in(world, robot, store)
    make_expired(OAuth(store=store).vault, url)
    fault(world, "/token", **answer)
    oauth = silent(store)
    with pytest.raises(TokenRequestFailed, match=words) as caught, Client(url, auth=oauth) as client:
        echo(client)
    assert caught.value.url == world.authlib.issuer + "/token"
    assert caught.value.transient
    assert "canary" not in str(caught.value) or "Wi-Fi" not in repr(caught.value.__cause__)
    assert oauth.status(url).state == "refreshable"
    with Client(url, auth=oauth) as client:
        assert echo(client) == "hello"
    assert "reuses" not in world.authlib.counters


def test_a_refresh_ahead_of_time_that_fails_costs_no_call(world: World, robot: Robot) -> None:
    world.authlib.set(access_seconds=20)
    store = MemoryStore()
    url = logged_in(world, robot, store)
    world.authlib.set(faults={"/token": {"status": 503, "times": 99}})
    oauth = silent(store, leeway=1000.0)
    with Client(url, auth=oauth) as client:
        assert echo(client) == "hello"
        oauth._access_named(url).in_use.current.renew_at = 0.0  # type: ignore[union-attr]
        assert echo(client) == "hello"
    assert len(world.authlib.requests_for("/token")) == 2


def test_an_authorization_server_that_claims_to_be_another_gets_nothing(world: World, robot: Robot) -> None:
    world.authlib.set(issuer="https://login.example.com")
    url = world.protected["sdk2", "authlib"].url
    with pytest.raises(IssuerMismatch) as caught, Client(url, auth=by_robot(robot)) as client:
        echo(client)
    assert caught.value.actual == "https://login.example.com"
    assert caught.value.expected.rstrip("/") == world.authlib.issuer
    assert caught.value.url.startswith(world.authlib.origin)
    assert robot.urls == []
    assert {request["method"] for request in world.authlib.requests} == {"GET"}


def test_a_page_instead_of_metadata_is_no_reason_to_guess(world: World, robot: Robot) -> None:
    faults = {path: {"body": HTML, "times": 99} for path in ("/.well-known/oauth-authorization-server",)}
    world.authlib.set(faults=faults)
    url = world.protected["sdk2", "authlib"].url
    with pytest.raises(AuthError, match="oauth-authorization-server") as caught:
        Client(url, auth=by_robot(robot)).open()
    assert "canary-page" not in str(caught.value)
    assert {request["method"] for request in world.authlib.requests} == {"GET"}


def test_a_registration_that_is_refused_says_by_whom(world: World, robot: Robot) -> None:
    fault(world, "/register", status=403, body=HTML)
    url = world.protected["sdk2", "authlib"].url
    with pytest.raises(AuthError, match="403") as caught:
        Client(url, auth=by_robot(robot)).open()
    assert caught.value.url == world.authlib.issuer + "/register"
    assert robot.urls == []


# --- what comes back from the browser --------------------------------------------------------------------


def test_an_answer_from_another_authorization_server_is_not_redeemed(world: World, robot: Robot) -> None:
    world.authlib.set(iss="https://evil.example")
    url = world.protected["sdk2", "authlib"].url
    with pytest.raises(IssuerMismatch) as caught, Client(url, auth=by_robot(robot)) as client:
        echo(client)
    assert (caught.value.expected, caught.value.actual) == (world.authlib.issuer, "https://evil.example")
    assert world.authlib.requests_for("/token") == []


def test_what_strangers_bring_to_the_port_is_refused_and_the_answer_still_counts(
    world: World, robot: Robot
) -> None:
    refused: list[int] = []

    def open_with_strangers(url: str) -> bool:
        callback = query(url)["redirect_uri"]
        for params in (
            {},
            {"code": "stolen"},
            {"code": "stolen", "state": "wrong"},
            {"error": "access_denied"},
        ):
            refused.append(requests.get(f"{callback}?{urlencode(params)}", timeout=10).status_code)
        refused.append(requests.post(callback, data={"code": "x"}, timeout=10).status_code)
        return robot(url)

    with Client(world.protected["sdk2", "authlib"].url, auth=by_robot(open_with_strangers)) as client:
        assert echo(client) == "hello"
    assert refused == [404, 404, 404, 404, 405]
    (redeemed,) = world.authlib.requests_for("/token")
    assert redeemed["form"]["code"] != "stolen"


def test_an_answer_that_belongs_to_no_login_does_not_spoil_the_one_that_does(
    world: World, robot: Robot
) -> None:
    url = world.protected["sdk2", "authlib"].url
    oauth = OAuth(redirect_uri=CALLBACK, server_url=url)
    flow = oauth.begin()
    page = robot.visit(flow.url, follow=False)
    answer = query(page.headers["location"])
    for wrong in ({}, {"code": answer["code"]}, {**answer, "state": "wrong"}, {"state": ""}):
        with pytest.raises(AuthError, match=r"belongs to no login|no answer of an authorization server"):
            oauth.finish(wrong)
    assert world.authlib.requests_for("/token") == []
    oauth.finish(answer)
    with pytest.raises(AuthError, match=r"belongs to no login|no answer of an authorization server"):
        oauth.finish(answer)
    with Client(url, auth=oauth) as client:
        assert echo(client) == "hello"


# --- what MCP servers answer -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "challenge",
    [
        "",
        "Bearer",
        'Bearer resource_metadata="',
        'Basic realm="a, b", Bearer error="invalid_token\\", ,,=, resource_metadata=not a url',
        '\xff\xfe Bearer =,=,""',
        'Bearer resource_metadata="https://169.254.169.254/latest/meta-data"',
        "Bearer " + "a" * 6000,
    ],
)
def test_a_challenge_of_garbage_leads_to_the_usual_places(world: World, robot: Robot, challenge: str) -> None:
    server = world.protected["sdk2", "authlib"]
    server.tell(faults=[{"status": 401, "headers": {"WWW-Authenticate": challenge}}])
    with Client(server.url, auth=by_robot(robot)) as client:
        assert echo(client) == "hello"


def test_a_server_that_refuses_whatever_it_gets_is_not_asked_for_ever(world: World, robot: Robot) -> None:
    server = world.protected["sdk2", "authlib"]
    server.tell(faults=[{"status": 401, "headers": {"WWW-Authenticate": "Bearer"}}] * 20)
    with pytest.raises(AuthError, match="refuses a new token as well") as caught:
        Client(server.url, auth=by_robot(robot)).open()
    assert caught.value.url == server.url
    assert len(robot.urls) == 1
    assert server.counters["requests"] <= 4


def test_a_refusal_that_is_none_of_authorization_s_business_reaches_the_caller(
    world: World, robot: Robot
) -> None:
    store = MemoryStore()
    url = logged_in(world, robot, store)
    with Client(url, auth=silent(store)) as client:
        client.open()
        world.protected["sdk2", "authlib"].tell(faults=[{"status": 403, "body": HTML}])
        with pytest.raises(HTTPStatusError):
            echo(client)
        assert echo(client) == "hello"


# --- stores -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["file", "sqlite"])
def test_a_full_disk_during_a_refresh_costs_no_grant(
    world: World, robot: Robot, kind: str, tmp_path: Path
) -> None:
    url = logged_in(world, robot, open_store(kind, tmp_path))
    oauth = silent(open_store(kind, tmp_path))
    with Client(url, auth=oauth) as client:
        assert echo(client) == "hello"
        for _ in range(3):
            world.authlib.tell(expire=True)
            with full_disk():
                try:
                    echo(client)
                except AuthError as error:
                    failure = error
                else:
                    failure = None
            assert failure is None or str(tmp_path) in str(failure)
            assert echo(client) == "hello"
    with Client(url, auth=silent(open_store(kind, tmp_path))) as client:
        assert echo(client) == "hello"
    counters = world.authlib.counters
    assert "reuses" not in counters, counters
    assert counters["consents"] == 1


class SuddenlyFull(MemoryStore):
    """A store whose disk is full once something new is to be written, and not a moment before."""

    is_full = False

    def put(self, key: Any, value: Any, expected: str | None) -> bool:
        """See `Store.put`."""
        held = self.get(key)
        if self.is_full and (held is None or value != held.value):
            raise AuthError("the disk is full")
        return super().put(key, value, expected)


def test_a_disk_that_is_full_when_the_new_token_has_come_costs_no_grant(world: World, robot: Robot) -> None:
    store = SuddenlyFull()
    url = logged_in(world, robot, store)
    with Client(url, auth=silent(store)) as client:
        assert echo(client) == "hello"
        store.is_full = True
        for _ in range(2):
            world.authlib.tell(expire=True)
            with pytest.raises(AuthError, match="the disk is full"):
                echo(client)
        store.is_full = False
        assert echo(client) == "hello"
    with Client(url, auth=silent(store)) as client:
        assert echo(client) == "hello"
    counters = world.authlib.counters
    assert "reuses" not in counters, counters
    assert counters["consents"] == 1


@pytest.mark.parametrize("damage", [b"", b"\x00" * 100, b"{", b"[]"])
def test_a_store_that_cannot_be_read_is_left_alone(
    world: World, robot: Robot, damage: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "grants"
    url = logged_in(world, robot, FileStore(path))
    files = [each for each in path.rglob("*") if each.is_file() and each.stat().st_size]
    kept = {each: each.read_bytes() for each in files}
    for each in files:
        each.write_bytes(damage)
    with pytest.raises(AuthError), Client(url, auth=silent(FileStore(path))) as client:
        echo(client)
    for each, content in kept.items():
        each.write_bytes(content)
    with Client(url, auth=silent(FileStore(path))) as client:
        assert echo(client) == "hello"
    assert "reuses" not in world.authlib.counters


# --- clocks ----------------------------------------------------------------------------------------------


def run(script: str, *args: str, stdin: str = "") -> str:
    """Run a program; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", script, *args],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("offset", [HOUR + 60, -HOUR, -30 * 24 * HOUR, 30 * 24 * HOUR])
def test_a_clock_that_is_wrong_costs_a_refresh_and_no_login(
    world: World, robot: Robot, offset: float, tmp_path: Path
) -> None:
    url = logged_in(world, robot, FileStore(tmp_path / "grants"))
    world.authlib.tell(expire=True)
    for _ in range(2):
        assert run(ELSEWHEN, str(offset), url, str(tmp_path / "grants")) == "hello\n"
    with Client(url, auth=silent(FileStore(tmp_path / "grants"))) as client:
        assert echo(client) == "hello"
    counters = world.authlib.counters
    assert 1 <= counters["refreshes"] <= 2
    assert "reuses" not in counters


@pytest.mark.parametrize("offset", [HOUR, -HOUR])
def test_a_signature_by_a_clock_that_is_wrong_says_what_the_server_said(world: World, offset: float) -> None:
    register(world, "robot", "private_key_jwt")
    url = world.protected["sdk2", "authlib"].url
    said = run(SIGNING, str(offset), url, stdin=PEM.decode())
    if offset < 0:
        assert said.startswith(f"invalid_client {world.authlib.issuer}/token ")
    else:
        assert said == "" or said.startswith(f"invalid_client {world.authlib.issuer}/token ")
