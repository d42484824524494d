"""Chooses whether the tests run that need real programs: Redis, workers of Celery, gunicorn."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

PROGRAMS = (
    *("celery/test_workers.py", "flask/test_browser.py", "flask/test_example.py"),
    *("flask/test_foreign.py", "flask/test_load.py", "django/test_foreign.py"),
    *("django/test_deployed.py", "django/test_load.py"),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--contrib` and `--load-seconds`."""
    parser.addoption("--contrib", action="store_true", help="run the tests of frameworks with real programs")
    parser.addoption("--load-seconds", type=float, default=10.0, help="how long a test of load takes")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave them alone unless they were asked for: a skip would look like a result."""
    asked = config.getoption("--contrib", default=False) or os.environ.get("MCP_SYNC_CONTRIB")
    return None if asked or not str(collection_path).endswith(PROGRAMS) else True
