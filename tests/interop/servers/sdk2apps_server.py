"""An app on the official Python SDK 2.x, both eras: `sdk2apps_server.py stdio|http`."""

from __future__ import annotations

from common import run
from mcp.server.apps import Apps, ResourceCsp, ResourcePermissions, client_supports_apps
from mcp.server.mcpserver import Context, MCPServer

BOARD = "ui://weather/board"
apps = Apps()


@apps.tool(resource_uri=BOARD)
def forecast(ctx: Context) -> str:
    """Show the weather, to clients that can show it."""
    return "shown" if client_supports_apps(ctx) else "told"


@apps.tool(resource_uri=BOARD, visibility=["app"])
def refresh() -> str:
    """Show it anew."""
    return "fresh"


apps.add_html_resource(
    BOARD,
    "<!DOCTYPE html><p>Weather",
    csp=ResourceCsp(connect_domains=["https://api.example"], resource_domains=["https://*.cdn.example"]),
    permissions=ResourcePermissions(geolocation={}),
    prefers_border=True,
)
server = MCPServer("sdk2apps", version="2.0", log_level="ERROR", extensions=[apps])


if __name__ == "__main__":
    run(server.run_stdio_async, server.streamable_http_app)
