"""From what was typed to a server and its client."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Union

import click

from .._concurrency.fork import no_fork
from ._configuration import configured
from ._options import CommonOptions, typed_headers

if TYPE_CHECKING:
    from ..client import Client
    from ..config import ServerConfig
    from ..transports import StreamableHTTP, WebSocket
    from ..transports._base import Target as AnyTarget

_WEBSOCKET = ("ws://", "wss://")


class Server(NamedTuple):
    """A server as it was named.

    Attributes:
        label: How it is shown: a name, a URL without secrets, or a command.
        target: Where it is.
        config: What a configuration says of it, ``None`` if it is not from one.
    """

    label: str
    target: AnyTarget
    config: Optional[ServerConfig] = None

    @property
    def url(self) -> Optional[str]:
        """Its URL, ``None`` for a command."""
        return getattr(self.target, "url", None)

    def client(self, options: CommonOptions, **given: Any) -> Client:
        """Make the client of a command; it is not open yet.

        Args:
            options: What was typed.
            given: More arguments of `Client`.
        """
        with no_fork():
            from ..client import Client
            from ..trace import Trace

        if options.trace:
            given["trace"] = Trace(content=True)
        if options.mode is not None:
            given["mode"] = options.mode
        auth = given.pop("auth", None) or self._login(options)
        if self.config is None:
            target = self.target if auth is None else replace(self.target, auth=auth)  # type: ignore[type-var]
            return Client(target, name="cli", **given)
        if auth is not None:
            given["auth"] = auth
        if options.headers:
            given["headers"] = typed_headers(options.headers)
        return self.config.client(**given)

    def _login(self, options: CommonOptions) -> Any:
        """Return what ``mcp-sync login`` has left for it."""
        from ._logins import auth_for

        named = {name.lower() for name in typed_headers(options.headers)}
        if self.url is None or "authorization" in named or getattr(self.target, "auth", None) is not None:
            return None
        return auth_for(self.url)


def named_server(
    options: CommonOptions, words: Sequence[str], *, may_ask: bool = True
) -> tuple[Server, list[str]]:
    """Return the server that was named, and the words that are left.

    Args:
        options: What was typed.
        words: The arguments of the command.
        may_ask: Whether somebody may be asked for what a configuration leaves open.

    Raises:
        click.UsageError: Nothing names a server, or two things do, or it cannot be one.
        ConfigError: What a configuration says of it cannot be so.
    """
    if options.command is not None:
        return _command(options, words), list(words)
    if not words:
        raise click.UsageError("name a server: a URL, a name of a configuration, or a command behind --")
    word, rest = words[0], list(words[1:])
    if is_url(word):
        from .._protocol.urls import public_url

        return Server(public_url(word), _url_target(word, options.headers)), rest
    server = configured(options.config, word, options.budget, may_ask=may_ask)
    given = {"headers": typed_headers(options.headers)} if options.headers else {}
    return Server(word, server.target(**given), server), rest


def only_server(options: CommonOptions, words: Sequence[str]) -> Server:
    """Return the server that was named, where nothing else can be.

    Raises:
        click.UsageError: As in `named_server`, or more was typed.
    """
    server, rest = named_server(options, words)
    if rest:
        raise click.UsageError(f"too many arguments: {' '.join(rest)}")
    return server


def _command(options: CommonOptions, words: Sequence[str]) -> Server:
    if words and is_url(words[0]):
        raise click.UsageError("give a URL or a command behind --, not both")
    if not options.command:
        raise click.UsageError("there is no command behind --")
    if options.headers:
        raise click.UsageError("--header needs a URL")
    from ..transports import Stdio

    # Typed into a shell, a command is expected to see the shell's environment.
    target: Stdio = Stdio(options.command[0], tuple(options.command[1:]), inherit_env="all")
    return Server(os.path.basename(options.command[0]), target)


def _url_target(word: str, headers: Sequence[str]) -> Union[StreamableHTTP, WebSocket]:
    from ..transports import WebSocket
    from ..transports._url import ServerURL

    kind: Any = WebSocket if word.lower().startswith(_WEBSOCKET) else ServerURL
    target: Union[StreamableHTTP, WebSocket] = kind(word, headers=typed_headers(headers) or None)
    return target


def is_url(word: str) -> bool:
    """Whether a word is the URL of a server."""
    return word.lower().startswith(("http://", "https://", *_WEBSOCKET))
