"""What was found out about servers, so that the next connection need not find it out again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

from .._concurrency import fork


class KnownServers:
    """Which servers were found to need what only older ones need, for the life of the process."""

    def __init__(self, size: int = 1000) -> None:
        self._known: OrderedDict[Hashable, bool] = OrderedDict()
        self._size = size
        # Guards the table.
        self._lock = threading.RLock()
        fork.watch(self)

    def __contains__(self, identity: Hashable) -> bool:
        with self._lock:
            return identity in self._known

    def note(self, identity: Hashable, needs_it: bool) -> None:
        """Remember, or forget, a server."""
        with self._lock:
            self._known.pop(identity, None)
            if needs_it:
                self._known[identity] = True
                if len(self._known) > self._size:
                    self._known.popitem(last=False)

    def after_fork_in_child(self) -> None:
        """Replace a lock that another thread may have held."""
        self._lock = threading.RLock()


# The handshake, and HTTP with SSE.
legacy = KnownServers()
older_transport = KnownServers()


def forget(identity: Hashable) -> None:
    """Find everything out anew, the next time."""
    legacy.note(identity, False)
    older_transport.note(identity, False)
