"""The authorization hook of requests: presents tokens, and does what a refusal asks for.

``__call__`` is the way of every request and costs next to nothing. All else happens in the response hook of
a request that was refused (`_attempt`): `_decisions.decide` says what, `_access.Access` does it, and the
request is sent again.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Optional, TypeVar, Union
from urllib.parse import urlsplit

import requests
from requests.auth import AuthBase

from .._arguments import check_instance, check_no_class
from .._protocol.urls import is_loopback, origin, public_url
from ..errors import UsageError
from ..options import check_seconds
from ..transports._http.target import check_url
from ._access import Access
from ._attempt import Attempt
from ._current import Current
from ._errand import Errand
from ._fetching import Fetcher
from ._login import Login
from ._registration import ClientIdentity
from ._rules import resource_covers
from ._settings import as_scopes, check_sending
from ._status import Status, status_of
from ._store import MemoryStore, Store
from ._vault import Vault, server_name

A = TypeVar("A", bound="TokenAuth")

_LOGOUT_SECONDS = 5.0
_MOST_URLS = 1000  # that are remembered


class TokenAuth(AuthBase):
    """What all authorizations have in common that get their tokens from an authorization server.

    Works in ``Client(url, auth=...)``, whatever the transport, and with ``requests`` alone. Safe for any
    number of threads: whoever comes first gets the grant, the others take it.

    One object serves one user (``principal``), and any number of MCP servers. A grant belongs to the URL of
    one of them (RFC 8707, RFC 9728), without its query. A `Client` presents that for the URL that it was
    given, whatever path of the same origin its requests go to. With ``requests`` alone the URL of a request
    says which it is: that of a known server, or one below it, or below the resource that its token is for
    (the longest counts); any other is a server of its own. With ``server_url`` there is one only, for all
    paths of its origin. A token goes to no other origin, neither after a redirect nor later.

    With ``requests`` alone ``timeout`` bounds each request to the MCP server. What is asked of authorization
    servers takes 30 seconds at most for each conversation, a user as long as the interaction says.

    A log-out or a login counts at once for all objects of the process that have the same user and client;
    other processes that share the store notice it within 30 seconds.

    Args:
        identity: Who asks.
        scopes: What to ask for; what the MCP server demands is added.
        store: Where grants and registrations are kept; by default in this object's memory.
        principal: The user whose grants they are, where a store holds those of several.
        server_url: The MCP server, if there shall be no other.
        allow_private: Ask authorization servers at private addresses, too. Where the MCP server is on this
            machine, all that is on this machine may be asked anyway.
        allow_http: Send tokens in clear to other machines, too. Everybody on the way can read and use them.
        dpop: Bind tokens to a key (RFC 9449), where that is possible. Takes the extra ``jwt``.
        verify, proxies, cert: As in requests, for requests to authorization servers.
        leeway: How many seconds before its expiry a token is replaced.

    Raises:
        UsageError: It cannot be so; at a request: the token would go in clear, or to a server that it is not
            for.
    """

    # What tells the account at the server from another one of the same user, for what is kept of answers.
    _account: str = ""
    _registered_for: Optional[str] = None
    _interactive = False

    def __init__(
        self,
        identity: ClientIdentity,
        scopes: Sequence[str] = (),
        *,
        store: Optional[Store] = None,
        principal: str = "",
        server_url: Optional[str] = None,
        allow_private: bool = False,
        allow_http: bool = False,
        dpop: bool = False,
        verify: Union[bool, str] = True,
        proxies: Optional[Mapping[str, str]] = None,
        cert: Any = None,
        leeway: float = 30.0,
        **unknown: Any,
    ) -> None:
        if unknown:
            raise UsageError(f"{type(self).__name__} has no argument {', '.join(unknown)}")
        check_sending(verify, proxies, cert)
        check_no_class("store", store)
        if store is not None and not all(
            callable(getattr(store, name, None)) for name in ("get", "put", "lock")
        ):
            raise UsageError(f"store must be a store of mcp_sync.auth, not {type(store).__name__}")
        if not isinstance(principal, str):
            raise UsageError("principal must be a string")
        for name, flag in (("allow_private", allow_private), ("allow_http", allow_http), ("dpop", dpop)):
            check_instance(name, flag, bool)
        check_seconds("leeway", leeway)
        self.identity = identity
        self.scopes = as_scopes(scopes)
        self.principal = principal
        self.dpop = dpop
        self.leeway = leeway or 0.0
        kept = MemoryStore() if store is None else store
        self.vault = Vault(kept, identity, self._registered_for, principal)
        self.fetcher = Fetcher(allow_private, verify, proxies, cert)
        self._allow_http = allow_http
        # By the names of the servers. Whoever comes first puts an access in, in one step.
        self._accesses: dict[str, Access] = {}
        # The same by the URLs of clients and of requests, so that no URL has to be taken apart twice.
        self._by_server: dict[str, Access] = {}
        self._by_url: dict[str, Access] = {}
        self._only: Optional[Access] = None
        if server_url is not None:
            check_url(server_url, ("http", "https", "ws", "wss"))
            self._only = self._access_to(_as_sent(server_url))

    def for_principal(self: A, key: str) -> A:
        """Return an authorization for another user, with the same settings and the same store. Cheap.

        Args:
            key: The user: the ``principal`` whose grants it presents, and no others.

        Raises:
            UsageError: That is no string, or empty.
        """
        check_instance("the principal", key, str)
        if not key:
            raise UsageError("the principal is empty: that is whoever has no name")
        twin = copy.copy(self)
        twin.principal = key
        twin.vault = self.vault.for_principal(key)
        twin._accesses, twin._by_server, twin._by_url = {}, {}, {}
        if self._only is not None:
            twin._only = None
            twin._only = twin._access_to(self._only.server)
        return twin

    # --- what the ways to a grant differ in ----------------------------------------------------------------

    @property
    def _needs_person(self) -> bool:
        """Whether a login takes a person."""
        return False

    @property
    def _may_log_in(self) -> bool:
        """Whether a login is possible at all."""
        return True

    def _trusted_urls(self) -> list[str]:
        """Return the URLs that the user has given: their hosts may have any address."""
        return [self.identity.issuer] if self.identity.issuer is not None else []

    def _log_in(self, login: Login) -> Current:
        """Get a grant.

        Raises:
            AuthError: There is none.
        """
        raise NotImplementedError

    # --- requests --------------------------------------------------------------------------------------

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Put the token on a request of `requests`."""
        url = request.url or ""
        return self._prepare(request, self._by_url.get(url) or self._access_for(url), None)

    def _bound_to(self, exchange: Any, server: str) -> Any:
        """Return what does the same for one exchange, whose deadline counts for all that has to be done.

        Args:
            exchange: The exchange.
            server: The URL of the MCP server, wherever its requests go to within its origin.
        """
        access = self._by_server.get(server) or self._access_of(server)

        def prepare(request: requests.PreparedRequest) -> requests.PreparedRequest:
            url = request.url or ""
            if url != server and origin(url) != access.origin:
                raise UsageError(f"the token for {access.server_name} must not go to {public_url(url)}")
            return self._prepare(request, access, exchange)

        return prepare

    def _prepare(
        self, request: requests.PreparedRequest, access: Access, exchange: Any
    ) -> requests.PreparedRequest:
        errand = Errand(exchange)
        is_last = exchange is not None and request.method == "DELETE"
        current = access.at_hand(errand) if is_last else access.ready(errand)
        if current is not None:
            current.present(request)
        request.register_hook("response", Attempt(access, current, errand, request).after)  # type: ignore[no-untyped-call]
        return request

    def _access_for(self, url: str) -> Access:
        """Return the access for a request, by its URL.

        Raises:
            UsageError: The token may not go there.
        """
        self._check_target(url)
        if self._only is not None and self._only.origin != origin(url):
            raise UsageError(f"this {type(self).__name__} is for {self._only.server_name} alone")
        access = self._only or self._access_above(url) or self._access_to(url)
        if len(self._by_url) < _MOST_URLS:
            self._by_url[url] = access
        return access

    def _access_of(self, server: str) -> Access:
        """Return the access to the MCP server with a certain URL.

        Raises:
            UsageError: The token may not go there.
        """
        url = _as_sent(server)
        self._check_target(url)
        if self._only is not None and not resource_covers(server_name(self._only.server), url):
            raise UsageError(f"this {type(self).__name__} is for {self._only.server_name} alone")
        access = self._only or self._access_to(url)
        if len(self._by_server) < _MOST_URLS:
            self._by_server[server] = access
        return access

    def _check_target(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme.lower() != "https" and not (self._allow_http or is_loopback(parts.hostname)):
            raise UsageError(
                f"the token would go to {public_url(url)} in clear: use https, or allow_http=True if you must"
            )

    def _access_above(self, url: str) -> Optional[Access]:
        """Return the access to the known server that a request is for, ``None`` if it is for none."""
        found = [
            (len(place), access)
            for access in list(self._accesses.values())
            for place in access.places
            if resource_covers(place, url)
        ]
        return max(found, key=lambda each: each[0])[1] if found else None

    def _access_to(self, url: str) -> Access:
        name = server_name(url)
        access = self._accesses.get(name)
        if access is None:
            access = self._accesses.setdefault(name, Access(self, url))
            # It may be nearer to some URLs than those that were known before.
            self._by_url = {}
        return access

    def _access_named(self, server_url: Optional[str]) -> Access:
        """Return the access that a user means.

        Raises:
            UsageError: It is not clear which.
        """
        if server_url is not None:
            check_url(server_url, ("http", "https", "ws", "wss"))
            return self._access_of(server_url)
        known = list(self._accesses.values())
        if self._only is None and len(known) != 1:
            raise UsageError("give server_url=, the URL of the MCP server")
        return self._only or known[0]

    # --- what the user can do --------------------------------------------------------------------------

    def status(self, server_url: Optional[str] = None) -> Status:
        """Say what is there for a server, without asking anybody.

        Args:
            server_url: The MCP server; may be left out where there is only one.

        Raises:
            AuthError: The store cannot be read.
        """
        access = self._access_named(server_url)
        current = access.read()
        return status_of(access.authority.known(), current.grant if current is not None else None)

    def logout(self, server_url: Optional[str] = None) -> bool:
        """Have the tokens for a server revoked (RFC 7009), and forget them in any case.

        Waits 5 seconds for the authorization server at most. The registration of the client stays, and so
        does the note which authorization server it was.

        Args:
            server_url: The MCP server; may be left out where there is only one.

        Returns:
            Whether the authorization server has revoked them; ``False`` also where it offers no revocation.

        Raises:
            AuthError: The store cannot be written.
        """
        return self._access_named(server_url).log_out(_LOGOUT_SECONDS)

    def reset_client(self, server_url: Optional[str] = None) -> None:
        """Forget how this client is known, so that it registers anew at the next login.

        For an authorization server that has forgotten it, and says so only to the user. Of a client that was
        registered by hand it forgets to which authorization server its credentials belong: the next one that
        sees them is theirs.

        Args:
            server_url: The MCP server; may be left out where there is only one.

        Raises:
            AuthError: The store cannot be written.
        """
        self._access_named(server_url).authority.forget_client(None)

    def __repr__(self) -> str:
        whose = f" of {self.principal!r}" if self.principal else ""
        return f"<{type(self).__name__}{whose}>"


def _as_sent(url: str) -> str:
    """Return the URL of a server as its requests have it: WebSocket begins with HTTP, too.

    Raises:
        UsageError: Nothing can be sent there.
    """
    scheme, _, rest = url.partition("://")
    request = requests.PreparedRequest()
    try:
        request.prepare_url({"ws": "http", "wss": "https"}.get(scheme.lower(), scheme) + "://" + rest, None)
    except (requests.RequestException, UnicodeError) as error:
        raise UsageError(f"the URL {public_url(url)!r} cannot be used") from error
    return request.url or url
