"""The files of the hosts are found where they keep them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_sync.config import host_files, load_config

from . import files


def test_those_that_there_are_are_found_and_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    for folder in (home, project):
        folder.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "settings"))
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("os.name", "posix")
    assert host_files(project) == []

    found = [
        ("VS Code", files.write(project, files.VS_CODE, ".vscode/mcp.json")),
        ("Gemini CLI", files.write(home, files.GEMINI, ".gemini/settings.json")),
    ]
    (home / "settings").mkdir()
    found.append(
        (
            "Claude Desktop",
            files.write(home / "settings", files.CLAUDE_DESKTOP, "Claude/claude_desktop_config.json"),
        )
    )

    found.append(("Zed", files.write(home / "settings", files.ZED, "zed/settings.json")))
    found.insert(2, ("Windsurf", files.write(home, {"mcpServers": {}}, ".codeium/mcp_config.json")))
    found.insert(3, ("Copilot", files.write(home, files.COPILOT, ".copilot/mcp-config.json")))

    assert host_files(project) == found
    assert [len(load_config(path).servers) for _, path in found] == [2, 2, 0, 2, 1, 3]
    # Each file once, even where a project and its user share it.
    assert [host for host, _ in host_files(home)] == [
        "Gemini CLI",
        "Windsurf",
        "Copilot",
        "Claude Desktop",
        "Zed",
    ]
