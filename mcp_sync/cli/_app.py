"""The commands of ``mcp-sync``."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from typing import Any, Callable, Optional

import click

from .. import Client, MethodNotFound, RemoteError, types
from .._protocol.negotiation import LEGACY
from .._protocol.versions import HANDSHAKE_VERSIONS, LATEST_MODERN
from .._version import __version__
from . import _show
from ._arguments import GivenArguments, read_arguments
from ._ask import Asker
from ._exit import MEANINGS, ExitCode, exit_code, report
from ._progress import LiveBar
from ._stubs import stubs
from ._targets import Budget, CommonOptions, Target, common_options, make_client, split_target

# How servers of the official SDK 2.x say that a tool which asks back needs an older revision.
_NO_QUESTIONS = ("no back-channel", f"unavailable on {LATEST_MODERN}")

_EXIT_CODES = "\b\nExit codes:\n" + "\n".join(f"  {int(code):3}  {text}" for code, text in MEANINGS.items())


class App(click.Group):
    """A group that takes ``-- COMMAND`` apart, and ends with the exit codes of `ExitCode`."""

    def main(
        self,
        args: Optional[Sequence[str]] = None,
        prog_name: Optional[str] = None,
        complete_var: Optional[str] = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command line; see `click.Command.main`."""
        words = list(sys.argv[1:] if args is None else args)
        command: Optional[list[str]] = None
        if "--" in words:
            at = words.index("--")
            words, command = words[:at], words[at + 1 :]
        as_json = "--json" in words
        main = super().main
        stdout = sys.stdout

        def run() -> Any:
            extra.update(standalone_mode=False, obj=command)
            try:
                return main(words, prog_name or "mcp-sync", complete_var, **extra)
            except SystemExit:
                # click makes this of a pipe that nobody reads any more, and replaces the stream.
                if sys.stdout is not stdout:
                    raise BrokenPipeError from None
                raise

        code = _guarded(run, as_json)
        if standalone_mode:
            sys.exit(code)
        return code


def _guarded(run: Callable[[], Any], as_json: bool) -> int:
    """Run a command and turn whatever ends it into an exit code."""
    _log_to_stderr(logging.CRITICAL if as_json else logging.WARNING)
    try:
        code = run()
        sys.stdout.flush()
        return int(code or 0)
    except (Exception, KeyboardInterrupt) as error:
        code = exit_code(error)
        # What cannot be told on standard error must not change the exit code.
        with suppress(OSError):
            if code is ExitCode.BUG:
                logging.getLogger("mcp_sync.cli").critical("This is a bug in mcp-sync", exc_info=True)
            else:
                report(error, as_json)
        if code in (ExitCode.BROKEN_PIPE, ExitCode.OUTPUT):
            # Nothing can be written any more; the interpreter's last flush must not complain about it.
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(code)


class _StderrHandler(logging.Handler):
    """Writes log messages to what is standard error now."""

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(f"mcp-sync: {_show.clean(self.format(record))}", err=True)


_handler = _StderrHandler()


def _log_to_stderr(level: int) -> None:
    _handler.setLevel(level)
    logging.getLogger("mcp_sync").addHandler(_handler)


def run() -> None:
    """Run the command line of this process and exit."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            # What a server sends may hold what the terminal's encoding lacks.
            reconfigure(errors="backslashreplace")
    app.main()


@click.group(cls=App, no_args_is_help=False, epilog=_EXIT_CODES)
@click.version_option(__version__, prog_name="mcp-sync", message="%(prog)s %(version)s")
def app() -> None:
    """Talk to servers of the Model Context Protocol (MCP).

    TARGET is the URL of a server. To start a server instead, leave TARGET out and put its command behind
    a double dash:

    \b
      mcp-sync tools https://example.com/mcp
      mcp-sync call add a=1 b=2 -- python server.py
    """


app.add_command(stubs)


@app.command()
def demo() -> None:
    """Start a small server and show what this client does with it."""
    from ._demo import show_everything

    show_everything()


@app.command()
@click.argument("words", nargs=-1, metavar="[TARGET] [-- COMMAND...]")
@common_options
def tools(options: CommonOptions, words: tuple[str, ...]) -> None:
    """List the tools of a server, with their arguments."""
    target, rest = split_target(words, options.command, options.headers)
    if rest:
        raise click.UsageError(f"too many arguments: {' '.join(rest)}")
    with Budget(options.timeout) as budget, closing(make_client(target, options.mode)) as client:
        client.open(**budget.left())
        found = list(client.tools(**budget.left()))
    if options.as_json:
        _show.echo_json({"tools": [tool.to_wire() for tool in found]})
    elif not found:
        click.echo("The server has no tools.", err=True)
    for tool in [] if options.as_json else found:
        _show.heading(_show.tool_text(tool))


@app.command()
@click.argument("words", nargs=-1, metavar="[TARGET] TOOL [ARGUMENT]... [-- COMMAND...]")
@common_options
def call(options: CommonOptions, words: tuple[str, ...]) -> int:
    """Call a tool and print its result.

    \b
    An ARGUMENT is one of
      key=value    a value of the type that the tool asks for, else a string
      key:=json    any JSON value
      key=@file    the text of a file, read as key=value is
      key:=@file   the JSON value in a file
      -            a JSON object of arguments from standard input

    Questions of the server are asked in the terminal, if there is one; otherwise they are declined.
    """
    target, rest = split_target(words, options.command, options.headers)
    if not rest:
        raise click.UsageError("name a tool")
    name = rest[0]
    given = read_arguments(rest[1:])
    try:
        result = _call(target, name, given, options)
    except RemoteError as error:
        report(error, options.as_json)
        _hint(str(error), options)
        return exit_code(error)
    if options.as_json:
        _show.echo_json(result.to_wire())
    elif result.is_error:
        text = _show.result_text(result) or "it does not say why"
        click.echo(f"mcp-sync: tool {name} failed: {_show.clean(text)}", err=True)
        _hint(text, options)
    else:
        _show.echo(_show.result_text(result))
    return ExitCode.TOOL if result.is_error else ExitCode.OK


def _hint(text: str, options: CommonOptions) -> None:
    """Say what helps with a server that can only ask questions over a connection with a handshake."""
    if options.as_json or options.mode in (LEGACY, *HANDSHAKE_VERSIONS):
        return
    if any(sign in text.lower() for sign in _NO_QUESTIONS):
        click.echo("mcp-sync: the server cannot ask questions on this revision; try --mode legacy", err=True)


def _call(target: Target, name: str, given: GivenArguments, options: CommonOptions) -> types.CallToolResult:
    with Budget(options.timeout) as budget, LiveBar(name) as bar:
        asker = Asker(bar, budget.spent)
        # The asker leaves first: the client would wait for a question that nobody answers.
        with closing(make_client(target, options.mode, asker)) as client, asker:
            client.open(**budget.left())
            schema = _input_schema(client, name, budget) if given.needs_schema else None
            result: types.CallToolResult = client.call_tool(
                name,
                given.typed(schema),
                progress_callback=bar.report if bar.useful() else None,
                # Without anybody to watch it, progress still tells that the server is alive.
                reset_on_progress=True,
                **budget.left(),
            )
            return result


def _input_schema(client: Client, name: str, budget: Budget) -> Optional[Mapping[str, Any]]:
    try:
        for tool in client.tools(**budget.left()):
            if tool.name == name:
                return tool.input_schema
    except MethodNotFound:
        pass  # A server may have tools and no list of them.
    return None
