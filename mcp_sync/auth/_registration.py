"""By what name this client is known to an authorization server (client registration of the specification)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Callable, NoReturn, Optional, Union
from urllib.parse import urlsplit

from .._protocol.urls import is_loopback, public_url
from ..errors import AuthError, IssuerMismatch, MCPError, RegistrationFailed, UsageError
from ._answers import described, json_object, number_of, refusal_of, text_of
from ._records import ClientRecord, ServerRecord
from ._rules import check_redirect_uri, endpoint, is_secure, read_url, same_issuer, scope_tokens
from ._signing import Signer
from ._steps import Answer, Conversation, Fetch

NONE = "none"
BASIC = "client_secret_basic"
POST = "client_secret_post"
SIGNED = "private_key_jwt"
METHODS = (NONE, BASIC, POST, SIGNED)

Secret = Union[str, Callable[[], str], None]


@dataclass(frozen=True)
class ClientIdentity:
    """What the user says about the client.

    Attributes:
        client_id: Its name, where it was registered by hand.
        client_secret: The secret of such a client, or a function that returns it.
        metadata_url: Where its metadata document lies, whose URL is its name (CIMD).
        issuer: The only authorization server that may be asked; the one which knows ``client_id``.
        client_name: What users are shown.
        redirect_uris: Where else than to the redirect URI in use an answer may go.
        application_type: ``"native"`` or ``"web"``; follows from the redirect URI if not given.
        method: How it authenticates at the token endpoint; chosen if not given.
        signer: What signs for ``private_key_jwt``.
        grant_types: What it is registered for.
        software_id: What tells that two registrations are of the same software.
        extra: More of the metadata to register (RFC 7591, section 2).

    Raises:
        UsageError: It cannot be so.
    """

    client_id: Optional[str] = None
    client_secret: Secret = field(default=None, repr=False)
    metadata_url: Optional[str] = None
    issuer: Optional[str] = None
    client_name: str = "mcp-sync"
    redirect_uris: tuple[str, ...] = ()
    application_type: Optional[str] = None
    method: Optional[str] = None
    signer: Optional[Signer] = field(default=None, repr=False)
    grant_types: tuple[str, ...] = ("authorization_code", "refresh_token")
    software_id: Optional[str] = None
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.redirect_uris, str) or isinstance(self.grant_types, str):
            raise UsageError("redirect_uris and grant_types are tuples of strings")
        if self.client_id is not None and (not isinstance(self.client_id, str) or not self.client_id):
            raise UsageError("client_id must be a string that is not empty")
        if not isinstance(self.client_name, str) or not self.client_name:
            raise UsageError("client_name must be a string that is not empty: users are shown it")
        if self.metadata_url is not None:
            _check_metadata_url(self.metadata_url)
        if self.issuer is not None and (not is_secure(self.issuer) or set("?#") & set(self.issuer)):
            raise UsageError("issuer must be an https URL without query and fragment")
        for uri in self.redirect_uris:
            check_redirect_uri(uri)
        if self.application_type not in (None, "native", "web"):
            raise UsageError('application_type is "native" or "web"')
        self._check_credentials()

    def _check_credentials(self) -> None:
        if self.method is not None and self.method not in METHODS:
            raise UsageError(f"the method must be one of {', '.join(METHODS)}")
        if self.client_secret is not None and self.client_id is None:
            raise UsageError("a client_secret belongs to a client_id")
        if self.client_secret is not None and not (callable(self.client_secret) or self._secret_is_text()):
            raise UsageError(
                "client_secret must be a string that is not empty, or a function that returns one"
            )
        if self.client_secret is not None and self.method == NONE:
            raise UsageError(f"a client that authenticates by {NONE!r} has no client_secret")
        if self.client_id is not None and self.method in (BASIC, POST) and self.client_secret is None:
            raise UsageError(f"a client that authenticates by {self.method!r} needs a client_secret")
        if self.method == SIGNED and self.signer is None:
            raise UsageError(f"a client that authenticates by {SIGNED!r} needs a key that signs")

    def _secret_is_text(self) -> bool:
        return isinstance(self.client_secret, str) and bool(self.client_secret)


def identify(
    found: ServerRecord,
    identity: ClientIdentity,
    known: Optional[ClientRecord],
    redirect_uri: Optional[str],
    now: float,
    *,
    scope: Optional[str] = None,
) -> Conversation[ClientRecord]:
    """Find out by what name to turn to an authorization server; register if that is the only way.

    Args:
        found: The server.
        identity: What the user says.
        known: What is known from before, if anything. It counts only for the server that it is from, as long
            as its secret is valid, and for the redirect URIs and scopes that it was registered with.
        redirect_uri: Where the answers will go, ``None`` if there will be none.
        now: Seconds since 1970.
        scope: What will be asked for; some servers grant no scope that a client was not registered with.

    Raises:
        IssuerMismatch: The name is for another authorization server.
        RegistrationFailed: There is no way to get a name, or the server refused to give one.
    """
    check_issuer(found, identity, known)
    if identity.client_id is not None:
        return _registered_by_hand(found, identity, identity.client_id, known)
    offers_documents = found.metadata.get("client_id_metadata_document_supported") is True
    if identity.metadata_url is not None and offers_documents:
        method = SIGNED if identity.signer is not None else NONE
        return ClientRecord(found.issuer, identity.metadata_url, method=method)
    if known is not None and _still_good(known, found, redirect_uri, scope, now):
        return known
    url = endpoint(found.metadata, "registration_endpoint")
    if url is None:
        raise _no_way(found, identity)
    asked = registration(found, identity, redirect_uri, scope)
    headers = {"Accept": "application/json"}
    answer = yield Fetch("the registration of this client", url, "POST", headers, json=asked)
    return _registered(answer, found, asked, redirect_uri, url)


def registration(
    found: ServerRecord, identity: ClientIdentity, redirect_uri: Optional[str], scope: Optional[str] = None
) -> dict[str, Any]:
    """Return the metadata that this client registers with (RFC 7591, section 2)."""
    uris = list(
        dict.fromkeys([*([redirect_uri] if redirect_uri is not None else []), *identity.redirect_uris])
    )
    native = not uris or any(is_loopback(urlsplit(uri).hostname) for uri in uris)
    application_type = identity.application_type or ("native" if native else "web")
    by_code = "authorization_code" in identity.grant_types
    values = {
        "client_name": identity.client_name,
        "redirect_uris": uris or None,
        "grant_types": list(identity.grant_types),
        "response_types": ["code"] if by_code else [],
        "token_endpoint_auth_method": _method_to_ask_for(found, identity, application_type),
        "application_type": application_type,
        "scope": scope,
        "software_id": identity.software_id,
    }
    return {**identity.extra, **{name: value for name, value in values.items() if value is not None}}


def check_issuer(found: ServerRecord, identity: ClientIdentity, known: Optional[ClientRecord]) -> None:
    """Keep credentials that were given by hand from any server but their own.

    Raises:
        IssuerMismatch: It is another.
    """
    check_belongs(found.issuer, identity, known)


def check_belongs(issuer: str, identity: ClientIdentity, known: Optional[ClientRecord]) -> None:
    """Do as `check_issuer`.

    Raises:
        IssuerMismatch: It is another.
    """
    if identity.issuer is not None and not same_issuer(identity.issuer, issuer):
        _wrong_issuer(identity.issuer, issuer, "")
    by_hand = known is not None and not known.registered and known.client_id == (identity.client_id or "")
    if by_hand and known is not None and not same_issuer(known.issuer, issuer):
        _wrong_issuer(known.issuer, issuer, "; issuer= says where its credentials belong")


def _wrong_issuer(expected: str, actual: str, advice: str) -> NoReturn:
    raise IssuerMismatch(
        f"this client is for the authorization server {expected}, but the MCP server names {actual}{advice}",
        url=public_url(actual),
        expected=expected,
        actual=actual,
    )


def _registered_by_hand(
    found: ServerRecord, identity: ClientIdentity, client_id: str, known: Optional[ClientRecord]
) -> ClientRecord:
    secret = _read_secret(identity.client_secret)
    method = identity.method
    if method is None and secret is None:
        method = SIGNED if identity.signer is not None else NONE
    elif method is None and known is not None and known.client_id == client_id:
        method = known.method  # It was found out before.
    return ClientRecord(found.issuer, client_id, secret, method)


def _read_secret(given: Secret) -> Optional[str]:
    """Return the secret that the user has now, ``None`` for a client without one.

    Raises:
        AuthError: The function failed, and what it raised is the cause, or it returned no secret.
        UsageError: What it returned can be none.
    """
    if not callable(given):
        return given
    try:
        secret = given()
    except MCPError:
        raise
    except Exception as error:
        raise AuthError(f"the client_secret could not be had: {type(error).__name__}") from error
    if secret is None:
        raise AuthError("the function given as client_secret returned no secret, but None")
    if not isinstance(secret, str) or not secret:
        raise UsageError("the function given as client_secret must return a string that is not empty")
    return secret


def _still_good(
    known: ClientRecord, found: ServerRecord, redirect_uri: Optional[str], scope: Optional[str], now: float
) -> bool:
    return (
        known.registered
        and same_issuer(known.issuer, found.issuer)
        and (known.expires_at is None or known.expires_at > now)
        and (redirect_uri is None or _accepts(known.redirect_uris, redirect_uri))
        and (known.scope is None or set(scope_tokens(scope)) <= set(scope_tokens(known.scope)))
    )


def _accepts(uris: tuple[str, ...], uri: str) -> bool:
    """Whether a client that is registered with some URIs may use one; without a port, any is meant.

    None at all means that the server has not said.
    """
    if not uris or uri in uris:
        return True
    parts = urlsplit(uri)
    any_port = parts._replace(netloc=parts.netloc.rpartition(":")[0]).geturl()
    return is_loopback(parts.hostname) and parts.port is not None and any_port in uris


def _no_way(found: ServerRecord, identity: ClientIdentity) -> RegistrationFailed:
    documents = " and takes no metadata documents" if identity.metadata_url is not None else ""
    return RegistrationFailed(
        f"{found.issuer} registers no clients by itself{documents}: have this client registered there, "
        "and give its client_id (with its client_secret, if it has one)",
        url=public_url(found.issuer),
    )


def _method_to_ask_for(found: ServerRecord, identity: ClientIdentity, application_type: str) -> str:
    """Return what to register with: a client on a user's machine keeps no secret unless it has to."""
    if identity.method is not None:
        return identity.method
    offered = found.metadata.get("token_endpoint_auth_methods_supported")
    methods = offered if isinstance(offered, list) and offered else list(METHODS)
    if identity.signer is not None and SIGNED in methods:
        return SIGNED
    public = application_type == "native" and "client_credentials" not in identity.grant_types
    order = (NONE, BASIC, POST) if public else (BASIC, POST, NONE)
    return next((method for method in order if method in methods), order[0])


