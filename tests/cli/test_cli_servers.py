"""Servers by their names in configuration files, and the command that lists them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import DEMO_SERVER, ROOT, invoke

from mcp_sync.cli.demo_server import build
from mcp_sync.testing._http import HTTPEndpoint


@pytest.fixture
def endpoint() -> Iterator[HTTPEndpoint]:
    with build().serve_http() as served:
        yield served


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    return tmp_path


def write(path: Path, **servers: Any) -> str:
    path.write_text(json.dumps({"mcpServers": servers}))
    return str(path)


def test_a_name_of_the_file_here_is_a_server(here: Path, endpoint: HTTPEndpoint) -> None:
    write(here / "mcp.json", demo={"url": endpoint.url, "headers": {"X-A": "1"}})
    ran = invoke("call", "demo", "add", "a=1", "b=2", "--header", "X-B: 2", "--mode", "legacy")

    assert (ran.code, ran.out, ran.err) == (0, '{"sum": 3}\n', "")
    headers = endpoint.requests[-1].headers
    assert (headers["x-a"], headers["x-b"], headers["mcp-protocol-version"]) == ("1", "2", "2025-11-25")


def test_a_command_of_a_file_is_started(here: Path) -> None:
    started = {"command": DEMO_SERVER[0], "args": DEMO_SERVER[1:], "env": {"PYTHONPATH": str(ROOT)}}
    path = write(here / "x.json", demo=started)
    assert invoke("ping", "demo", "--config", path).code == 0


def test_the_option_wins_over_the_variable_and_that_over_the_file_here(
    here: Path, endpoint: HTTPEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(here / "mcp.json", one={"url": endpoint.url})
    monkeypatch.setenv("MCP_SYNC_CONFIG", write(here / "b.json", two={"url": endpoint.url}))
    option = write(here / "c.json", three={"url": endpoint.url})

    assert invoke("ping", "two").code == 0
    assert invoke("ping", "three", "--config", option).code == 0
    ran = invoke("ping", "one")
    assert ran.code == 2
    assert "there is no server 'one'" in ran.err


@pytest.mark.parametrize("word", ["localhost:9", "example.com", "ftp://example.com/mcp", "unix:///run/mcp"])
def test_a_url_that_lacks_its_beginning_is_told_what_that_is(here: Path, word: str) -> None:
    write(here / "mcp.json", demo={"url": "https://host/"}, **{"a.b": {"command": "x"}})
    ran = invoke("tools", word)

    assert ran.code == 2
    assert f"there is no server {word!r}. Known: demo, a.b. A URL begins with http://" in ran.err
    assert "A URL" not in invoke("tools", "demi").err


@pytest.mark.parametrize("word", ["server.py", "./server.py", "sh"])
def test_a_program_in_the_place_of_a_name_is_told_where_it_goes(here: Path, word: str) -> None:
    write(here / "mcp.json", demo={"url": "https://host/"})
    (here / "server.py").touch()
    ran = invoke("tools", word)

    assert ran.code == 2
    assert (
        f"there is no server {word!r}. Known: demo. A server that is to be started goes behind --" in ran.err
    )


def test_a_password_in_a_url_that_lacks_its_beginning_is_not_repeated(here: Path) -> None:
    word = "me:secret@example.com/mcp?token=secret"
    told = [invoke("tools", word).err]
    write(here / "mcp.json", demo={"url": "https://host/"})
    told += [invoke("tools", word).err, invoke("tools", "--json", word).err]

    assert ["secret" in each for each in told] == [False] * 3
    assert all("'example.com/mcp'" in each for each in told)


def test_a_name_without_a_file_is_wrong_use(here: Path) -> None:
    ran = invoke("tools", "demo")

    assert ran.code == 2
    assert "'demo' is no URL" in ran.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"mcpServers": {"a": {"command": "x"},}}', "a comma after the last entry"),
        ('{"mcpServers": {"a": {"url": "http://h/${MCP_NOT_SET}"}}}', "MCP_NOT_SET is not set"),
        ('{"mcpServers": ', "line 1, column"),
        ("[]", "mcp.json"),
        ('{"mcpServers": {"a": {"command": 7}}}', "server 'a'"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_the_place(here: Path, text: str, said: str) -> None:
    (here / "mcp.json").write_text(text)
    ran = invoke("tools", "a")

    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert "mcp.json" in ran.err
    assert "Traceback" not in ran.err
    assert invoke("tools", "a", "--json").error["kind"] == "usage"


def test_an_entry_that_cannot_be_is_told_where_it_is_used_or_listed(
    here: Path, endpoint: HTTPEndpoint
) -> None:
    write(here / "mcp.json", web={"url": endpoint.url}, typo={"comand": "x"})

    assert invoke("ping", "web").err == ""
    for command in ("ping", "doctor"):
        ran = invoke(command, "typo")
        assert (ran.code, ran.out) == (2, "")
        assert "did you mean 'command' by 'comand'?" in ran.err
    listed = invoke("servers")
    assert listed.code == 0
    assert "  typo [broken] there is neither a command nor a URL; did you mean" in listed.out
    checked = invoke("servers", "--check", "--json")
    assert (checked.code, len(checked.json["problems"])) == (1, 1)
    assert checked.json["files"][0]["servers"]["typo"]["type"] == "broken"


def test_an_unknown_key_is_told_and_ignored(here: Path, endpoint: HTTPEndpoint) -> None:
    other = {"url": endpoint.url, "flavour": "sweet"}
    write(here / "mcp.json", demo={"url": endpoint.url, "colour": "red"}, dem=other)
    ran = invoke("ping", "demo")

    assert ran.code == 0
    assert "server 'demo', key 'colour': unknown, and ignored" in ran.err
    # What is odd about another server is told where all of them are listed.
    assert "flavour" not in ran.err
    listed = invoke("servers").err
    assert "'colour'" in listed
    assert "'flavour'" in listed


def test_a_header_for_a_command_is_wrong_use(here: Path) -> None:
    write(here / "mcp.json", demo={"command": sys.executable})
    assert invoke("ping", "demo", "--header", "A: b").code == 2


def test_servers_are_listed_with_their_secrets_hidden(here: Path) -> None:
    write(here / "mcp.json", web={"url": "https://u:geheim@host/mcp", "headers": {"X-Key": "geheim"}})
    (here / ".vscode").mkdir()
    (here / ".vscode" / "mcp.json").write_text(
        json.dumps(
            {"servers": {"git": {"command": "git-mcp", "args": ["--token", "geheim"], "disabled": True}}}
        )
    )
    ran = invoke("servers")

    assert ran.code == 0
    assert "mcp.json (mcp-sync)\n  web [http] https://" in ran.out
    assert "(VS Code)\n  git [stdio, disabled] git-mcp" in ran.out
    assert "geheim" not in ran.out
    listed = invoke("servers", "--json")
    assert [each["host"] for each in listed.json["files"]] == ["mcp-sync", "VS Code"]
    assert "geheim" not in listed.out


def test_a_broken_file_of_a_host_does_not_hide_the_others(here: Path) -> None:
    write(here / "mcp.json", web={"url": "https://host/mcp"})
    (here / ".mcp.json").write_text("{")
    ran = invoke("servers")

    assert ran.code == 0
    assert "web [http] https://host/mcp" in ran.out
    assert ".mcp.json (Claude Code)\n  " in ran.out


def test_a_check_names_what_is_missing_and_exits_with_1(here: Path) -> None:
    path = write(here / "a.json", web={"url": "https://host/${MCP_NOT_SET}"})
    ran = invoke("servers", "--check", "--config", path)

    assert ran.code == 1
    assert "MCP_NOT_SET is not set" in ran.err
    assert len(invoke("servers", "--check", "--json", "--config", path).json["problems"]) == 1
    good = write(here / "b.json", web={"url": "https://host/"})
    assert invoke("servers", "--check", "--config", good).code == 0


def test_a_check_speaks_of_what_is_asked_for_in_words_of_the_command_line(here: Path) -> None:
    path = write(here / "mcp.json", asks={"command": "x", "env": {"KEY": "${input:key}"}})
    ran = invoke("servers", "--check", "--config", path)

    assert ran.code == 1
    assert "key 'env.KEY': the input key has no value: it is asked for only where there is" in ran.err
    assert "inputs=" not in ran.err


def test_no_configuration_is_said_to_be_none(here: Path) -> None:
    ran = invoke("servers")

    assert (ran.code, ran.out, ran.err) == (0, "", "There are no configuration files.\n")
