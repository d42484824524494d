"""Authorization by a user: the authorization code flow with all its drivers."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn, Optional, Union

from .._arguments import check_instance, check_no_class
from .._protocol.urls import public_url
from ..errors import (
    AccessDenied,
    AuthError,
    AuthorizationRequired,
    CallTimeout,
    TokenRequestFailed,
    UsageError,
)
from . import _code_flow
from ._access import Access
from ._answers import quoted
from ._current import Current
from ._errand import Errand, errand_here
from ._flow import Flow, params_of, read_pending
from ._hook import TokenAuth
from ._interaction import Asking, Interaction, LoopbackBrowser
from ._login import Login, invalid_registration
from ._machine import credentials
from ._reading import read_record
from ._records import ClientRecord, Grant, Pending, ServerRecord
from ._registration import ClientIdentity, Secret, identify
from ._rules import canonical_resource, check_redirect_uri, scope_union, with_offline_access
from ._settings import as_scopes
from ._store import Store
from ._work import Work

logger = logging.getLogger("mcp_sync.auth")

_LOOPBACK = "http://127.0.0.1/callback"
_NONE_WAITS = "the answer belongs to no login that waits for one: it is too old, or came before"
_LOOK_SECONDS = 1.0  # how often others are looked for who have logged in meanwhile


class _OthersWere(Exception):
    """Somebody else has got a grant, while this process waited for its user."""

    def __init__(self, current: Current) -> None:
        super().__init__()
        self.current = current


class OAuth(TokenAuth):
    """Have the user log in with a browser (OAuth 2.1, authorization code with PKCE).

    ``Client(url, auth=OAuth())`` is all that a script needs: the first request that is refused opens the
    browser. The user has five minutes. Their time does not count for `Timeouts.open`; a ``timeout`` of a call
    ends the wait like any other. What the authorization server was asked for by then is seen through: the
    next call finds it.

    In a web application give ``redirect_uri``, and no interaction. A call for which somebody has to log in
    then raises `AuthorizationRequired`, whose ``url`` is where to send them (an error without one says that a
    login would not help); when they come back, pass the
    URL of that request to `finish`, in this process or in another one with the same store.

    Everything is looked up: the authorization server, the name of the client (``client_id``, else
    ``client_metadata_url`` where the server takes it, else it registers by itself), and the scopes. See the
    authorization pages of the specification.

    One object serves one user (``principal``), any number of threads, and any number of MCP servers. Each has
    a grant of its own, by its URL: see `TokenAuth`.

    Args:
        client_id: The name of the client, where it was registered by hand. It belongs to ``issuer``, or else
            to the first authorization server that it is used at; at another a call raises `IssuerMismatch`.
        client_secret: Its secret, if it has one, or a function that returns it.
        client_metadata_url: Where its metadata document lies, whose URL is its name.
        issuer: The only authorization server that may be asked.
        scopes: What to ask for; what the MCP server demands, or else lists, is added.
        redirect_uri: Where the web application takes the answers.
        client_name: What users are shown.
        store: Where grants and registrations are kept: `FileStore`, `SQLiteStore`, `KeyringStore`; by default
            in this object's memory.
        principal: The user whose grants they are, where a store holds those of several.
        interactive: ``False`` asks nobody: a call for which somebody has to log in raises
            `AuthorizationRequired` without a URL. Tokens are refreshed all the same.
        interaction: How the user is asked: `LoopbackBrowser` (the default without ``redirect_uri``),
            `PasteBack`, or an `Interaction` of your own.
        allow_private: Ask authorization servers at private addresses, too. Where the MCP server is on this
            machine, all that is on this machine may be asked anyway.
        allow_http: Send tokens in clear to other machines, too. Everybody on the way can read and use them.
        dpop: Bind tokens to a key (RFC 9449). Takes the extra ``jwt``.
        token_endpoint_auth_method: How the client authenticates; chosen if not given.
        private_key, private_key_alg, private_key_id: The key of a client that signs, as in
            `ClientCredentials`.
        server_url: The MCP server, if there shall be no other.
        verify, proxies, cert: As in requests, for requests to authorization servers.
        leeway: How many seconds before its expiry a token is replaced.

    Raises:
        UsageError: It cannot be so.
    """

    def __init__(
        self,
        *,
        client_id: Optional[str] = None,
        client_secret: Secret = None,
        client_metadata_url: Optional[str] = None,
        issuer: Optional[str] = None,
        scopes: Sequence[str] = (),
        redirect_uri: Optional[str] = None,
        client_name: str = "mcp-sync",
        store: Optional[Store] = None,
        principal: str = "",
        interactive: bool = True,
        interaction: Optional[Interaction] = None,
        allow_private: bool = False,
        allow_http: bool = False,
        dpop: bool = False,
        token_endpoint_auth_method: Optional[str] = None,
        private_key: Any = None,
        private_key_alg: Optional[str] = None,
        private_key_id: Optional[str] = None,
        server_url: Optional[str] = None,
        verify: Union[bool, str] = True,
        proxies: Optional[Mapping[str, str]] = None,
        cert: Any = None,
        leeway: float = 30.0,
    ) -> None:
        check_instance("interactive", interactive, bool)
        if redirect_uri is not None:
            check_redirect_uri(redirect_uri)
        if redirect_uri is not None and interaction is not None:
            raise UsageError("a redirect_uri is that of a web application; an interaction has its own")
        check_no_class("interaction", interaction)
        if interaction is not None and not callable(getattr(interaction, "listening", None)):
            raise UsageError(
                "interaction must be a LoopbackBrowser, a PasteBack, or have a method listening()"
            )
        given = credentials(
            client_secret, private_key, private_key_alg, private_key_id, token_endpoint_auth_method
        )
        identity = ClientIdentity(
            client_id,
            metadata_url=client_metadata_url,
            issuer=issuer,
            client_name=client_name,
            redirect_uris=(redirect_uri,) if redirect_uri is not None else (),
            **given,
        )
        self._redirect_uri = redirect_uri
        self._interaction: Optional[Interaction] = None
        if redirect_uri is None:
            self._interaction = LoopbackBrowser() if interaction is None else interaction
        self._interactive = interactive
        self._registered_for = redirect_uri or getattr(self._interaction, "redirect_uri", None) or _LOOPBACK
        super().__init__(
            identity,
            scopes,
            store=store,
            principal=principal,
            server_url=server_url,
            allow_private=allow_private,
            allow_http=allow_http,
            dpop=dpop,
            verify=verify,
            proxies=proxies,
            cert=cert,
            leeway=leeway,
        )

    @property
    def _needs_person(self) -> bool:
        """Whether a login takes a person: it does."""
        return True

    @property
    def _may_log_in(self) -> bool:
        """Whether somebody may be asked."""
        return self._interactive

    # --- with a person at this process ---------------------------------------------------------------------

    def _log_in(self, login: Login) -> Current:
        """See `TokenAuth._log_in`."""
        access = login.access
        found = login.found
        scope = with_offline_access(login.scope_for(self.scopes), found)
        if self._interaction is None:
            self._send_away(login, found, scope)
        try:
            return self._ask(login, found, scope, access.authority.known_client(found.issuer))
        except _OthersWere as news:
            return news.current
        except TokenRequestFailed as error:
            known = access.authority.known_client(found.issuer)
            if known is None or not invalid_registration(known, error):
                raise
            access.authority.forget_client(known)
        # The authorization server has forgotten the client.
        return self._ask(login, found, scope, None)

    def _ask(
        self, login: Login, found: ServerRecord, scope: Optional[str], known: Optional[ClientRecord]
    ) -> Current:
        assert self._interaction is not None
        access, errand = login.access, login.errand
        with self._interaction.listening(known.redirect_uris if known is not None else ()) as asking:
            client = self._identify(access, errand, found, known, asking.redirect_uri, scope)
            pending = _begin(access, found, client, asking.redirect_uri, scope)
            params = self._answer(login, asking, pending, client)
        code = _code_flow.check_callback(pending, params)
        # An answer counts once: the login must not be lost because this call has no time left.
        return access.turn.work(
            errand, access.login_name, lambda own: self._redeem(access, own, pending, code, login.held)
        )

    def _answer(
        self, login: Login, asking: Asking, pending: Pending, client: ClientRecord
    ) -> Mapping[str, str]:
        """Have the user asked, as long as there is time and nobody else has logged in."""
        assert self._interaction is not None
        deadline = login.errand.within(self._interaction.timeout)
        looked = time.monotonic()

        def check() -> None:
            nonlocal looked
            login.errand.check(login.errand.deadline, f"the login for {login.access.server_name}")
            if time.monotonic() - looked < _LOOK_SECONDS:
                return
            looked = time.monotonic()
            others = login.others()
            if others is not None and login.scope is None:
                raise _OthersWere(others)

        logger.info(
            "Waiting for a login at %s as %s; the answer comes to %s",
            *(public_url(client.issuer), quoted(client.client_id), public_url(asking.redirect_uri)),
        )
        try:
            return asking.ask(pending.url, deadline, check)
        except CallTimeout as error:
            if login.errand.deadline.expired:
                raise
            raise AuthorizationRequired(
                f"nobody has logged in at {client.issuer} within {self._interaction.timeout:g} s; "
                f"{_advice(client, asking.redirect_uri)}"
            ) from error

    def _redeem(
        self,
        access: Access,
        errand: Errand,
        pending: Pending,
        code: str,
        held: Optional[Grant],
    ) -> Current:
        found, client = read_record(ServerRecord, pending.found), read_record(ClientRecord, pending.client)
        if client.client_id == self.identity.client_id and not client.registered:
            known = access.authority.known_client(found.issuer)
            client = access.authority.run(identify(found, self.identity, known, None, time.time()), errand)
        errand.see_through()
        prover = access.new_prover(held)
        conversation = _code_flow.redeem(
            replace(pending, client=client.to_json()),
            code,
            now=time.time(),
            signer=self.identity.signer,
            prover=prover,
            dpop_key=prover.key if prover is not None else None,
        )
        grant = access.authority.run(conversation, errand)
        return access.keep_login(found, client, grant)

    def _identify(
        self,
        access: Access,
        errand: Errand,
        found: ServerRecord,
        known: Optional[ClientRecord],
        redirect_uri: str,
        scope: Optional[str],
    ) -> ClientRecord:
        client: ClientRecord = access.authority.run(
            identify(found, self.identity, known, redirect_uri, time.time(), scope=scope), errand
        )
        access.authority.bind(client)
        if known is None:
            # One that is known may be needed still: the new one is kept together with its own grant.
            access.authority.keep_client(client)
        return client

    # --- in two steps ------------------------------------------------------------------------------------

    def _send_away(self, login: Login, found: ServerRecord, scope: Optional[str]) -> NoReturn:
        assert self._redirect_uri is not None
        flow = self._begin_at(login.access, login.errand, found, self._redirect_uri, scope)
        raise AuthorizationRequired(
            f"somebody has to log in at {public_url(found.issuer)} for {login.access.server_name}",
            url=flow.url,
        )

    def begin(
        self,
        server_url: Optional[str] = None,
        redirect_uri: Optional[str] = None,
        scopes: Optional[Sequence[str]] = None,
    ) -> Flow:
        """Begin a login without waiting for it, before a call needs it.

        Args:
            server_url: The MCP server; may be left out where there is only one.
            redirect_uri: Where the answer goes; by default that of this object.
            scopes: What to ask for; these alone, by default those of a call that has to log in.

        Returns:
            Where to send the user. The store keeps the rest for an hour.

        Raises:
            UsageError: There is no redirect URI.
            AuthError: It cannot begin, and why.
        """
        uri = redirect_uri if redirect_uri is not None else self._redirect_uri
        if uri is None:
            raise UsageError("a login in two steps needs a redirect_uri")
        check_redirect_uri(uri)
        named = None if scopes is None else scope_union(*as_scopes(scopes))
        access = self._access_named(server_url)
        errand = errand_here()
        found = access.authority.find(errand, None)
        login = Login(access, errand, found, None, None, None)
        scope = login.scope_for(self.scopes) if scopes is None else named
        return self._begin_at(access, errand, found, uri, with_offline_access(scope, found))

    def _begin_at(
        self, access: Access, errand: Errand, found: ServerRecord, redirect_uri: str, scope: Optional[str]
    ) -> Flow:
        known = access.authority.known_client(found.issuer)
        client = self._identify(access, errand, found, known, redirect_uri, scope)
        pending = _begin(access, found, client, redirect_uri, scope)
        access.vault.keep_pending(pending)
        return Flow(pending.url, pending.state, pending.to_json())

    def finish(
        self,
        callback: Union[str, Mapping[str, Any]],
        pending: Union[Pending, Mapping[str, Any], None] = None,
    ) -> None:
        """Finish a login that `begin`, or a call, has begun: keep the grant.

        The session of the web application has to know who came back: this object is for one ``principal``,
        and takes no answer to a login that was begun for another one.

        Each login counts once, and for an hour: the store remembers which ones were used, also of those that
        the application keeps itself. What does not come from the authorization server (a wrong state, RFC
        6749, section 10.12, or a wrong ``iss``, RFC 9207, section 2.4) uses up nothing: the real answer still
        counts. Neither does a token endpoint that cannot be reached or is out of order
        (`TokenRequestFailed` with ``transient``): call this again with the same answer, soon, as codes live
        for minutes. Anything else ends the login, as a code must not be shown twice.

        Args:
            callback: The URL of the request in which the user came back, or its query as a text or as a
                mapping.
            pending: `Flow.pending`, if it was not left to the store.

        Raises:
            AccessDenied: The user, or the authorization server, has refused.
            TokenRequestFailed: There was no token for the answer.
            IssuerMismatch: The answer comes from somebody else.
            AuthError: The answer belongs to no login that waits for it. Whatever is raised, the grant that is
                there, if any, stays.
        """
        params = params_of(callback)
        known = self._waiting(params.get("state", ""), pending)
        access = self._access_named(known.server)
        try:
            # What does not come from the authorization server must not keep its real answer out.
            code = _code_flow.check_callback(known, params)
        except AccessDenied:
            self._take(known)
            raise
        self._take(known)
        current = access.read()
        held = current.grant if current is not None else None
        try:
            work = Work(access.login_name, lambda own: self._redeem(access, own, known, code, held))
            work.done(errand_here(), begin=True)
        except TokenRequestFailed as error:
            client = read_record(ClientRecord, known.client)
            if error.transient:
                self.vault.give_back_pending(known)
            elif invalid_registration(client, error):
                access.authority.forget_client(client)
            raise

    def _waiting(self, state: str, given: Union[Pending, Mapping[str, Any], None]) -> Pending:
        """Return the login that an answer belongs to, and leave it where it is."""
        read = None if given is None else read_pending(given)
        if not state:
            raise AuthError("this is no answer of an authorization server: it has no state")
        waits = self.vault.pending(state)
        if any(each is not None and each.principal != self.principal for each in (read, waits)):
            raise AuthError("the answer belongs to the login of somebody else")
        known = waits if given is None else read
        if known is None:
            raise AuthError(_NONE_WAITS)
        return known

    def _take(self, pending: Pending) -> None:
        if not self.vault.take_pending(pending):
            raise AuthError(_NONE_WAITS)


def _advice(client: ClientRecord, redirect_uri: str) -> str:
    """Say what may be wrong if users see an error of the authorization server, and nothing comes back."""
    if client.registered:
        return (
            f"if its page does not know the client {client.client_id!r}, reset_client() has it register anew"
        )
    return (
        f"if its page showed an error, register the redirect URI {redirect_uri} there for the client "
        f"{client.client_id!r}, or use the one that is registered: see LoopbackBrowser"
    )


def _begin(
    access: Access, found: ServerRecord, client: ClientRecord, redirect_uri: str, scope: Optional[str]
) -> Pending:
    # What was given by hand need not be kept: it is at hand when the user comes back.
    kept = client if client.registered else replace(client, client_secret=None)
    return _code_flow.begin(
        found,
        kept,
        server=canonical_resource(access.server),
        principal=access.auth.principal,
        redirect_uri=redirect_uri,
        scope=scope,
        now=time.time(),
    )
