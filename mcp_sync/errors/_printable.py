"""How words of others are shown in one line of ours."""

from __future__ import annotations

LONGEST_NAME = 100
"""The most characters of a name or an id that are shown."""


def printable(text: str, longest: int = LONGEST_NAME) -> str:
    """Return a text on one line, without control characters, and not too long."""
    cut = text[:longest]
    shown = cut if cut.isprintable() else "".join(map(_shown, cut))
    return shown if len(text) <= longest else f"{shown}... ({len(text)} characters)"


def _shown(letter: str) -> str:
    return letter if letter.isprintable() else ascii(letter)[1:-1]
