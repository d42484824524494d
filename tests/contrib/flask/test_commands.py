"""``flask mcp`` in a terminal."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from cli.terminal import Terminal

SITE = """
import sys
from flask import Flask
from mcp_sync.contrib.flask import MCP

app = Flask(__name__)
demo = {{"command": sys.executable, "args": ["-m", "mcp_sync.cli.demo_server"], "mode": {mode!r}}}
app.config.from_mapping(SECRET_KEY="a secret", MCP_SERVERS={{"demo": demo}}, MCP_DEADLINE=0.01)
MCP(app)
"""


@pytest.mark.parametrize("mode", ["2026-07-28", "2025-11-25"])
def test_a_question_is_asked_in_the_terminal_and_no_deadline_of_requests_hurries(
    mode: str, tmp_path: Path
) -> None:
    (tmp_path / "site_here.py").write_text(SITE.format(mode=mode))
    command = [sys.executable, "-m", "flask", "--app", "site_here", "mcp", "call", "demo", "greet"]
    with Terminal(command, dict(os.environ), folder=str(tmp_path)) as terminal:
        terminal.expect("Your name: ")
        terminal.type("Grace\n")

        assert terminal.finish() == 0
        assert "Hello, Grace!" in terminal.screen
