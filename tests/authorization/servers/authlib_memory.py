"""What the authorization server on Authlib remembers: settings, counters, clients, codes and tokens."""

from __future__ import annotations

import secrets
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from authlib.oauth2.rfc6749 import AuthorizationCodeMixin, ClientMixin, TokenMixin

SETTINGS: dict[str, Any] = {
    "access_seconds": 3600,  # the lifetime of an access token
    "grace_seconds": 0.0,  # for how long it is accepted after that
    "refresh_tokens": "rotate",  # or "keep": an answer without a refresh token
    "consent": "ask",  # or "allow", "deny": without a page
    "issuer": None,  # what the metadata say instead of the truth
    "iss": None,  # what callbacks say instead of the truth
    "device_interval": 1,
    "id_token": None,  # what shows that somebody has logged in, where this is their identity provider
    "faults": {},  # path: {"status", "type", "body", "times"}: what it answers instead
}


class Client(ClientMixin):
    """A client, by hand or by itself registered."""

    def __init__(self, **metadata: Any) -> None:
        self.metadata = metadata
        self.client_id: str = metadata["client_id"]
        self.secret: str | None = metadata.get("client_secret")

    def get_client_id(self) -> str:
        """See `ClientMixin`."""
        return self.client_id

    def get_default_redirect_uri(self) -> str | None:
        """See `ClientMixin`."""
        return (self.metadata.get("redirect_uris") or [None])[0]

    def get_allowed_scope(self, scope: str | None) -> str:
        """See `ClientMixin`."""
        return scope or ""

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        """See `ClientMixin`. The port counts: not every server knows that it should not."""
        return redirect_uri in self.metadata.get("redirect_uris", [])

    def check_client_secret(self, client_secret: str) -> bool:
        """See `ClientMixin`."""
        return self.secret is not None and secrets.compare_digest(
            self.secret.encode(), client_secret.encode()
        )

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        """See `ClientMixin`."""
        return self.metadata.get("token_endpoint_auth_method", "client_secret_basic") == method

    def check_response_type(self, response_type: str) -> bool:
        """See `ClientMixin`."""
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        """See `ClientMixin`."""
        return grant_type in self.metadata.get("grant_types", ["authorization_code"])


@dataclass
class Code(AuthorizationCodeMixin):
    """An authorization code."""

    client_id: str
    redirect_uri: str
    scope: str
    resource: str | None
    code_challenge: str | None
    code_challenge_method: str | None
    user: str
    expires_at: float = field(default_factory=lambda: time.time() + 60)

    def get_redirect_uri(self) -> str:
        """See `AuthorizationCodeMixin`."""
        return self.redirect_uri

    def get_scope(self) -> str:
        """See `AuthorizationCodeMixin`."""
        return self.scope


@dataclass
class Token(TokenMixin):
    """An access token with its refresh token. All that follow from one consent are a family."""

    client_id: str
    access: str
    refresh: str | None
    scope: str
    resource: str | None
    user: str | None
    family: str
    expires_at: float
    accepted_until: float
    used: bool = False
    revoked: bool = False

    def check_client(self, client: Client) -> bool:
        """See `TokenMixin`."""
        return self.client_id == client.client_id

    def get_scope(self) -> str:
        """See `TokenMixin`."""
        return self.scope

    def is_expired(self) -> bool:
        """See `TokenMixin`."""
        return time.time() > self.accepted_until

    def is_revoked(self) -> bool:
        """See `TokenMixin`."""
        return self.revoked


class Memory:
    """Everything, behind one lock."""

    def __init__(self) -> None:
        # Guards all that follows. Nothing is waited for under it.
        self.lock = threading.RLock()
        self.reset()

    def reset(self) -> None:
        """Forget everything but the protected servers, which may ask about tokens."""
        with self.lock:
            self.settings = {**SETTINGS, "faults": {}}
            self.counters: Counter[str] = Counter()
            self.requests: list[dict[str, Any]] = []
            self.codes: dict[str, Code] = {}
            self.by_access: dict[str, Token] = {}
            self.by_refresh: dict[str, Token] = {}
            self.revoked_families: set[str] = set()
            self.devices: dict[str, dict[str, Any]] = {}
            self.decisions: dict[str, bool] = {}  # by user code
            self.assertions: set[str] = set()  # the names of those seen
            self.clients: dict[str, Client] = {}
            self.add_client(client_id="protected-server", client_secret="of-the-protected-server")

    def add_client(self, **metadata: Any) -> Client:
        """Register a client by hand."""
        client = Client(**metadata)
        with self.lock:
            self.clients[client.client_id] = client
        return client

    def count(self, what: str) -> None:
        """Count something that has happened."""
        with self.lock:
            self.counters[what] += 1

    def fault_at(self, path: str) -> dict[str, Any] | None:
        """Return what a path answers instead of what it should, as often as that was asked for."""
        with self.lock:
            fault = self.settings["faults"].get(path)
            if fault is None or fault.get("times", 1) <= 0:
                return None
            fault["times"] = fault.get("times", 1) - 1
            return dict(fault)

    def take_code(self, code: str, client: Client) -> Code | None:
        """Return a code that is good for this client, to nobody else."""
        with self.lock:
            kept = self.codes.get(code)
            good = kept is not None and kept.client_id == client.client_id and kept.expires_at > time.time()
            return self.codes.pop(code) if good else None

    def keep_token(self, answer: dict[str, Any], client: Client, **facts: Any) -> Token:
        """Remember a token that was given out."""
        expires_at = time.time() + answer["expires_in"]
        with self.lock:
            token = Token(
                client.client_id,
                answer["access_token"],
                answer.get("refresh_token"),
                answer.get("scope", ""),
                expires_at=expires_at,
                accepted_until=expires_at + self.settings["grace_seconds"],
                **facts,
            )
            self.by_access[token.access] = token
            if token.refresh is not None:
                self.by_refresh[token.refresh] = token
            self.counters["tokens"] += 1
        return token

    def use_refresh_token(self, refresh_token: str) -> Token | None:
        """Return the token to refresh, once: who uses it again has its whole family revoked."""
        with self.lock:
            token = self.by_refresh.get(refresh_token)
            if token is None or token.revoked:
                self.counters["refused refreshes"] += 1
                return None
            if self.settings["refresh_tokens"] == "rotate":
                if token.used:
                    self.counters["reuses"] += 1
                    self.revoke_family(token.family)
                    return None
                token.used = True
            self.counters["refreshes"] += 1
            return token

    def revoke_family(self, family: str) -> None:
        """Revoke all tokens that follow from one consent."""
        with self.lock:
            self.revoked_families.add(family)
            self.counters["revoked families"] += 1
            for token in self.by_access.values():
                token.revoked = token.revoked or token.family == family

    def expire(self) -> None:
        """Accept none of the access tokens any more that are out."""
        with self.lock:
            for token in self.by_access.values():
                token.accepted_until = 0.0

    def is_first(self, name: str) -> bool:
        """Whether an assertion is seen for the first time."""
        with self.lock:
            new = name not in self.assertions
            self.assertions.add(name)
            return new
