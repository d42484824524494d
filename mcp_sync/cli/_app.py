"""The command line itself: which commands there are, and how it ends. A command loads when it is used."""

from __future__ import annotations

import importlib
import io
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import takewhile
from types import FrameType
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional, TextIO

import click

from .._version import __version__
from ._colours import is_plain_terminal
from ._exit import MEANINGS, ExitCode, Interrupted, exit_code, report

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMPLETE_VARIABLE = "_MCP_SYNC_COMPLETE"


class Listed(NamedTuple):
    """A command in the list of all.

    Attributes:
        module: Where it is, below this package.
        text: What it does, in one line.
    """

    module: str
    text: str


COMMANDS = {
    "tools": Listed("_tools", "List the tools of a server, with their arguments."),
    "call": Listed("_tools", "Call a tool and print its result."),
    "resources": Listed("_resources", "List the resources of a server."),
    "read": Listed("_resources", "Read resources and print them."),
    "prompts": Listed("_prompts", "List the prompts of a server."),
    "prompt": Listed("_prompts", "Fill in a prompt and print it."),
    "complete": Listed("_prompts", "Complete an argument of a prompt, or of a resource template."),
    "listen": Listed("_listen", "Watch a server, and print what changes."),
    "tasks": Listed("_tasks", "Look after calls that take long."),
    "skills": Listed("_skills", "List, read and download the skills of a server."),
    "ping": Listed("_about", "See whether a server answers, and how fast."),
    "info": Listed("_about", "Show what a server says about itself."),
    "login": Listed("_login", "Log in to a server with a browser."),
    "logout": Listed("_login", "Forget a login, and have it revoked."),
    "status": Listed("_login", "Show the logins that there are."),
    "doctor": Listed("_doctor", "Find out, step by step, why a server cannot be reached."),
    "servers": Listed("_servers", "List the servers in configuration files."),
    "stubs": Listed("_stubs", "Write a typed Python module for the tools of a server."),
    "pins": Listed("_pins", "Write down which tools a server has, or see whether they have changed."),
    "demo": Listed("_demo", "Start a small server and show what this client does with it."),
    "completion": Listed(
        "_completion", "Print a script with which a shell completes commands, servers and tools."
    ),
}

# Those that take a name which a server has given, and which may be anything.
_WITH_NAMES = ("call", "read", "prompt", "complete", "tasks")

_EXIT_CODES = "\b\nExit codes:\n" + "\n".join(f"  {int(code):3}  {text}" for code, text in MEANINGS.items())


