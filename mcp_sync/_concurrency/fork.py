"""What happens to live objects in a forked child."""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

logger = logging.getLogger("mcp_sync.threads")


class ForkAware(Protocol):
    """Something that holds threads, sockets or pipes."""

    def after_fork_in_child(self) -> None:
        """Drop what was inherited, without a byte to the peer. Must not take an inherited lock."""


# How long a fork waits for what other threads have begun, in seconds, and how often it looks.
_PATIENCE = 5.0
_LOOK = 0.001

# The threads that must not be missing in a child right now, and those that are about to fork. Single
# operations only, so they need no lock.
_busy: list[int] = []
_forking: list[int] = []

_objects: weakref.WeakSet[ForkAware] = weakref.WeakSet()


def watch(item: ForkAware) -> None:
    """Have ``item.after_fork_in_child()`` called in every forked child while ``item`` lives."""
    _objects.add(item)


@contextmanager
def no_fork() -> Iterator[None]:
    """Have forks by other threads wait, a few seconds at most, until the block has ended.

    For what takes a lock that is not ours, which would stay locked in a child where the thread that holds it
    does not exist: the import of a module, the building of a model, the use of a library. Where a fork waits
    already, the block begins after it.
    """
    thread = threading.get_ident()
    waits = thread not in _busy
    until = time.monotonic() + _PATIENCE
    while True:
        # In this order, as a fork does the reverse: so one of the two sees the other.
        _busy.append(thread)
        try:
            if not waits or not _others(_forking) or time.monotonic() > until:
                yield
                return
        finally:
            _busy.remove(thread)
        time.sleep(_LOOK)


def _others(threads: list[int]) -> bool:
    return any(thread != threading.get_ident() for thread in list(threads))


def _before_fork() -> None:
    _forking.append(threading.get_ident())
    until = time.monotonic() + _PATIENCE
    # Its own work the forking thread goes on with after the fork, in the child too.
    while _others(_busy) and time.monotonic() < until:
        time.sleep(_LOOK)


def _after_fork_in_parent() -> None:
    _forking.remove(threading.get_ident())


def _after_fork_in_child() -> None:
    _busy[:] = [thread for thread in _busy if thread == threading.get_ident()]
    _forking.clear()
    for item in list(_objects):
        try:
            item.after_fork_in_child()
        except Exception:
            # The others hold sockets and pipes of the parent too.
            logger.exception("%r could not be renewed in the forked child", item)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child
    )
