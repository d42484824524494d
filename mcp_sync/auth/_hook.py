"""The authorization hook of requests: presents tokens, and does what a refusal asks for.

``__call__`` is the way of every request and costs next to nothing. All else happens in the response hook of
a request that was refused: `_decisions.decide` says what, `_access.Access` does it, and the request is sent
again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union
from urllib.parse import urljoin, urlsplit

import requests
from requests.auth import AuthBase

from .._arguments import check_instance
from ..errors import AuthError, UsageError
from ..options import check_seconds
from ..transports._http.target import check_url, origin, public_url
from ._access import Access, Login
from ._challenge import Challenge, relevant_challenge
from ._current import Current
from ._decisions import (
    AUTHORIZE,
    NONCE,
    REFRESH,
    RESEND,
    STEP_UP,
    Case,
    Decision,
    GiveUp,
    Step,
    decide,
)
from ._errand import Errand
from ._fetching import Fetcher
from ._registration import ClientIdentity
from ._resending import drain, rewound, send_again
from ._rules import is_loopback, scope_tokens
from ._status import Status, status_of
from ._store import MemoryStore, Store
from ._vault import Vault

_LOGOUT_SECONDS = 5.0


class TokenAuth(AuthBase):
    """What all authorizations have in common that get their tokens from an authorization server.

    Works in ``Client(url, auth=...)``, whatever the transport, and with ``requests`` alone. Safe for any
    number
    of threads: whoever comes first gets the grant, the others take it.

    One object serves one user (``principal``), and any number of MCP servers, of each origin one: the URL of
    the first request to an origin says which. A token goes to the server that it is for, and to no other
    origin, neither after a redirect nor later.

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

    registered_for: Optional[str] = None
    interactive = False

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
    ) -> None:
        if isinstance(scopes, str) or not all(isinstance(scope, str) for scope in scopes):
            raise UsageError("scopes are a list of strings")
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
        self.scopes = tuple(scope_tokens(*scopes))
        self.principal = principal
        self.dpop = dpop
        self.leeway = leeway or 0.0
        self.vault = Vault(MemoryStore() if store is None else store)
        self.fetcher = Fetcher(allow_private, verify, proxies, cert)
        self._allow_http = allow_http
        # By origin. Whoever comes first puts an access in, in one step.
        self._accesses: dict[Any, Access] = {}
        # The same by the URLs of requests, so that no URL has to be taken apart twice.
        self._by_url: dict[str, Access] = {}
        self._only: Optional[Access] = None
        if server_url is not None:
            check_url(server_url, ("http", "https", "ws", "wss"))
            self._only = self._access_to(_http_url(server_url))

    # --- what the ways to a grant differ in ----------------------------------------------------------------

    @property
    def needs_person(self) -> bool:
        """Whether a login takes a person."""
        return False

    @property
    def may_log_in(self) -> bool:
        """Whether a login is possible at all."""
        return True

    def trusted_urls(self) -> list[str]:
        """Return the URLs that the user has given: their hosts may have any address."""
        return [self.identity.issuer] if self.identity.issuer is not None else []

    def log_in(self, login: Login) -> Current:
        """Get a grant.

        Raises:
            AuthError: There is none.
        """
        raise NotImplementedError

    # --- requests --------------------------------------------------------------------------------------

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Put the token on a request of `requests`."""
        return self._prepare(request, None)

    def bound_to(self, exchange: Any) -> Any:
        """Return what does the same for one exchange, whose deadline counts for all that has to be done."""
        return lambda request: self._prepare(request, exchange)

    def _prepare(self, request: requests.PreparedRequest, exchange: Any) -> requests.PreparedRequest:
        url = request.url or ""
        access = self._by_url.get(url)
        if access is None:
            access = self._access_for(url)
        errand = Errand(exchange)
        current = access.ready(errand)
        if current is not None:
            current.present(request)
        request.register_hook("response", _Attempt(access, current, errand, url).after)  # type: ignore[no-untyped-call]
        return request

    def _access_for(self, url: str) -> Access:
        """Return the access for a request, by the origin of its URL.

        Raises:
            UsageError: The token may not go there.
        """
        parts = urlsplit(url)
        if parts.scheme.lower() != "https" and not (self._allow_http or is_loopback(parts.hostname)):
            raise UsageError(
                f"the token would go to {public_url(url)} in clear: use https, or allow_http=True if you must"
            )
        if self._only is not None and self._only.origin != origin(url):
            raise UsageError(f"this {type(self).__name__} is for {self._only.server_name} alone")
        access = self._access_to(url)
        if len(self._by_url) < 1000:
            self._by_url[url] = access
        return access

    def _access_to(self, url: str) -> Access:
        return self._accesses.get(origin(url)) or self._accesses.setdefault(origin(url), Access(self, url))

    def _access_named(self, server_url: Optional[str]) -> Access:
        """Return the access that a user means.

        Raises:
            UsageError: It is not clear which.
        """
        if server_url is not None:
            check_url(server_url, ("http", "https", "ws", "wss"))
            return self._access_for(_http_url(server_url))
        known = list(self._accesses.values())
        if self._only is None and len(known) != 1:
            raise UsageError("give server_url=, the URL of the MCP server")
        return self._only or known[0]

    # --- what the user can do
    # --------------------------------------------------------------------------------

    def status(self, server_url: Optional[str] = None) -> Status:
        """Say what is there for a server, without asking anybody.

        Args:
            server_url: The MCP server; may be left out where there is only one.

        Raises:
            AuthError: The store cannot be read.
        """
        access = self._access_named(server_url)
        current = access.read()
        return status_of(access.vault.found(access.server), current.grant if current is not None else None)

    def logout(self, server_url: Optional[str] = None) -> bool:
        """Have the tokens for a server revoked (RFC 7009), and forget them in any case.

        Waits 5 seconds for the authorization server at most. The registration of the client stays.

        Args:
            server_url: The MCP server; may be left out where there is only one.

        Returns:
            Whether the authorization server has revoked them; ``False`` also where it offers no revocation.

        Raises:
            AuthError: The store cannot be written.
        """
        return self._access_named(server_url).log_out(_LOGOUT_SECONDS)

    def __repr__(self) -> str:
        whose = f" of {self.principal!r}" if self.principal else ""
        return f"<{type(self).__name__}{whose}>"


class _Attempt:
    """One request of the user, with all that is tried for it."""

    __slots__ = ("_access", "_current", "_errand", "_tried", "_url")

    def __init__(self, access: Access, current: Optional[Current], errand: Errand, url: str) -> None:
        self._access = access
        self._current = current
        self._errand = errand
        self._url = url
        self._tried: list[str] = []

    def after(self, response: requests.Response, **options: Any) -> requests.Response:
        """Deal with a refusal: the response hook."""
        if response.status_code < 300 and (self._current is None or self._current.prover is None):
            return response
        try:
            return self._after(response, options)
        except BaseException:
            response.close()
            raise

    def _after(self, response: requests.Response, options: Mapping[str, Any]) -> requests.Response:
        timeout = options.get("timeout")
        exchange = timeout if hasattr(timeout, "deadline") else self._errand.exchange
        self._errand = Errand(exchange, options)
        while True:
            request = response.request
            # requests copies the hook to the request that follows a redirect, wherever that leads.
            if origin(request.url or "") != self._access.origin:
                return response
            self._note_nonce(response)
            if response.status_code not in (401, 403):
                self._keep_proof_here(response)
                return response
            challenge = relevant_challenge(response.headers)
            decision = self._decide(response, challenge)
            if not isinstance(decision, (Step, GiveUp)):
                return response
            drain(response)
            if isinstance(decision, GiveUp):
                raise self._explained(decision.error)
            self._tried.append(decision.what)
            with self._errand.aside():
                current = self._take(decision, challenge, request.method or "")
            if not rewound(request):
                raise AuthError(
                    f"{self._access.server_name} refused the request, and its body cannot be sent again: "
                    "give it as bytes, or as a file that can be rewound",
                    url=self._access.server_name,
                )
            # Before the request is copied: should the answer be a redirect, requests goes on from this one.
            self._current = current
            current.present(request)
            self._url = request.url or ""
            response = send_again(response, options)

    def _decide(self, response: requests.Response, challenge: Optional[Challenge]) -> Decision:
        access, current = self._access, self._current
        request = response.request
        if (
            current is not None
            and current.prover is not None
            and request.url != self._url
            and (RESEND not in self._tried)
        ):
            return Step(RESEND)  # After a redirect the proof is for another URL.
        held = access.read()
        # At the end of a session nobody is asked any more.
        may_ask = access.auth.may_log_in and not (access.auth.needs_person and request.method == "DELETE")
        return decide(
            Case(
                access.server,
                response.status_code,
                challenge,
                used=current.grant.access_token if current is not None else None,
                is_late=current is not None and not current.is_valid,
                held=held.grant if held is not None else None,
                is_valid=held is not None and held.is_valid,
                tried=self._tried,
                can_refresh=held is not None and held.grant.refresh_token is not None,
                may_ask=may_ask,
                brings_nonce="dpop-nonce" in response.headers,
                asked=access.asked,
            )
        )

    def _take(self, step: Step, challenge: Optional[Challenge], method: str) -> Current:
        """Get the grant with which the request is to be sent again."""
        access, errand = self._access, self._errand
        used = self._current.grant.access_token if self._current is not None else None
        if step.what in (NONCE, RESEND):
            current = self._current if step.what == NONCE else access.read() or self._current
            assert current is not None
            return current
        if step.what == REFRESH:
            current = access.renew(errand, used)
            if current is not None:
                return current
            step = self._without_refresh(challenge, method)
        if step.what == STEP_UP:
            demanded = challenge.params.get("scope") if challenge is not None else None
            current = access.step_up(errand, used, challenge, step.scope, demanded)
        else:
            current = access.authorize(errand, used, challenge, None)
        return current

    def _without_refresh(self, challenge: Optional[Challenge], method: str) -> Step:
        """Say what follows a refresh that came to nothing.

        Raises:
            AuthError: Nothing does.
        """
        auth = self._access.auth
        case = Case(
            self._access.server,
            401,
            challenge,
            tried=(REFRESH,),
            may_ask=auth.may_log_in and not (auth.needs_person and method == "DELETE"),
        )
        decision = decide(case)
        if isinstance(decision, GiveUp):
            raise self._explained(decision.error)
        self._tried.append(AUTHORIZE)
        return Step(AUTHORIZE)

    def _explained(self, error: AuthError) -> AuthError:
        if self._access.why is not None:
            error.__cause__ = self._access.why
        return error

    def _note_nonce(self, response: requests.Response) -> None:
        current = self._current
        if current is not None and current.prover is not None:
            current.prover.note_nonce(response.request.url or "", response.headers)

    def _keep_proof_here(self, response: requests.Response) -> None:
        """Take proof and token off a request that is going to another server by a redirect."""
        location = response.headers.get("location")
        if self._current is None or not location or not 300 <= response.status_code < 400:
            return
        try:
            there = origin(urljoin(response.request.url or "", location))
        except ValueError:
            return
        if there != self._access.origin:
            response.request.headers.pop("DPoP", None)
            response.request.headers.pop("Authorization", None)


def _http_url(url: str) -> str:
    """Return the URL under which a server is reached at first: WebSocket begins with HTTP."""
    scheme, _, rest = url.partition("://")
    return {"ws": "http", "wss": "https"}.get(scheme.lower(), scheme) + "://" + rest
