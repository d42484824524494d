"""What to do about a refusal of the MCP server: a pure decision about plain values.

It is taken anew after each try. Every try leaves its mark in `Case.tried`, and none is made twice, so that a
server which refuses everything costs one refresh, one login and one step-up, and then an error. Only a token
that has expired on its way to the server may be replaced a few times.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple, Optional, Union

from .._protocol.urls import public_url
from ..errors import AuthError, AuthorizationRequired, InsufficientScope
from ._answers import quoted
from ._challenge import Challenge
from ._records import Grant
from ._rules import scope_tokens, scope_union

NONCE = "nonce"
RESEND = "resend"
REFRESH = "refresh"
AUTHORIZE = "authorize"
STEP_UP = "step up"

_MOST_WHEN_LATE = 4  # tokens for one request, where each has expired before the refusal came
_LONGEST_SCOPE = 4000  # characters to ask for: more do not fit into the URL that the user is sent to
_TOO_LITTLE = "insufficient_scope"
_NEEDS_NONCE = "use_dpop_nonce"


class Try(NamedTuple):
    """What to try next.

    Attributes:
        what: `NONCE` (send again with the nonce that came), `RESEND` (send again with the grant that the
            store holds now), `REFRESH`, `AUTHORIZE` or `STEP_UP`.
        scope: What a step-up asks for.
    """

    what: str
    scope: Optional[str] = None


class GiveUp(NamedTuple):
    """Nothing is left to try.

    Attributes:
        error: What to raise.
    """

    error: AuthError


class Leave(NamedTuple):
    """It is none of authorization's business: the response goes to the caller."""


Decision = Union[Try, GiveUp, Leave]


@dataclass(frozen=True)
class Case:
    """A refusal, and all that counts for what to do about it.

    Attributes:
        server: The MCP server.
        status: The HTTP status.
        challenge: What the server says, if it says anything.
        used: The token that the request was sent with, ``None`` for none.
        is_late: Whether that token has expired by now: it may have been good when the request was sent, and
            the refusal says nothing else then.
        held: The grant that the store holds now.
        is_valid: Whether that grant has not expired.
        tried: What has been tried for this request already.
        can_refresh: Whether another grant can be had for the one that is held.
        may_ask: Whether a new grant can be had at all: without a person, or with one who may be asked.
        brings_nonce: Whether the response brings a nonce for proofs.
        asked: The sets of scopes that step-ups have asked for already.
        is_enough: Whether there were so many logins just now that another one makes no sense.
    """

    server: str
    status: int
    challenge: Optional[Challenge] = None
    used: Optional[str] = None
    is_late: bool = False
    held: Optional[Grant] = None
    is_valid: bool = True
    tried: Collection[str] = ()
    can_refresh: bool = False
    may_ask: bool = True
    brings_nonce: bool = False
    asked: Collection[frozenset[str]] = ()
    is_enough: bool = False

    @property
    def error(self) -> str:
        """The code of the challenge, empty if there is none."""
        return self.challenge.params.get("error", "") if self.challenge is not None else ""

    @property
    def is_newer_held(self) -> bool:
        """Whether somebody else has got another grant meanwhile."""
        return self.held is not None and self.is_valid and self.held.access_token != self.used


def decide(case: Case) -> Decision:
    """Return what to do about a refusal."""
    if case.error == _TOO_LITTLE and case.used is not None and case.status in (401, 403):
        return _about_scope(case)
    return _about_token(case) if case.status == 401 else Leave()


def _about_token(case: Case) -> Decision:
    tried = list(case.tried)
    if case.error == _NEEDS_NONCE and case.brings_nonce:
        # Another token would not help, and a third nonce no more than the second.
        return GiveUp(_wrong_nonce(case)) if tried[-1:] == [NONCE] else Try(NONCE)
    # Twice may others be faster; a third time would have no end.
    if case.is_newer_held and tried.count(RESEND) < max(2, _most(case)) and AUTHORIZE not in tried:
        return Try(RESEND)
    if case.held is not None and case.can_refresh and tried.count(REFRESH) < _most(case) and _is_first(case):
        return Try(REFRESH)
    if AUTHORIZE in case.tried or STEP_UP in case.tried or (case.used is not None and case.is_enough):
        return GiveUp(AuthError(_refuses(case), url=public_url(case.server)))
    if not case.may_ask:
        return GiveUp(AuthorizationRequired(f"{public_url(case.server)} asks for a login; {_silent()}"))
    return Try(AUTHORIZE)


