"""The clients of users, kept from one request to the next: on older revisions each of them has a session."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, Callable

from ..._concurrency import fork
from .._one_look import look_again

_MOST = 256


class UserClients:
    """What `Client.for_principal` returned for the users who came last. Safe for any number of threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, tuple[Any, Any, Any]] = OrderedDict()
        # Guards `_kept`; nothing is made, opened or closed under it.
        self._lock = threading.Lock()
        fork.watch(self)

    def get(self, key: Hashable, client: Any, principal: str, make_auth: Callable[[], Any]) -> Any:
        """Return the client of a user. Its next call sees what the store holds by then.

        Args:
            key: What tells it from all others.
            client: The client that all users share; a new one has new users.
            principal: The user.
            make_auth: Makes the authorization of the user, or ``None``.
        """
        with self._lock:
            kept = self._kept.pop(key, None)
            if kept is not None and kept[0] is client:
                self._kept[key] = kept
        if kept is None or kept[0] is not client:
            auth = make_auth()
            kept = (client, client.for_principal(principal, auth=auth), auth)
            with self._lock:
                self._kept[key] = kept
                # Who uses it goes on; then it ends its session by itself.
                dropped = self._kept.popitem(last=False) if len(self._kept) > _MOST else None
            del dropped
        _, found, auth = kept
        if auth is not None:
            look_again(auth)
        return found

    def after_fork_in_child(self) -> None:
        """Replace a lock that another thread may have held. The clients look after themselves."""
        self._lock = threading.Lock()
