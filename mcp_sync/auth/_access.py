"""The access of one user to one MCP server: the grant in use, and how to get the next one.

What costs a request happens in turns: one thread at a time gets a grant, and the others take what it got.
Between processes the lock of the store has the same effect, around reading, refreshing and writing; it is
never held while a person is asked, and no lock is held during a request of the user.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Optional

from .._concurrency import fork
from .._concurrency.deadline import Deadline
from .._concurrency.locks import take
from .._protocol.urls import origin, public_url
from ..errors import (
    AccessDenied,
    AuthError,
    AuthorizationRequired,
    CallTimeout,
    InsufficientScope,
    TokenRequestFailed,
    UsageError,
)
from . import _granted
from ._addresses import Guard
from ._challenge import Challenge
from ._current import Current
from ._discovery import discover
from ._dpop import Prover, new_key
from ._errand import Errand
from ._login import FORGOTTEN, Login, is_for
from ._records import ClientRecord, Grant, ServerRecord
from ._registration import identify
from ._rules import same_issuer, scope_tokens
from ._steps import Conversation
from ._vault import Held

if TYPE_CHECKING:
    from ._hook import TokenAuth

logger = logging.getLogger("mcp_sync.auth")

CONVERSATION_SECONDS = 30.0
_LOOK_SECONDS = 0.05  # between two looks at whether somebody still waits for a turn
_TURN_SECONDS = 900.0  # how long others are waited for, a login of theirs included
_ATTEMPTS = 20  # to write what a login has brought, while others keep writing
# What a renewal ahead of time may take while the token is valid: little, and a small part of what the request
# has left. Where that is next to nothing it is left alone: a refresh that is cut off may cost the grant.
_AHEAD_SECONDS = 5.0
_AHEAD_PART = 3
_AHEAD_LEAST = 0.5

_now = time.time


class Access:
    """See the module. Safe for any number of threads.

    Args:
        auth: What the user has set.
        server: The URL of the MCP server.

    Attributes:
        current: The grant that was used last; a single reference, which is replaced in one step.
        asked: The sets of scopes that step-ups have got, for a grant that is not forgotten.
        why: Why there is no grant any more, if that is known.
    """

    def __init__(self, auth: TokenAuth, server: str) -> None:
        self.auth = auth
        self.server = server
        self.origin = origin(server)
        self.vault = auth.vault
        self.current: Optional[Current] = None
        self.asked: set[frozenset[str]] = set()
        self.why: Optional[AuthError] = None
        self._nonces: dict[str, str] = {}
        self._renew_turn()
        fork.watch(self)

    def _renew_turn(self) -> None:
        # Held by the thread that gets a grant; all others wait, within their time. The exception to the rule
        # that nothing waits under a lock.
        self._turn = threading.Lock()

    def after_fork_in_child(self) -> None:
        """Replace what a thread of the parent may have locked. The grant may stay: the store decides."""
        self._renew_turn()

    # --- the grant in use ------------------------------------------------------------------------------

    def read(self) -> Optional[Current]:
        """Take what the store holds now."""
        held = self.vault.grant(self.server, self.auth.principal)
        current = self.current
        version = held.version if held is not None else None
        if current is not None and current.version is None and current.replaces == version:
            # It could not be written, but what the store holds is used up.
            return current
        if held is None:
            self.current = None
            return None
        if current is None or current.version != held.version:
            self.current = current = self._usable(held.grant, held.version)
        return current

    def ready(self, errand: Errand) -> Optional[Current]:
        """Return the grant to use for a request, got ahead of its expiry; ``None`` if there is none.

        Raises:
            AuthError: It has expired, and another one cannot be had just now.
        """
        current = self.current if self.current is not None else self.read()
        if current is not None and current.version is None:
            current = self._written(current)
        if current is None or _now() < current.renew_at:
            return current
        if current.grant.refresh_token is None and self.auth._needs_person:
            return self.read()
        if current.is_valid:
            return self._ahead(errand, current)
        with errand.aside():
            return self._next(errand, current)

    def _next(self, errand: Errand, current: Current) -> Optional[Current]:
        newer = self.renew(errand, current.grant.access_token)
        if newer is None and not self.auth._needs_person:
            newer = self.authorize(errand, current.grant.access_token, None, None)
        return newer

    def _ahead(self, errand: Errand, current: Current) -> Optional[Current]:
        """Return the next grant, or the one that is valid still if another is not to be had just now."""
        left = errand.deadline.remaining()
        seconds = _AHEAD_SECONDS if left is None else min(_AHEAD_SECONDS, left / _AHEAD_PART)
        if seconds < _AHEAD_LEAST:
            return current
        # Before it begins: whoever comes meanwhile goes on with what is valid.
        current.put_off_renewal()
        try:
            with errand.aside():
                newer = self._next(errand.part(seconds), current) or self.read()
        except (AuthError, CallTimeout, UsageError) as error:
            # It may be the authorization server, the way to it, or the store that cannot do it just now. What
            # stays wrong is told when the token has expired.
            newer, why = current, str(error)
        else:
            why = str(self.why)
        if newer is current:
            current.put_off_renewal()
            logger.warning("The token for %s could not be renewed ahead of time: %s", self.server_name, why)
        return newer

    @property
    def server_name(self) -> str:
        """The server, as logs and errors may name it."""
        return public_url(self.server)

    def _usable(self, grant: Grant, version: Optional[str], replaces: Optional[str] = None) -> Current:
        renew_at = float("inf")
        if grant.expires_at is not None:
            # Half of what is left at most, so that short lives do not make for one refresh after the other.
            left = grant.expires_at - _now()
            renew_at = grant.expires_at - min(self.auth.leeway, max(left, 0.0) / 2)
        prover = None
        if grant.token_type == "DPoP" and grant.dpop_key is not None:
            prover = self.prover(grant.dpop_key)
        return Current(grant, version, renew_at, prover, replaces)

    def _written(self, current: Current) -> Optional[Current]:
        """Write a grant that could not be written when it came; return what is to be used."""
        if not current.may_write():
            return current
        try:
            return self._rewritten(current)
        except (AuthError, CallTimeout) as error:
            logger.warning("The token for %s cannot be kept: %s", self.server_name, str(error))
            return current

    # --- another grant ---------------------------------------------------------------------------------

    def renew(self, errand: Errand, used: Optional[str]) -> Optional[Current]:
        """Return the grant that replaces one: what others have got meanwhile, or a refreshed one.

        Args:
            errand: What it is for.
            used: The token that is of no use any more.

        Returns:
            ``None`` if there is none to be had without a login. The old grant is forgotten then only if the
            authorization server says that it is no good.

        Raises:
            TokenRequestFailed: Not now (``transient``); or the server does not accept this client.
        """
        with self._in_turn(errand, "the refresh of a token"):
            held = self.read()
            if held is None or self._is_newer(held, used):
                return held
            if held.grant.refresh_token is None:
                return None
            with self._locked(errand):
                held = self.read()
                if held is not None and not self._is_newer(held, used):
                    held = self._rewritten(held)
                if held is None or self._is_newer(held, used):
                    return held
                return self._refreshed(errand, held)

    def _rewritten(self, held: Current) -> Optional[Current]:
        """Write a grant as it is, or as it should be, and return what the store holds then.

        On a full disk this fails, and not the writing of what a refresh token was used up for.
        """
        expected = held.version if held.version is not None else held.replaces
        if self.vault.keep_grant(self.server, self.auth.principal, held.grant, expected):
            written = self.vault.grant(self.server, self.auth.principal)
            if written is not None and written.grant == held.grant:
                held.version = written.version
        return self.read()

    def _is_newer(self, held: Current, used: Optional[str]) -> bool:
        return held.grant.access_token != used and held.is_valid

    def _refreshed(self, errand: Errand, held: Current) -> Optional[Current]:
        found = self.vault.found(self.server)
        client = self._client_of(errand, held.grant, found)
        if found is None or client is None:
            return None
        grant = held.grant
        prover = self.prover(grant.dpop_key) if grant.dpop_key is not None else None
        signer = self.auth.identity.signer
        try:
            new = self.run(
                _granted.refresh(grant, found, client, now=_now(), signer=signer, prover=prover), errand
            )
        except TokenRequestFailed as error:
            return self._after_refusal(error, held, client)
        except AccessDenied as error:
            self.why = error.with_traceback(None)
            return None
        return self.keep(new, held.version)

    def _after_refusal(
        self, error: TokenRequestFailed, held: Current, client: ClientRecord
    ) -> Optional[Current]:
        """Find out what is left after a refresh that was refused."""
        if error.transient:
            raise error
        newer = self.read()
        if newer is not None and newer.grant.access_token != held.grant.access_token:
            return newer
        if error.error in FORGOTTEN:
            if not client.registered:
                raise error
            self.forget_client(client)
        # Its frames would keep alive whatever they hold.
        self.why = error.with_traceback(None)
        if error.error in ("invalid_grant", *FORGOTTEN):
            # Only what was refused: whatever is newer stays.
            self.vault.forget_grant(self.server, self.auth.principal, held.version)
            self.asked.clear()
            self.read()
        return None

    def _client_of(
        self, errand: Errand, grant: Grant, found: Optional[ServerRecord]
    ) -> Optional[ClientRecord]:
        """Return the client that a grant was given to, ``None`` if it does not exist any more."""
        if found is None or not same_issuer(found.issuer, grant.issuer):
            return None
        known = self.known_client(found.issuer)
        identity = self.auth.identity
        if identity.client_id is None and identity.metadata_url != grant.client_id:
            is_over = known is not None and known.expires_at is not None and known.expires_at <= _now()
            return known if known is not None and known.client_id == grant.client_id and not is_over else None
        client = self.run(identify(found, identity, known, None, _now()), errand)
        return client if client.client_id == grant.client_id else None

    def authorize(
        self,
        errand: Errand,
        used: Optional[str],
        challenge: Optional[Challenge],
        scope: Optional[str],
        must_cover: Optional[str] = None,
    ) -> Current:
        """Get a grant by a login, with a person or without; or take what others have got meanwhile.

        Args:
            errand: What it is for.
            used: The token that does not do.
            challenge: What the MCP server has said.
            scope: What to ask for, ``None`` for what the challenge, the user and the server say.
            must_cover: What a grant of others must be for, to be taken.

        Raises:
            AuthError: There is none.
        """
        with self._in_turn(errand, "the login"):
            held = self.read()
            if held is not None and self._is_newer(held, used) and is_for(held.grant, must_cover):
                return held
            login = Login(self, errand, challenge, scope, held.grant if held is not None else None, used)
            if self.auth._needs_person:
                return self.auth._log_in(login)
            with self._locked(errand):
                held = self.read()
                if held is not None and self._is_newer(held, used) and is_for(held.grant, must_cover):
                    return held
                return self.auth._log_in(login)

    def step_up(
        self,
        errand: Errand,
        used: Optional[str],
        challenge: Optional[Challenge],
        scope: Optional[str],
        demanded: Optional[str],
    ) -> Current:
        """Get a grant for more than before; see `authorize`.

        Raises:
            InsufficientScope: Somebody has to agree, and is not asked by this process.
            AuthError: There is none.
        """
        try:
            current = self.authorize(errand, used, challenge, scope, demanded)
        except AuthorizationRequired as error:
            scopes = tuple(scope_tokens(demanded))
            text = f"{self.server_name} asks for the scope {demanded!r}: {error}"
            raise InsufficientScope(text, url=error.url, scopes=scopes) from error
        self.asked.add(frozenset(scope_tokens(scope)))
        return current

    def log_out(self, seconds: float) -> bool:
        """Have the grant revoked, and forget it in any case; return whether it was revoked."""
        errand = Errand(deadline=Deadline(seconds))
        try:
            # A refresh that is under way would bring a grant that nobody revokes.
            with self._locked(errand):
                return self._log_out(errand)
        except CallTimeout:
            return self._log_out(errand)

    def _log_out(self, errand: Errand) -> bool:
        held, found = self.read(), self.vault.found(self.server)
        self.current = None
        self.asked.clear()
        is_revoked = False
        if held is not None:
            try:
                is_revoked = found is not None and self._revoke(held.grant, found, errand)
            except (AuthError, CallTimeout, UsageError) as error:
                logger.warning("A token of %s could not be revoked: %s", held.grant.issuer, error)
            finally:
                self.vault.forget_grant(self.server, self.auth.principal, None)
        return is_revoked

    def _revoke(self, grant: Grant, found: ServerRecord, errand: Errand) -> bool:
        client = self._client_of(errand, grant, found)
        if client is None or not found.metadata.get("revocation_endpoint"):
            return False
        signer = self.auth.identity.signer
        self.run(_granted.revoke(grant, found, client, now=_now(), signer=signer), errand)
        return True

    @contextmanager
    def _in_turn(self, errand: Errand, doing: str) -> Iterator[None]:
        turn, deadline = self._turn, errand.within(_TURN_SECONDS)
        got: list[bool] = []
        try:
            while not take(turn, _LOOK_SECONDS, got):
                got.clear()
                errand.check(deadline, f"{doing} for {self.server_name}")
            yield
        finally:
            if got and got[0]:
                turn.release()

    @contextmanager
    def _locked(self, errand: Errand) -> Iterator[None]:
        """Hold the grant against other processes."""
        key = self.vault.grant_key(self.server, self.auth.principal)
        if key is None:
            yield
            return
        with self.vault.store.lock(key, errand.within(CONVERSATION_SECONDS)):
            yield

    # --- what logins use -------------------------------------------------------------------------------

    def run(
        self, conversation: Conversation[Any], errand: Errand, seconds: float = CONVERSATION_SECONDS
    ) -> Any:
        """Run a conversation with an authorization server."""
        guard = Guard(self.server, self.auth._trusted_urls(), self.auth.fetcher.allow_private)
        return self.auth.fetcher.run(
            conversation, errand.within(seconds), errand=errand, guard=guard, server=self.origin
        )

    def find(self, errand: Errand, challenge: Optional[Challenge]) -> ServerRecord:
        """Find out anew who authorizes for the server: that may have changed."""
        found: ServerRecord = self.run(
            discover(self.server, challenge, issuer=self.auth.identity.issuer), errand
        )
        # Where there is a grant, it is to be found under what was known when it was got.
        if self.vault.found(self.server) is None:
            self.vault.keep_found(self.server, found)
        return found

    def known_client(self, issuer: str) -> Optional[ClientRecord]:
        """Return what is known of this client: at this authorization server, or else at the last one."""
        client = self.vault.client(issuer, self.auth.identity, self.auth._registered_for)
        last = self.vault.found(self.server)
        if client is None and last is not None and not same_issuer(last.issuer, issuer):
            client = self.vault.client(last.issuer, self.auth.identity, self.auth._registered_for)
        return client

    def keep_client(self, client: ClientRecord) -> None:
        """Keep a registration, and of a client that the user has registered to whom it is known."""
        if not client.client_id:
            return
        kept = client
        if not client.registered:
            kept = ClientRecord(client.issuer, client.client_id, method=client.method)
        if self.vault.client(client.issuer, self.auth.identity, self.auth._registered_for) != kept:
            self.vault.keep_client(client.issuer, self.auth.identity, kept, self.auth._registered_for)

    def forget_client(self, client: Optional[ClientRecord]) -> None:
        """Remove a registration, any with ``None``."""
        found = self.vault.found(self.server)
        issuer = client.issuer if client is not None else found.issuer if found is not None else None
        if issuer is not None:
            self.vault.forget_client(issuer, self.auth.identity, client, self.auth._registered_for)

    def new_prover(self, held: Optional[Grant]) -> Optional[Prover]:
        """Return what a new token will be bound to, ``None`` if to nothing."""
        if not self.auth.dpop:
            return None
        key = held.dpop_key if held is not None and held.dpop_key is not None else new_key()
        return self.prover(key)

    def prover(self, key: Any) -> Prover:
        """Return a prover for a key; all share the nonces of the servers."""
        return Prover(key, self._nonces)

    def keep_login(self, found: ServerRecord, client: ClientRecord, grant: Grant) -> Current:
        """Keep what a login has brought, with all that belongs to it. The latest login wins."""
        old = self.vault.grant_key(self.server, self.auth.principal)
        replaces = self.current.version if self.current is not None else None
        try:
            self.keep_client(client)
            self.vault.keep_found(self.server, found)
            if old is not None and old != self.vault.grant_key(self.server, self.auth.principal):
                stored = self.vault.store.get(old)
                if stored is not None:
                    self.vault.store.put(old, None, stored.version)
        except AuthError:
            self.current = self._usable(grant, None, replaces)
            raise
        held = self.vault.grant(self.server, self.auth.principal)
        return self.keep(grant, held.version if held is not None else None, is_login=True)

    def keep(self, grant: Grant, expected: Optional[str], *, is_login: bool = False) -> Current:
        """Keep a grant and use it; if somebody else was faster with a refresh, use theirs.

        Raises:
            AuthError: It cannot be written. It is used all the same, as long as this process runs, and each
                use tries to write it.
        """
        # First of all: a refresh token that has been used up must not be all that is left.
        self.current = current = self._usable(grant, None, expected)
        try:
            return self._kept(current, expected, is_login)
        finally:
            if current.version is None:
                current.must_be_written()

    def _kept(self, current: Current, expected: Optional[str], is_login: bool) -> Current:
        grant = current.grant
        for _ in range(_ATTEMPTS):
            if self.vault.keep_grant(self.server, self.auth.principal, grant, expected):
                break
            held = self.vault.grant(self.server, self.auth.principal)
            if not is_login:
                # Nothing there: somebody has logged out. The grant serves the request at hand, and no other.
                self.current = self._usable(held.grant, held.version) if held is not None else None
                return self.current or current
            expected = held.version if held is not None else None
        written: Optional[Held] = self.vault.grant(self.server, self.auth.principal)
        if written is not None and written.grant.access_token == grant.access_token:
            current.version = written.version
        self.why = None
        return current
