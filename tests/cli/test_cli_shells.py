"""Completion in real shells, as somebody types: what arrives in the end are the names that the server has."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from command_line import child_environment
from terminal import Terminal

from mcp_sync.cli import _completing
from mcp_sync.cli._app import app
from mcp_sync.cli.demo_server import build

pytestmark = pytest.mark.heavy

SHELLS = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-i"],
}
BEGIN = {
    "bash": 'PS1="REA""DY "; bind "set bell-style none"; eval "$(mcp-sync completion bash)"',
    "zsh": 'PS1="REA""DY "; autoload -U compinit; compinit -u -D; eval "$(mcp-sync completion zsh)"',
    "fish": 'function fish_prompt; echo -n "REA""DY "; end; mcp-sync completion fish | source',
}
EVIL = "$(touch evil)`touch evil`"
# Completes as the program does, and otherwise says what it was given.
PROGRAM = """#!/bin/sh
[ -n "$_MCP_SYNC_COMPLETE" ] || [ "$1" = completion ] && exec {python} -m mcp_sync.cli "$@"
for word; do printf '<%s>' "$word"; done
echo END
"""


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server whose names are known already: on a busy machine a shell may give up to ask."""
    server = build()
    server.add_tool(lambda text: text, "odd name/of ünï 🎉")
    server.add_tool(lambda text: text, EVIL)
    server.add_tool(lambda text: text, "it's*")
    with server.serve_http() as endpoint:
        monkeypatch.setattr(_completing, "_SECONDS", 60.0)
        shell = ShellComplete(app, {}, "mcp-sync", "_MCP_SYNC_COMPLETE")
        assert shell.get_completions(["call", endpoint.url], "cou")
        yield endpoint.url


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Terminal]:
    """A shell at its prompt, with completion on."""
    name: str = request.param
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    program = tmp_path / "bin" / "mcp-sync"
    program.parent.mkdir()
    program.write_text(PROGRAM.format(python=shlex.quote(sys.executable)))
    program.chmod(0o755)
    environment = child_environment(
        PATH=f"{program.parent}{os.pathsep}{os.environ['PATH']}",
        HOME=str(tmp_path),
        ZDOTDIR=str(tmp_path),
        XDG_CONFIG_HOME=str(tmp_path),
        XDG_DATA_HOME=str(tmp_path),
        LC_ALL="C.UTF-8",
        TERM="xterm",
    )
    with Terminal(SHELLS[name], environment, (24, 200), str(tmp_path)) as terminal:
        terminal.type(BEGIN[name] + "\r")
        terminal.expect("READY ")
        yield terminal


def given(shell: Terminal, keys: str) -> str:
    """Return what a program gets after some keys and the one for the end of the line."""
    shell.screen = ""
    shell.type(keys + "\r")
    shell.expect("END\r\n")
    line: str = shell.screen[: shell.screen.index("END\r\n")].splitlines()[-1]
    shell.expect("READY ")
    return line[line.index("<") :]


def test_commands_tools_and_arguments_are_completed(shell: Terminal, url: str) -> None:
    assert given(shell, "mcp-sync lis\t") == "<listen>"
    assert given(shell, f"mcp-sync call {url} cou\tst\t5") == f"<call><{url}><countdown><steps=5>"
    assert given(shell, f"mcp-sync call {url} odd\tte\tx") == f"<call><{url}><odd name/of ünï 🎉><text=x>"
    assert given(shell, f"mcp-sync read {url} demo:\t") == f"<read><{url}><demo://readme>"
    assert given(shell, f"mcp-sync call {url} it\t") == f"<call><{url}><it's*>"


def test_a_name_of_a_server_never_becomes_a_command(shell: Terminal, url: str, tmp_path: Path) -> None:
    assert given(shell, f"mcp-sync call {url} \\$\t") == f"<call><{url}><{EVIL}>"
    given(shell, f'mcp-sync call {url} "\t"')
    assert not (tmp_path / "evil").exists()
