"""Views of a client for one of its users each: what ``client.for_principal`` returns."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional

from ._concurrency import fork
from ._concurrency.deadline import Deadline
from ._engine.call_options import NO_OPTIONS
from ._engine.tools import ToolIndex
from ._engine.views import Common, view_engine
from ._protocol import methods
from .client import Client
from .errors import ClientClosed, UsageError
from .options import UNSET
from .transports._http.target import HTTPTarget, with_credentials

if TYPE_CHECKING:
    from .client import Client as AnyClient


class PrincipalView(Client):
    """A client for one user, on the connections of another client. See `Client.for_principal`.

    Attributes:
        principal: Whose it is.
    """

    def __init__(self, client: AnyClient, principal: str, target: Any, common: Common) -> None:
        # Not that of `Client`: nothing is to be checked again, and nothing made that the client has.
        self.principal = principal
        self.name = client.name
        self._client = client
        self._timeout = client._timeout
        self._timeouts = client._timeouts
        self._limits = client._limits
        self._validation = client._validation
        self._tools = ToolIndex()
        self._subscriptions = []
        self._jobs = {}
        self._principals = None
        self._engine = view_engine(client._engine, weakref.ref(self), principal, target, common)

    def for_principal(
        self, key: str, auth: Any = None, headers: Optional[Mapping[str, str]] = None
    ) -> PrincipalView:
        """Return a view of the same client for another user. See `Client.for_principal`."""
        return self._client.for_principal(key, auth, headers)

    @property
    def instructions(self) -> Optional[str]:
        """The server's instructions for a model that uses it."""
        era = self._connected().era
        if era.handshake or "instructions" in era.server or not era.server:
            return super().instructions
        # Those that somebody else got are not passed on: they may be for him alone.
        found = self._engine.call_raw(methods.DISCOVER, {}, NO_OPTIONS, self._deadline(UNSET))
        text = found.get("instructions")
        return text if isinstance(text, str) else None


class Principals:
    """The views of one client.

    Args:
        client: The client.
    """

    def __init__(self, client: AnyClient) -> None:
        self.common = Common(client._engine)
        self._views: weakref.WeakSet[PrincipalView] = weakref.WeakSet()
        # Guards `_views`. Re-entrant: a signal handler may close the client.
        self._lock = threading.RLock()
        fork.watch(self)

    def add(self, client: AnyClient, key: str, target: Any) -> PrincipalView:
        """Make a view.

        Raises:
            ClientClosed: The client is closed.
        """
        view = PrincipalView(client, key, target, self.common)
        if client._pins is not None:
            client._pins.another(view)
        with self._lock:
            self._views.add(view)
        if client.closed:
            view.close(0)
            raise ClientClosed("the client is closed")
        return view

    def close(self, deadline: Deadline) -> None:
        """Close all views."""
        with self._lock:
            views = list(self._views)
        # First all calls, then what takes time: the sessions of older revisions.
        for view in views:
            view._engine.end()
        for view in views:
            view._engine.close(deadline)
        self.common.close(deadline)

    def after_fork_in_child(self) -> None:
        """Replace a lock that another thread may have held."""
        self._lock = threading.RLock()


def view_for(client: AnyClient, key: str, auth: Any, headers: Optional[Mapping[str, str]]) -> PrincipalView:
    """Do what ``client.for_principal`` documents."""
    if not isinstance(key, str) or not key:
        raise UsageError("for_principal needs a name for the user: a string that is not empty")
    if client.closed:
        raise ClientClosed("the client is closed")
    target = _target_for(client._engine.plan.target, auth, headers)
    engine = client._engine
    with engine._lock:
        if client._principals is None:
            client._principals = Principals(client)
        principals = client._principals
    return principals.add(client, key, target)


def _target_for(target: Any, auth: Any, headers: Optional[Mapping[str, str]]) -> Any:
    """Return the server with the credentials of a user; ``None`` if the connection of the client will do."""
    is_http = isinstance(target, HTTPTarget)
    takes_credentials = is_http or (hasattr(target, "auth") and hasattr(target, "headers"))
    if not takes_credentials:
        if auth is not None or headers is not None:
            raise UsageError(f"auth and headers belong to a URL, and mean nothing to {target!r}")
        return None
    if not is_http and auth is None and headers is None:
        return None
    if getattr(target, "session", None) is not None:
        raise UsageError(
            "for_principal cannot use a requests.Session of yours: its cookies and its auth would be those "
            "of all users; leave out session= and set verify, cert and proxies instead"
        )
    if auth is not None and auth is target.auth and hasattr(auth, "principal"):
        raise UsageError(
            "this auth is that of the client, with its grants: pass auth.for_principal(key), which has others"
        )
    return with_credentials(target, auth, headers)
