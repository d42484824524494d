"""From what was typed to a client: the server, and the options that all commands share."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Callable, Optional, Union

import click

from .. import CallTimeout, Client, Stdio, StreamableHTTP, WebSocket
from .._protocol.negotiation import AUTO, LEGACY
from .._protocol.versions import TRAITS
from ..handlers import ElicitationCallback
from ..transports._url import ServerURL

Target = Union[Stdio, StreamableHTTP, WebSocket]
MODES = (AUTO, LEGACY, *TRAITS)

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
        mode: The mode of the client.
        command: What stands behind ``--``, ``None`` if there is no ``--``.
    """

    as_json: bool = False
    timeout: Optional[float] = None
    headers: tuple[str, ...] = ()
    mode: str = AUTO
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


def common_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the shared options to a command, which gets them as its first argument."""

    def with_options(
        as_json: bool, timeout: Optional[float], headers: tuple[str, ...], mode: str, **rest: Any
    ) -> Any:
        command = click.get_current_context().obj
        return function(CommonOptions(as_json, timeout, headers, mode, command), **rest)

    with_options.__name__ = function.__name__
    with_options.__doc__ = function.__doc__
    decorators = (
        click.option(
            "--json",
            "as_json",
            is_flag=True,
            help="Print one JSON document; an error is one JSON line on standard error.",
        ),
        click.option(
            "--timeout",
            type=click.FloatRange(min=0, min_open=True),
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
            default=AUTO,
            metavar="MODE",
            help=f"The protocol revision: {', '.join(TRAITS)}; legacy: the newest with a handshake; "
            "auto (default): whatever the server speaks.",
        ),
    )
    decorated: Callable[..., Any] = with_options
    for decorator in reversed(decorators):
        decorated = decorator(decorated)
    return decorated


def split_target(
    words: Sequence[str], command: Optional[Sequence[str]], headers: Sequence[str] = ()
) -> tuple[Target, list[str]]:
    """Return the server that was named, and the words that are left.

    Args:
        words: The arguments of the command.
        command: What stands behind ``--``, ``None`` if there is no ``--``.
        headers: HTTP headers as they were typed.

    Raises:
        click.UsageError: Nothing names a server, or two things do, or it cannot be one.
    """
    if command is not None:
        if words and _is_url(words[0]):
            raise click.UsageError("give a URL or a command behind --, not both")
        if not command:
            raise click.UsageError("there is no command behind --")
        if headers:
            raise click.UsageError("--header needs a URL")
        # Typed into a shell, a command is expected to see the shell's environment.
        return Stdio(command[0], tuple(command[1:]), inherit_env="all"), list(words)
    if not words:
        raise click.UsageError("name a server: a URL, or a command behind --")
    return _url_target(words[0], headers), list(words[1:])


def _url_target(word: str, headers: Sequence[str]) -> Union[StreamableHTTP, WebSocket]:
    if not _is_url(word):
        raise click.UsageError(
            f"{word!r} is no URL (http, https, ws, wss); a server that is to be started goes behind --"
        )
    kind = WebSocket if word.lower().startswith(_WEBSOCKET) else ServerURL
    return kind(word, headers=dict(map(_header, headers)) or None)


def _is_url(word: str) -> bool:
    return word.lower().startswith(("http://", "https://", *_WEBSOCKET))


def _header(text: str) -> tuple[str, str]:
    name, sign, value = text.partition(":")
    if not sign or not name.strip():
        raise click.UsageError("a header is written NAME:VALUE")
    return name.strip(), value.strip()


def make_client(
    target: Target, mode: str = AUTO, elicitation: Optional[ElicitationCallback] = None
) -> Client:
    """Make the client of a command; it is not open yet."""
    return Client(target, mode=mode, elicitation_callback=elicitation, name="cli")
