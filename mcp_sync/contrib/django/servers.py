"""``mcp``: the servers of the settings by alias, and views of them for users."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Optional

from django.urls import NoReverseMatch, reverse
from django.utils.module_loading import import_string
from django.views.decorators.debug import sensitive_variables

from ... import types
from ..._concurrency import fork
from ..._concurrency.deadline import Deadline
from ...auth import OAuth
from ...auth._errand import Errand
from ...auth._login import Login
from ...client import Client
from ...errors import AuthorizationRequired
from ...principals import PrincipalView
from ...registry import Registry
from .._clients import UserClients
from .._entries import Entry
from .._kept_view import KeptView
from .._one_look import look_once
from . import _connections, conf, signals

SERVICE = "service"  # the principal of what all users share
ANONYMOUS = "anonymous"
_USER = "user:"

# The views that were made for the request of this context, by alias and principal; `None` outside of one.
views: ContextVar[Optional[dict[tuple[str, str], Any]]] = ContextVar("mcp_sync_views", default=None)


class ConnectionRequired(AuthorizationRequired):
    """The user has to connect this application to a server first.

    Attributes:
        url: The path of the page where they can; empty if the urls of this application are not included.
        alias: The server.
        scopes: What to ask for.
    """

    def __init__(self, message: str, *, url: str = "", alias: str = "", scopes: tuple[str, ...] = ()) -> None:
        super().__init__(message, url=url)
        self.alias = alias
        self.scopes = scopes


class WebOAuth(OAuth):
    """OAuth of a server of the settings: where somebody has to log in, it says at which page.

    A web worker waits for nobody, so no browser is opened.
    """

    alias = ""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        look_once(self)

    def _log_in(self, login: Login) -> Any:
        """See `TokenAuth._log_in`."""
        scopes = tuple((login.scope_for(self.scopes) or "").split())
        raise connection_required(self.alias, scopes)


def connection_required(alias: str, scopes: tuple[str, ...] = ()) -> ConnectionRequired:
    """Return the error that says that the user has to connect."""
    return ConnectionRequired(
        f"the user has to connect to the server {alias!r} first",
        url=path_of("connect", alias),
        alias=alias,
        scopes=scopes,
    )


def path_of(name: str, *args: Any) -> str:
    """Return the path of a view of this application, empty if its urls are not included."""
    try:
        return str(reverse(f"mcp_sync:{name}", args=args))
    except NoReverseMatch:
        return ""


def principal_of(user: Any) -> str:
    """Return the name under which a user's tokens, answers and paused calls are kept."""
    if user is None or not getattr(user, "is_authenticated", False):
        return ANONYMOUS
    return f"{_USER}{user.pk}"


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

    def for_request(self, request: Any) -> PrincipalView:
        """Return the client of the user of a request; see `for_user`."""
        return self.for_user(request.user)

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
        kept = views.get()
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


