"""The options that commands share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Callable, Optional

import click

from .._protocol.negotiation import AUTO, LEGACY
from .._protocol.versions import TRAITS
from ._budget import Budget
from ._configuration import CONFIG_FILE, CONFIG_VARIABLE
from ._logs import log_to_stderr

MODES = (AUTO, LEGACY, *TRAITS)


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
        budget: The time that is left of it; it runs from the start of the command.
    """

    as_json: bool = False
    timeout: Optional[float] = None
    headers: tuple[str, ...] = ()
    mode: Optional[str] = None
    config: Optional[str] = None
    trace: bool = False
    command: Optional[list[str]] = None
    budget: Budget = field(default_factory=lambda: Budget(None))


class NamingCommand(click.Command):
    """A command with names that servers have given, which may look like options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """See `click.Command.parse_args`.

        Raises:
            click.UsageError: There is no such option; it says what may have been meant.
        """
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            said = error.format_message().rstrip(".")
            raise click.UsageError(f"{said}; {self.meant(error.option_name)}", ctx) from error

    def meant(self, option: str) -> str:
        """Return what to say of an option that there is not."""
        return "a name that begins with a dash goes behind a double dash, as in: -- -name"


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
        options = CommonOptions(
            as_json, timeout, headers, mode, config, trace, command, budget=Budget(timeout)
        )
        return function(options, **rest)

    with_options.__name__ = function.__name__
    with_options.__doc__ = function.__doc__
    decorators = (
        json_option(),
        click.option(
            "--timeout",
            callback=_seconds,
            metavar="SECONDS",
            help="For the whole command, unless it says otherwise above. Default: 30 s to open, 60 s of "
            "silence, 30 minutes in all.",
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


def _seconds(context: click.Context, parameter: click.Parameter, value: Optional[str]) -> Optional[float]:
    """Read a time. Python takes more for a number than any clock does."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise click.BadParameter(f"{value!r} is no number of seconds above 0", context, parameter)
    return seconds


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
