"""The files of the hosts, as they document them."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_sync import LegacySSE, Stdio, Timeouts, WebSocket
from mcp_sync.auth import BearerToken, OAuth
from mcp_sync.config import ConfigError, load_config
from mcp_sync.transports._url import ServerURL

from . import files

HAS_TOML = any(importlib.util.find_spec(name) for name in ("tomllib", "tomli"))


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "the-key")
    monkeypatch.setenv("SECRET", "the-secret")
    monkeypatch.delenv("API_BASE_URL", raising=False)


def test_claude_desktop(tmp_path: Path) -> None:
    config = load_config(files.write(tmp_path, files.CLAUDE_DESKTOP, "claude_desktop_config.json"))

    assert config["filesystem"].target() == Stdio(
        "npx", ["-y", "@modelcontextprotocol/server-filesystem", "/home/ada/Documents"]
    )
    assert config.warnings == ()


def test_claude_code(tmp_path: Path) -> None:
    config = load_config(files.write(tmp_path, files.CLAUDE_CODE, ".mcp.json"))
    target = config["api"].target()

    assert isinstance(target, ServerURL)
    assert target.url == "https://api.example.com/mcp"
    assert target.headers == {"Authorization": "Bearer the-key"}
    assert isinstance(target.auth, OAuth)
    assert config["api"].timeout == 600
    assert config.warnings == ()


def test_claude_code_with_servers_of_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project, other = tmp_path / "project", tmp_path / "other"
    for folder in (project / ".git", project / "below", other):
        folder.mkdir(parents=True)
    local = {
        "notes": {"command": "x", "cwd": "data"},
        "api": {"type": "http", "url": "https://mine.example/"},
    }
    written = {
        "numStartups": 3,
        "mcpServers": {**files.CLAUDE_CODE["mcpServers"], "all": {"command": "y", "cwd": "data"}},
        "projects": {project.as_posix(): {"mcpServers": local}, other.as_posix(): {"mcpServers": {}}},
    }
    path = files.write(tmp_path, written, ".claude.json")

    for folder in (project, project / "below"):
        monkeypatch.chdir(folder)
        config = load_config(path)
        assert list(config.servers) == ["api", "all", "notes"]
        assert config["api"].url == "https://mine.example/"
        assert config["notes"].target() == Stdio("x", cwd=str(project / "data"))
        assert config["all"].target() == Stdio("y", cwd=str(tmp_path / "data"))
    for folder in (other, tmp_path):
        monkeypatch.chdir(folder)
        assert list(load_config(path).servers) == ["api", "all"]
    # It is there, with other things in it, whether anybody uses servers or not.
    assert not load_config(files.write(tmp_path, {"numStartups": 3}, ".claude.json")).servers

    monkeypatch.chdir(project)
    wrong = {"projects": {project.as_posix(): {"mcpServers": [1]}}}
    with pytest.raises(ConfigError, match=r"\.claude\.json: the servers of .*project must be an object"):
        load_config(files.write(tmp_path, wrong, ".claude.json"))


def test_cursor(tmp_path: Path) -> None:
    files.write(tmp_path, "# for us\nexport EXTRA='some value'\nQUOTED=\"a\\nb\"\nPLAIN=x # why\n", ".env")
    config = load_config(files.write(tmp_path, files.CURSOR, ".cursor/mcp.json"))

    assert config["local"].target() == Stdio(
        "python",
        [f"{tmp_path}/server.py"],
        env={"API_KEY": "the-key", "EXTRA": "some value", "QUOTED": "a\nb", "PLAIN": "x"},
    )
    target = config["remote"].target()
    assert isinstance(target, ServerURL)
    assert isinstance(target.auth, OAuth)
    assert config.warnings == ()


def test_gemini_cli_with_comments_and_bare_variables(tmp_path: Path) -> None:
    text = files.json.dumps(files.GEMINI).replace('"theme"', '// mine\n"theme"')
    config = load_config(files.write(tmp_path, text, ".gemini/settings.json"))
    tools = config["tools"]

    assert tools.target() == Stdio(
        "python", ["-m", "server"], env={"API_KEY": "the-key"}, cwd=str(tmp_path / "servers")
    )
    assert (tools.allow, tools.deny, tools.timeout) == (("safe_tool",), ("dangerous_tool",), 30)
    assert config["remote"].target() == ServerURL("https://api.example.com/mcp")
    assert config.warnings == ()


def test_windsurf(tmp_path: Path) -> None:
    config = load_config(files.write(tmp_path, files.WINDSURF, "mcp_config.json"))

    assert config["remote"].target() == ServerURL(
        "https://api.example.com/mcp", headers={"API_KEY": "Bearer the-key"}
    )
    assert config["remote"].deny == ("delete_everything",)


def test_cline(tmp_path: Path) -> None:
    config = load_config(files.write(tmp_path, files.CLINE, "cline_mcp_settings.json"))

    assert config["remote"].target() == ServerURL("https://api.example.com/mcp")
    assert (config["remote"].timeout, config["remote"].disabled) == (60, False)
    assert config["old"].target() == LegacySSE("https://old.example.com/sse")
    assert config["old"].disabled
    assert config.warnings == ()


def test_vs_code_with_comments_and_inputs(tmp_path: Path) -> None:
    path = files.write(tmp_path, files.VS_CODE, ".vscode/mcp.json")
    config = load_config(path, inputs={"key": "typed"})

    assert config["local"].target() == Stdio(
        "npx", ["-y", "server", "--region=eu"], env={"API_KEY": "typed", "URL": "http://x//y"}
    )
    asked = []

    def ask(declared: Any) -> str:
        asked.append(declared.get("description"))
        return str(declared["id"])

    assert load_config(path, inputs=ask)["local"].target().env["API_KEY"] == "key"
    assert asked == [None, "API key"]
    with pytest.raises(
        ConfigError, match=r"'local', key 'env\.API_KEY': the input key \(API key\) has no value"
    ):
        load_config(path)["local"].target()


def test_vs_codes_file_may_have_comments_wherever_it_lies_and_be_part_of_its_settings(tmp_path: Path) -> None:
    assert list(load_config(files.write(tmp_path, files.VS_CODE)).servers) == ["local", "remote"]
    settings = {"editor.fontSize": 12, "mcp": {"servers": {"here": {"command": "x"}}}}
    assert list(load_config(files.write(tmp_path, settings, "settings.json")).servers) == ["here"]


def test_zed_with_comments_in_the_settings_of_the_editor(tmp_path: Path) -> None:
    config = load_config(files.write(tmp_path, files.ZED, ".zed/settings.json"))

    assert config["local"].target() == Stdio("some-command", ["arg-1", "arg-2"], env={"API_KEY": "a"})
    remote = config["remote"].target()
    assert remote == ServerURL("https://example.com/mcp", headers={"Authorization": "Bearer secret"})
    assert config["of old"].target() == Stdio("node", ["server.js"], env={"DEBUG": "1"})
    # What an extension starts is no reason to leave the others alone.
    assert list(config.servers) == ["local", "remote", "of old"]
    (warning,) = config.warnings
    assert "'github'" in warning
    assert "an extension of the host starts it" in warning
    assert "secret" not in warning


def test_copilot(tmp_path: Path) -> None:
    config = load_config(files.write(tmp_path, files.COPILOT, ".copilot/mcp-config.json"))

    assert config["local"].target() == Stdio("npx", ["-y", "server"])
    assert (config["local"].allow, config["remote"].allow) == (("*",), ("search",))
    assert config["remote"].target() == ServerURL("https://api.example.com/mcp", headers={"X-Key": "the-key"})
    assert config.warnings == ()


def test_claude_code_with_scopes_in_one_string_and_metadata_that_are_looked_up(tmp_path: Path) -> None:
    oauth = {"scopes": "read write", "authServerMetadataUrl": "https://auth.example.com/x", "callbackPort": 1}
    entry = {"type": "http", "url": "https://api.example.com/mcp", "oauth": oauth, "headersHelper": "/bin/x"}
    config = load_config(files.write(tmp_path, files.one(**entry), ".mcp.json"))

    assert config["here"].target().auth.scopes == ("read", "write")
    assert len(config.warnings) == 2


def test_gemini_cli_with_authorization(tmp_path: Path) -> None:
    oauth = {"enabled": True, "clientId": "c", "redirectUri": "http://localhost:7777/oauth/callback"}
    entry = {"url": "https://api.example.com/sse", "type": "sse", "oauth": oauth}
    config = load_config(files.write(tmp_path, files.one(**entry), ".gemini/settings.json"))
    target = config["here"].target()

    assert isinstance(target, LegacySSE)
    assert isinstance(target.auth, OAuth)
    assert config.warnings == ()


def test_windsurf_with_a_file_in_a_header(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from a file\n")
    headers = {"Authorization": f"Bearer ${{file:{tmp_path / 'token'}}}"}
    config = load_config(files.write(tmp_path, files.one(url="https://h/mcp", headers=headers)))

    assert config["here"].target().headers == {"Authorization": "Bearer from a file"}


@pytest.mark.skipif(not HAS_TOML, reason="no library for TOML here")
def test_codex(tmp_path: Path) -> None:
    config = load_config(files.write(tmp_path, files.CODEX, "config.toml"))
    local, remote = config["local"], config["remote"]

    assert local.target() == Stdio("npx", ["-y", "server"], env={"MODE": "fast", "API_KEY": "the-key"})
    assert (local.allow, local.timeout, local.timeouts) == (("search",), 30.5, Timeouts(open=20))
    target = remote.target()
    assert isinstance(target, ServerURL)
    assert target.headers == {"X-Region": "eu", "X-Key": "the-key"}
    assert isinstance(target.auth, BearerToken)
    assert target.auth.read() == "the-key"
    assert remote.disabled
    assert config.warnings == ()


@pytest.mark.parametrize(
    ("entry", "kind"),
    [
        ({"command": ["uvx", "reports"]}, Stdio),
        ({"COMMAND": "uvx", "ARGS": ["reports"], "ENV": {"PORT": 8080, "DEBUG": True, "NONE": None}}, Stdio),
        ({"type": "local", "command": "x"}, Stdio),
        ({"url": "https://h/mcp"}, ServerURL),
        ({"type": "streamable-http", "url": "https://h/mcp"}, ServerURL),
        ({"transport": "streamable_http", "url": "https://h/mcp"}, ServerURL),
        ({"type": "SSE", "url": "https://h/sse"}, LegacySSE),
        ({"type": "ws", "url": "wss://h/mcp"}, WebSocket),
        ({"url": "ws://h/mcp"}, WebSocket),
    ],
)
def test_other_ways_to_write_it(entry: dict[str, object], kind: type) -> None:
    server = load_config({"here": entry})["here"]

    assert type(server.target()) is kind
    if "ENV" in entry:
        assert server.target() == Stdio("uvx", ["reports"], env={"PORT": "8080", "DEBUG": "true"})


def test_settings_of_the_clients_are_taken_from_it() -> None:
    entry = {"command": "x", "timeout": 5, "timeouts": {"open": 3, "silence": None}, "mode": "legacy"}
    server = load_config(files.one(**entry))["here"]

    client = server.client()
    assert (client.name, client._timeout, client._timeouts) == ("here", 5, Timeouts(open=3, silence=None))
    assert client._engine.plan.mode == "legacy"
    assert server.client(timeout=1, name="mine")._timeout == 1


def test_to_read_a_configuration_loads_nothing_heavy(tmp_path: Path) -> None:
    path = files.write(tmp_path, {"mcpServers": {**files.CURSOR["mcpServers"], **files.CLINE["mcpServers"]}})
    script = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        "from mcp_sync import load_config\n"
        f"print(len(load_config({str(path)!r}).to_json()['mcpServers']))\n"
        "print([name for name in ('pydantic', 'requests', 'subprocess') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=50, check=False
    )

    assert (done.returncode, done.stdout.split("\n")) == (0, ["3", "[]", ""])
