"""Threads beyond a bound, for jobs that one of the others may wait for."""

from __future__ import annotations


class Loans:
    """Who has queued jobs that are not done, and may wait for them. Whoever uses it guards it.

    While somebody may wait, one more thread may run: so there is always one that waits for nothing, however
    deep jobs queue others, and no more than there would be without those that wait.
    """

    def __init__(self) -> None:
        self._open: dict[object, int] = {}

    def __len__(self) -> int:
        return len(self._open)

    def take(self, who: object) -> None:
        """Note that somebody has queued a job."""
        self._open[who] = self._open.get(who, 0) + 1

    def repay(self, who: object) -> None:
        """Note that such a job is done."""
        left = self._open.get(who, 0) - 1
        if left > 0:
            self._open[who] = left
        else:
            self._open.pop(who, None)

    def forget(self, who: object) -> None:
        """Note that somebody does not wait any more, whatever is done."""
        self._open.pop(who, None)
