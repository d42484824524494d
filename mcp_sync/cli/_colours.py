"""Whether a terminal is to be spared colours, and whether it can be drawn on."""

from __future__ import annotations

import os


def is_plain_terminal() -> bool:
    """Whether neither colours nor bold letters are wanted: ``NO_COLOR``, or a terminal without them."""
    return bool(os.environ.get("NO_COLOR")) or is_dumb_terminal()


def is_dumb_terminal() -> bool:
    """Whether the terminal can do nothing but print lines."""
    return os.environ.get("TERM", "").lower() in ("dumb", "unknown")
