"""How the authorization server on Authlib grants: each class fills in what Authlib leaves to its user."""

from __future__ import annotations

import base64
import json
import secrets
import time
from typing import Any

from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.drafts.id_jag import IDJAGGrant
from authlib.oauth2.rfc6749 import (
    BaseGrant,
    InvalidGrantError,
    InvalidRequestError,
    OAuth2Error,
    TokenEndpointMixin,
    grants,
)
from authlib.oauth2.rfc7009 import RevocationEndpoint
from authlib.oauth2.rfc7523 import JWTBearerClientAssertion, JWTBearerGrant
from authlib.oauth2.rfc7591 import ClientRegistrationEndpoint
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oauth2.rfc7662 import IntrospectionEndpoint
from authlib.oauth2.rfc8628 import DeviceAuthorizationEndpoint, DeviceCodeGrant, DeviceCredentialDict
from authlib.oauth2.rfc9207 import IssuerParameter
from authlib_memory import Client, Code, Memory, Token
from joserfc.jwk import KeySet, OctKey

ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"
BETWEEN_SERVERS = OctKey.import_key("what both servers know, for tests only")
METHODS = ["client_secret_basic", "client_secret_post", "private_key_jwt", "none"]


class InvalidTarget(OAuth2Error):
    """The resource is missing, or another than before (RFC 8707)."""

    error = "invalid_target"


def build(app: Any, memory: Memory, issuer: str) -> AuthorizationServer:
    """Make the server, with everything registered."""

    def save_token(answer: dict[str, Any], request: Any) -> None:
        _save_token(memory, answer, request)

    server = AuthorizationServer(app, lambda name: memory.clients.get(name), save_token)
    server.register_token_generator("default", _generator(memory))
    for parts in (_code, _refresh, _device, _machine, _enterprise, _endpoints):
        parts(server, memory, issuer)

    class Sender(IssuerParameter):
        def get_issuer(self) -> str:
            said = memory.settings["iss"]
            return issuer if said is None else said

    server.register_extension(lambda _: Sender()(server))
    return server


def _generator(memory: Memory) -> Any:
    def generate(
        grant_type: str,
        client: Client,
        user: Any = None,
        scope: str | None = None,
        expires_in: int | None = None,
        include_refresh_token: bool = True,
    ) -> dict[str, Any]:
        answer: dict[str, Any] = {
            "token_type": "Bearer",
            "access_token": "access-" + secrets.token_urlsafe(24),
            "expires_in": memory.settings["access_seconds"],
        }
        if include_refresh_token:
            answer["refresh_token"] = "refresh-" + secrets.token_urlsafe(24)
        return {**answer, "scope": scope} if scope else answer

    return generate


def _save_token(memory: Memory, answer: dict[str, Any], request: Any) -> None:
    before = getattr(request, "authorization_code", None) or getattr(request, "refresh_token", None)
    resource = request.form.get("resource")
    if before is not None and resource != before.resource:
        raise InvalidTarget(f"the resource is {resource!r}, not {before.resource!r} as before")
    family = before.family if isinstance(before, Token) else secrets.token_hex(8)
    memory.keep_token(answer, request.client, resource=resource, user=request.user, family=family)


def _code(server: AuthorizationServer, memory: Memory, issuer: str) -> None:
    class CodeGrant(grants.AuthorizationCodeGrant):
        TOKEN_ENDPOINT_AUTH_METHODS = METHODS

        def save_authorization_code(self, code: str, request: Any) -> None:
            sent = request.payload.data
            with memory.lock:
                memory.codes[code] = Code(
                    request.client.client_id,
                    sent["redirect_uri"],
                    request.scope,
                    sent.get("resource"),
                    sent.get("code_challenge"),
                    sent.get("code_challenge_method"),
                    request.user,
                )

        def query_authorization_code(self, code: str, client: Client) -> Code | None:
            return memory.take_code(code, client)

        def delete_authorization_code(self, authorization_code: Code) -> None:
            """It went when it was taken."""

        def authenticate_user(self, authorization_code: Code) -> str:
            return authorization_code.user

    server.register_grant(CodeGrant, [CodeChallenge(required=True)])


