"""The page about Django names settings, commands and signals that there are."""

from __future__ import annotations

import re
from pathlib import Path

from django.core.management import get_commands

from mcp_sync.contrib.django import conf, signals

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "examples" / "django.md").read_text(encoding="utf-8")


def test_the_settings_exist():
    inner = PAGE.partition("MCP_SYNC = {")[2].partition("\n}")[0]
    named = re.findall(r'^    "(\w+)":', inner, re.MULTILINE) + re.findall(r'MCP_SYNC\["(\w+)"\]', PAGE)
    assert len(named) > 3
    assert set(named) <= set(conf.DEFAULTS)


def test_the_commands_and_signals_exist():
    assert set(re.findall(r"`(mcp_(?!sync|fake|login_required)\w+)`", PAGE)) <= set(get_commands())
    assert all(hasattr(signals, name) for name in re.findall(r"`(grant_\w+|tool_\w+|task_\w+)`", PAGE))
