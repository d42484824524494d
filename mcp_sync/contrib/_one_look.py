"""What a request finds out about its user's grant, with one look at the store."""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import Any, Optional

from ..auth import Key
from ..auth._hook import TokenAuth
from ..auth._records import Grant, ServerRecord
from ..auth._vault import Kept, Vault
from ..errors import MCPError

_MOST = 10_000
_Logins = tuple[float, ...]


class OneLookVault(Vault):
    """A vault that asks a store for both records that lead to a grant at once, if it has ``get_many(keys)``.

    Where a grant is kept follows from the record of its server, which changes seldom. So both are asked for
    as they were named the last time, and what was found counts if the name was right.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # Users share it: their keys differ. Single operations only, so it needs no lock.
        self._last: dict[Key, Key] = {}
        # When the user has logged in, as it was seen first and last; `None` before that.
        self._logins: Optional[tuple[_Logins, _Logins]] = None

    def for_principal(self, principal: str) -> OneLookVault:
        """See `Vault.for_principal`."""
        twin: OneLookVault = super().for_principal(principal)  # type: ignore[assignment]
        twin._logins = None
        return twin

    @property
    def has_new_login(self) -> bool:
        """Whether the user has logged in since this was first looked into, perhaps as somebody else."""
        return self._logins is not None and self._logins[0] != self._logins[1]

    @property
    def login(self) -> str:
        """The login that was seen first, empty if none was."""
        return repr(self._logins[0][-1]) if self._logins and self._logins[0] else ""

    def found(self, server: str) -> Optional[ServerRecord]:
        """See `Vault.found`."""
        return self._seen(super().found(server))

    def _seen(self, found: Optional[ServerRecord]) -> Optional[ServerRecord]:
        if found is not None:
            first = found.logins if self._logins is None else self._logins[0]
            self._logins = (first, found.logins)
        return found

    def grant(self, server: str) -> Optional[Kept]:
        """See `Vault.grant`."""
        get_many = getattr(self.store._store, "get_many", None)
        if get_many is None:
            return super().grant(server)
        key = self._server_key(server)
        guess = self._last.get(key)
        try:
            stored = get_many([key] if guess is None else [key, guess])
        except MCPError:
            raise
        except Exception as error:
            raise self.store._failed(error) from error
        found = self._understood(ServerRecord, key, stored[key]) if key in stored else None
        if self._seen(found) is None or found is None:
            return None
        grant_key = self._grant_key(server, found.issuer, found.resource)
        if grant_key != guess:
            if len(self._last) >= _MOST:
                self._last.clear()
            self._last[key] = grant_key
            return self.grant_under(grant_key)
        if grant_key not in stored:
            return None
        grant = self._understood(Grant, grant_key, stored[grant_key])
        return None if grant is None else Kept(grant, stored[grant_key].version)


def note_account(oauth: TokenAuth, url: str) -> None:
    """Have answers that are kept for a user be those for the account that they have logged in with now.

    As long as that is not known, they are for this object alone.
    """
    if isinstance(oauth.vault, OneLookVault):
        with suppress(MCPError):
            oauth._access_of(url).read()
        oauth._account = oauth.vault.login or secrets.token_hex(16)


def look_once(oauth: TokenAuth) -> None:
    """Have the authorization of an application, just made, look at its store in that way."""
    oauth.vault = OneLookVault(
        oauth.vault.store._store, oauth.identity, oauth._registered_for, oauth.principal
    )


def look_again(oauth: TokenAuth) -> bool:
    """See what the store holds by now: another process may have changed it.

    Returns:
        Whether the user has logged in meanwhile, perhaps as somebody else.
    """
    for access in list(oauth._accesses.values()):
        try:
            access.read()
        except MCPError:
            # The next request looks by itself, and knows what to do without the store.
            current = access.in_use.current
            if current is not None:
                current.look_at = 0.0
    return isinstance(oauth.vault, OneLookVault) and oauth.vault.has_new_login
