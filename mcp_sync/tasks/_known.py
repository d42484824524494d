"""What is known of a task."""

from __future__ import annotations

from typing import Optional

from ..errors import TaskGone, another
from ._asked import Asked
from ._state import TaskState


class Known:
    """What is known of one task, to all who follow it. Each attribute is set in single steps, by any thread.

    Args:
        asked: What it has asked so far.
        last: Its first state, ``None`` if that is not known.

    Attributes:
        asked: See above.
        last: The state that was seen last, ``None`` before the first look.
        gone: The error, once the server does not know the task any more.
    """

    def __init__(self, asked: Asked, last: Optional[TaskState] = None) -> None:
        self.asked = asked
        self.last = last
        self.gone: Optional[TaskGone] = None

    @property
    def final(self) -> Optional[TaskState]:
        """The last state of all, ``None`` before the end."""
        last = self.last
        return last if last is not None and last.has_ended else None

    def learn(self, state: TaskState) -> None:
        """Note a state; after the end nothing changes any more."""
        if self.final is None:
            self.last = state

    def check_gone(self) -> None:
        """Raise `TaskGone` if the server does not know the task any more."""
        if self.gone is not None:
            raise another(self.gone)