class App(click.Group):
    """A group that takes ``-- COMMAND`` apart, and ends with the exit codes of `ExitCode`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order in which they are shown."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> Optional[click.Command]:
        """Load a command."""
        listed = COMMANDS.get(cmd_name)
        if listed is None:
            return None
        found = getattr(importlib.import_module(f".{listed.module}", __package__), cmd_name)
        assert isinstance(found, click.Command)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[Optional[str], Optional[click.Command], list[str]]:
        """Find the command that was typed.

        Raises:
            click.UsageError: There is none of that name; it says which may have been meant.
        """
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.UsageError(_no_command(args[0]), ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, listed.text) for name, listed in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command without loading all of them."""
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=listed.text)
            for name, listed in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            # click would print an empty line before it is told what happened.
            raise Interrupted from error

    def main(
        self,
        args: Optional[Sequence[str]] = None,
        prog_name: Optional[str] = None,
        complete_var: Optional[str] = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command line; see `click.Command.main`."""
        words, command = _taken_apart(list(sys.argv[1:] if args is None else args))
        as_json = "--json" in takewhile("--".__ne__, words)
        if COMPLETE_VARIABLE in os.environ:
            from . import _shells as _shells
        main = super().main
        stdout = sys.stdout

        def run() -> Any:
            extra.update(standalone_mode=False, obj=command)
            if is_plain_terminal():
                extra["color"] = False
            try:
                return main(words, prog_name or "mcp-sync", complete_var or COMPLETE_VARIABLE, **extra)
            except SystemExit:
                # click makes this of a pipe that nobody reads any more, and replaces the stream.
                if sys.stdout is not stdout:
                    raise BrokenPipeError from None
                raise

        code = _guarded(run, as_json)
        if standalone_mode:
            sys.exit(code)
        return code


def _taken_apart(words: list[str]) -> tuple[list[str], Optional[list[str]]]:
    """Return what was typed, and the command behind a double dash, ``None`` without one.

    In front of a word with a dash, with which no command begins, it ends the options, as elsewhere. Then the
    next one is that of the command. That word may be a double dash itself, where it can be a name.
    """
    if "--" not in words:
        return words, None
    at = words.index("--")
    if words[at + 1 : at + 2] and words[at + 1].startswith("-"):
        behind = at + (2 if words[0] in _WITH_NAMES else 1)
        if "--" not in words[behind:]:
            return words, None
        at = words.index("--", behind)
    return words[:at], words[at + 1 :]


def _no_command(word: str) -> str:
    import difflib

    from ._targets import is_url

    if is_url(word):
        return "the command comes before the URL: mcp-sync tools URL"
    near = difflib.get_close_matches(word, COMMANDS, 3)
    return f"there is no command {word!r}; " + (
        f"is it {' or '.join(near)}?" if near else "mcp-sync --help shows all"
    )


def _guarded(run: Callable[[], Any], as_json: bool) -> int:
    """Run a command and turn whatever ends it into an exit code."""
    try:
        code = run()
        sys.stdout.flush()
        return int(code or 0)
    except (Exception, KeyboardInterrupt) as error:
        code = exit_code(error)
        # What cannot be told on standard error must not change the exit code.
        with suppress(OSError):
            if code is ExitCode.BUG:
                from ._logs import tell_of_bug

                tell_of_bug(as_json)
            else:
                report(error, as_json)
        if code in (ExitCode.BROKEN_PIPE, ExitCode.OUTPUT):
            # Nothing can be written any more; the interpreter's last flush must not complain about it.
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(code)


def run() -> None:
    """Run the command line of this process and exit."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            # It was closed: what is opened next would take its number, and get what is printed.
            setattr(sys, name, _closed(name))
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            # What a server sends may hold what the terminal's encoding lacks.
            reconfigure(errors="backslashreplace")
    sys.stdout = _buffered(sys.stdout)
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        # Whoever has it ignored (nohup) wants it so.
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _unwind)
    try:
        app.main()
    except _Ended as ended:
        # Whoever sent the signal is to see that it was one.
        os.kill(os.getpid(), ended.number)


def _closed(name: str) -> TextIO:
    """Return what stands for a closed stream: output fails on it, as that of other programs does."""
    descriptor = os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
    return open(descriptor, "r" if name == "stdin" else "w", encoding="utf-8")


def _buffered(stream: TextIO) -> TextIO:
    """Return a stream that writes all it is given, or raises.

    One without a buffer (``PYTHONUNBUFFERED``) loses, without a word, what the system did not take at once.
    """
    raw = getattr(stream, "buffer", None)
    if not isinstance(raw, io.RawIOBase):
        return stream
    return io.TextIOWrapper(io.BufferedWriter(raw), stream.encoding, stream.errors, line_buffering=True)


class _Ended(BaseException):
    """A signal has ended the process, which first ends the servers that it has started."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def _unwind(number: int, frame: Optional[FrameType]) -> None:
    # The second one ends it at once.
    signal.signal(number, signal.SIG_DFL)
    raise _Ended(number)


@click.group(
    cls=App,
    no_args_is_help=False,
    epilog=_EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="mcp-sync", message="%(prog)s %(version)s")
def app() -> None:
    """Talk to servers of the Model Context Protocol (MCP).

    TARGET is the URL of a server, or the name of one in a configuration file (--config FILE, else
    MCP_SYNC_CONFIG, else mcp.json in this folder). To start a server instead, leave TARGET out and put its
    command behind a double dash:

    \b
      mcp-sync tools https://example.com/mcp
      mcp-sync call weather forecast city=Oslo
      mcp-sync call add a=1 b=2 -- python server.py
    """
