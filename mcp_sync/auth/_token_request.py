"""Requests to the token endpoint: who asks, what is granted, what a refusal means (RFC 6749, section 5)."""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Optional
from urllib.parse import quote

from .._protocol.urls import public_url
from ..errors import AccessDenied, AuthError, TokenRequestFailed, UsageError
from ._answers import (
    Refusal,
    described,
    is_passing,
    is_text,
    json_object,
    number_of,
    refusal_of,
    text_of,
)
from ._records import ClientRecord, Grant, ServerRecord
from ._registration import BASIC, METHODS, NONE, POST, SIGNED
from ._rules import endpoint, scope_union
from ._signing import Signer, client_assertion
from ._steps import Answer, Conversation, Fetch, Learned

if TYPE_CHECKING:
    from ._dpop import Prover

logger = logging.getLogger("mcp_sync.auth")

ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

# What may be shown of a request; everything else in it is a secret.
_PUBLIC = (
    "grant_type",
    "client_id",
    "scope",
    "resource",
    "audience",
    "redirect_uri",
    "token_type_hint",
    "client_assertion_type",
    "subject_token_type",
    "actor_token_type",
    "requested_token_type",
)
# Codes after which the same request may have another outcome (RFC 6749, 4.1.2.1; RFC 8628, 3.5).
_PASSING = ("temporarily_unavailable", "server_error", "authorization_pending", "slow_down")
_NAMED = BASIC + " with client_id in the body"
_BLANK = _NAMED + ", and an empty client_secret"
# What a server says of a client that it does not know by the method that was used.
_UNKNOWN = ("invalid_client", "invalid_request")
_TOKEN_TYPES = {"bearer": "Bearer", "dpop": "DPoP"}


class Posted(NamedTuple):
    """What came of a request for which the client has authenticated.

    Attributes:
        answer: The answer.
        secrets: What was sent and must not be shown.
        method: How the client has authenticated.
    """

    answer: Answer
    secrets: tuple[str, ...]
    method: str

    @property
    def refusal(self) -> Refusal:
        """How the server refused; empty if it did not."""
        return refusal_of(json_object(self.answer.body) or {}, self.secrets)


def authentication_method(client: ClientRecord, found: ServerRecord) -> str:
    """Return how a client authenticates: as it is registered or has learned, else as the server likes."""
    has_secret = client.client_secret is not None
    if client.method in (*METHODS, _NAMED, _BLANK) and (has_secret or client.method in (NONE, SIGNED)):
        return client.method
    if not has_secret:
        return NONE
    offered = found.metadata.get("token_endpoint_auth_methods_supported")
    methods = offered if isinstance(offered, list) else []
    return next((method for method in (BASIC, POST, NONE) if method in methods), BASIC)


def ask_token(
    found: ServerRecord,
    client: ClientRecord,
    form: Mapping[str, str],
    *,
    now: float,
    signer: Optional[Signer] = None,
    prover: Optional[Prover] = None,
    purpose: str,
) -> Conversation[Mapping[str, Any]]:
    """Ask the token endpoint.

    Args:
        found: The server.
        client: Who asks. One without a name is not mentioned: what it shows says enough (RFC 7523, 3.1).
        form: What for: ``grant_type`` and all that goes with it.
        now: Seconds since 1970.
        signer: What signs for a client that authenticates by ``private_key_jwt``.
        prover: What the token will be bound to (RFC 9449), if to anything.
        purpose: What it is about, for an error: "a token for the code".

    Returns:
        The answer, with an ``access_token`` in it.

    Raises:
        AccessDenied: The user, or the server for them, has refused.
        TokenRequestFailed: There is no token for another reason.
        AuthError: The server has no endpoint to which secrets may be sent.
    """
    url = endpoint(found.metadata, "token_endpoint")
    if url is None:
        raise AuthError(f"{found.issuer} has no token_endpoint", url=public_url(found.issuer))
    posted = yield from post(found, client, url, form, now=now, signer=signer, prover=prover, purpose=purpose)
    body = json_object(posted.answer.body) or {}
    granted = posted.answer.status < 300 and not body.get("error")
    if not granted or text_of(body, "access_token") is None:
        raise failure(posted, found, url, purpose)
    if posted.method != authentication_method(client, found):
        yield Learned(replace(client, method=posted.method))
    return body


