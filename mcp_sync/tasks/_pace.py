"""How long to wait between two looks at a task."""

from __future__ import annotations

import random
from typing import Optional

# The least and the most seconds, whatever the server says.
LEAST = 0.1
MOST = 60.0
# Where it says nothing: the first wait, by how much the next ones grow, and to what.
_FIRST, _GROWTH, _GROWN = 0.2, 1.5, 5.0
# By how much a wait is made longer at random, so that many callers do not come at once.
_SPREAD = 0.1


class Pace:
    """Gives the waits of one caller."""

    def __init__(self) -> None:
        self._own = _FIRST

    def next(self, asked: Optional[float]) -> float:
        """Return the seconds until the next look.

        Args:
            asked: What the server asks for, ``None`` for nothing.
        """
        seconds = asked
        if seconds is None:
            seconds = self._own
            self._own = min(self._own * _GROWTH, _GROWN)
        return min(max(seconds, LEAST) * (1 + _SPREAD * random.random()), MOST)
