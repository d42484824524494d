"""The extensions that a fake server offers, and what its clients declare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._protocol.versions import LATEST_HANDSHAKE
from ._rpc import METHOD_NOT_FOUND, MISSING_CAPABILITY, Message, RpcError

if TYPE_CHECKING:
    from ._exchange import Exchange
    from ._server import FakeServer

TASKS = "io.modelcontextprotocol/tasks"
SKILLS = "io.modelcontextprotocol/skills"
APPS = "io.modelcontextprotocol/ui"
APP_TYPE = "text/html;profile=mcp-app"

# These belong to revisions without a handshake.
_STATELESS_ONLY = (TASKS, SKILLS)


def offered(server: FakeServer) -> Message:
    """Return the extensions of a server with their settings: those that it has a use for, and those given."""
    if server.has_own_capabilities:
        return dict(server.capabilities.get("extensions") or {})
    found: Message = {}
    if any(tool.task for tool in server.tools.values()):
        found[TASKS] = {}
    if server.skills:
        found[SKILLS] = {"directoryRead": True}
    if any(uri.startswith("ui://") for uri in server.resources):
        found[APPS] = {}
    return {**found, **server.extensions}


def capabilities(server: FakeServer, version: str, modern: bool) -> Message:
    """Return what a server declares on a revision."""
    declared = server.capabilities
    if server.has_own_capabilities:
        return declared
    extensions = offered(server)
    if not modern:
        extensions = {name: value for name, value in extensions.items() if name not in _STATELESS_ONLY}
        if version == LATEST_HANDSHAKE and any(tool.task for tool in server.tools.values()):
            declared = {**declared, "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}}
    return {**declared, "extensions": extensions} if extensions else declared


def require_offered(exchange: Exchange, extension: str) -> None:
    """Refuse a method of an extension that the server does not offer.

    Raises:
        RpcError: It does not.
    """
    if extension not in offered(exchange.connection.server):
        raise RpcError(METHOD_NOT_FOUND, f"Method not found: {exchange.method}")


def is_declared(exchange: Exchange, extension: str) -> bool:
    """Whether the client has declared an extension with a request."""
    extensions = exchange.capabilities.get("extensions")
    return isinstance(extensions, dict) and isinstance(extensions.get(extension), dict)


def require_declared(exchange: Exchange, extension: str) -> None:
    """Refuse a request of a client that has not declared an extension.

    Raises:
        RpcError: It has not.
    """
    if not is_declared(exchange, extension):
        needed: Message = {"requiredCapabilities": {"extensions": {extension: {}}}}
        raise RpcError(MISSING_CAPABILITY, f"The client did not declare the extension {extension}", needed)


def shows_apps(exchange: Exchange) -> bool:
    """Whether the client has declared that it can show the pages of apps."""
    extensions = exchange.capabilities.get("extensions")
    settings = extensions.get(APPS) if isinstance(extensions, dict) else None
    kinds = settings.get("mimeTypes") if isinstance(settings, dict) else None
    return isinstance(kinds, list) and APP_TYPE in kinds
