"""Authorization by the user: the authorization code with PKCE.

`begin` says where to send the user, `check_callback` reads what they bring back, `redeem` gets the grant.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Optional
from urllib.parse import quote, unquote_plus, urlencode, urlsplit, urlunsplit

from .._protocol.urls import public_url
from ..errors import AccessDenied, AuthError, IssuerMismatch
from ._answers import quoted, refusal_of
from ._pkce import METHOD, challenge_of, new_state, new_verifier
from ._reading import read_record
from ._records import ClientRecord, Grant, Pending, ServerRecord
from ._rules import OFFLINE_ACCESS, check_redirect_uri, endpoint
from ._steps import Conversation
from ._token_request import ask_token, grant_of, with_resource

if TYPE_CHECKING:
    from ._dpop import Prover
    from ._signing import Signer


def begin(
    found: ServerRecord,
    client: ClientRecord,
    *,
    server: str,
    principal: str,
    redirect_uri: str,
    scope: Optional[str],
    now: float,
) -> Pending:
    """Begin an authorization.

    Args:
        found: The server.
        client: The client that asks.
        server: The MCP server.
        principal: Whose grant it will be.
        redirect_uri: Where the answer goes.
        scope: What to ask for, separated by spaces, ``None`` for nothing in particular.
        now: Seconds since 1970.

    Raises:
        UsageError: The redirect URI is neither https nor of this machine.
        AuthError: The server has no authorization endpoint, or does not know PKCE with S256: without it codes
            can be stolen, and the specification has the client refuse.
    """
    check_redirect_uri(redirect_uri)
    url = endpoint(found.metadata, "authorization_endpoint")
    if url is None:
        raise AuthError(f"{found.issuer} has no authorization_endpoint", url=public_url(found.issuer))
    methods = found.metadata.get("code_challenge_methods_supported")
    if not isinstance(methods, list) or METHOD not in methods:
        raise AuthError(
            f"{found.issuer} does not say that it knows PKCE with S256 (code_challenge_methods_supported)",
            url=public_url(found.issuer),
        )
    state, verifier = new_state(), new_verifier()
    params = {
        "response_type": "code",
        "client_id": client.client_id,
        "redirect_uri": redirect_uri,
        "state": state,
        "code_challenge": challenge_of(verifier),
        "code_challenge_method": METHOD,
        "resource": found.resource,
        "scope": scope or None,
        # Else the scope is ignored (OpenID Connect Core, section 11).
        "prompt": "consent" if OFFLINE_ACCESS in (scope or "").split() else None,
    }
    return Pending(
        url=_with_params(url, {name: value for name, value in params.items() if value is not None}),
        state=state,
        verifier=verifier,
        server=server,
        principal=principal,
        found=found.to_json(),
        client=client.to_json(),
        redirect_uri=redirect_uri,
        scope=scope,
        created_at=now,
    )


def check_callback(pending: Pending, params: Mapping[str, str]) -> str:
    """Return the code that an authorization response brings.

    Args:
        pending: The authorization that it should belong to.
        params: The query of the callback, decoded.

    Raises:
        IssuerMismatch: It comes from another authorization server (RFC 9207, section 2.4). Nothing of what it
            says is repeated then.
        AccessDenied: The user or the server has refused.
        AuthError: It does not belong to this authorization, or brings nothing.
    """
    found, _ = _parties(pending)
    url = public_url(found.issuer)
    if not hmac.compare_digest(_bytes(params.get("state", "")), _bytes(pending.state)):
        raise AuthError("the answer does not belong to this authorization: its state is another", url=url)
    code = params.get("code")
    secrets = [pending.verifier, pending.state, code or ""]
    _check_sender(found, params.get("iss"), secrets)
    refusal = refusal_of(params, secrets)
    if refusal.error:
        raise AccessDenied(
            f"{found.issuer} refused the authorization: {refusal}", url=url, error=refusal.error
        )
    if not code:
        raise AuthError(f"the answer of {found.issuer} brings neither a code nor an error", url=url)
    return code


def redeem(
    pending: Pending,
    code: str,
    *,
    now: float,
    signer: Optional[Signer] = None,
    prover: Optional[Prover] = None,
    dpop_key: Optional[Mapping[str, Any]] = None,
) -> Conversation[Grant]:
    """Get the grant for a code.

    Args:
        pending: The authorization.
        code: What `check_callback` returned.
        now: Seconds since 1970.
        signer: What signs for a client that authenticates by ``private_key_jwt``.
        prover: What the token will be bound to, if to anything.
        dpop_key: The key of the prover.

    Raises:
        TokenRequestFailed: There is none.
    """
    found, client = _parties(pending)
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": pending.redirect_uri,
        "code_verifier": pending.verifier,
    }
    answer = yield from ask_token(
        found,
        client,
        with_resource(form, found.resource),
        now=now,
        signer=signer,
        prover=prover,
        purpose="token for the code",
    )
    return grant_of(
        answer,
        issuer=found.issuer,
        resource=found.resource,
        client_id=client.client_id,
        requested=pending.scope,
        now=now,
        dpop_key=dpop_key,
    )


def _parties(pending: Pending) -> tuple[ServerRecord, ClientRecord]:
    """Return the authorization server and the client of an authorization, which may come from anywhere."""
    try:
        return read_record(ServerRecord, pending.found), read_record(ClientRecord, pending.client)
    except TypeError as error:
        raise AuthError(f"the pending authorization is damaged: {error}") from error


def _with_params(url: str, params: Mapping[str, str]) -> str:
    """Return a URL with parameters added to its query; what is there stays as it is, or is replaced."""
    parts = urlsplit(url)
    kept = [
        item for item in parts.query.split("&") if item and unquote_plus(item.partition("=")[0]) not in params
    ]
    query = "&".join([*kept, urlencode(params, quote_via=quote, safe="")])
    return urlunsplit(parts._replace(query=query))


def _check_sender(found: ServerRecord, issuer: Optional[str], secrets: Iterable[str]) -> None:
    """Compare letter by letter: neither slashes nor upper case are forgiven here."""
    if issuer is None and found.metadata.get("authorization_response_iss_parameter_supported") is not True:
        return
    if issuer != found.issuer:
        actual = quoted(issuer, secrets) if issuer is not None else ""
        said = f"says that it is from {actual!r}" if issuer is not None else "does not say from whom it is"
        raise IssuerMismatch(
            f"the answer should be from {found.issuer!r}, but {said}",
            url=public_url(found.issuer),
            expected=found.issuer,
            actual=actual,
        )


def _bytes(text: str) -> bytes:
    # Only ASCII can be compared in constant time as text.
    return text.encode("utf-8", "surrogatepass")
