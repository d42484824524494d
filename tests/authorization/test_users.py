"""A user logs in: the authorization code flow with every pair of authorization server and MCP server."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mcp_sync import AccessDenied, AuthorizationRequired, Client
from mcp_sync.auth import FileStore, LoopbackBrowser, MemoryStore, OAuth, PasteBack

from .conftest import MAKERS, World
from .harness import Robot
from .users import CALLBACK, by_robot, echo, make_expired, query, silent

pytestmark = pytest.mark.interop

NAMES = ("authlib", "tenant", "oidc", "own", "old", "bare")
ALICE = "alice@example.com"

FINISH = """
import sys
from mcp_sync.auth import FileStore, OAuth
path, server, callback, principal, address = sys.argv[1:]
oauth = OAuth(redirect_uri=callback, store=FileStore(path), principal=principal)
oauth.finish(address)
print(oauth.status(server).state)
"""


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("name", NAMES)
def test_a_user_logs_in_once_and_the_grant_outlives_the_client_and_its_token(
    world: World, robot: Robot, maker: str, name: str, tmp_path: Path
) -> None:
    url = world.protected[maker, name].url
    path = tmp_path / "grants"
    oauth = by_robot(robot, store=FileStore(path))
    with Client(url, auth=oauth) as client:
        assert [echo(client, text) for text in "ab"] == ["a", "b"]
    assert oauth.status().state == "valid"
    with Client(url, auth=silent(FileStore(path))) as client:
        assert echo(client) == "hello"
    old = make_expired(oauth.vault, url)
    later = silent(FileStore(path))
    assert later.status(url).state == "refreshable"
    with Client(url, auth=later) as client:
        assert echo(client) == "hello"
    held = later.vault.grant(url)
    assert held is not None
    assert held.grant.access_token != old
    assert len(robot.urls) == 1
    assert "The answer has arrived" in robot.pages[0].text
    sent = query(robot.urls[0])
    assert sent["code_challenge_method"] == "S256"
    assert sent.get("resource") == (None if name == "bare" else url)


def test_threads_that_all_need_a_login_have_the_user_asked_once(world: World, robot: Robot) -> None:
    url = world.protected["sdk2", "authlib"].url
    together = threading.Barrier(8)

    def work(number: int) -> str:
        together.wait(20)
        return echo(client, str(number))

    with Client(url, mode="2026-07-28", auth=by_robot(robot)) as client, ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == [str(number) for number in range(8)]
    assert len(robot.urls) == 1
    assert world.authlib.counters == {"registrations": 1, "consents": 1, "tokens": 1}


def test_each_server_gets_a_token_of_its_own_from_the_authorization_server_that_they_share(
    world: World, robot: Robot
) -> None:
    servers = [world.protected[maker, "authlib"] for maker in MAKERS]
    oauth = by_robot(robot)
    with Client(servers[0].url, auth=oauth) as one, Client(servers[1].url, auth=oauth) as two:
        assert [echo(client) for client in (one, two, one)] == ["hello"] * 3
    seen = [set(server.tell()["authorizations"]) - {""} for server in servers]
    assert [len(tokens) for tokens in seen] == [1, 1]
    assert not seen[0] & seen[1]
    counters = world.authlib.counters
    assert (counters["registrations"], counters["consents"]) == (1, 2)


def test_secrets_go_where_they_belong_and_nowhere_else(
    world: World, robot: Robot, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    server = world.protected["sdk2", "authlib"]
    oauth = by_robot(robot)
    held = []
    with Client(server.url, auth=oauth) as client:
        for _ in range(2):
            assert echo(client) == "hello"
            held.append(oauth.vault.grant(server.url))
            world.authlib.tell(expire=True)
        oauth.logout()
    access = [each.grant.access_token for each in held if each is not None]
    refresh = [each.grant.refresh_token for each in held if each is not None]
    assert server.tell()["authorizations"] == ["", *(f"Bearer {token}" for token in access)]
    for request in world.authlib.requests:
        known = {"/token": refresh, "/revoke": access + refresh}.get(request["path"], [])
        told = json.dumps(request)
        assert all(token in known for token in access + refresh if token in told)
        assert request["authorization"] == ""
    code = query(robot.pages[0].url)["code"]
    ours = [record.getMessage() for record in caplog.records if record.threadName != "robot"]
    logged = " ".join([*ours, repr(oauth), repr(held)])
    assert not [secret for secret in (*access, *refresh, code) if secret in logged]


@pytest.mark.parametrize("maker", MAKERS)
def test_a_token_that_is_not_taken_any_more_is_refreshed_once(world: World, robot: Robot, maker: str) -> None:
    server = world.protected[maker, "authlib"]
    with Client(server.url, auth=by_robot(robot)) as client:
        assert echo(client) == "hello"
        world.authlib.tell(expire=True)
        assert echo(client) == "hello"
    counters = world.authlib.counters
    assert (counters["refreshes"], counters["consents"]) == (1, 1)
    assert "reuses" not in counters


def test_a_server_that_does_not_rotate_leaves_the_refresh_token_as_it_was(world: World, robot: Robot) -> None:
    world.authlib.set(refresh_tokens="keep")
    store = MemoryStore()
    oauth = by_robot(robot, store=store)
    with Client(world.protected["sdk2", "authlib"].url, auth=oauth) as client:
        for _ in range(3):
            assert echo(client) == "hello"
            world.authlib.tell(expire=True)
    counters = world.authlib.counters
    assert (counters["refreshes"], counters["consents"], len(robot.urls)) == (2, 1, 1)


@pytest.mark.parametrize("name", ["authlib", "oidc"])
@pytest.mark.parametrize("maker", MAKERS)
def test_a_tool_that_takes_more_is_agreed_to_once_and_nothing_is_lost(
    world: World, robot: Robot, maker: str, name: str
) -> None:
    server = world.protected[maker, name]
    oauth = by_robot(robot)
    with Client(server.url, auth=oauth) as client:
        assert echo(client) == "hello"
        for text in "xy":
            assert client.call_tool("write", {"text": text}, timeout=30).text == f"wrote {text}"
        assert echo(client) == "hello"
    first, second = (set(query(url)["scope"].split()) for url in robot.urls)
    assert first < second
    assert second - first == {"notes:write"}
    assert server.counters["insufficient scope"] == 1


def test_a_user_who_refuses_is_taken_at_their_word(world: World, robot: Robot) -> None:
    world.authlib.set(consent="deny")
    url = world.protected["sdk2", "authlib"].url
    with pytest.raises(AccessDenied) as caught, Client(url, auth=by_robot(robot)) as client:
        echo(client)
    assert caught.value.error == "access_denied"
    assert caught.value.url.startswith(world.authlib.origin)
    assert "refused" in robot.pages[0].text
    assert "tokens" not in world.authlib.counters


@pytest.mark.parametrize("name", ["authlib", "oidc"])
def test_logout_has_the_server_take_back_what_it_gave(world: World, robot: Robot, name: str) -> None:
    url = world.protected["sdk2", name].url
    oauth = by_robot(robot)
    with Client(url, auth=oauth) as client:
        assert echo(client) == "hello"
        held = oauth.vault.grant(url)
        assert held is not None
        assert oauth.logout() is True
    assert oauth.status().state == "needs_login"
    kept = silent(oauth.vault.store)
    oauth.vault.keep_grant(url, held.grant, None)
    with pytest.raises(AuthorizationRequired), Client(url, auth=kept) as client:
        echo(client)  # Neither the token nor the refresh token is any good.
    assert len(robot.urls) == 1


def test_the_next_login_is_at_the_same_port_and_takes_no_other_registration(
    world: World, robot: Robot
) -> None:
    oauth = by_robot(robot)
    with Client(world.protected["sdk2", "authlib"].url, auth=oauth) as client:
        for _ in range(3):
            assert echo(client) == "hello"
            oauth.logout()
    assert len({query(url)["redirect_uri"] for url in robot.urls}) == 1
    counters = world.authlib.counters
    assert (counters["registrations"], counters["consents"]) == (1, 3)


def test_a_client_that_the_server_has_forgotten_registers_anew(world: World, robot: Robot) -> None:
    url = world.protected["sdk2", "authlib"].url
    oauth = by_robot(robot)
    with Client(url, auth=oauth) as client:
        assert echo(client) == "hello"
        held = oauth.vault.grant(url)
        assert held is not None
        world.authlib.tell(forget=[held.grant.client_id], expire=True)
        assert echo(client) == "hello"
    assert world.authlib.counters["registrations"] == 2
    assert len(robot.urls) == 2


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("name", ["authlib", "oidc", "own"])
def test_a_login_that_one_process_begins_is_finished_by_another(
    world: World, robot: Robot, maker: str, name: str, tmp_path: Path
) -> None:
    url = world.protected[maker, name].url
    store = FileStore(tmp_path / "grants")
    oauth = OAuth(redirect_uri=CALLBACK, store=store, principal=ALICE)
    with pytest.raises(AuthorizationRequired) as caught, Client(url, auth=oauth) as client:
        echo(client)
    page = robot.visit(caught.value.url, follow=False)
    address = page.headers["location"]
    assert address.startswith(CALLBACK + "?")
    command = [sys.executable, "-c", FINISH, str(tmp_path / "grants"), url, CALLBACK, ALICE, address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("valid\n", "", 0)
    with Client(url, auth=oauth) as client:
        assert echo(client) == "hello"
    with pytest.raises(AuthorizationRequired), Client(url, auth=silent(store, principal="bob")) as client:
        echo(client)


def test_what_begin_gives_is_enough_to_finish(world: World, robot: Robot) -> None:
    url = world.protected["sdk2", "oidc"].url
    oauth = OAuth(redirect_uri=CALLBACK, server_url=url)
    flow = oauth.begin()
    page = robot.visit(flow.url, follow=False)
    oauth.finish(query(page.headers["location"]), flow.pending)
    with Client(url, auth=oauth) as client:
        assert echo(client) == "hello"


def test_a_user_without_a_browser_here_pastes_the_address_back(world: World, robot: Robot) -> None:
    shown: list[str] = []

    def read() -> str:
        url = next(line for line in "".join(shown).splitlines() if line.startswith("http"))
        return robot.visit(url, follow=False).headers["location"]

    oauth = OAuth(interaction=PasteBack(show=shown.append, read=read))
    with Client(world.protected["sdk2", "authlib"].url, auth=oauth) as client:
        assert echo(client) == "hello"


def test_a_client_that_is_known_by_its_document_registers_nowhere(world: World, robot: Robot) -> None:
    name = world.oidc.publish_client()
    url = world.protected["sdk2", "oidc"].url
    oauth = by_robot(robot, client_metadata_url=name)
    with Client(url, auth=oauth) as client:
        assert echo(client) == "hello"
    held = oauth.vault.grant(url)
    assert held is not None
    assert held.grant.client_id == name
    counters = world.oidc.counters
    assert counters["document fetches"] >= 1
    assert "registrations" not in counters


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post", "none"])
def test_a_client_that_was_registered_by_hand_authenticates_as_it_should(
    world: World, robot: Robot, method: str
) -> None:
    secret = None if method == "none" else "of the client: 100%+é"
    client_id = "by hand/1"
    world.authlib.register(client_id, secret, method, range(47310, 47320))
    interaction = LoopbackBrowser(ports=range(47310, 47320), open=robot, timeout=30)
    oauth = OAuth(client_id=client_id, client_secret=secret, interaction=interaction)
    with Client(world.protected["sdk2", "authlib"].url, auth=oauth) as client:
        assert echo(client) == "hello"
        world.authlib.tell(expire=True)
        assert echo(client) == "hello"
    assert "registrations" not in world.authlib.counters
