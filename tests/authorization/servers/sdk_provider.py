"""What the authorization server of the official SDK leaves to its user: consent, and where tokens are."""

from __future__ import annotations

import secrets
import time
from typing import Any

from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken


class Provider:
    """Lets everybody in; refresh tokens may be used once."""

    def __init__(self, access_seconds: int) -> None:
        self._access_seconds = access_seconds
        self._clients: dict[str, OAuthClientInformationFull] = {}
        self._codes: dict[str, AuthorizationCode] = {}
        self._access: dict[str, AccessToken] = {}
        self._refresh: dict[str, RefreshToken] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        """See the protocol of the SDK, as for all that follow."""
        return self._clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self._clients[client_info.client_id or ""] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        code = secrets.token_urlsafe(24)
        self._codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or (client.scope or "").split(),
            expires_at=time.time() + 60,
            client_id=client.client_id or "",
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
            subject="alice",
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(self, client: Any, authorization_code: str) -> AuthorizationCode | None:
        return self._codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: Any, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self._codes[authorization_code.code]
        return self._grant(client.client_id, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(self, client: Any, refresh_token: str) -> RefreshToken | None:
        return self._refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: Any, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        del self._refresh[refresh_token.token]
        return self._grant(client.client_id, scopes or refresh_token.scopes, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self._access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        for kept in (self._access, self._refresh):
            for name in [name for name, each in kept.items() if each.client_id == token.client_id]:
                del kept[name]

    def _grant(self, client_id: str, scopes: list[str], resource: str | None) -> OAuthToken:
        access, refresh = (f"{kind}-{secrets.token_urlsafe(24)}" for kind in ("access", "refresh"))
        facts: dict[str, Any] = {"client_id": client_id, "scopes": scopes, "resource": resource}
        facts["subject"] = "alice"
        expires_at = int(time.time()) + self._access_seconds
        self._access[access] = AccessToken(token=access, expires_at=expires_at, **facts)
        self._refresh[refresh] = RefreshToken(token=refresh, **facts)
        return OAuthToken(
            access_token=access,
            expires_in=self._access_seconds,
            refresh_token=refresh,
            scope=" ".join(scopes),
        )
