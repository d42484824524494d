"""From what was typed to a client: the server, and the options that all commands share."""

from __future__ import annotations

import math
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional, Union

import click

from .._concurrency.fork import hold_off
from .._protocol.negotiation import AUTO, LEGACY
from .._protocol.versions import TRAITS
from .._protocol.visible import clean
from ..errors import CallTimeout
from ._logs import log_to_stderr

if TYPE_CHECKING:
    from ..client import Client
    from ..config import Config, ServerConfig
    from ..transports import Stdio, StreamableHTTP, WebSocket
    from ..transports._base import Target as AnyTarget

MODES = (AUTO, LEGACY, *TRAITS)
CONFIG_VARIABLE = "MCP_SYNC_CONFIG"
CONFIG_FILE = "mcp.json"

_WEBSOCKET = ("ws://", "wss://")

# How far from its end a budget counts as spent: steps are given whole milliseconds.
_MARGIN = 0.05
_WITHIN = re.compile(r" within [\d.e+-]+ s\b")


@dataclass(frozen=True)
class CommonOptions:
    """What every command that talks to a server is told.

    Attributes:
        as_json: Print JSON.
        timeout: Seconds for the whole command, ``None`` for the bounds of the library.
        headers: HTTP headers as they were typed.
        mode: The mode of the client, ``None`` if it was not given.
        config: The configuration file, ``None`` if it was not given.
        trace: Whether what goes over the wire is shown.
        command: What stands behind ``--``, ``None`` if there is no ``--``.
    """

    as_json: bool = False
    timeout: Optional[float] = None
    headers: tuple[str, ...] = ()
    mode: Optional[str] = None
    config: Optional[str] = None
    trace: bool = False
    command: Optional[list[str]] = None


class Budget:
    """The time that is left for a whole command. Use it as a context manager.

    Args:
        seconds: All of it, ``None`` for the bounds of the library.
    """

    def __init__(self, seconds: Optional[float]) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + (seconds or 0)

    def __enter__(self) -> Budget:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        # A bound of the library may be reached before that of the command; it speaks for itself then.
        if isinstance(error, CallTimeout) and self._seconds is not None and self._left() < _MARGIN:
            # The error itself names what was left for the last step: a second number that would confuse.
            what = _WITHIN.sub("", str(error), count=1)
            text = f"not done within {self._seconds:g} s: {what}"
            raise CallTimeout(text, timeout=self._seconds, request_sent=error.request_sent) from error

    def spent(self) -> bool:
        """Whether nothing is left."""
        return self._seconds is not None and self._left() <= 0

    def left(self) -> dict[str, Any]:
        """Return the ``timeout`` for the next call, as keyword arguments."""
        if self._seconds is None:
            return {}
        return {"timeout": round(max(0.0, self._left()), 3)}

    def _left(self) -> float:
        return self._end - time.monotonic()


# --- the options ------------------------------------------------------------------------------------------


def json_option() -> Callable[..., Any]:
    """Return the option ``--json``."""
    return click.option(
        "--json",
        "as_json",
        is_flag=True,
        help="Print one JSON document; an error is one JSON line on standard error.",
    )


def config_option() -> Callable[..., Any]:
    """Return the option ``--config``."""
    return click.option(
        "--config",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        help=f"Where the names of servers come from. Default: {CONFIG_VARIABLE}, else {CONFIG_FILE} here.",
    )