def _registered(
    answer: Answer, found: ServerRecord, asked: Mapping[str, Any], redirect_uri: Optional[str], url: str
) -> ClientRecord:
    """Take what the server says about the client that it has registered; only the name must be there."""
    body = json_object(answer.body) or {}
    client_id = text_of(body, "client_id")
    if answer.status not in (200, 201) or client_id is None:
        raise _refused(answer, found, asked, url)
    secret = text_of(body, "client_secret")
    expires = number_of(body.get("client_secret_expires_at")) or 0.0
    uris = body.get("redirect_uris")
    accepted = tuple(uri for uri in uris if isinstance(uri, str)) if isinstance(uris, list) else ()
    record = ClientRecord(
        found.issuer,
        client_id,
        secret,
        _method_of(text_of(body, "token_endpoint_auth_method"), secret, asked),
        expires if secret is not None and expires > 0 else None,  # 0: never (RFC 7591, section 3.2.1)
        registered=True,
        redirect_uris=accepted or tuple(asked.get("redirect_uris", ())),
        # What was asked for: where the server has cut it down, to ask again would bring no more.
        scope=asked.get("scope") or text_of(body, "scope"),
    )
    if redirect_uri is not None and not _accepts(record.redirect_uris, redirect_uri):
        raise RegistrationFailed(
            f"{found.issuer} has registered this client without its redirect URI {public_url(redirect_uri)}",
            url=public_url(url),
        )
    return record