class Servers:
    """The servers of ``MCP_SYNC`` by alias: ``mcp``. Nothing is read before the first look-up.

    ``mcp["alias"]`` is a `Server`. Threads share its client; a forked worker opens its own connections; at
    the end of the process all are closed.
    """

    def __init__(self) -> None:
        self._entries: Optional[dict[str, Entry]] = None
        self._registry: Optional[Registry] = None
        self._oauths: dict[str, WebOAuth] = {}
        self.users = UserClients()
        self._overridden: tuple[frozenset[str], ...] = ()
        self._renew()
        fork.watch(self)

    def _renew(self) -> None:
        # Guards the making of `_registry` and the replacement of `_overridden`, without I/O.
        self._lock = threading.Lock()

    def after_fork_in_child(self) -> None:
        """Replace a lock that another thread may have held."""
        self._renew()

    def __repr__(self) -> str:
        return "<the servers of MCP_SYNC>"

    @property
    def registry(self) -> Registry:
        """The registry underneath."""
        found = self._registry
        if found is None:
            made = Registry(self._configs, **self._options())
            with self._lock:
                found = self._registry = self._registry or made
        return found

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {"timeout": conf.get("DEFAULT_DEADLINE"), **conf.get("OPTIONS")}
        if conf.get("RESPONSE_CACHE"):
            from .cache import cache_options

            options.setdefault("cache", cache_options(conf.get("RESPONSE_CACHE")))
        return options

    def entries(self) -> Mapping[str, Entry]:
        """Return what the settings say of each server.

        Raises:
            ConfigError, ImproperlyConfigured: They cannot be read.
        """
        found = self._entries
        if found is None:
            found = self._entries = conf.entries()
        return found

    def _configs(self) -> dict[str, Any]:
        return {alias: entry.server for alias, entry in self.entries().items()}

    def __getitem__(self, alias: str) -> Server:
        """Return a server.

        Raises:
            ConfigError: There is no such alias: the known ones are listed. Or it cannot be used.
        """
        return self._server(alias, self.registry[alias])

    def _server(self, alias: str, client: Client) -> Server:
        is_fake = any(alias in names for names in self._overridden)
        return Server(alias, client, None if is_fake else self.entries().get(alias), self)

    @contextmanager
    def another(self, alias: str, **options: Any) -> Iterator[Server]:
        """Have a server with one more client while the block runs, for a command. See `Registry.another`."""
        with self.registry.another(alias, **options) as client:
            yield self._server(alias, client)

    def __contains__(self, alias: object) -> bool:
        return alias in self.registry

    def __iter__(self) -> Iterator[str]:
        return iter(self.registry)

    def __len__(self) -> int:
        return len(self.registry)

    def oauth(self, alias: str, entry: Entry) -> Optional[WebOAuth]:
        """Return the OAuth of a server, ``None`` if it has none."""
        if entry.auth is None:
            return None
        found = self._oauths.get(alias)
        return found if found is not None else self._oauths.setdefault(alias, make_oauth(alias, entry))

    @contextmanager
    def override(self, servers: Mapping[str, Any]) -> Iterator[Servers]:
        """Replace servers while the block runs: for tests. See `Registry.override`."""
        names = frozenset(servers)
        registry = self.registry
        with registry.override(servers):
            try:
                with self._lock:
                    self._overridden = (names, *self._overridden)
                yield self
            finally:
                with self._lock:
                    left = list(self._overridden)
                    left.remove(names)
                    self._overridden = tuple(left)

    def setting_changed(self, *, setting: str, **_: Any) -> None:
        """Read the settings anew after a change, as ``override_settings`` makes one."""
        if setting in ("MCP_SYNC", "SECRET_KEY", "SECRET_KEY_FALLBACKS", "CACHES"):
            self.reset()

    def reset(self) -> None:
        """Close all clients, and read the settings anew at the next look-up."""
        with self._lock:
            old, self._registry = self._registry, None
        self._entries, self._oauths, self.users = None, {}, UserClients()
        if old is not None:
            old.close()


def make_oauth(alias: str, entry: Entry) -> WebOAuth:
    """Return the OAuth that the settings of a server describe.

    Raises:
        ConfigError, UsageError: It cannot be so.
    """
    options = entry.oauth_options()
    options.setdefault("client_name", conf.get("CLIENT_NAME"))
    if conf.get("CLIENT_METADATA") and conf.get("BASE_URL") and "client_id" not in options:
        options.setdefault("client_metadata_url", conf.get("BASE_URL").rstrip("/") + path_of("metadata"))
    oauth = WebOAuth(store=token_store(alias), **options)
    oauth.alias = alias
    return oauth


def token_store(alias: str) -> Any:
    """Return the token store of a server: ``TOKEN_STORE``, called with its alias.

    Raises:
        ImportError: There is no such class.
    """
    return import_string(conf.get("TOKEN_STORE"))(alias)


mcp = Servers()
