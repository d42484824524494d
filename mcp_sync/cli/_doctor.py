"""The command ``doctor``: what stands between this machine and a server, step by step."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing
from typing import Any, Optional

import click

from .._concurrency.fork import no_fork
from .._protocol.urls import origin
from ..errors import AuthorizationRequired, ConnectionLost, HTTPStatusError, InvalidMessage, MCPError
from . import _show
from ._budget import Budget
from ._completing import servers_first
from ._exit import ExitCode, exit_code, message_of
from ._network import Finding, Report, look_at_network
from ._options import CommonOptions, common_options
from ._targets import Server, only_server

_SIGNS = {"ok": "ok", "note": "note", "warning": "WARN", "failed": "FAILED"}
_COLOURS = {"ok": "green", "note": "blue", "warning": "yellow", "failed": "red"}


@click.command()
@click.argument("words", nargs=-1, metavar="[TARGET] [-- COMMAND...]", shell_complete=servers_first)
@common_options
def doctor(options: CommonOptions, words: tuple[str, ...]) -> int:
    """Find out, step by step, why a server cannot be reached, and say what may help.

    For a URL: name, connection, certificate, proxy, HTTP status, clock, authorization; for a command:
    whether it is found, starts and speaks; for both the revision, the session and what is offered. --timeout
    is for each step (default: 10 s).
    """
    server = only_server(options, words)
    report = Report(None if options.as_json else _print)
    seconds = options.timeout or 10.0
    if server.url is None:
        _look_for_command(server, report)
        reachable = report.last("failed") is None
    else:
        reachable = look_at_network(server.url, _public_headers(server), seconds, report)
    code = _open(server, options, seconds, report) if reachable else ExitCode.CONNECTION
    if options.as_json:
        _show.echo_json(
            {
                "server": server.label,
                "ok": code == ExitCode.OK,
                "steps": [each._asdict() for each in report.all],
            }
        )
    return code


def _print(finding: Finding) -> None:
    sign = click.style(f"{_SIGNS[finding.state]:7}", fg=_COLOURS[finding.state])
    click.echo(f"{sign}{finding.step:15}{_show.clean(finding.text)}")
    if finding.advice:
        click.echo(_show.indent(_show.clean(f"-> {finding.advice}"), 22))


def _public_headers(server: Server) -> dict[str, str]:
    headers = getattr(server.target, "headers", None)
    return dict(headers or {})


# --- a command -------------------------------------------------------------------------------------------


def _look_for_command(server: Server, report: Report) -> None:
    import os
    import shutil

    target: Any = server.target
    cwd = getattr(target, "cwd", None)
    if cwd is not None and not os.path.isdir(cwd):
        report.add("folder", "failed", f"{cwd} is no folder")
        return
    environment = getattr(target, "env", None) or {}
    found = shutil.which(str(target.command), path=environment.get("PATH"))
    if found is None and os.sep in str(target.command) and cwd is not None:
        found = shutil.which(os.path.join(cwd, str(target.command)))
    if found is not None:
        report.add("command", "ok", f"found: {found}")
        return
    report.add(
        "command",
        "failed",
        f"{target.command} is not found, or must not be run",
        "install it, or write its whole path; programs that are started from a desktop have another PATH",
    )


# --- the protocol ----------------------------------------------------------------------------------------


def _open(server: Server, options: CommonOptions, seconds: float, report: Report) -> ExitCode:
    """Open a client as the other commands do, and say what came of it."""
    step = "protocol"
    try:
        with Budget(seconds) as budget, budget.closing(server.client(options)) as client:
            client.open(**budget.left())
            report.add("revision", "ok", f"{client.protocol_version} ({_kind(client.protocol_version)})")
            _tell_server(client, report)
            begun = time.perf_counter()
            client.send_ping(**budget.left())
            took = (time.perf_counter() - begun) * 1000
            report.add("answer", "ok", f"a request took {took:.1f} ms")
            step = "tools"
            _tell_tools(client, budget, report)
        return ExitCode.OK
    except MCPError as error:
        return _tell_failure(error, step, server, seconds, report)


def _kind(version: str) -> str:
    from .._protocol.versions import HANDSHAKE_VERSIONS

    return "with a handshake" if version in HANDSHAKE_VERSIONS else "stateless"


def _tell_server(client: Any, report: Report) -> None:
    about = client.server_info
    name = f"{about.name} {about.version or ''}".strip() if about is not None else "it does not tell its name"
    report.add("server", "ok", name)
    if client.session_id is not None:
        report.add("session", "ok", "the server keeps a session")


def _tell_tools(client: Any, budget: Budget, report: Report) -> None:
    if client.server_capabilities.tools is None:
        report.add("tools", "note", "the server offers none")
        return
    count = len(client.list_tools(**budget.left()).tools)
    report.add("tools", "ok" if count else "note", f"{count} on the first page")


def _tell_failure(error: MCPError, step: str, server: Server, seconds: float, report: Report) -> ExitCode:
    status = getattr(error, "status", None)
    if server.url is not None and status in (401, 403):
        return _look_at_authorization(server.url, status, seconds, report)
    report.add(step, "failed", message_of(error), _advice(error, server.url))
    tail = getattr(error, "stderr_tail", "")
    if isinstance(error, ConnectionLost) and tail:
        report.add("its last words", "note", tail.strip())
    return exit_code(error)


def _advice(error: MCPError, url: Optional[str]) -> str:
    if isinstance(error, HTTPStatusError):
        if error.status == 404:
            return "is the path right? servers often have /mcp or /sse behind their name"
        if error.status == 429:
            return "the server has been asked too often, by others perhaps: try again later"
        if error.status >= 500:
            return "the server, or what stands before it, is out of order: its log says more"
    if isinstance(error, (HTTPStatusError, InvalidMessage)) and url is not None:
        return "the answer does not come from an MCP server, perhaps: look at the URL in a browser"
    code = exit_code(error)
    if code is ExitCode.TIMEOUT:
        return "give it more time with --timeout; a server on stdio must print nothing but messages"
    if code is ExitCode.PROTOCOL:
        return "try another revision, say --mode legacy; --trace shows the messages"
    return ""


def _look_at_authorization(url: str, status: int, seconds: float, report: Report) -> ExitCode:
    """See whether somebody could log in, by looking up who authorizes; nobody is asked."""
    with no_fork():
        from ..auth import OAuth
        from ..client import Client

    nobody = _Nobody()
    auth = OAuth(interaction=nobody)
    failure: Optional[MCPError] = None
    try:
        with closing(Client(url, auth=auth, name="cli")) as client:
            client.open(timeout=seconds)
    except MCPError as error:
        failure = error
    if nobody.asked:
        _tell_issuer(url, auth.status(url).issuer, report)
        report.add("login", "failed", f"the server answers {status}", "log in: mcp-sync login TARGET")
    else:
        why = "it lets others pass" if failure is None else message_of(failure)
        text = f"the server answers {status}, and nobody can log in: {why}"
        advice = 'the metadata has to be mended, or give a token: --header "Authorization: Bearer ..."'
        report.add("authorization", "failed", text, advice)
    return ExitCode.AUTH


def _tell_issuer(url: str, issuer: Optional[str], report: Report) -> None:
    if issuer is not None and origin(issuer) != origin(url):
        report.add("authorization", "ok", f"the metadata is there: {issuer} authorizes")
        return
    # As revision 2025-03-26 had it.
    text = "the server names nobody who authorizes, and is taken for its own authorization server"
    report.add("authorization", "note", text, 'or give a token: --header "Authorization: Bearer ..."')


class _Nobody:
    """An interaction that asks nobody: it comes to be asked once all is known that a login takes."""

    timeout = 1.0

    def __init__(self) -> None:
        self.asked = False

    def listening(self, known: Sequence[str] = ()) -> AbstractContextManager[Any]:
        """See `Interaction.listening`."""
        self.asked = True
        raise AuthorizationRequired("somebody has to log in")
