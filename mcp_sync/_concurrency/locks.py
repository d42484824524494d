"""Locks and latches that signal handlers can neither leave locked nor get stuck in.

A handler may raise between any two steps of the main thread: after a lock was taken, say, and before the
block began that would release it. It may also call the very code that it interrupts.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any, Callable, Optional

from .deadline import Deadline

# On Windows a lock's wait cannot be interrupted by Ctrl-C. Elsewhere a signal that comes just before the
# thread falls asleep is not noticed before it wakes.
_SLICE = 0.1 if os.name == "nt" else 1.0


# For `lock.acquire`: not to wait.
AT_ONCE = (False,)


def patience(left: Optional[float]) -> float:
    """Return how long to wait in one go when ``left`` seconds remain."""
    return _SLICE if left is None else min(left, _SLICE)


def take(lock: Any, seconds: float, got: list[bool]) -> bool:
    """Take a lock, and note in one step whether it was got; 0 seconds for no wait.

    ::

        got: list[bool] = []
        try:
            if take(lock, 1.0, got):
                ...
        finally:
            if got and got[0]:
                lock.release()

    Where each instruction counts, ``got.extend(map(lock.acquire, AT_ONCE))`` is the same without a wait.

    Before Python 3.11 a handler may still raise in front of the release; so nobody waits without a bound.
    """
    got.extend(map(lock.acquire, (seconds > 0,), (seconds if seconds > 0 else -1,)))
    return got[0]


def is_running(method: Callable[..., Any], owner: object, thread: Optional[int] = None) -> bool:
    """Look whether a thread, this one by default, is in the midst of a method of this very object.

    Only the stack tells for sure: a mark would stay where a handler raises before it is taken away.
    """
    frame = sys._getframe(1) if thread is None else sys._current_frames().get(thread)
    while frame is not None:
        if frame.f_code is method.__code__ and frame.f_locals.get("self") is owner:
            return True
        frame = frame.f_back
    return False


def is_mine(lock: Any) -> bool:
    """Look whether this thread holds a re-entrant lock: then a signal handler asks, or a finaliser."""
    mine: bool = lock._is_owned()  # As `threading.Condition` asks.
    return mine


class Latch:
    """Opens once and stays open. Unlike `threading.Event` it runs no Python code under a lock of its own."""

    def __init__(self) -> None:
        # The first entry opens. Appending is a single step.
        self._opened: list[object] = []
        self._lock = threading.Lock()
        self._lock.acquire()

    @property
    def is_open(self) -> bool:
        """Whether it was opened."""
        return bool(self._opened)

    def open(self) -> None:
        """Let everybody pass. From any thread, more than once."""
        mark = object()
        try:
            self._opened.append(mark)
        finally:
            if self._opened and self._opened[0] is mark:
                self._lock.release()

    def wait(self, deadline: Deadline) -> bool:
        """Wait, so that Ctrl-C gets through; return whether it is open by the deadline."""
        while not self._opened:
            left = deadline.remaining()
            if left == 0.0:
                return self.is_open
            got: list[bool] = []
            try:
                take(self._lock, patience(left), got)
            finally:
                if got and got[0]:
                    self._lock.release()
        return True