def post(
    found: ServerRecord,
    client: ClientRecord,
    url: str,
    form: Mapping[str, str],
    *,
    now: float,
    signer: Optional[Signer] = None,
    prover: Optional[Prover] = None,
    purpose: str,
) -> Conversation[Posted]:
    """Post a form for which the client authenticates.

    A server that does not know the client by one method is asked once more by the other: some list methods
    that they do not take. One that misses the name in the body gets it there, beside Basic: that of the
    official Python SDK cannot do without it, others refuse it.
    """
    method = authentication_method(client, found)
    request = _Request(found, client, url, form, signer, prover, purpose, now)
    first = yield from _send(request, method)
    if first.answer.status < 400 or client.client_secret is None or method == SIGNED:
        return first
    if method == BASIC and "client_id" in first.refusal.description:
        method, first = _NAMED, (yield from _send(request, _NAMED))
    if method == _NAMED:
        return (yield from _after_named(request, first))
    if first.refusal.error not in _UNKNOWN:
        return first
    second = yield from _send(request, POST if method == BASIC else BASIC)
    # What the second says about anything but the client itself is nearer to the truth.
    return first if second.refusal.error in _UNKNOWN else second


def _after_named(request: _Request, named: Posted) -> Conversation[Posted]:
    """Send it once more if the name in the body does not suffice either.

    For the revocation, the server of the official Python SDK wants a ``client_secret`` in the body as well,
    whatever it is, though it has it from Basic. It gets an empty one, which means none (RFC 6749, section
    2.3.1): two authentications in one request are forbidden.
    """
    refusal = named.refusal
    if named.answer.status < 400 or refusal.error not in (*_UNKNOWN, "unauthorized_client"):
        return named
    misses_secret = refusal.error == "invalid_request" and "client_secret" in refusal.description
    return (yield from _send(request, _BLANK if misses_secret else POST))


def failure(posted: Posted, found: ServerRecord, url: str, purpose: str) -> AuthError:
    """Return the error for an answer that grants nothing."""
    answer, refusal = posted.answer, posted.refusal
    said = described(answer, posted.secrets)
    has_json = json_object(answer.body) is not None
    if answer.status < 300 and has_json and not refusal.error:
        said += ", no access_token"
    message = f"{found.issuer} gave no {purpose}: {said}"
    if refusal.error == "access_denied":
        return AccessDenied(message, url=public_url(url), error=refusal.error)
    return TokenRequestFailed(
        message,
        url=public_url(url),
        error=refusal.error,
        status=answer.status,
        # A page where JSON should be comes from a gateway.
        transient=is_passing(answer.status)
        or refusal.error in _PASSING
        or (answer.status < 300 and not has_json),
    )


def grant_of(
    answer: Mapping[str, Any],
    *,
    issuer: str,
    resource: Optional[str],
    client_id: str,
    requested: Optional[str],
    now: float,
    old: Optional[Grant] = None,
    dpop_key: Optional[Mapping[str, Any]] = None,
) -> Grant:
    """Read what the token endpoint has granted.

    Args:
        answer: The answer.
        issuer: Whose it is.
        resource: What the token is for.
        client_id: Who has asked.
        requested: The scope that was asked for.
        now: Seconds since 1970, when it was asked for.
        old: The grant that was refreshed; what the answer leaves out of refresh token and scope is kept.
        dpop_key: The key that the token was to be bound to.

    Raises:
        TokenRequestFailed: It is no token that can be presented.
    """
    token = text_of(answer, "access_token")
    given_type = answer.get("token_type") or "Bearer"
    token_type = _TOKEN_TYPES.get(given_type.lower()) if isinstance(given_type, str) else None
    problem = _problem(token, token_type, dpop_key)
    if token is None or token_type is None or problem:
        raise TokenRequestFailed(
            f"{issuer} gave a token that cannot be used: {problem}", url=public_url(issuer)
        )
    scope = answer.get("scope")
    granted = scope_union(*scope) if isinstance(scope, list) else scope_union(scope)
    return Grant(
        issuer,
        resource,
        client_id,
        token,
        token_type,
        _expiry(answer.get("expires_in"), now, issuer),
        text_of(answer, "refresh_token") or (old.refresh_token if old is not None else None),
        granted or (old.scope if old is not None else None),
        requested or (old.requested if old is not None else None),
        dpop_key,
    )


