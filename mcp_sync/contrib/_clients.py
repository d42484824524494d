"""The clients of users, kept from one request to the next: on older revisions each of them has a session."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable

from .._concurrency import fork
from ..auth._hook import TokenAuth
from ._one_look import look_again, note_account

if TYPE_CHECKING:
    from ._kept_view import KeptView

_MOST = 256

# What tells a client from all others: first the alias of its server, then its user.
UserKey = tuple[str, ...]


class UserClients:
    """What `Client.for_principal` returned for the users who came last. Safe for any number of threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[UserKey, tuple[Any, KeptView, Any]] = OrderedDict()
        # Guards `_kept`; nothing is made, opened or closed under it.
        self._lock = threading.Lock()
        fork.watch(self)

    def get(self, key: UserKey, client: Any, credentials: Callable[[], Mapping[str, Any]]) -> KeptView:
        """Return the client of a user. Its next call sees what the store holds by then.

        Args:
            key: What tells it from all others.
            client: The client that all users share; a new one has new users.
            credentials: Makes the arguments of `Client.for_principal` beside the user.
        """
        with self._lock:
            kept = self._kept.pop(key, None)
            if kept is not None and (kept[0] is not client or kept[1].closed):
                kept = None
            if kept is not None:
                self._kept[key] = kept
        if kept is not None and isinstance(kept[2], TokenAuth) and look_again(kept[2]):
            # Their session belongs to who they were before.
            self._forget(key, kept)
            kept = None
        if kept is None:
            kept = _made(client, key[1], credentials())
            with self._lock:
                # Another thread may have been faster: one client, one session.
                there = self._kept.get(key)
                if there is not None and there[0] is client and not there[1].closed:
                    kept = there
                self._kept[key] = kept
                # Who uses it goes on; then it ends its session by itself.
                dropped = self._kept.popitem(last=False) if len(self._kept) > _MOST else None
            del dropped
        return kept[1]

    def _forget(self, key: UserKey, kept: Any) -> None:
        with self._lock:
            if self._kept.get(key) is kept:
                del self._kept[key]

    def forget(self, *begins: str) -> None:
        """Have a user begin anew at a server: they have connected, perhaps as somebody else, or have left.

        Args:
            begins: What the keys begin with: the alias of the server, then the user, if it is not for all.
        """
        with self._lock:
            dropped = [self._kept.pop(key) for key in list(self._kept) if key[: len(begins)] == begins]
        del dropped

    def after_fork_in_child(self) -> None:
        """Replace a lock that another thread may have held. The clients look after themselves."""
        self._lock = threading.Lock()


def _made(client: Any, principal: str, credentials: Mapping[str, Any]) -> tuple[Any, KeptView, Any]:
    with fork.no_fork():
        from ._kept_view import KeptView
    auth, plan = credentials.get("auth"), client._engine.plan
    if plan.cache is not None and isinstance(auth, TokenAuth):
        note_account(auth, plan.target.url)
    view = client.for_principal(principal, **credentials)
    view.__class__ = KeptView
    return client, view, auth