def common_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the shared options to a command, which gets them as its first argument."""

    def with_options(
        as_json: bool,
        timeout: Optional[float],
        headers: tuple[str, ...],
        mode: Optional[str],
        config: Optional[str],
        trace: bool,
        **rest: Any,
    ) -> Any:
        log_to_stderr(as_json)
        command = click.get_current_context().obj
        return function(CommonOptions(as_json, timeout, headers, mode, config, trace, command), **rest)

    with_options.__name__ = function.__name__
    with_options.__doc__ = function.__doc__
    decorators = (
        json_option(),
        click.option(
            "--timeout",
            type=click.FloatRange(min=0, min_open=True),
            callback=_finite,
            metavar="SECONDS",
            help="For the whole command. Default: 30 s to open, 60 s of silence, 30 minutes in all.",
        ),
        click.option(
            "--header",
            "headers",
            multiple=True,
            metavar="NAME:VALUE",
            help="An HTTP header for every request; may be given several times.",
        ),
        click.option(
            "--mode",
            type=click.Choice(MODES),
            metavar="MODE",
            help=f"The protocol revision: {', '.join(TRAITS)}; legacy: the newest with a handshake; "
            "auto (default): whatever the server speaks.",
        ),
        config_option(),
        click.option(
            "--trace", is_flag=True, help="Show the messages on standard error, with secrets hidden."
        ),
    )
    decorated: Callable[..., Any] = with_options
    for decorator in reversed(decorators):
        decorated = decorator(decorated)
    return decorated


def _finite(context: click.Context, parameter: click.Parameter, value: Optional[float]) -> Optional[float]:
    """Refuse what Python takes for a number, and no clock for a time."""
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is no number of seconds", context, parameter)
    return value


# --- the server -------------------------------------------------------------------------------------------


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
        with hold_off():
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
    server = configuration(options.config, word, may_ask=may_ask)[word]
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


def configuration(file: Optional[str], word: str, *, may_ask: bool = True) -> Config:
    """Return the configuration in which a server is looked up.

    Args:
        file: The file, ``None`` for the default.
        word: The name that was typed.
        may_ask: Whether somebody may be asked for the inputs that it declares.

    Raises:
        click.UsageError: There is none.
        ConfigError: It cannot be read.
    """
    from ..config import load_config

    found = config_file(file)
    if found is None:
        raise click.UsageError(
            f"{word!r} is no URL (http, https, ws, wss), and there is no {CONFIG_FILE} here with names of "
            "servers (--config FILE names another one); a server that is to be started goes behind --"
        )
    return load_config(found, inputs=_TypedInputs() if may_ask else None)


class _TypedInputs:
    """Asks for the inputs that a configuration declares, as VS Code does, each once."""

    def __init__(self) -> None:
        self._typed: dict[str, str] = {}

    def __call__(self, declared: Mapping[str, Any]) -> Optional[str]:
        """Return the value of an input, ``None`` where there is nobody to ask."""
        name = str(declared["id"])
        if name not in self._typed and sys.stdin is not None and sys.stdin.isatty():
            self._typed[name] = _prompt(name, declared)
        return self._typed.get(name)


def _prompt(name: str, declared: Mapping[str, Any]) -> str:
    default, options = declared.get("default"), declared.get("options")
    is_secret = declared.get("password") is True
    typed: str = click.prompt(
        clean(str(declared.get("description") or name)),
        default=default if isinstance(default, str) else None,
        hide_input=is_secret,
        show_default=not is_secret,
        type=click.Choice(list(map(str, options))) if isinstance(options, list) else str,
        err=True,
    )
    return typed


def config_file(file: Optional[str]) -> Optional[str]:
    """Return the configuration file that is used, ``None`` if there is none."""
    named = file or os.environ.get(CONFIG_VARIABLE)
    return named or (CONFIG_FILE if os.path.isfile(CONFIG_FILE) else None)


def is_url(word: str) -> bool:
    """Whether a word is the URL of a server."""
    return word.lower().startswith(("http://", "https://", *_WEBSOCKET))


def typed_headers(words: Sequence[str]) -> Mapping[str, str]:
    """Return the headers that were typed.

    Raises:
        click.UsageError: One of them is none.
    """
    return dict(map(_header, words))


def _header(text: str) -> tuple[str, str]:
    name, sign, value = text.partition(":")
    if not sign or not name.strip():
        raise click.UsageError("a header is written NAME:VALUE")
    return name.strip(), value.strip()