def _most(case: Case) -> int:
    """Return how often it makes sense to try with a new token."""
    return _MOST_WHEN_LATE if case.is_late else 1


def _is_first(case: Case) -> bool:
    """Whether no token has been got for this request by a login: what is as new needs no refresh."""
    return AUTHORIZE not in case.tried and STEP_UP not in case.tried


def _about_scope(case: Case) -> Decision:
    assert case.used is not None
    wanted = demanded_scopes(case.challenge, case.used)
    held = case.held
    if held is not None and case.is_newer_held and RESEND not in case.tried and _covers(held, wanted):
        return Try(RESEND)
    asked_before = (held.requested or held.scope) if held is not None else None
    scope = scope_union(asked_before, *wanted)
    # What was asked for was to be had, or not: to ask once more would bring no more.
    known = frozenset(scope_tokens(scope)) in case.asked or (held is not None and _was_asked(held, wanted))
    if not wanted or STEP_UP in case.tried or known:
        return GiveUp(_too_little(case, wanted, "a token with all that was to be had does not suffice"))
    if len(scope or "") > _LONGEST_SCOPE:
        return GiveUp(_too_little(case, wanted[:1], "that is too much to ask for"))
    if not case.may_ask:
        return GiveUp(_too_little(case, wanted, _silent()))
    return Try(STEP_UP, scope)


def demanded_scopes(challenge: Optional[Challenge], used: Optional[str]) -> list[str]:
    """Return the scopes that a challenge asks for.

    Args:
        challenge: What the server says.
        used: The token that it got, which careless servers repeat.
    """
    known = [used] if used is not None else []
    demanded = challenge.params.get("scope") if challenge is not None else None
    return [scope for scope in scope_tokens(demanded) if quoted(scope, known) == scope]


def _covers(grant: Grant, wanted: Collection[str]) -> bool:
    """Whether a grant is for certain scopes, as far as the authorization server has said."""
    return bool(wanted) and set(wanted) <= set(scope_tokens(grant.scope))


def _was_asked(grant: Grant, wanted: Collection[str]) -> bool:
    """Whether certain scopes were asked for, or granted."""
    return set(wanted) <= {*scope_tokens(grant.requested), *scope_tokens(grant.scope)}


def _too_little(case: Case, wanted: Collection[str], why: str) -> InsufficientScope:
    asks = f"asks for the scope {' '.join(wanted)!r}" if wanted else "does not say which scope it asks for"
    return InsufficientScope(f"{public_url(case.server)} {asks}; {why}", scopes=tuple(wanted))


def _refuses(case: Case) -> str:
    params = case.challenge.params if case.challenge is not None else {}
    # Careless servers repeat what they were sent.
    known = [case.used] if case.used is not None else []
    parts = (params.get(name) for name in ("error", "error_description"))
    said = ": ".join(quoted(part, known) for part in parts if part)
    message = f"{public_url(case.server)} refuses a new token as well" + (f": {said}" if said else "")
    wants_proof = case.challenge is not None and case.challenge.scheme == "dpop"
    if wants_proof and case.held is not None and case.held.token_type == "Bearer":
        message += "; it takes only tokens that are bound to a key: give dpop=True"
    if case.is_late:
        message += "; it had expired by then: tokens are given too short a life, or a clock is wrong"
    return message


def _wrong_nonce(case: Case) -> AuthError:
    server = public_url(case.server)
    return AuthError(f"{server} refuses a proof with the nonce that it has just given", url=server)


def _silent() -> str:
    return "nobody may be asked for one (interactive=False), or nobody is there"
