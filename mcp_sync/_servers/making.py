"""A client of whatever names a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Optional

from .. import transports
from .._concurrency.fork import no_fork
from ..client import Client
from ..config._config import Config, load_config
from ..config._entries import broken_entry, read_entry
from ..config._errors import ConfigError
from ..config._server import ServerConfig
from ..config._variables import Inputs, Variables
from ..errors import UsageError
from ..options import Timeouts
from .filtered import Filter, client_class


class Made(NamedTuple):
    """A client, and whether it is for us to close."""

    client: Client
    is_ours: bool


def read_servers(source: Any, inputs: Inputs = None) -> dict[str, Any]:
    """Return what names servers, by name, in its order. Makes no client.

    Args:
        source: A `Config`, the path of a file, what may stand in one, or a mapping of names to servers.
        inputs: As for `load_config`.

    Raises:
        ConfigError: A configuration cannot be read.
        UsageError: It is none of these.
    """
    if isinstance(source, Config):
        return dict(source.servers)
    if not isinstance(source, Mapping) or _is_content(source):
        return dict(load_config(source, inputs=inputs).servers)
    for name in source:
        if not isinstance(name, str) or not name:
            raise UsageError(f"servers are named by strings, not {name!r}")
    found = {}
    for name, server in source.items():
        try:
            found[name] = as_server(name, server, inputs)
        except ConfigError as fault:
            # As in a file, it harms no other.
            found[name] = broken_entry(name, server, fault, Variables(".", False, {}, inputs))
    return found


def _is_content(source: Mapping[str, Any]) -> bool:
    """Whether it is what stands in a file, rather than a mapping of names to servers."""
    if any(name in source for name in ("mcpServers", "mcp_servers")):
        return True
    inner = source.get("servers")
    return isinstance(inner, Mapping) and all(isinstance(each, Mapping) for each in inner.values())


def as_server(name: str, server: Any, inputs: Inputs = None) -> Any:
    """Return what names a server, with its settings read if they are a mapping.

    Raises:
        ConfigError: They cannot be read.
    """
    if not isinstance(server, Mapping):
        return server
    return read_entry(name, server, None, Variables(".", False, {}, inputs))[0]


def make_client(name: str, server: Any, options: Mapping[str, Any], also: Optional[Filter] = None) -> Made:
    """Return a client. Opens nothing.

    Args:
        name: The name of the server.
        server: A `ServerConfig`, a URL, a command, a target, a server for `InMemory`, or a `Client`, which is
            the user's.
        options: What clients get where the configuration of the server says nothing else.
        also: Which tools exist, beside what the configuration says. Not for the user's.

    Raises:
        UsageError: It can have no client.
    """
    with no_fork():
        if isinstance(server, Client):
            return Made(server, False)
        if isinstance(server, ServerConfig):
            return Made(server.client_with(also, **_left_open(server, options)), True)
        if callable(getattr(server, "handle", None)):
            server = transports.InMemory(server)
        return Made(client_class(None, (), also)(server, **{"name": name, **options}), True)


def _left_open(server: ServerConfig, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that the configuration of a server does not have itself."""
    own = {
        "timeout": server.timeout is not None,
        "timeouts": server.timeouts != Timeouts(),
        "mode": server.mode is not None,
    }
    return {name: value for name, value in options.items() if not own.get(name)}
