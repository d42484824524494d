"""What came on a connection and fits no call there: it may be why one waits in vain."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from .._protocol.kinds import shown_id

_KEPT = 3
_SHOWN = 120


class Oddities:
    """Keeps the last few of them. From any thread: single operations only."""

    def __init__(self) -> None:
        self._last: deque[tuple[float, str]] = deque(maxlen=_KEPT)

    def note_junk(self, excerpt: str) -> None:
        """Note what is no message."""
        shown = excerpt if len(excerpt) <= _SHOWN else f"{excerpt[:_SHOWN]}..."
        self._note(repr(shown))

    def note_answer(self, response: Mapping[str, Any]) -> None:
        """Note an answer that nobody waits for, perhaps any more."""
        self._note(f"an answer with the id {shown_id(response)}")

    def _note(self, text: str) -> None:
        self._last.append((time.monotonic(), text))

    def since(self, moment: float) -> str:
        """Return how the message of a timeout ends: with what has come since, ``""`` if nothing has."""
        texts = [text for when, text in list(self._last) if when >= moment]
        return f"; it sent what fits no call: {', '.join(texts)}" if texts else ""
