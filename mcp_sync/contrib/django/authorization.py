"""How users log in to the servers of the settings: as whom, at which page, and where grants are kept."""

from __future__ import annotations

from typing import Any

from django.urls import NoReverseMatch, reverse
from django.utils.module_loading import import_string

from ...auth import OAuth
from ...auth._login import Login
from ...errors import AuthorizationRequired
from .._entries import Entry
from .._one_look import look_once
from . import conf

SERVICE = "service"  # the principal of what all users share
ANONYMOUS = "anonymous"
USER = "user:"  # what the principals of users begin with


class ConnectionRequired(AuthorizationRequired):
    """The user has to connect this application to a server first.

    Attributes:
        url: The page where they can: its address if ``BASE_URL`` is set, else its path. Empty if the urls of
            this application are not included.
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
        url=address_of("connect", alias),
        alias=alias,
        scopes=scopes,
    )


def make_oauth(alias: str, entry: Entry) -> WebOAuth:
    """Return the OAuth that the settings of a server describe.

    Raises:
        ConfigError, UsageError: It cannot be so.
    """
    options = entry.oauth_options()
    options.setdefault("client_name", conf.get("CLIENT_NAME"))
    if conf.get("CLIENT_METADATA") and conf.get("BASE_URL") and "client_id" not in options:
        options.setdefault("client_metadata_url", address_of("metadata"))
    oauth = WebOAuth(store=token_store(alias), **options)
    oauth.alias = alias
    return oauth


def token_store(alias: str) -> Any:
    """Return the token store of a server: ``TOKEN_STORE``, called with its alias.

    Raises:
        ImportError: There is no such class.
    """
    return import_string(conf.get("TOKEN_STORE"))(alias)


def principal_of(user: Any) -> str:
    """Return the name under which a user's tokens, answers and paused calls are kept."""
    if user is None or not getattr(user, "is_authenticated", False):
        return ANONYMOUS
    return f"{USER}{user.pk}"


def path_of(name: str, *args: Any) -> str:
    """Return the path of a view of this application, empty if its urls are not included."""
    try:
        return str(reverse(f"mcp_sync:{name}", args=args))
    except NoReverseMatch:
        return ""


def address_of(name: str, *args: Any) -> str:
    """Return where a view is: below ``BASE_URL``, else its path; empty if the urls are not included."""
    path = path_of(name, *args)
    return f"{str(conf.get('BASE_URL') or '').rstrip('/')}{path}" if path else ""
