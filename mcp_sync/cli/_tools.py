"""The commands ``tools`` and ``call``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional

import click

from .._given_arguments import read_arguments
from .._protocol.negotiation import LEGACY
from .._protocol.versions import HANDSHAKE_VERSIONS, LATEST_MODERN
from ..errors import RemoteError, UnsafeURL, UrlElicitationRequired
from . import _show
from ._completing import servers_first, tool_words
from ._exit import ExitCode, exit_code, report
from ._opened import Opened, all_of, opened, save, save_option, show_list
from ._options import CommonOptions, NamingCommand, common_options
from ._targets import named_server, only_server

if TYPE_CHECKING:
    from .. import types
    from ..tasks import TaskHandle

# How servers of the official SDK 2.x say that a tool which asks back needs an older revision.
_NO_QUESTIONS = ("no back-channel", f"unavailable on {LATEST_MODERN}")


@click.command()
@click.argument("words", nargs=-1, metavar="[TARGET] [-- COMMAND...]", shell_complete=servers_first)
@common_options
def tools(options: CommonOptions, words: tuple[str, ...]) -> None:
    """List the tools of a server, with their arguments."""
    with opened(options, only_server(options, words)) as (client, budget, _):
        found = all_of(client.tools(**budget.left()))
    show_list(options, "tools", found, _show.tool_text)


class _Call(NamingCommand):
    """Knows that arguments of a tool are no options, as they are for other programs."""

    def meant(self, option: str) -> str:
        """Return what to say of an option that there is not."""
        if not option.startswith("--"):
            return super().meant(option)
        return f"an argument of a tool is written {option[2:]}=VALUE"


@click.command(cls=_Call)
@click.argument(
    "words", nargs=-1, metavar="[TARGET] TOOL [ARGUMENT]... [-- COMMAND...]", shell_complete=tool_words
)
@click.option("--detach", is_flag=True, help="Do not wait: print the task that the call becomes (see tasks).")
@click.option(
    "--no-check", "unchecked", is_flag=True, help="Send arguments that do not match the tool's schema, too."
)
@save_option
@common_options
def call(
    options: CommonOptions, words: tuple[str, ...], detach: bool, unchecked: bool, folder: Optional[str]
) -> int:
    """Call a tool and print its result.

    \b
    An ARGUMENT is one of
      key=value    a value of the type that the tool asks for, else a string
      key:=json    any JSON value
      key=@file    the text of a file, read as key=value is
      key:=@file   the JSON value in a file
      {...}        a JSON object of arguments
      -            the same from standard input

    They are checked by the tool's schema before anything is sent. A TOOL that begins with a dash goes behind
    a double dash of its own:

    \b
      mcp-sync call TARGET -- -TOOL
      mcp-sync call -- -TOOL -- COMMAND

    Questions of the server are asked in the terminal, if there is one; otherwise they are declined.
    """
    server, rest = named_server(options, words)
    if not rest:
        raise click.UsageError("name a tool")
    name, given = rest[0], read_arguments(rest[1:], **options.budget.left())
    try:
        with opened(options, server, name) as each:
            arguments = given.for_tool(each.client, name, not unchecked, **each.budget.left())
            if detach:
                return _show_task(each.client.start_task(name, arguments, **each.budget.left()), options)
            result = _call(each, name, arguments)
    except RemoteError as error:
        report(error, options.as_json)
        _tell_pages(error, options)
        _hint(str(error), options)
        return exit_code(error)
    return finish(name, result, options, folder)


def _call(each: Opened, name: str, arguments: Mapping[str, Any]) -> types.CallToolResult:
    result: types.CallToolResult = each.client.call_tool(
        name,
        arguments,
        progress_callback=each.progress(),
        # Without anybody to watch it, progress still tells that the server is alive.
        reset_on_progress=True,
        **each.budget.left(),
    )
    return result


def finish(
    name: str, result: types.CallToolResult, options: CommonOptions, folder: Optional[str] = None
) -> int:
    """Show what a tool has answered, and return the exit code."""
    save(result, folder)
    if options.as_json:
        _show.echo_json(result.to_wire())
    elif result.is_error:
        text = _show.result_text(result) or "it does not say why"
        click.echo(f"mcp-sync: tool {_show.clean(name)} failed: {_show.clean(text)}", err=True)
        _hint(text, options)
    else:
        _show.echo(_show.result_text(result))
    return ExitCode.TOOL if result.is_error else ExitCode.OK


def _show_task(task: TaskHandle, options: CommonOptions) -> int:
    if not task.id:
        # The server has answered at once: there is nothing to come back for.
        return finish(task.tool, task.result(), options)
    if options.as_json:
        _show.echo_json({"taskId": task.id, "task": task.to_json()})
    else:
        click.echo(_show.clean(task.id))
    return ExitCode.OK


def _tell_pages(error: RemoteError, options: CommonOptions) -> None:
    """Say which pages a server wants visited before it does what it was asked."""
    if options.as_json or not isinstance(error, UrlElicitationRequired):
        return
    from ..elicitation import check_url

    for page in error.elicitations:
        try:
            host = check_url(page).host
        except UnsafeURL as fault:
            click.echo(f"mcp-sync: do not visit {_show.clean(page.url)}: {_show.clean(str(fault))}", err=True)
        else:
            text = f"mcp-sync: {page.message}\n  {page.url}\n  It belongs to {host}. Afterwards call again."
            click.echo(_show.clean(text), err=True)


def _hint(text: str, options: CommonOptions) -> None:
    """Say what helps with a server that can only ask questions over a connection with a handshake."""
    if options.as_json or options.mode in (LEGACY, *HANDSHAKE_VERSIONS):
        return
    if any(sign in text.lower() for sign in _NO_QUESTIONS):
        click.echo("mcp-sync: the server cannot ask questions on this revision; try --mode legacy", err=True)
