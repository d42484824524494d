"""Ends what waits for too long, without a thread of its own that waits."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Any, Callable, Optional

from .bell import Bell
from .deadline import Deadline
from .threads import spawn


class Expiry:
    """A table of what waits, and until when; one thread looks after all, while there is something.

    Args:
        owner: The client's name, for the name of the thread.
        expire: Called with each entry whose time is up, on that thread. Must neither block nor raise.
    """

    def __init__(self, owner: str, expire: Callable[[Any], None]) -> None:
        self._owner = owner
        self._expire = expire
        self._reset()

    def _reset(self) -> None:
        self._due: dict[Any, float] = {}
        self._thread: Optional[threading.Thread] = None
        self._bell = Bell()
        self._has_changed = False
        # Guards `_due` and `_thread`. Re-entrant: a signal handler may close the client.
        self._lock = threading.RLock()

    def after_fork_in_child(self) -> None:
        """Forget everything: it belongs to the parent."""
        self._reset()

    @property
    def threads(self) -> list[threading.Thread]:
        """The thread, if there is one now."""
        thread = self._thread
        return [] if thread is None else [thread]

    def add(self, entry: Any, seconds: float) -> None:
        """Have an entry expire; without effect where no thread can be started."""
        with self._lock, suppress(RuntimeError):
            self._due[entry] = time.monotonic() + seconds
            if self._thread is None:
                self._thread = spawn(self._owner, "submit-clock", self._run)
        self._ring()

    def discard(self, entry: Any) -> None:
        """Note that an entry need not expire any more."""
        with self._lock:
            if self._due.pop(entry, None) is None:
                return
        self._ring()

    def clear(self) -> None:
        """Forget all entries, and end the thread."""
        with self._lock:
            self._due.clear()
        self._ring()

    def _ring(self) -> None:
        self._has_changed = True
        self._bell.ring()

    def _run(self) -> None:
        while True:
            self._has_changed = False
            now = time.monotonic()
            with self._lock:
                if not self._due:
                    self._thread = None
                    return
                late = [entry for entry, due in self._due.items() if due <= now]
                for entry in late:
                    del self._due[entry]
                wait = min(self._due.values(), default=now) - now
            for entry in late:
                self._expire(entry)
            late.clear()
            self._bell.wait(lambda: self._has_changed, Deadline(wait))
