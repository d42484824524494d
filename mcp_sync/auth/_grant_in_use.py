"""The grant that this process uses for an MCP server, and what the store holds of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any, Optional

from .._protocol.urls import public_url
from ..errors import AuthError, CallTimeout
from ._current import Current
from ._dpop import Prover
from ._records import Grant
from ._vault import Kept, Vault

logger = logging.getLogger("mcp_sync.auth")

_ATTEMPTS = 20  # to write what a login has brought, while others keep writing

_now = time.time


class GrantInUse:
    """See the module. Safe for any number of threads; getting another grant is a matter of turns.

    Args:
        vault: Where it is kept.
        server: The URL of the MCP server.
        leeway: How many seconds before its expiry a token is replaced.

    Attributes:
        current: The grant that was used last; a single reference, which is replaced in one step.
        asked: The sets of scopes that step-ups have got, for a grant that is not forgotten.
        news: Tells that the user has logged in or out by another object.
        why: Why there is no grant any more, if that is known.
    """

    def __init__(self, vault: Vault, server: str, leeway: float) -> None:
        self._vault = vault
        self._server = server
        self._leeway = leeway
        self.news = vault.news
        self._nonces: dict[str, str] = {}
        self.current: Optional[Current] = None
        self.asked: set[frozenset[str]] = set()
        self.why: Optional[AuthError] = None

    def read(self) -> Optional[Current]:
        """Take what the store holds now."""
        news = self.news.mark
        current = self._held()
        if current is not None:
            current.looked(news)
        return current

    def _held(self) -> Optional[Current]:
        kept = self._vault.grant(self._server)
        current = self.current
        version = kept.version if kept is not None else None
        if current is not None and current.version is None and current.replaces == version:
            # It could not be written, but what the store holds is used up.
            return current
        if kept is None:
            self.current = None
            self.asked.clear()
            return None
        if current is None or current.version != kept.version:
            self.current = current = self._usable(kept.grant, kept.version)
        return current

    def written(self, current: Current) -> Optional[Current]:
        """Write a grant that could not be written when it came; return what is to be used."""
        if not current.may_write():
            return current
        try:
            return self.rewritten(current)
        except (AuthError, CallTimeout) as error:
            logger.warning("The token for %s cannot be kept: %s", public_url(self._server), str(error))
            return current

    def rewritten(self, current: Current) -> Optional[Current]:
        """Write a grant as it is, or as it should be, and return what the store holds then.

        On a full disk this fails, and not the writing of what a refresh token was used up for.
        """
        expected = current.version if current.version is not None else current.replaces
        if self._vault.keep_grant(self._server, current.grant, expected):
            kept = self._vault.grant(self._server)
            if kept is not None and kept.grant == current.grant:
                current.version = kept.version
        return self.read()

    def use_unwritten(self, grant: Grant) -> None:
        """Use a grant that a login has brought, and that cannot be written."""
        replaces = self.current.version if self.current is not None else None
        self.current = self._usable(grant, None, replaces)

    def keep(self, grant: Grant, expected: Optional[str], *, is_login: bool = False) -> Current:
        """Keep a grant and use it; if somebody else was faster with a refresh, use theirs.

        Args:
            grant: The new grant.
            expected: The version that it replaces, ``None`` if there was none.
            is_login: Whether it is the outcome of a login: the latest one wins.

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
        key = self._vault.key_of(self._server, grant)
        for _ in range(_ATTEMPTS):
            if self._vault.keep_grant(self._server, grant, expected):
                break
            stored = self._vault.grant_under(key)
            if not is_login:
                # Nothing there: somebody has logged out, and the grant serves nobody.
                self.current = self._usable(stored.grant, stored.version) if stored is not None else None
                return self.current or current
            expected = stored.version if stored is not None else None
        if is_login:
            self.news.tell()
        news = self.news.mark
        kept: Optional[Kept] = self._vault.grant_under(key)
        if kept is not None and kept.grant.access_token == grant.access_token:
            current.version = kept.version
        current.looked(news)
        self.why = None
        return current

    def forget(self, version: Optional[str]) -> None:
        """Forget the grant that was refused; whatever is newer stays."""
        self._vault.forget_grant(self._server, version)
        self.news.tell()
        self.asked.clear()
        self.read()

    def _usable(self, grant: Grant, version: Optional[str], replaces: Optional[str] = None) -> Current:
        renew_at = float("inf")
        if grant.expires_at is not None:
            # Half of what is left at most, so that short lives do not make for one refresh after the other.
            left = grant.expires_at - _now()
            renew_at = grant.expires_at - min(self._leeway, max(left, 0.0) / 2)
        prover = None
        if grant.token_type == "DPoP" and grant.dpop_key is not None:
            prover = self.prover(grant.dpop_key)
        return Current(grant, version, renew_at, prover, replaces)

    def prover(self, key: Mapping[str, Any]) -> Prover:
        """Return a prover for a key; all share the nonces of the servers."""
        return Prover(key, self._nonces)
