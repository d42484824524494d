"""What is done with a grant later: it is refreshed, and in the end it is given back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from .._protocol.urls import public_url
from ..errors import AuthError, IssuerMismatch, TokenRequestFailed
from ._answers import described, is_passing
from ._records import ClientRecord, Grant, ServerRecord
from ._rules import endpoint, same_issuer
from ._steps import Conversation
from ._token_request import ask_token, grant_of, post, with_resource

if TYPE_CHECKING:
    from ._dpop import Prover
    from ._signing import Signer


def refresh(
    grant: Grant,
    found: ServerRecord,
    client: ClientRecord,
    *,
    now: float,
    signer: Optional[Signer] = None,
    prover: Optional[Prover] = None,
) -> Conversation[Grant]:
    """Get a new grant for the refresh token of an old one. What the answer leaves out stays as it was.

    Raises:
        IssuerMismatch: The grant is from another authorization server.
        TokenRequestFailed: There is none.
    """
    _check_owner(grant, found, client)
    if grant.refresh_token is None:
        raise TokenRequestFailed("there is no refresh token", url=public_url(found.issuer))
    form = {"grant_type": "refresh_token", "refresh_token": grant.refresh_token}
    answer = yield from ask_token(
        found,
        client,
        with_resource(form, grant.resource),
        now=now,
        signer=signer,
        prover=prover,
        purpose="token for the refresh token",
    )
    return grant_of(
        answer,
        issuer=grant.issuer,
        resource=grant.resource,
        client_id=grant.client_id,
        requested=grant.requested,
        now=now,
        old=grant,
        dpop_key=grant.dpop_key,
    )


def revoke(
    grant: Grant,
    found: ServerRecord,
    client: ClientRecord,
    *,
    now: float,
    signer: Optional[Signer] = None,
) -> Conversation[None]:
    """Have a grant revoked (RFC 7009), the refresh token first. Without a revocation endpoint do nothing.

    Raises:
        IssuerMismatch: The grant is from another authorization server.
        AuthError: One of the tokens was not revoked; the other was tried all the same.
    """
    _check_owner(grant, found, client)
    url = endpoint(found.metadata, "revocation_endpoint")
    if url is None:
        return
    failed: Optional[AuthError] = None
    for hint, token in (("refresh_token", grant.refresh_token), ("access_token", grant.access_token)):
        if token is not None:
            try:
                yield from _revoke_token(url, hint, token, found, client, now, signer)
            except AuthError as error:
                failed = failed or error
    if failed is not None:
        raise failed


def _revoke_token(
    url: str,
    hint: str,
    token: str,
    found: ServerRecord,
    client: ClientRecord,
    now: float,
    signer: Optional[Signer],
) -> Conversation[None]:
    form = {"token": token, "token_type_hint": hint}
    posted = yield from post(
        found, client, url, form, now=now, signer=signer, purpose="revocation of a token"
    )
    status, refusal = posted.answer.status, posted.refusal
    # A server may revoke one kind of tokens only (RFC 7009, section 2.2.1).
    if status >= 300 and refusal.error != "unsupported_token_type":
        raise TokenRequestFailed(
            f"{found.issuer} did not revoke the {hint}: {described(posted.answer, posted.secrets)}",
            url=public_url(url),
            error=refusal.error,
            status=status,
            transient=is_passing(status),
        )


def _check_owner(grant: Grant, found: ServerRecord, client: ClientRecord) -> None:
    """Send tokens nowhere but to where they are from, and in no other name."""
    if not same_issuer(grant.issuer, found.issuer) or not same_issuer(client.issuer, found.issuer):
        other = found.issuer if same_issuer(client.issuer, grant.issuer) else client.issuer
        raise IssuerMismatch(
            f"the grant is from {grant.issuer}, not from {other}",
            url=public_url(found.issuer),
            expected=grant.issuer,
            actual=other,
        )
    if grant.client_id != client.client_id:
        raise TokenRequestFailed("the grant was given to another client", url=public_url(found.issuer))
