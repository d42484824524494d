"""Foreign text in a terminal."""

from __future__ import annotations

import re

# All control characters but the line break and the tab, and the marks that reorder text.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """Make the control characters of a foreign text visible instead of effective."""
    return _UNSAFE.sub(lambda found: ascii(found.group())[1:-1], text)
