"""What the end of a process waits for: work whose outcome nobody else has.

An interpreter that ends in good order waits by `atexit`. A worker of `multiprocessing` that was forked ends
by ``os._exit``, which runs no such thing, but it runs the finalizers of `multiprocessing.util` before, and
one of Celery sends a signal. Who calls ``os._exit`` alone gives away what is under way: the next process may
have to log in.
"""

from __future__ import annotations

import atexit
import sys
from contextlib import suppress
from typing import Any

from .._concurrency import fork
from .._concurrency.deadline import Deadline
from .._concurrency.locks import Latch

_EXIT_SECONDS = 5.0  # that the end of a process waits for what is under way


class UnderWay:
    """The work of this process that has begun and not ended. Safe for any number of threads."""

    def __init__(self) -> None:
        self._renew()
        fork.watch(self)

    def _renew(self) -> None:
        # What opens when a work is over. Single operations only, so it needs no lock.
        self._latches: list[Latch] = []
        self._is_worker_known = False

    def after_fork_in_child(self) -> None:
        """Forget the work of the parent: it goes on there, and only there."""
        self._renew()

    def begins(self, latch: Latch) -> None:
        """Have the end of the process wait for a work, until its latch opens."""
        if not self._is_worker_known:
            self._is_worker_known = True
            _wait_in_worker(self.wait)
        self._latches.append(latch)

    def ends(self, latch: Latch) -> None:
        """Have the end of the process wait for it no more."""
        with suppress(ValueError):
            self._latches.remove(latch)

    def wait(self) -> None:
        """Wait for all that is under way, and for what it leads to: five seconds at most."""
        deadline = Deadline(_EXIT_SECONDS)
        with suppress(KeyboardInterrupt):
            # A copy, as others end meanwhile.
            while (latches := list(self._latches)) and not deadline.expired:
                if latches[0].wait(deadline):
                    self.ends(latches[0])


def _wait_in_worker(wait: Any) -> None:
    """Have a worker of `multiprocessing`, or of Celery, wait at its end, if this process is one."""
    # Whoever is one has loaded both.
    process, util = (sys.modules.get(f"multiprocessing.{name}") for name in ("process", "util"))
    if process is not None and util is not None and process.parent_process() is not None:
        util.Finalize(None, wait, exitpriority=0)
    # The workers of a prefork pool run no finalizers, but say that they end.
    signals = sys.modules.get("celery.signals")
    if signals is not None:
        signals.worker_process_shutdown.connect(_at_signal, weak=False)


def _at_signal(**about: Any) -> None:
    under_way.wait()


under_way = UnderWay()
"""The work of this process."""

atexit.register(under_way.wait)
