"""Runs command lines: in this process, and in one of their own."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple, Optional

import pytest

pytest.importorskip("click")
pytest.importorskip("rich")

from click.testing import CliRunner

from mcp_sync.cli._app import app

ROOT = Path(__file__).parents[2]
DEMO_SERVER = (sys.executable, "-m", "mcp_sync.cli.demo_server")


class Ran(NamedTuple):
    """What came of a command line."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as the one JSON document that it is."""
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        """Standard error as the one line of JSON that it is."""
        (line,) = self.err.splitlines()
        return json.loads(line)["error"]


def invoke(*words: str, stdin: Optional[str] = None) -> Ran:
    """Run a command line in this process."""
    # click before 8.2 mixes the two outputs unless told not to; later ones cannot be told.
    separate: dict[str, Any] = {}
    if "mix_stderr" in inspect.signature(CliRunner).parameters:
        separate["mix_stderr"] = False
    result = CliRunner(**separate).invoke(app, list(words), input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ran(result.exit_code, result.stdout, result.stderr)


def child_environment(**more: str) -> dict[str, str]:
    """Return an environment in which a child finds this package and prints in UTF-8."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8", **more}


def run(*words: str, stdin: Optional[str] = None, **environment: str) -> Ran:
    """Run a command line as a process without a terminal."""
    done = subprocess.run(
        [sys.executable, "-m", "mcp_sync.cli", *words],
        input=stdin or "",
        capture_output=True,
        env=child_environment(**environment),
        encoding="utf-8",
        timeout=50,
    )
    return Ran(done.returncode, done.stdout, done.stderr)
