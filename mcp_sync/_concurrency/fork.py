"""What happens to live objects in a forked child."""

from __future__ import annotations

import logging
import os
import weakref
from typing import Protocol

logger = logging.getLogger("mcp_sync.threads")


class ForkAware(Protocol):
    """Something that holds threads, sockets or pipes."""

    def after_fork_in_child(self) -> None:
        """Drop what was inherited, without a byte to the peer. Must not take an inherited lock."""


_objects: weakref.WeakSet[ForkAware] = weakref.WeakSet()


def watch(item: ForkAware) -> None:
    """Have ``item.after_fork_in_child()`` called in every forked child while ``item`` lives."""
    _objects.add(item)


def _after_fork_in_child() -> None:
    for item in list(_objects):
        try:
            item.after_fork_in_child()
        except Exception:
            # The others hold sockets and pipes of the parent too.
            logger.exception("%r could not be renewed in the forked child", item)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