def with_resource(form: dict[str, str], resource: Optional[str]) -> dict[str, str]:
    """Return a form that says what the token is for (RFC 8707), where that is said."""
    return form if resource is None else {**form, "resource": resource}


class _Request(NamedTuple):
    """What stays the same each time that something is sent."""

    found: ServerRecord
    client: ClientRecord
    url: str
    form: Mapping[str, str]
    signer: Optional[Signer]
    prover: Optional[Prover]
    purpose: str
    now: float


def _send(request: _Request, method: str) -> Conversation[Posted]:
    """Send it; once more if the server wants a nonce in the proof (RFC 9449, section 8)."""
    prover, url = request.prover, request.url
    nonce = prover.nonce_for(url) if prover is not None else None
    retried = False
    while True:
        headers, form = _authenticated(request, method)
        if prover is not None:
            headers["DPoP"] = prover.proof("POST", url, nonce)
        answer = yield Fetch(request.purpose, url, "POST", headers, form=form)
        posted = Posted(answer, tuple(_secrets(request.client, headers, form)), method)
        if prover is None or not prover.note_nonce(url, answer.headers) or retried:
            return posted
        if posted.refusal.error != "use_dpop_nonce":
            return posted
        # That of this very answer: other threads get others meanwhile.
        nonce, retried = answer.headers["dpop-nonce"], True


def _authenticated(request: _Request, method: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return headers and form of a request, with one authentication of the client and never two."""
    client, headers, form = request.client, {"Accept": "application/json"}, dict(request.form)
    own = {"client_id": client.client_id, "client_secret": client.client_secret}
    for name, text in (*own.items(), *form.items()):
        if text is not None and not is_text(text):
            # Not the error of an encoder, which would hold the secret.
            raise AuthError(f"the {name} for a {request.purpose} cannot be sent: it has half a character")
    if method in (BASIC, _NAMED, _BLANK):
        headers["Authorization"] = "Basic " + _basic(client.client_id, client.client_secret or "")
    if method == BASIC:
        return headers, form
    if client.client_id:
        form["client_id"] = client.client_id
    if method == POST:
        form["client_secret"] = client.client_secret or ""
    elif method == _BLANK:
        form["client_secret"] = ""
    elif method == SIGNED:
        if request.signer is None:
            raise UsageError(f"a client that authenticates by {SIGNED!r} needs a key that signs")
        form["client_assertion_type"] = ASSERTION_TYPE
        form["client_assertion"] = client_assertion(
            client.client_id, request.found.issuer, request.signer, request.now
        )
    return headers, form


def _basic(client_id: str, secret: str) -> str:
    """Return both as RFC 6749 (section 2.3.1) has them: form-encoded before they are put together.

    With a space as ``%20``: not all servers know that ``+`` means the same.
    """
    encoded = ":".join(quote(text, safe="") for text in (client_id, secret))
    return b64encode(encoded.encode("ascii")).decode("ascii")


def _secrets(client: ClientRecord, headers: Mapping[str, str], form: Mapping[str, str]) -> Iterator[str]:
    """Give all that must not be shown."""
    yield from (value for name, value in form.items() if name not in _PUBLIC)
    if client.client_secret is not None:
        yield client.client_secret
        yield _basic(client.client_id, client.client_secret)
    if "DPoP" in headers:
        yield headers["DPoP"]


def _problem(token: Optional[str], token_type: Optional[str], key: Optional[Mapping[str, Any]]) -> str:
    if token is None or not token.isascii() or not token.isprintable() or " " in token:
        return "it does not fit into a header"
    if token_type is None:
        return "its token_type is neither Bearer nor DPoP"
    if token_type == "DPoP" and key is None:
        return "it is bound to a key, though none was shown"
    return ""


def _expiry(given: Any, now: float, issuer: str) -> Optional[float]:
    seconds = number_of(given)
    if seconds is not None:
        return now + max(seconds, 0.0)
    if given is not None:
        # Not what it is: servers mix up members, too.
        logger.warning(
            "%s gave a token with an expires_in that is no number, but a %s", issuer, type(given).__name__
        )
    return None
