"""A login that is to be done, whichever way it is done."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Optional

from ..errors import AuthError, TokenRequestFailed
from ._challenge import Challenge
from ._current import Current
from ._errand import Errand
from ._records import ClientRecord, Grant, ServerRecord
from ._rules import first_scope, scope_tokens, scope_union

if TYPE_CHECKING:
    from ._access import Access

LONGEST_SCOPE = 4000
"""How many characters of scopes are asked for: more do not fit into the URL that the user is sent to."""

FORGOTTEN = ("invalid_client", "unauthorized_client")
"""What an authorization server says of a client that it does not know."""


class Login:
    """A login that is to be done.

    Attributes:
        access: For which server.
        errand: What it is for.
        found: Who authorizes for the server.
        challenge: What the MCP server has said.
        scope: What to ask for, if that is settled.
        used: The token that does not do.
        held: The grant that does not do, if there is one.
    """

    def __init__(
        self,
        access: Access,
        errand: Errand,
        found: ServerRecord,
        challenge: Optional[Challenge],
        scope: Optional[str],
        used: Optional[str],
    ) -> None:
        self.access = access
        self.errand = errand
        self.found = found
        self.challenge = challenge
        self.scope = scope
        self.used = used
        current = access.read()
        self.held: Optional[Grant] = current.grant if current is not None else None

    def on(self, errand: Errand) -> Login:
        """Return the same on another errand."""
        twin = copy.copy(self)
        twin.errand = errand
        return twin

    def scope_for(self, wanted: tuple[str, ...]) -> Optional[str]:
        """Return what to ask for: what was agreed on before does not get lost."""
        if self.scope is not None:
            return self.scope
        before = self.held.requested if self.held is not None else None
        now = first_scope(self.challenge, self.found, wanted)
        whole = scope_union(before, now)
        return whole if len(whole or "") <= LONGEST_SCOPE else now

    def others(self) -> Optional[Current]:
        """Return the grant that somebody else has got meanwhile, ``None`` if nobody has."""
        current = self.access.read()
        if current is None or not current.is_newer_than(self.used):
            return None
        before = self.held.access_token if self.held is not None else None
        return current if current.grant.access_token != before else None


def is_for(grant: Grant, scope: Optional[str]) -> bool:
    """Whether a grant is for certain scopes, as far as that is known."""
    return scope is None or set(scope_tokens(scope)) <= set(scope_tokens(grant.scope or grant.requested))


def invalid_registration(client: ClientRecord, error: AuthError) -> bool:
    """Whether an error says that the authorization server has forgotten a client which registered itself."""
    return client.registered and isinstance(error, TokenRequestFailed) and error.error in FORGOTTEN
