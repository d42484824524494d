"""How the command line ends: exit codes by kind of failure, and how a failure is told."""

from __future__ import annotations

import enum
import errno
import io
import json
import sys
from typing import Any, Optional

import click

from .. import errors
from .._protocol.visible import clean
from ._words import in_words


class ExitCode(enum.IntEnum):
    """The exit codes; a public promise to scripts."""

    OK = 0
    TOOL = 1
    USAGE = 2
    CONNECTION = 3
    TIMEOUT = 4
    PROTOCOL = 5
    AUTH = 6
    BUG = 70
    OUTPUT = 74
    INTERRUPTED = 130
    BROKEN_PIPE = 141


class Interrupted(Exception):
    """Somebody has pressed Ctrl-C."""


MEANINGS = {
    ExitCode.OK: "all went well",
    ExitCode.TOOL: "the tool reported an error; a check found something",
    ExitCode.USAGE: "wrong use: a bad option, argument, configuration or target",
    ExitCode.CONNECTION: "no connection, or it was lost; an HTTP status that is no success",
    ExitCode.TIMEOUT: "not within the time",
    ExitCode.PROTOCOL: "the server answered with an error, or broke the rules of the protocol",
    ExitCode.AUTH: "not authorized: HTTP status 401 or 403, or authorization failed",
    ExitCode.BUG: "a bug in mcp-sync",
    ExitCode.OUTPUT: "the output could not be written: the disk is full, say, or standard output closed",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C",
    ExitCode.BROKEN_PIPE: "nobody reads the output any more",
}

_BY_CLASS: tuple[tuple[type[BaseException], ExitCode], ...] = (
    (click.ClickException, ExitCode.USAGE),
    (click.Abort, ExitCode.INTERRUPTED),
    (Interrupted, ExitCode.INTERRUPTED),
    (KeyboardInterrupt, ExitCode.INTERRUPTED),
    (BrokenPipeError, ExitCode.BROKEN_PIPE),
    (errors.ToolFailed, ExitCode.TOOL),
    (errors.UsageError, ExitCode.USAGE),
    (errors.AuthError, ExitCode.AUTH),
    (errors.CallTimeout, ExitCode.TIMEOUT),
    (errors.TransportError, ExitCode.CONNECTION),
    (errors.MCPError, ExitCode.PROTOCOL),
)

_LOG_IN = 'perhaps you have to log in: mcp-sync login TARGET; or give --header "Authorization: Bearer ..."'

# What writing to a file or a terminal that takes no more fails with.
_OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

# What an error may bring beside its message, as it is named in JSON.
_DETAILS = ("code", "data", "status", "retry_after", "request_sent", "returncode", "stderr_tail", "timeout")


def exit_code(error: BaseException) -> ExitCode:
    """Return the exit code for what ended a command."""
    if getattr(error, "status", None) in (401, 403):
        return ExitCode.AUTH
    found = next((code for kind, code in _BY_CLASS if isinstance(error, kind)), ExitCode.BUG)
    # A file that the user has named is written below an error that names it.
    fault = error.__cause__ if found is ExitCode.USAGE else error
    is_output = isinstance(fault, OSError) and (
        fault.errno in _OUTPUT_ERRORS or (fault.errno == errno.EBADF and fault is error)
    )
    return ExitCode.OUTPUT if is_output else found


def report(error: BaseException, as_json: bool, is_login: bool = False) -> None:
    """Tell on standard error what went wrong.

    Args:
        error: What ended the command.
        as_json: In one line of JSON, for programs.
        is_login: Whether it was a login that failed, so that to log in is no advice.
    """
    code = exit_code(error)
    if code is ExitCode.BROKEN_PIPE:
        return
    if as_json:
        click.echo(json.dumps({"error": _as_dict(error, code)}), err=True)
    elif isinstance(error, click.ClickException):
        # It may name what a server has sent: the names of arguments, say.
        shown = io.StringIO()
        error.show(shown)
        click.echo(clean(shown.getvalue()), nl=False, err=True)
    elif code is ExitCode.INTERRUPTED:
        # A terminal shows the ^C that was typed.
        line_break = "\n" if sys.stderr.isatty() else ""
        click.echo(f"{line_break}mcp-sync: interrupted", err=True)
    else:
        click.echo(f"mcp-sync: {clean(message_of(error))}", err=True)
        if not is_login and _wants_login(error):
            click.echo(f"mcp-sync: {_LOG_IN}", err=True)


def _wants_login(error: BaseException) -> bool:
    """Whether a login would help, as far as that can be told."""
    if isinstance(error, errors.AuthorizationRequired):
        return not error.url
    return isinstance(error, errors.HTTPStatusError) and error.status == 401


def message_of(error: BaseException) -> str:
    """Return what a person is told of what ended a command."""
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, errors.RemoteError):
        # What a server says is not ours to put into other words.
        missing = isinstance(error, errors.MethodNotFound)
        return f"the server does not offer that: {error}" if missing else str(error)
    if isinstance(error, (Interrupted, KeyboardInterrupt, click.Abort)):
        return "interrupted"
    if isinstance(error, OSError) and exit_code(error) is ExitCode.OUTPUT:
        closed = "standard output is closed" if error.errno == errno.EBADF else None
        return f"cannot write the output: {closed or error.strerror or error}"
    return in_words(str(error)) or type(error).__name__


def _as_dict(error: BaseException, code: ExitCode) -> dict[str, Any]:
    told: dict[str, Any] = {
        "kind": code.name.lower(),
        "exit_code": int(code),
        "type": type(error).__name__,
        "message": error.message if isinstance(error, errors.RemoteError) else message_of(error),
    }
    if isinstance(error, errors.MCPError):
        for name in _DETAILS:
            value = getattr(error, name, None)
            if value is not None and value != "":
                told[name] = _plain(value)
    return told


def _plain(value: Any) -> Optional[Any]:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return repr(value)
    return value
