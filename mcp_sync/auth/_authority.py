"""The authorization server of an MCP server, and how this client is known to it."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Optional

from .._protocol.urls import origin
from . import _granted
from ._addresses import Guard
from ._challenge import Challenge
from ._discovery import discover
from ._dpop import Prover
from ._errand import Errand
from ._records import ClientRecord, Grant, ServerRecord
from ._registration import check_belongs, identify
from ._rules import same_issuer
from ._steps import Conversation

if TYPE_CHECKING:
    from ._hook import TokenAuth

CONVERSATION_SECONDS = 30.0

# So many logins in so many seconds are enough: where the last token is refused, too, another would be.
MOST_LOGINS = 3
_LOGIN_SECONDS = 120.0

_now = time.time


class Authority:
    """See the module. What it knows is in the store.

    Args:
        auth: What the user has set.
        server: The URL of the MCP server.
    """

    def __init__(self, auth: TokenAuth, server: str) -> None:
        self._auth = auth
        self._vault = auth.vault
        self._server = server
        # By issuer and client: how it could authenticate. Single operations only.
        self._methods: dict[tuple[str, str], str] = {}

    def run(
        self, conversation: Conversation[Any], errand: Errand, seconds: float = CONVERSATION_SECONDS
    ) -> Any:
        """Run a conversation with it."""
        auth = self._auth
        guard = Guard(self._server, auth._trusted_urls(), auth.fetcher.allow_private)
        return auth.fetcher.run(
            conversation,
            errand.within(seconds),
            errand=errand,
            guard=guard,
            server=origin(self._server),
            learn=self._learn,
        )

    def known(self) -> Optional[ServerRecord]:
        """Return what is known of it."""
        return self._vault.found(self._server)

    def find(self, errand: Errand, challenge: Optional[Challenge]) -> ServerRecord:
        """Find out anew who authorizes for the server: that may have changed."""
        found: ServerRecord = self.run(
            discover(self._server, challenge, issuer=self._auth.identity.issuer), errand
        )
        # Where there is a grant, it is to be found under what was known when it was got.
        if self.known() is None:
            self._vault.keep_found(self._server, found)
        return found

    def keep_login(self, found: ServerRecord) -> None:
        """Keep where the user has logged in, and when."""
        known = self.known()
        before = known.logins if known is not None else ()
        self._vault.keep_found(self._server, replace(found, logins=(*before, _now())[-MOST_LOGINS:]))

    def has_logged_in_again_and_again(self) -> bool:
        """Whether there were that many logins just now that another one makes no sense."""
        known = self.known()
        recent = [each for each in known.logins if abs(_now() - each) < _LOGIN_SECONDS] if known else []
        return len(recent) >= MOST_LOGINS

    def forget_logins(self) -> None:
        """Have the earlier logins count no more: what they brought is over, and was of use before."""
        known = self.known()
        if known is not None and known.logins:
            self._vault.keep_found(self._server, replace(known, logins=()))

    # --- the client ----------------------------------------------------------------------------------------

    def known_client(self, issuer: str) -> Optional[ClientRecord]:
        """Return what is known of this client: at this authorization server, or else at the last one.

        Of credentials that were given by hand: at the one where they belong, if that is another.
        """
        first = self._first_client()
        if first is not None and not same_issuer(first.issuer, issuer):
            return first
        client = self._vault.client(issuer)
        last = self.known()
        if client is None and last is not None and not same_issuer(last.issuer, issuer):
            client = self._vault.client(last.issuer)
        return client

    def _first_client(self) -> Optional[ClientRecord]:
        return self._vault.first_client() if self._auth.identity.issuer is None else None

    def bind(self, client: ClientRecord) -> None:
        """Have credentials that were given by hand belong to the authorization server that will see them.

        They belong where they are used first, whoever the user is and whatever the MCP server, unless the
        user says where ("Authorization Server Binding" of the specification).

        Raises:
            IssuerMismatch: They belong to another.
        """
        identity = self._auth.identity
        is_by_hand = not client.registered and client.client_id == (identity.client_id or "")
        if not is_by_hand or identity.issuer is not None:
            return
        if self._vault.first_client() is None:
            self._vault.keep_first_client(ClientRecord(client.issuer, client.client_id))
        check_belongs(client.issuer, identity, self._vault.first_client())

    def keep_client(self, client: ClientRecord) -> None:
        """Keep a registration, and of a client that the user has registered to whom it is known."""
        if not client.client_id:
            return
        method = self._methods.get((client.issuer, client.client_id), client.method)
        kept = replace(client, method=method)
        if not client.registered:
            kept = ClientRecord(client.issuer, client.client_id, method=method)
        if self._vault.client(client.issuer) == kept:
            return
        self._vault.keep_client(kept)

    def _learn(self, client: ClientRecord) -> None:
        """Remember how a client could authenticate, though the server or the user had said otherwise."""
        if client.method is None:
            return
        self._methods[client.issuer, client.client_id] = client.method
        known = self._vault.client(client.issuer)
        if known is not None and known.client_id == client.client_id:
            self.keep_client(known)

    def forget_client(self, client: Optional[ClientRecord]) -> None:
        """Remove a registration; with ``None`` any, and where credentials belong that were given by hand."""
        if client is None:
            self._vault.forget_first_client()
        found = self.known()
        issuer = client.issuer if client is not None else found.issuer if found is not None else None
        if issuer is not None:
            self._vault.forget_client(issuer, client)

    def client_of(
        self, errand: Errand, grant: Grant, found: Optional[ServerRecord]
    ) -> Optional[ClientRecord]:
        """Return the client that a grant was given to, ``None`` if it does not exist any more."""
        if found is None or not same_issuer(found.issuer, grant.issuer):
            return None
        known = self.known_client(found.issuer)
        identity = self._auth.identity
        if identity.client_id is None and identity.metadata_url != grant.client_id:
            is_over = known is not None and known.expires_at is not None and known.expires_at <= _now()
            return known if known is not None and known.client_id == grant.client_id and not is_over else None
        client: ClientRecord = self.run(identify(found, identity, known, None, _now()), errand)
        return client if client.client_id == grant.client_id else None

    # --- grants --------------------------------------------------------------------------------------------

    def refresh(
        self,
        errand: Errand,
        grant: Grant,
        found: ServerRecord,
        client: ClientRecord,
        prover: Optional[Prover],
    ) -> Grant:
        """Have it give a new grant for the refresh token of an old one.

        Raises:
            AuthError: It does not.
        """
        signer = self._auth.identity.signer
        new: Grant = self.run(
            _granted.refresh(grant, found, client, now=_now(), signer=signer, prover=prover), errand
        )
        return new

    def revoke(self, errand: Errand, grant: Grant, found: ServerRecord) -> bool:
        """Have it revoke a grant; return whether it did.

        Raises:
            AuthError: It cannot be asked, or refuses.
        """
        client = self.client_of(errand, grant, found)
        if client is None or not found.metadata.get("revocation_endpoint"):
            return False
        signer = self._auth.identity.signer
        self.run(_granted.revoke(grant, found, client, now=_now(), signer=signer), errand)
        return True
