"""A server on the official Python SDK 2.x that checks tokens, both eras: `sdk2users_server.py http`."""

from __future__ import annotations

from common import run
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import Context, MCPServer


class Tokens:
    """Knows the token of everybody whose name it holds."""

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return whose token it is."""
        if not token.startswith("token-"):
            return None
        return AccessToken(token=token, client_id=token.removeprefix("token-"), scopes=[])


server = MCPServer(
    "sdk2users",
    version="2.0",
    log_level="ERROR",
    token_verifier=Tokens(),
    auth=AuthSettings(
        issuer_url="https://as.example.com",
        resource_server_url="http://127.0.0.1/mcp",
        validate_token_resource=False,
    ),
)


@server.tool(structured_output=False)
def whoami() -> str:
    """Say whose token it was."""
    token = get_access_token()
    return token.client_id if token is not None else ""


@server.tool(structured_output=False)
def trace_parent(ctx: Context) -> str:
    """Say which trace context came."""
    return str(dict(ctx.request_context.meta or {}).get("traceparent"))


if __name__ == "__main__":
    run(server.run_stdio_async, server.streamable_http_app)
