"""`mcp-sync login`, `status` and `logout` with authorization servers of other makes."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import webbrowser
from pathlib import Path
from typing import Any

import pytest
from cli.command_line import Ran, child_environment, invoke
from cli.terminal import Terminal

from .conftest import World
from .harness import Robot
from .users import query

pytestmark = pytest.mark.interop


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep logins of the tests apart from those of the user; returns their folder."""
    monkeypatch.setenv("MCP_SYNC_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture(autouse=True)
def browser(robot: Robot, monkeypatch: pytest.MonkeyPatch) -> Robot:
    """A browser whose user agrees to everything."""
    monkeypatch.setattr(webbrowser, "open", lambda url, *_: robot(url))
    return robot


@pytest.fixture
def port() -> int:
    """A port that is free."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def ok(ran: Ran) -> Ran:
    """Return what ran, which has to have gone well."""
    assert ran.code == 0, ran
    return ran


def echoes(url: str) -> bool:
    """Whether a tool of a protected server can be called."""
    ran = invoke("call", url, "echo", "text=hello")
    assert ran.code in (0, 6), ran
    return ran.code == 0 and ran.out == "hello\n"


@pytest.mark.parametrize("name", ["authlib", "oidc", "own"])
def test_a_login_is_used_shown_renewed_and_taken_back(world: World, robot: Robot, name: str) -> None:
    url = world.protected["sdk2", name].url
    assert not echoes(url)
    ran = ok(invoke("login", url))
    assert ran.out.startswith(f"{url} valid, for ")
    assert robot.urls[0] in ran.err
    assert echoes(url)

    (login,) = ok(invoke("status", "--json")).json["logins"]
    assert (login["url"], login["state"]) == (url, "valid")
    assert "token" not in json.dumps({key: login[key] for key in login if key != "token_type"})
    if name == "authlib":
        world.authlib.tell(expire=True)
        assert echoes(url)
        assert len(robot.urls) == 1
    assert ok(invoke("logout", url)).out in (
        "logged out\n",
        "logged out here; the server did not revoke the tokens\n",
    )
    assert not echoes(url)
    assert len(robot.urls) == 1


def test_scopes_are_asked_for(world: World, robot: Robot) -> None:
    url = world.protected["sdk2", "authlib"].url
    ok(invoke("login", url))
    ran = ok(invoke("login", url, "--scope", "notes", "--scope", "notes:write"))

    # Whoever asks for something else logs in anew, and whoever asks for the same does not.
    assert {"notes", "notes:write"} <= set(query(robot.urls[1])["scope"].split())
    assert "notes:write" in ran.out
    ok(invoke("login", url, "--scope", "notes", "--scope", "notes:write"))
    assert len(robot.urls) == 2


def test_an_address_is_pasted_in_a_terminal(world: World, robot: Robot) -> None:
    url = world.protected["sdk2", "authlib"].url
    command = [sys.executable, "-m", "mcp_sync.cli", "login", url, "--paste", "--port", "8123"]
    with Terminal(command, child_environment(TERM="xterm")) as terminal:
        terminal.expect(
            "Afterwards the browser shows an error, or an empty page, at http://127.0.0.1:8123/callback"
        )
        shown = re.search(r"^http\S+", terminal.screen.replace("\r", ""), re.MULTILINE)
        assert shown is not None
        terminal.type("what is this?\n")
        ended = robot.visit(shown[0], follow=False).headers["location"]
        assert ended.startswith("http://127.0.0.1:8123/callback?")
        terminal.type(f"{ended}\n")

        assert terminal.finish() == 0, terminal.screen
    assert f"{url} valid, for " in terminal.screen
    assert echoes(url)


def test_a_code_is_entered_in_a_browser_elsewhere(world: World, robot: Robot) -> None:
    url = world.protected["sdk2", "authlib"].url
    with subprocess.Popen(
        [sys.executable, "-m", "mcp_sync.cli", "login", url, "--device"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=child_environment(),
        encoding="utf-8",
    ) as process:
        assert process.stderr is not None
        place = next(found for line in process.stderr if (found := re.search(r"http[^\s)]+\?[^\s)]+", line)))
        robot.visit(place[0])
        out, err = process.communicate(timeout=60)

    assert (process.returncode, err) == (0, "")
    assert out.startswith(f"{url} valid, for ")
    assert echoes(url)


def test_a_client_that_was_registered_by_hand_comes_back_to_its_port_with_its_secret(
    world: World, robot: Robot, port: int, monkeypatch: pytest.MonkeyPatch, own_home: Path
) -> None:
    url = world.protected["sdk2", "authlib"].url
    monkeypatch.setenv("OF_THE_CLIENT", "geheim/100%")
    client_id = "by-hand"
    world.authlib.register(client_id, "geheim/100%", "client_secret_basic", [port])
    words = ["--client-id", client_id, "--client-secret-env", "OF_THE_CLIENT", "--port", str(port)]
    ok(invoke("login", url, *words))

    assert query(robot.urls[0])["redirect_uri"] == f"http://127.0.0.1:{port}/callback"
    assert echoes(url)
    world.authlib.tell(expire=True)
    assert echoes(url)
    assert "registrations" not in world.authlib.counters
    kept = [path.read_text() for path in own_home.rglob("*") if path.is_file() and "logins" in path.parts]
    assert kept
    assert "geheim" not in "".join(kept)

    # What runs without the variable is told which one it lacks.
    monkeypatch.delenv("OF_THE_CLIENT")
    ran = invoke("call", url, "echo", "text=hello")
    assert (ran.code, ran.out) == (2, "")
    assert "OF_THE_CLIENT" in ran.err


def test_a_wrong_secret_is_refused_and_shown_nowhere(
    world: World, robot: Robot, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THE_CLIENT", "falsch/100%")
    client_id = "by-hand"
    world.authlib.register(client_id, "richtig", "client_secret_basic", [port])
    words = ["--client-id", client_id, "--client-secret-env", "OF_THE_CLIENT", "--port", str(port)]
    ran = invoke("login", world.protected["sdk2", "authlib"].url, *words, "--trace")

    assert (ran.code, ran.out) == (6, "")
    assert "invalid_client" in ran.err
    assert "falsch" not in ran.err
    assert invoke("status").err == "There are no logins.\n"


def test_a_port_that_is_taken_is_said(world: World, port: int) -> None:
    with socket.create_server(("127.0.0.1", port)):
        ran = invoke("login", world.protected["sdk2", "authlib"].url, "--port", str(port))

    assert ran.code == 6
    assert "Address already in use" in ran.err
    assert "Traceback" not in ran.err


def test_a_client_is_known_by_the_document_at_its_url(world: World, robot: Robot) -> None:
    name = world.oidc.publish_client()
    url = world.protected["sdk2", "oidc"].url
    ok(invoke("login", url, "--client-metadata-url", name))

    assert query(robot.urls[0])["client_id"] == name
    assert echoes(url)
    assert "registrations" not in world.oidc.counters


def test_the_issuer_that_was_named_is_the_only_one(world: World, robot: Robot) -> None:
    url = world.protected["sdk2", "authlib"].url
    ran = invoke("login", url, "--issuer", world.tenant.issuer)
    assert ran.code == 6
    assert world.authlib.issuer in ran.err
    assert robot.urls == []

    assert ok(invoke("login", url, "--issuer", world.authlib.issuer)).out
    assert echoes(url)


def test_a_client_that_the_server_has_forgotten_is_registered_anew(world: World, robot: Robot) -> None:
    url = world.protected["sdk2", "authlib"].url
    ok(invoke("login", url))
    known = query(robot.urls[0])["client_id"]
    world.authlib.tell(forget=[known])
    ok(invoke("login", url, "--new-client"))

    assert query(robot.urls[1])["client_id"] != known
    assert world.authlib.counters["registrations"] == 2
    assert echoes(url)


def test_a_token_that_is_bound_to_a_key(world: World, robot: Robot) -> None:
    url = world.bound.url
    ran = invoke("login", url)
    assert ran.code == 6
    ok(invoke("login", url, "--dpop"))

    assert echoes(url)
    (login,) = ok(invoke("status", "--json", url)).json["logins"]
    assert login["token_type"] == "DPoP"
    assert "invalid_dpop_proof" not in world.bound.counters


def test_a_name_of_a_configuration_and_a_user_who_refuses(
    world: World, tmp_path: Path, robot: Robot, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = world.protected["sdk2", "authlib"].url
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"notes": {"url": url}}}))
    answers: list[dict[str, Any]] = [{"allow": "no"}, {}]

    def visit(address: str, *_: Any) -> bool:
        return bool(robot.visit(address, **answers.pop(0)))

    monkeypatch.setattr(webbrowser, "open", visit)
    ran = invoke("login", "notes", "--config", str(path))
    assert ran.code == 6
    assert "access_denied" in ran.err
    assert ok(invoke("login", "notes", "--config", str(path))).out
    assert echoes(url)
    assert ok(invoke("logout", "notes", "--config", str(path))).out == "logged out\n"
    assert os.path.exists(path)
