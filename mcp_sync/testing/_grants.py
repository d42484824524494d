"""What a fake authorization server has granted. Plain state: no HTTP and no locks."""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from collections.abc import Mapping
from typing import Any, NamedTuple, Optional
from urllib.parse import unquote_plus, urlsplit

GRANT_TYPES = ("authorization_code", "refresh_token", "client_credentials")
METHODS = ("none", "client_secret_basic", "client_secret_post")

_CODE_SECONDS = 60.0
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Refused(Exception):
    """An OAuth error."""

    def __init__(self, error: str, description: str, status: int = 400) -> None:
        super().__init__(error)
        self.error = error
        self.description = description
        self.status = status


class ClientRecord(NamedTuple):
    """A client that is known; one without a secret is public."""

    client_id: str
    secret: Optional[str]
    redirect_uris: tuple[str, ...]


class Token(NamedTuple):
    """What a code or a token stands for.

    Attributes:
        client_id: Who got it.
        user: Who agreed, empty for a client of its own.
        scope: What to.
        resource: For which server, empty for any.
        family: All that came from one consent have the same.
        expires: When it ends, by ``time.monotonic``.
    """

    client_id: str
    user: str
    scope: str
    resource: str
    family: str
    expires: float = float("inf")


class Code(NamedTuple):
    """A code that was handed out, and what has to come with it."""

    token: Token
    redirect_uri: str
    challenge: str