def _refresh(server: AuthorizationServer, memory: Memory, issuer: str) -> None:
    class RefreshGrant(grants.RefreshTokenGrant):
        TOKEN_ENDPOINT_AUTH_METHODS = METHODS

        @property
        def INCLUDE_NEW_REFRESH_TOKEN(self) -> bool:
            return bool(memory.settings["refresh_tokens"] == "rotate")

        def authenticate_refresh_token(self, refresh_token: str) -> Token | None:
            return memory.use_refresh_token(refresh_token)

        def authenticate_user(self, refresh_token: Token) -> str:
            return refresh_token.user or "nobody"

        def revoke_old_credential(self, refresh_token: Token) -> None:
            """It is used up since it was looked up, so that of two requests at once only one gets it."""

    server.register_grant(RefreshGrant)


def _device(server: AuthorizationServer, memory: Memory, issuer: str) -> None:
    class DeviceGrant(DeviceCodeGrant):
        TOKEN_ENDPOINT_AUTH_METHODS = METHODS

        def query_device_credential(self, device_code: str) -> DeviceCredentialDict | None:
            kept = memory.devices.get(device_code)
            return None if kept is None else DeviceCredentialDict(kept)

        def query_user_grant(self, user_code: str) -> tuple[str, bool] | None:
            decision = memory.decisions.get(user_code)
            return None if decision is None else ("alice", decision)

        def should_slow_down(self, credential: DeviceCredentialDict) -> bool:
            memory.count("device questions")
            return False

    class DeviceEndpoint(DeviceAuthorizationEndpoint):
        CLIENT_AUTH_METHODS = METHODS

        @property
        def INTERVAL(self) -> int:
            return int(memory.settings["device_interval"])

        def get_verification_uri(self) -> str:
            return issuer + "/device"

        def save_device_credential(self, client_id: str, scope: str | None, data: dict[str, Any]) -> None:
            with memory.lock:
                memory.devices[data["device_code"]] = {
                    "client_id": client_id,
                    "scope": scope or "",
                    "user_code": data["user_code"],
                    "expires_at": time.time() + data["expires_in"],
                }

    server.register_grant(DeviceGrant)
    server.register_endpoint(DeviceEndpoint)


def _machine(server: AuthorizationServer, memory: Memory, issuer: str) -> None:
    audiences = [issuer, issuer + "/token"]

    class CredentialsGrant(grants.ClientCredentialsGrant):
        TOKEN_ENDPOINT_AUTH_METHODS = METHODS[:3]

    class WorkloadGrant(JWTBearerGrant):
        @classmethod
        def check_token_endpoint(cls, request: Any) -> bool:
            return super().check_token_endpoint(request) and not _is_id_jag(request)

        def resolve_issuer_client(self, issuer: str) -> Client | None:
            return memory.clients.get(issuer)

        def resolve_client_public_key(self, client: Client) -> KeySet:
            return KeySet.import_key_set(client.metadata["jwks"])

        def authenticate_user(self, subject: str) -> str:
            return subject

        def get_audiences(self) -> list[str]:
            return audiences

        def has_granted_permission(self, client: Client, user: str) -> bool:
            return True

    class Assertion(JWTBearerClientAssertion):
        CLIENT_AUTH_METHOD = "private_key_jwt"

        def resolve_client_public_key(self, client: Client) -> KeySet:
            return KeySet.import_key_set(client.metadata["jwks"])

        def get_audiences(self) -> list[str]:
            return audiences

        def validate_jti(self, claims: Any, jti: str) -> bool:
            return memory.is_first(jti)

    server.register_grant(CredentialsGrant)
    server.register_grant(WorkloadGrant)
    server.register_client_auth_method("private_key_jwt", Assertion())