def _method_of(given: Optional[str], secret: Optional[str], asked: Mapping[str, Any]) -> Optional[str]:
    """Return how to authenticate: as the server says, where that is possible."""
    wanted = asked["token_endpoint_auth_method"]
    if given == NONE or (given == SIGNED and wanted == SIGNED):
        return given
    if secret is not None:
        return given if given in (BASIC, POST) else None
    return SIGNED if wanted == SIGNED else NONE


def _refused(answer: Answer, found: ServerRecord, asked: Mapping[str, Any], url: str) -> RegistrationFailed:
    said = described(answer, [str(asked.get("software_statement", ""))])
    body = json_object(answer.body)
    if answer.status < 300 and body is not None and not refusal_of(body).error:
        said += ", no client_id"
    uris = ", ".join(public_url(uri) for uri in asked.get("redirect_uris", ())) or "none"
    return RegistrationFailed(
        f"{found.issuer} did not register this client ({said}); it was asked for application_type "
        f"{asked['application_type']}, redirect URIs: {uris}",
        url=public_url(url),
    )


def _check_metadata_url(url: Any) -> None:
    """Refuse what cannot be a client ID metadata document (section 3 of its draft).

    Raises:
        UsageError: It cannot.
    """
    parts = read_url(url)
    segments = parts.path.split("/") if parts is not None else []
    if parts is None or parts.scheme != "https" or parts.path in ("", "/") or "#" in url:
        raise UsageError("the URL of a client metadata document is https, has a path and no fragment")
    if "." in segments or ".." in segments:
        raise UsageError("the URL of a client metadata document has no dots as path segments")
