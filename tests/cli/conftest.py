"""What the tests of the command line share: no settings of whoever runs them."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep logins and completions of the tests apart from those of the user; returns their folder."""
    home = tmp_path / "mcp-sync-home"
    monkeypatch.setenv("MCP_SYNC_HOME", str(home))
    monkeypatch.delenv("MCP_SYNC_CONFIG", raising=False)
    return home
