"""The resources that a session is subscribed to, where there are sessions."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator

_ITSELF = "the client"


class Subscribed:
    """URIs, and on whose behalf each is subscribed to. Safe for any number of threads."""

    def __init__(self) -> None:
        self._owners: dict[str, set[Hashable]] = {}
        # Guards `_owners`. Re-entrant: a signal handler may subscribe.
        self._lock = threading.RLock()

    def __iter__(self) -> Iterator[str]:
        with self._lock:
            return iter(list(self._owners))

    def __contains__(self, uri: str) -> bool:
        return uri in self._owners

    def add(self, uri: str, owner: Hashable = _ITSELF) -> None:
        """Note that an owner, by default the client itself, wants to hear of a resource."""
        with self._lock:
            self._owners.setdefault(uri, set()).add(owner)

    def discard(self, uri: str, owner: Hashable = _ITSELF) -> bool:
        """Note that an owner does not want to hear of it any more; return whether nobody does."""
        with self._lock:
            owners = self._owners.get(uri, set())
            owners.discard(owner)
            if not owners:
                self._owners.pop(uri, None)
            return not owners

    def after_fork_in_child(self) -> None:
        """Keep what the client itself subscribed to; all other owners are threads of the parent."""
        self._lock = threading.RLock()
        self._owners = {uri: {_ITSELF} for uri, owners in list(self._owners.items()) if _ITSELF in owners}
