"""A protected MCP server on the official SDK, 1.x or 2.x: it binds a free port and prints it.

It asks the authorization server of another make about tokens, or brings that of the SDK: with all metadata,
or without those of the protected resource (`--no-metadata`), or without any (`--bare`), as servers of the
revision 2025-03-26 were.
"""

from __future__ import annotations

import argparse
import socket
import warnings
from typing import Any

import uvicorn
from guard import Guard, Introspection
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from sdk_provider import Provider

try:
    from mcp.server.fastmcp import FastMCP as Server
except ImportError:
    from mcp.server.mcpserver import MCPServer as Server

SCOPE = "notes"


class Verifier:
    """Has the SDK accept what introspection finds good."""

    def __init__(self, ask: Introspection) -> None:
        self._ask = ask

    async def verify_token(self, token: str) -> AccessToken | None:
        """See `TokenVerifier`."""
        known = await self._ask(token)
        if known is None:
            return None
        return AccessToken(
            token=token,
            client_id=known["client_id"],
            scopes=known.get("scope", "").split(),
            expires_at=known.get("exp"),
            resource=known.get("aud"),
            subject=known.get("sub"),
        )


def settings(options: argparse.Namespace, origin: str) -> AuthSettings:
    """Return how the SDK is to protect the server."""
    has_metadata = not options.no_metadata and not options.bare
    return AuthSettings(
        issuer_url=options.issuer or origin,
        resource_server_url=f"{origin}/mcp" if has_metadata else None,
        required_scopes=[SCOPE],
        validate_token_resource=has_metadata,
        client_registration_options=ClientRegistrationOptions(
            enabled=True, valid_scopes=[SCOPE], default_scopes=[SCOPE]
        ),
        revocation_options=RevocationOptions(enabled=True),
    )


def application(options: argparse.Namespace, origin: str) -> Any:
    """Return the whole application."""
    ask: Any = Introspection(options.introspect) if options.introspect else None
    provider = Provider(options.access_seconds) if ask is None else None
    checks = {"auth_server_provider": provider} if ask is None else {"token_verifier": Verifier(ask)}
    server = Server("protected", log_level="ERROR", auth=settings(options, origin), **checks)

    @server.tool()
    def echo(text: str) -> str:
        """Return the text as it came."""
        return text

    @server.tool()
    def write(text: str) -> str:
        """Do something for which the usual scope does not suffice."""
        return f"wrote {text}"

    metadata_url = f"{origin}/.well-known/oauth-protected-resource/mcp"
    return Guard(server.streamable_http_app(), ask, metadata_url, options.dpop, options.bare)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser()
    parser.add_argument("--issuer")
    parser.add_argument("--introspect")
    parser.add_argument("--no-metadata", action="store_true")
    parser.add_argument("--bare", action="store_true")
    parser.add_argument("--dpop", action="store_true")
    parser.add_argument("--access-seconds", type=int, default=3600)
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    port = listener.getsockname()[1]
    print(port, flush=True)
    app = application(parser.parse_args(), f"http://127.0.0.1:{port}")
    # By default it closes idle connections after 5 s, perhaps just when a call is on its way.
    config = uvicorn.Config(
        app, log_level="error", lifespan="on", timeout_graceful_shutdown=2, timeout_keep_alive=300
    )
    uvicorn.Server(config).run(sockets=[listener])