class Grants:
    """Clients, codes and tokens.

    Args:
        lifetime: Seconds that access tokens are good for.
        scopes: Those that there are; empty for any.
    """

    def __init__(self, lifetime: float, scopes: tuple[str, ...]) -> None:
        self.lifetime = lifetime
        self.clients: dict[str, ClientRecord] = {}
        self.codes: dict[str, Code] = {}
        self.access: dict[str, Token] = {}
        self.refresh: dict[str, Token] = {}
        self._scopes = set(scopes)
        # Codes and refresh tokens that were used, with their families: a second use ends the family.
        self._used: dict[str, str] = {}

    def good(self, value: str) -> Optional[Token]:
        """Return what an access token stands for, ``None`` if it is not good."""
        token = self.access.get(value)
        return token if token is not None and token.expires > time.monotonic() else None

    # --- clients -----------------------------------------------------------------------------------------

    def register(self, asked: Any) -> dict[str, Any]:
        """Register a client (RFC 7591)."""
        if not isinstance(asked, dict):
            raise Refused("invalid_client_metadata", "this is no JSON object")
        uris = asked.get("redirect_uris") or []
        types = asked.get("grant_types") or ["authorization_code"]
        if not isinstance(uris, list) or not all(isinstance(uri, str) and ":" in uri for uri in uris):
            raise Refused("invalid_redirect_uri", "redirect_uris must be a list of URIs")
        if "authorization_code" in types and not uris:
            raise Refused("invalid_redirect_uri", "there is none")
        method = asked.get("token_endpoint_auth_method", "client_secret_basic")
        if method not in METHODS:
            raise Refused("invalid_client_metadata", f"{method} is not supported")
        secret = None if method == "none" else secrets.token_urlsafe(16)
        client = ClientRecord(f"client-{secrets.token_hex(6)}", secret, tuple(uris))
        self.clients[client.client_id] = client
        known = {**asked, "client_id": client.client_id, "token_endpoint_auth_method": method}
        return known if secret is None else {**known, "client_secret": secret, "client_secret_expires_at": 0}

    def authenticated(self, form: Mapping[str, str], headers: Mapping[str, str]) -> ClientRecord:
        """Return the client that sends a form (RFC 6749, 2.3.1)."""
        name, secret = form.get("client_id", ""), form.get("client_secret")
        scheme, _, value = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "basic":
            try:
                pair = base64.b64decode(value, validate=True).decode().partition(":")
            except ValueError:
                raise Refused("invalid_client", "the credentials cannot be read", 401) from None
            name, secret = unquote_plus(pair[0]), unquote_plus(pair[2])
        client = self.clients.get(name)
        if client is None or not _same(client.secret, secret):
            raise Refused("invalid_client", "unknown client or wrong secret", 401)
        return client

    # --- the user ----------------------------------------------------------------------------------------

    def addressee(self, query: Mapping[str, str]) -> tuple[ClientRecord, str]:
        """Return the client of an authorization request, and where its answer may be sent."""
        client = self.clients.get(query.get("client_id", ""))
        if client is None:
            raise Refused("invalid_client", "the client is unknown")
        wanted = query.get("redirect_uri", "")
        if not any(_same_address(wanted, known) for known in client.redirect_uris):
            raise Refused("invalid_redirect_uri", "the redirect_uri is not one of the client's")
        return client, wanted

    def code(self, client: ClientRecord, redirect_uri: str, query: Mapping[str, str], user: str) -> str:
        """Hand a code out."""
        if query.get("response_type") != "code":
            raise Refused("unsupported_response_type", "only code is")
        if query.get("code_challenge_method") != "S256" or not query.get("code_challenge"):
            raise Refused("invalid_request", "PKCE with S256 is required")
        scope = self._granted(query.get("scope", ""))
        expires = time.monotonic() + _CODE_SECONDS
        token = Token(client.client_id, user, scope, query.get("resource", ""), secrets.token_hex(8), expires)
        value = f"code-{secrets.token_urlsafe(12)}"
        self.codes[value] = Code(token, redirect_uri, query["code_challenge"])
        return value

    def _granted(self, asked: str) -> str:
        if self._scopes and not set(asked.split()) <= self._scopes:
            raise Refused("invalid_scope", "there is no such scope")
        return asked

    # --- tokens ------------------------------------------------------------------------------------------

    def token(self, form: Mapping[str, str], headers: Mapping[str, str]) -> dict[str, Any]:
        """Answer a request for a token."""
        client = self.authenticated(form, headers)
        kind = form.get("grant_type")
        if kind == "authorization_code":
            return self._for_code(client, form)
        if kind == "refresh_token":
            return self._refreshed(client, form)
        if kind != "client_credentials":
            raise Refused("unsupported_grant_type", f"only {', '.join(GRANT_TYPES)} are")
        if client.secret is None:
            raise Refused("unauthorized_client", "a client without a secret is nobody of its own")
        scope = self._granted(form.get("scope", ""))
        return self._issued(Token(client.client_id, "", scope, form.get("resource", ""), ""))

    def _for_code(self, client: ClientRecord, form: Mapping[str, str]) -> dict[str, Any]:
        value = form.get("code", "")
        self._end_if_used(value)
        code = self.codes.get(value)
        if code is None or code.token.client_id != client.client_id or code.token.expires < time.monotonic():
            raise Refused("invalid_grant", "the code is unknown, too old, or another client's")
        if form.get("redirect_uri", code.redirect_uri) != code.redirect_uri:
            raise Refused("invalid_grant", "the redirect_uri is another one")
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != code.challenge:
            raise Refused("invalid_grant", "the code_verifier does not fit")
        if form.get("resource", code.token.resource) != code.token.resource:
            raise Refused("invalid_target", "the resource is another one")
        del self.codes[value]
        self._used[value] = code.token.family
        return self._issued(code.token, code.token)

    def _refreshed(self, client: ClientRecord, form: Mapping[str, str]) -> dict[str, Any]:
        value = form.get("refresh_token", "")
        self._end_if_used(value)
        token = self.refresh.get(value)
        if token is None or token.client_id != client.client_id:
            raise Refused("invalid_grant", "the refresh token is unknown, or another client's")
        if form.get("resource", token.resource) != token.resource:
            raise Refused("invalid_target", "the resource is another one")
        scope = form.get("scope", token.scope)
        if not set(scope.split()) <= set(token.scope.split()):
            raise Refused("invalid_scope", "more than was granted")
        del self.refresh[value]
        self._used[value] = token.family
        return self._issued(token._replace(scope=scope), token)

    def _end_if_used(self, value: str) -> None:
        """Withdraw all that came from a consent of which something is used a second time (RFC 9700)."""
        family = self._used.get(value)
        if family is not None:
            self._end(family)
            raise Refused("invalid_grant", "it was used before")

    def _end(self, family: str) -> None:
        for tokens in (self.access, self.refresh):
            for value in [value for value, token in tokens.items() if token.family == family]:
                del tokens[value]

    def _issued(self, token: Token, renewing: Optional[Token] = None) -> dict[str, Any]:
        access = f"access-{secrets.token_urlsafe(12)}"
        self.access[access] = token._replace(expires=time.monotonic() + self.lifetime)
        body: dict[str, Any] = {"access_token": access, "token_type": "Bearer", "scope": token.scope}
        body["expires_in"] = int(self.lifetime)
        if renewing is not None:
            body["refresh_token"] = f"refresh-{secrets.token_urlsafe(12)}"
            self.refresh[body["refresh_token"]] = renewing
        return body

    def revoke(self, form: Mapping[str, str], headers: Mapping[str, str]) -> dict[str, Any]:
        """Revoke a token; one to refresh with takes all of its family along (RFC 7009)."""
        client = self.authenticated(form, headers)
        value = form.get("token", "")
        renewing, access = self.refresh.get(value), self.access.get(value)
        if renewing is not None and renewing.client_id == client.client_id:
            self._end(renewing.family)
        elif access is not None and access.client_id == client.client_id:
            del self.access[value]
        return {}


def _same(secret: Optional[str], given: Optional[str]) -> bool:
    if secret is None:
        return not given
    return given is not None and secrets.compare_digest(secret.encode(), given.encode())


def _same_address(wanted: str, known: str) -> bool:
    """Whether addresses are the same one; on a loopback host the port is free (RFC 8252, 7.3)."""
    if wanted == known:
        return True
    one, other = urlsplit(wanted), urlsplit(known)
    is_loopback = one.scheme == other.scheme == "http" and one.hostname == other.hostname
    return is_loopback and one.hostname in _LOOPBACK and (one.path, one.query) == (other.path, other.query)
