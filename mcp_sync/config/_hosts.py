"""Where the hosts keep their files."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NamedTuple, Union

_CLINE = "globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"


class HostFile(NamedTuple):
    """A configuration that there is.

    Attributes:
        host: Whose it is.
        path: Where it is.
    """

    host: str
    path: Path


def host_files(folder: Union[str, os.PathLike[str]] = ".") -> list[HostFile]:
    """Return the configuration files of known hosts that there are: of a project first, then of the user.

    Only looks whether they exist. Not each of them needs to have servers: `load_config` says so.

    Args:
        folder: The folder of the project.
    """
    project, home = Path(folder).absolute(), Path.home()
    known = [(host, project / name) for host, name in _OF_A_PROJECT]
    known += [(host, home / name) for host, name in _OF_A_USER]
    programs = _programs(home)
    known += [
        ("Claude Desktop", programs / "Claude" / "claude_desktop_config.json"),
        ("VS Code", programs / "Code" / "User" / "mcp.json"),
        ("Cline", programs / "Code" / "User" / _CLINE),
        ("Zed", _zed(home) / "settings.json"),
    ]
    # Where the project is the home of the user, some are both.
    return [
        HostFile(host, path) for path, host in {path: host for host, path in known}.items() if path.is_file()
    ]


_OF_A_PROJECT = (
    ("mcp-sync", "mcp.json"),
    ("Claude Code", ".mcp.json"),
    ("Cursor", ".cursor/mcp.json"),
    ("VS Code", ".vscode/mcp.json"),
    ("Gemini CLI", ".gemini/settings.json"),
    ("Codex", ".codex/config.toml"),
    ("Zed", ".zed/settings.json"),
)
_OF_A_USER = (
    ("Claude Code", ".claude.json"),
    ("Cursor", ".cursor/mcp.json"),
    ("Gemini CLI", ".gemini/settings.json"),
    ("Windsurf", ".codeium/windsurf/mcp_config.json"),
    ("Windsurf", ".codeium/mcp_config.json"),
    ("Copilot", ".copilot/mcp-config.json"),
    ("Codex", ".codex/config.toml"),
)


def _zed(home: Path) -> Path:
    """Return the folder of Zed's settings, which it keeps as on Linux on macOS, too."""
    if os.name == "nt":
        return _programs(home) / "Zed"
    return Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "zed"


def _programs(home: Path) -> Path:
    """Return the folder in which programs keep the settings of the user."""
    if sys.platform == "darwin":
        return home / "Library" / "Application Support"
    if os.name == "nt":
        return Path(os.environ.get("APPDATA") or home / "AppData" / "Roaming")
    return Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
