"""What is there for a server, without asking anybody."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Optional

from ._records import Grant, ServerRecord

VALID = "valid"
REFRESHABLE = "refreshable"
EXPIRED = "expired"
NEEDS_LOGIN = "needs_login"
NONE = "none"


@dataclass(frozen=True)
class Status:
    """What is there for an MCP server.

    Attributes:
        state: ``"valid"``; ``"refreshable"`` (expired, but there is a refresh token); ``"expired"``;
            ``"needs_login"`` (the server is known, but there is no grant); ``"none"`` (it is not known).
        issuer: Its authorization server, ``None`` while that is not known.
        scope: What was granted, separated by spaces, ``None`` where nobody has said.
        expires_at: When the token expires, in seconds since 1970, ``None`` where that is not known.
        token_type: ``"Bearer"`` or ``"DPoP"``, ``None`` without a token.
    """

    state: str
    issuer: Optional[str] = None
    scope: Optional[str] = None
    expires_at: Optional[float] = None
    token_type: Optional[str] = None


def status_of(found: Optional[ServerRecord], grant: Optional[Grant]) -> Status:
    """Say what a record and a grant come to."""
    if grant is None:
        return Status(NEEDS_LOGIN, found.issuer) if found is not None else Status(NONE)
    state = VALID
    if grant.expires_at is not None and grant.expires_at <= time.time():
        state = REFRESHABLE if grant.refresh_token is not None else EXPIRED
    return Status(state, grant.issuer, grant.scope, grant.expires_at, grant.token_type)
