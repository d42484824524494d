"""Shell completion: commands, names of servers, tools and their arguments; silent whatever happens."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import child_environment, invoke

from mcp_sync.cli import _completing
from mcp_sync.cli._app import COMMANDS, app
from mcp_sync.cli.demo_server import build
from mcp_sync.testing import FakeServer


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait longer for a server than somebody who types: on a busy machine two seconds may be too few."""
    monkeypatch.setattr(_completing, "_SECONDS", 60.0)


@pytest.fixture
def server() -> FakeServer:
    return build()


@pytest.fixture
def url(server: FakeServer) -> Iterator[str]:
    with server.serve_http() as endpoint:
        yield endpoint.url


def completed(*words: str) -> list[str]:
    """Return what a shell offers for the last word."""
    from click.shell_completion import ShellComplete

    shell = ShellComplete(app, {}, "mcp-sync", "_MCP_SYNC_COMPLETE")
    return [item.value for item in shell.get_completions(list(words[:-1]), words[-1])]


def test_commands_are_completed_without_loading_them() -> None:
    assert completed("lo") == ["login", "logout"]
    assert set(COMMANDS) <= set(completed(""))


def test_every_command_in_the_list_is_there_and_has_the_text_of_the_list() -> None:
    import click

    context = click.Context(app)
    for name, listed in COMMANDS.items():
        command = app.get_command(context, name)
        assert command is not None
        assert command.help is not None
        assert command.help.replace("\n", " ").startswith(listed.text.rstrip(".").split(",")[0].split(".")[0])


def test_names_of_servers_come_from_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    servers = {
        "web": {"url": "http://h/"},
        "work": {"command": "x"},
        "w\x1bx": {"command": "x"},
        "": {},
        "wrong": 5,
    }
    Path("mcp.json").write_text(json.dumps({"mcpServers": servers}))

    assert completed("call", "w") == ["web", "work", "wrong"]
    assert completed("tools", "") == ["web", "work", "wrong"]
    Path("mcp.json").write_text("{")
    assert completed("call", "w") == []


def test_tools_and_their_arguments_come_from_the_server(url: str, server: FakeServer) -> None:
    server.add_tool(lambda: "", "evil\x1b[31m")
    server.add_tool(lambda: "", "--config=evil.json")

    assert completed("call", url, "") == ["add", "countdown", "greet", "fail"]
    assert completed("call", url, "c") == ["countdown"]
    assert completed("call", url, "countdown", "s") == ["steps="]
    assert completed("prompt", url, "") == ["review"]
    assert completed("read", url, "") == ["demo://readme"]


def test_a_server_is_asked_once_in_five_minutes(url: str, server: FakeServer, own_home: Path) -> None:
    completed("call", url, "")
    completed("call", url, "a")
    assert len(server.received("tools/list")) == 1

    (kept,) = (own_home / "completion").iterdir()
    past = time.time() - 400
    os.utime(kept, (past, past))
    completed("call", url, "a")
    assert len(server.received("tools/list")) == 2


def test_a_server_that_did_not_answer_is_asked_again_soon(server: FakeServer, own_home: Path) -> None:
    with server.serve_http() as endpoint:
        url, port = endpoint.url, int(endpoint.url.split(":")[2].split("/")[0])
    assert completed("call", url, "") == []

    with server.serve_http(port=port):
        # Not at each key.
        assert completed("call", url, "a") == []
        (kept,) = (own_home / "completion").iterdir()
        past = time.time() - 20
        os.utime(kept, (past, past))
        assert completed("call", url, "a") == ["add"]


def test_nothing_is_started_and_nothing_said_where_nobody_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    mark = tmp_path / "started"
    command = {"command": sys.executable, "args": ["-c", f"open({str(mark)!r}, 'w')"]}
    Path("mcp.json").write_text(json.dumps({"mcpServers": {"one": command}}))

    assert completed("call", "one", "") == []
    assert completed("call", "http://127.0.0.1:9/mcp", "") == []
    assert completed("call", "nobody", "") == []
    assert not mark.exists()
    assert capfd.readouterr() == ("", "")


def in_bash(folder: Path, line: str, words: list[str]) -> list[str]:
    """Return what bash offers at the end of a line that it has taken apart into words."""
    program = folder / "mcp-sync"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m mcp_sync.cli "$@"\n')
    program.chmod(0o755)
    script = (
        'eval "$(mcp-sync completion bash)"; compopt() { :; }\n'
        f"COMP_LINE={shlex.quote(line)} COMP_POINT={len(line)} COMP_CWORD={len(words) - 1}\n"
        f"COMP_WORDS=({shlex.join(words)})\n"
        f"_mcp_sync_completion mcp-sync\n"
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script], env=child_environment(PATH=path), capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_behind_a_url_and_within_one(url: str, tmp_path: Path) -> None:
    scheme, rest = url.split(":", 1)
    host, port = rest.split(":", 1)
    taken_apart = [scheme, ":", host, ":", port]
    # The processes that bash starts find the names; they would not wait for long.
    assert completed("call", url, "co") == ["countdown"]

    assert in_bash(tmp_path, "mcp-sync pin", ["mcp-sync", "pin"]) == ["ping", "pins"]
    line = f"mcp-sync call {url} co"
    assert in_bash(tmp_path, line, ["mcp-sync", "call", *taken_apart, "co"]) == ["countdown"]
    line = f"mcp-sync read {url} demo://re"
    words = ["mcp-sync", "read", *taken_apart, "demo", ":", "//re"]
    assert in_bash(tmp_path, line, words) == ["//readme"]
    line = f"mcp-sync read {url} demo:"
    words = ["mcp-sync", "read", *taken_apart, "demo", ":"]
    assert in_bash(tmp_path, line, words) == ["//readme"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_a_script_for_the_shell_is_printed(shell: str) -> None:
    ran = invoke("completion", shell)

    assert ran.code == 0
    assert "_MCP_SYNC_COMPLETE" in ran.out
    assert invoke("completion", "cmd").code == 2


def test_a_process_that_a_shell_asks_prints_completions() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mcp_sync.cli"],
        env=child_environment(_MCP_SYNC_COMPLETE="zsh_complete", COMP_WORDS="mcp-sync pi", COMP_CWORD="1"),
        capture_output=True,
        text=True,
        timeout=50,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[:2] == ["plain", "ping"]
