"""``mcp["alias"]``: one server of the settings, and views of it for users."""

from __future__ import annotations

import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Optional

from django.views.decorators.debug import sensitive_variables

from ... import types
from ..._concurrency.deadline import Deadline
from ...auth._errand import Errand
from ...client import Client
from ...principals import PrincipalView
from .._entries import Entry
from .._kept_view import KeptView
from . import _connections, conf, signals
from .authorization import SERVICE, WebOAuth, connection_required, principal_of

if TYPE_CHECKING:
    from .servers import Servers

# The views that were made for the request of this context, by alias and principal; `None` outside of one.
request_views: ContextVar[Optional[dict[tuple[str, str], Any]]] = ContextVar("mcp_sync_views", default=None)


class Server:
    """One server of the settings: ``mcp["alias"]``. Cheap; keep none.

    Without a user, methods of `Client` act for the application itself: ``mcp["reports"].call_tool(...)``.

    Attributes:
        alias: Its name.
        client: The client of this process, which all threads share.
    """

    def __init__(self, alias: str, client: Client, entry: Optional[Entry], servers: Servers) -> None:
        self.alias = alias
        self.client = client
        self._entry = entry
        self._servers = servers

    def __repr__(self) -> str:
        return f"<Server {self.alias!r}>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if self._is_shared and self._oauth() is not None:
            return getattr(self.for_principal(SERVICE), name)
        return getattr(self.client, name)

    def for_user(self, user: Any) -> PrincipalView:
        """Return a client with the credentials of a user, who shares nothing with others.

        It is kept for the next requests of the user, who has one session at a server of an older revision.

        Args:
            user: A user of Django, ``request.user``.

        Raises:
            ConnectionRequired: Nobody is logged in, and the server has a grant for each user.
        """
        if self.needs_user and not getattr(user, "is_authenticated", False):
            raise connection_required(self.alias)
        return self._view(principal_of(user), user)

    def for_principal(self, key: str) -> PrincipalView:
        """Return a client for somebody who is no user of Django, under a name of yours."""
        return self._view(key, None)

    def make_ready(self, user: Any) -> None:
        """Have the token of a user refreshed now, if it is about to expire, rather than by the first call.

        The middleware does so for views with `mcp_login_required`, before their transaction begins.

        Raises:
            AuthError: It cannot be refreshed.
        """
        auth = self._auth_of(user)
        if auth is not None:
            auth._access_of(self.url).ready(Errand(deadline=Deadline(conf.get("DEFAULT_DEADLINE"))))

    def renew(self, user: Any) -> bool:
        """Have the token of a user replaced by another one, and return whether there is one.

        Raises:
            AuthError: Not just now.
        """
        auth = self._auth_of(user)
        if auth is None:
            return False
        errand = Errand(deadline=Deadline(conf.get("DEFAULT_DEADLINE")))
        access = auth._access_of(self.url)
        current = access.at_hand(errand)
        return current is not None and access.renew(errand, current.token) is not None

    def is_connected(self, user: Any) -> bool:
        """Whether a user has a grant, or needs none. Asks nobody.

        Raises:
            AuthError: The token store cannot be read.
        """
        if self.needs_user and not getattr(user, "is_authenticated", False):
            return False
        auth = self._auth_of(user)
        if auth is None:
            return True
        # What the view finds that is used next, so that the store is read once.
        errand = Errand()
        with errand.here():
            current = auth._access_of(self.url)._looked_after()
        return current is not None and (current.is_valid or current.grant.refresh_token is not None)

    def _auth_of(self, user: Any) -> Optional[WebOAuth]:
        auth = getattr(self.for_user(user)._engine.plan.target, "auth", None)
        return auth if isinstance(auth, WebOAuth) else None

    @property
    def needs_user(self) -> bool:
        """Whether each user has to connect."""
        return self._oauth() is not None and not self._is_shared

    def oauth_for(self, user: Any) -> Optional[WebOAuth]:
        """Return the authorization that a view for a user has, ``None`` if the server has no OAuth."""
        oauth = self._oauth()
        key = SERVICE if self._is_shared else principal_of(user)
        return None if oauth is None else oauth.for_principal(key)

    def forget_client(self, user: Any) -> None:
        """Have a user begin anew here: they have connected, perhaps as somebody else, or have left."""
        who = () if self._is_shared else (principal_of(user),)
        self._servers.users.forget(self.alias, *who)

    @property
    def url(self) -> str:
        """Where it is, empty for a command."""
        return str(getattr(self._target, "url", ""))

    @property
    def _target(self) -> Any:
        return self.client._engine.plan.target

    @property
    def _is_shared(self) -> bool:
        return self._entry is None or not self._entry.per_user

    def _oauth(self) -> Optional[WebOAuth]:
        takes = hasattr(self._target, "auth")
        return self._servers.oauth(self.alias, self._entry) if self._entry is not None and takes else None

    def _view(self, key: str, user: Any) -> PrincipalView:
        # A client that opens asks for the token on a thread of its own, with the context of this one.
        _connections.look()
        kept = request_views.get()
        view = None if kept is None else kept.get((self.alias, key))
        if view is None or view.closed or view._client is not self.client:
            view = self._servers.users.get((self.alias, key), self.client, lambda: self._credentials(key))
            if kept is not None:
                kept[self.alias, key] = view
        if signals.tool_called.receivers:
            view.__class__ = _Told
            view.__dict__.update(_alias=self.alias, _user=user)
        return view

    @sensitive_variables()
    def _credentials(self, key: str) -> dict[str, Any]:
        target = self._target
        if not hasattr(target, "auth"):
            return {}
        oauth = self._oauth()
        if oauth is not None:
            return {"auth": oauth.for_principal(SERVICE if self._is_shared else key)}
        # What the settings name is for all users. A view takes nothing from the client by itself.
        shared = target.auth
        if hasattr(shared, "for_principal"):
            shared = shared.for_principal(SERVICE)
        return {"auth": shared, "headers": target.headers}


class _Told(KeptView):
    """One that tells receivers of its calls of tools."""

    _alias: str
    _user: Any

    def _call_tool(self, params: dict[str, Any], options: Any, deadline: Any) -> types.CallToolResult:
        begun, ok = time.monotonic(), False
        try:
            result = super()._call_tool(params, options, deadline)
            ok = not result.is_error
            return result
        finally:
            values = {"alias": self._alias, "tool": params["name"], "user": self._user, "ok": ok}
            signals.send(signals.tool_called, Server, seconds=time.monotonic() - begun, **values)