def _enterprise(server: AuthorizationServer, memory: Memory, issuer: str) -> None:
    """Be the identity provider of an enterprise, and an authorization server that believes one."""

    class ExchangeGrant(BaseGrant, TokenEndpointMixin):
        GRANT_TYPE = "urn:ietf:params:oauth:grant-type:token-exchange"
        TOKEN_ENDPOINT_AUTH_METHODS = METHODS

        def validate_token_request(self) -> None:
            self.request.client = self.authenticate_token_endpoint_client()
            form = self.request.form
            if form["requested_token_type"] != ID_JAG or form["subject_token_type"] != ID_TOKEN:
                raise InvalidRequestError("another kind of token is asked for or shown")
            if form["subject_token"] != memory.settings["id_token"]:
                raise InvalidGrantError("nobody has this ID token")

        def create_token_response(self) -> Any:
            form, named = self.request.form, self.client.metadata["known_elsewhere_as"]
            claims = {"scope": form["scope"], "resource": form["resource"]}
            assertion = IDJAGGrant.sign(
                BETWEEN_SERVERS, issuer, form["audience"], "alice", named, claims=claims, alg="HS256"
            )
            answer = {"access_token": assertion, "issued_token_type": ID_JAG, "token_type": "N_A"}
            return 200, {**answer, "expires_in": 60, "scope": form["scope"]}, self.TOKEN_RESPONSE_HEADER

    class IdentityGrant(IDJAGGrant):
        TOKEN_ENDPOINT_AUTH_METHODS = METHODS

        @classmethod
        def check_token_endpoint(cls, request: Any) -> bool:
            return super().check_token_endpoint(request) and _is_id_jag(request)

        def get_audiences(self) -> list[str]:
            return [issuer]

        def resolve_issuer_key(self, issuer: str, headers: Any) -> OctKey:
            return BETWEEN_SERVERS

        def authenticate_user(self, subject: str) -> str:
            return subject

        def check_jti(self, claims: Any, jti: str) -> bool:
            return memory.is_first(jti)

        def check_id_jag_permission(self, client: Client, user: str, scopes: list[str]) -> bool:
            return True

    server.register_grant(ExchangeGrant)
    server.register_grant(IdentityGrant)


def _is_id_jag(request: Any) -> bool:
    """Whether an assertion is that of an identity provider: Authlib knows one grant by that name only."""
    head = request.form.get("assertion", "").partition(".")[0]
    header = json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)) or "{}")
    return bool(header.get("typ") == IDJAGGrant.REQUIRED_TYP)


def _endpoints(server: AuthorizationServer, memory: Memory, issuer: str) -> None:
    class Registration(ClientRegistrationEndpoint):
        def authenticate_token(self, request: Any) -> bool:
            return True

        def get_server_metadata(self) -> dict[str, Any]:
            return {}

        def save_client(self, info: dict[str, Any], metadata: dict[str, Any], request: Any) -> Client:
            memory.count("registrations")
            return memory.add_client(**{**metadata, **info})

        def generate_client_secret(self, request: Any) -> str:
            public = request.payload.data.get("token_endpoint_auth_method") == "none"
            return "" if public else "secret-" + secrets.token_urlsafe(24)

    class Revocation(RevocationEndpoint):
        CLIENT_AUTH_METHODS = METHODS

        def query_token(self, token: str, hint: str | None) -> Token | None:
            return memory.by_access.get(token) or memory.by_refresh.get(token)

        def revoke_token(self, token: Token, request: Any) -> None:
            memory.count("revocations")
            with memory.lock:
                for each in memory.by_access.values():
                    each.revoked = each.revoked or each.family == token.family

    class Introspection(IntrospectionEndpoint):
        def check_permission(self, token: Token, client: Client, request: Any) -> bool:
            return client.client_id == "protected-server"

        def query_token(self, token: str, hint: str | None) -> Token | None:
            return memory.by_access.get(token)

        def introspect_token(self, token: Token) -> dict[str, Any]:
            return {
                "active": True,
                "client_id": token.client_id,
                "scope": token.scope,
                "sub": token.user or token.client_id,
                "aud": token.resource,
                "iss": issuer,
                "exp": int(token.accepted_until) + 1,
            }

    for endpoint in (Registration, Revocation, Introspection):
        server.register_endpoint(endpoint)
