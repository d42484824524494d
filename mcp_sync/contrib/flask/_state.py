"""What one application has: its servers, their clients, its store. In ``app.extensions["mcp_sync"]``."""

from __future__ import annotations

import logging
import secrets
from collections import Counter
from typing import TYPE_CHECKING, Any, Optional

from flask import current_app, has_request_context, session, url_for
from werkzeug.exceptions import Unauthorized
from werkzeug.routing import BuildError

from ...auth import OAuth
from ...config import ConfigError
from ...errors import UsageError
from ...registry import Registry
from .._clients import UserClients
from .._entries import Entry, read_entries
from .._one_look import look_once
from .._sealing import Sealer
from ._settings import Settings
from ._stores import choose_store

if TYPE_CHECKING:
    from ._extension import MCP

logger = logging.getLogger("mcp_sync.flask")

EXTENSION = "mcp_sync"
_VISITOR = "mcp_sync_visitor"
_MOST_OAUTHS = 64
_NAME_THE_USER = "outside of requests, name the user: mcp[alias].for_user(key), or --user"


class LoginRequired(Unauthorized):
    """Nobody is logged in to this application, and the server is for its users."""

    description = "Log in first: this page is for users."


class AppState:
    """See the module. Safe for any number of threads: what is made twice is kept once, in one step.

    Args:
        config: ``app.config``.
        mcp: The extension, which has the hooks.

    Attributes:
        settings: Its settings.
        faked: How often each alias stands for a fake at present.
        users: The clients of its users.
    """

    def __init__(self, config: Any, mcp: MCP) -> None:
        self.settings = Settings(config)
        self.mcp = mcp
        self.faked: Counter[str] = Counter()
        self._made: dict[str, Any] = {}
        self._oauths: dict[tuple[str, str], OAuth] = {}
        self.users = UserClients()

    @property
    def registry(self) -> Registry:
        """The clients by alias."""
        found = self._made.get("registry")
        if found is None:
            options = {"timeout": self.settings.seconds("DEADLINE"), **self.settings.get("OPTIONS")}
            made = Registry(lambda: {name: each.server for name, each in self.entries.items()}, **options)
            found = self._made.setdefault("registry", made)
        return found  # type: ignore[no-any-return]

    @property
    def entries(self) -> dict[str, Entry]:
        """The servers of the configuration.

        Raises:
            ConfigError: It cannot be read.
        """
        found = self._made.get("entries")
        if found is None:
            file, servers = self.settings.get("CONFIG_FILE"), self.settings.get("SERVERS")
            found = self._made.setdefault("entries", read_entries(servers, file))
            for each in found.values():
                for warning in each.warnings:
                    logger.warning("%s", warning)
        return found  # type: ignore[no-any-return]

    @property
    def sealer(self) -> Sealer:
        """What encrypts."""
        found = self._made.get("sealer")
        if found is None:
            found = self._made.setdefault("sealer", Sealer(self.settings.keys(), "flask"))
        return found  # type: ignore[no-any-return]

    @property
    def store(self) -> Any:
        """Where grants and what waits are kept."""
        found = self._made.get("store")
        if found is None:
            mcp, given = self.mcp, self.settings.get("TOKEN_STORE")
            life = self.settings.seconds("INPUT_LIFE")
            made = choose_store(given, mcp._load, mcp._save, self.sealer, life)
            found = self._made.setdefault("store", made)
        return found

    def entry(self, alias: str) -> Entry:
        """Return a server of the configuration.

        Raises:
            ConfigError: There is no such alias: the known ones are listed.
        """
        if alias not in self.entries:
            with_fakes = self.registry  # Raises for an unknown alias, and tells the known ones.
            with_fakes[alias]
        return self.entries.get(alias) or Entry(None)

    def asks_users(self, alias: str) -> bool:
        """Whether users log in to a server, and each of them has a grant."""
        return not self.faked[alias] and self.entry(alias).auth is not None

    def principal(self) -> str:
        """Return who uses the application.

        Raises:
            LoginRequired: Nobody is logged in.
            UsageError: There is no request that would tell.
        """
        getter = self.mcp._principal
        if getter is None:
            if not has_request_context():
                raise UsageError(_NAME_THE_USER)
            if _VISITOR not in session:
                session[_VISITOR] = secrets.token_urlsafe(24)
            return f"visitor:{session[_VISITOR]}"
        try:
            key = getter()
        except RuntimeError as error:
            if has_request_context():
                raise
            raise UsageError(_NAME_THE_USER) from error  # It has asked for the session, say.
        if key is None or key == "":
            raise LoginRequired
        return f"user:{key}"

    def client_of(self, alias: str, principal: str, client: Any) -> Any:
        """Return the client of a user, which looks into the store once when it is next used.

        Args:
            alias: The server.
            principal: The user.
            client: A client of the server without a user.

        Raises:
            ConfigError: As `oauth`.
        """
        if not self.asks_users(alias):
            return self.users.get((alias, principal), client, dict)
        uri = self.external("callback", alias=alias)
        key = (alias, principal, uri)
        return self.users.get(key, client, lambda: {"auth": self._oauth(alias, principal, uri)})

    def oauth(self, alias: str, principal: str) -> OAuth:
        """Return the authorization of a user for a server.

        Raises:
            ConfigError: A variable is not set, or the application does not know its own address.
        """
        return self._oauth(alias, principal, self.external("callback", alias=alias))

    def _oauth(self, alias: str, principal: str, uri: str) -> OAuth:
        found = self._oauths.get((alias, uri))
        if found is None:
            found = OAuth(**self._oauth_options(alias, uri))
            look_once(found)
            found = self._oauths.setdefault((alias, uri), found)
            # Whoever sends odd host names must neither fill the memory, nor keep others out.
            for other in list(self._oauths)[:-_MOST_OAUTHS]:
                self._oauths.pop(other, None)
        return found.for_principal(principal)

    def _oauth_options(self, alias: str, redirect_uri: str) -> dict[str, Any]:
        options = self.entry(alias).oauth_options()
        if self.settings.get("CLIENT_METADATA"):
            options.setdefault("client_metadata_url", self.external("client_metadata"))
        options.setdefault("client_name", self.client_name)
        return {**options, "redirect_uri": redirect_uri, "store": self.store}

    @property
    def client_name(self) -> str:
        """What authorization servers show their users."""
        return str(self.settings.get("CLIENT_NAME") or current_app.name)

    def server_url(self, alias: str) -> str:
        """Return the URL of a server."""
        return str(self.entry(alias).server.target().url)

    def external(self, endpoint: str, **values: Any) -> str:
        """Return the address of a view of the blueprint, for the world outside.

        ``MCP_BASE_URL`` counts, else where the request came to, outside of requests ``SERVER_NAME``,
        ``APPLICATION_ROOT`` and ``PREFERRED_URL_SCHEME``.

        Raises:
            ConfigError: It is not known.
        """
        base = self.settings.base_url()
        try:
            if base:
                path = current_app.url_map.bind("localhost").build(f"{EXTENSION}.{endpoint}", values)
                return f"{base}{path}"
            return url_for(f"{EXTENSION}.{endpoint}", _external=True, **values)
        except BuildError:
            raise ConfigError("register the views: app.register_blueprint(mcp.blueprint, ...)") from None
        except RuntimeError:
            raise ConfigError(
                "outside of requests nobody knows where users find this application: set MCP_BASE_URL to the "
                "address at which browsers open it, or SERVER_NAME with PREFERRED_URL_SCHEME"
            ) from None


def state_of(app: Any = None) -> AppState:
    """Return the state of an application, by default of the current one.

    Raises:
        UsageError: ``init_app`` was not called for it.
    """
    found: Optional[AppState] = (current_app if app is None else app).extensions.get(EXTENSION)
    if found is None:
        raise UsageError("this application does not know MCP: call mcp.init_app(app)")
    return found
