"""Chooses whether the tests run that need real programs: Redis, databases, workers of Celery, gunicorn."""

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
    return True if str(collection_path).endswith(PROGRAMS) and not _is_asked(config) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave single tests alone, too."""
    if not _is_asked(config):
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("contrib")])
        items[:] = [item for item in items if not item.get_closest_marker("contrib")]


def _is_asked(config: pytest.Config) -> bool:
    return bool(config.getoption("--contrib", default=False) or os.environ.get("MCP_SYNC_CONTRIB"))
