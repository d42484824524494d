"""The commands ``flask mcp``: ``list``, ``call``, ``status``, ``login``, ``logout``, ``check`` and more."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Optional

import click
from flask import current_app
from flask.cli import AppGroup

from ..._argument_words import read_arguments
from ...config import ConfigError
from ...errors import AuthorizationRequired, HTTPStatusError, MCPError, UsageError
from ...options import UNSET
from .._bounded import Budget
from . import signals
from ._settings import SECONDS
from ._state import state_of

if TYPE_CHECKING:
    from ..._servers.status import ServerStatus


def make_group() -> AppGroup:
    """Return the commands."""
    group = AppGroup("mcp", help="Look at MCP servers, and call them.")
    group.command("list")(list_servers)
    group.command("call")(call)
    group.command("status")(status)
    group.command("login")(login)
    group.command("logout")(logout)
    group.command("check")(check)
    group.command("create-table")(create_table)
    group.command("prune")(prune)
    return group


@click.argument("alias", required=False)
def list_servers(alias: Optional[str]) -> None:
    """List the servers, or the tools of one of them."""
    try:
        if alias is None:
            for name, entry in state_of().entries.items():
                click.echo(f"{name}{'  (users log in)' if entry.auth is not None else ''}")
            return
        for tool in _client(alias, None).tools():
            text = " ".join((tool.description or "").split())
            click.echo(f"{tool.name}  {text}".rstrip())
    except MCPError as error:
        raise click.ClickException(str(error)) from None


@click.argument("alias")
@click.argument("tool")
@click.argument("arguments", nargs=-1)
@click.option("--user", help="Whose grant to use: the key of the user.")
@click.option(
    "--timeout", type=float, help="Seconds that it may take; default: MCP_DEADLINE, in a terminal no bound."
)
def call(
    alias: str, tool: str, arguments: tuple[str, ...], user: Optional[str], timeout: Optional[float]
) -> None:
    """Call a tool and print its result.

    \b
    An argument is one of
      NAME=VALUE    a value of the type that the tool asks for, else a string
      NAME:=JSON    any JSON value
      NAME=@FILE    the text of a file, read as NAME=VALUE is
      NAME:=@FILE   the JSON value in a file
      -             a JSON object of arguments from standard input

    Questions of the server are asked in the terminal, if there is one; otherwise they are declined.
    """
    from ..._terminal import PROMPT, interactive
    from ._server import Server

    state = state_of()
    if timeout is None and not interactive():
        timeout = state.settings.seconds("DEADLINE")
    try:
        given = read_arguments(arguments)
        # What a person needs for an answer is not to count.
        with state.registry.another(alias, elicitation_callback=PROMPT, timeout=UNSET) as client:
            server = Server(state, alias, client, Budget(timeout))
            caller = server if user is None else server.for_user(user)
            result = caller.call_tool(tool, given.for_tool(caller, tool))
    except MCPError as error:
        is_misuse = isinstance(error, UsageError) and not isinstance(error, ConfigError)
        raise (click.UsageError if is_misuse else click.ClickException)(str(error)) from None
    shown = result.structured_content
    click.echo(result.text if shown is None else json.dumps(shown, ensure_ascii=False))
    if result.is_error:
        sys.exit(1)


@click.argument("alias", required=False)
@click.option("--user", help="Whose grant to use: the key of the user.")
@click.option("--timeout", type=float, default=10.0, show_default=True, help="Seconds for each server.")
def status(alias: Optional[str], user: Optional[str], timeout: float) -> None:
    """Open the servers, or one of them, and say how it stands, or why that failed."""
    from ..._servers.status import StatusTable

    try:
        aliases = list(state_of().entries) if alias is None else [alias]
        found = StatusTable(_opened(each, user, timeout) for each in aliases)
    except MCPError as error:
        raise click.ClickException(str(error)) from None
    click.echo(str(found))
    sys.exit(1 if any(each.state == "failed" for each in found) else 0)


def _opened(alias: str, user: Optional[str], timeout: float) -> ServerStatus:
    from ..._servers.status import ServerStatus, status_of

    try:
        client = _client(alias, user).client
        client.send_ping(timeout=timeout)
    except AuthorizationRequired:
        return ServerStatus(alias, "login needed")
    except MCPError as error:
        is_guarded = isinstance(error, HTTPStatusError) and error.status == 401
        if user is None and is_guarded and state_of().asks_users(alias):
            return ServerStatus(alias, "for users")
        return ServerStatus(alias, "failed", error)
    return status_of(alias, client)


@click.argument("alias")
@click.option("--user", required=True, help="Who logs in: the key of the user.")
def login(alias: str, user: str) -> None:
    """Log a user in to a server, with a browser anywhere. Takes MCP_BASE_URL.

    Shows an address to open, and takes the one at which the browser ends.
    """
    try:
        oauth, url = _oauth(alias, user)
        click.echo(f"Open this address, and log in:\n{oauth.begin(url).url}")
        click.echo("The browser may show an error then. Paste the address that it shows:")
        answer = click.prompt("", prompt_suffix="", default="", show_default=False)
        # The site itself has finished the login if the browser is logged in there as this user.
        if oauth.status(url).state != "valid":
            oauth.finish(answer.strip())
    except MCPError as error:
        raise click.ClickException(str(error)) from None
    signals.send(signals.grant_created, server=alias, principal=f"user:{user}")
    click.echo(f"connected to {alias}")


@click.argument("alias")
@click.option("--user", required=True, help="Who logs out: the key of the user.")
def logout(alias: str, user: str) -> None:
    """Give the grant of a user back, and forget it. Takes MCP_BASE_URL."""
    try:
        oauth, url = _oauth(alias, user)
        oauth.logout(url)
    except MCPError as error:
        raise click.ClickException(str(error)) from None
    signals.send(signals.grant_revoked, server=alias, principal=f"user:{user}")
    click.echo(f"disconnected from {alias}")


def _oauth(alias: str, user: str) -> tuple[Any, str]:
    state = state_of()
    if not state.asks_users(alias):
        raise click.ClickException(f"nobody logs in to {alias}")
    return state.oauth(alias, f"user:{user}"), state.server_url(alias)


def check() -> None:
    """Check the configuration, without asking any server."""
    state, faults = state_of(), 0
    for warning in state.settings.unknown():
        click.echo(f"warning: {warning}")
    try:
        entries = state.entries
        _ = state.store
        for key in SECONDS:
            state.settings.seconds(key)
    except MCPError as error:
        raise click.ClickException(str(error)) from None
    for alias, entry in entries.items():
        for warning in entry.warnings:
            click.echo(f"warning: {warning}")
        try:
            if hasattr(entry.server, "check"):
                entry.server.check()
            if entry.auth is not None:
                entry.oauth_options()
            click.echo(f"{alias}: ok")
        except MCPError as error:
            faults += 1
            click.echo(f"{alias}: {error}")
    if not state.settings.get("TOKEN_STORE") and state.mcp._load is None and not current_app.testing:
        click.echo("warning: grants are kept in the memory of each process; set MCP_TOKEN_STORE")
    sys.exit(1 if faults else 0)


def create_table() -> None:
    """Create the table of a SQLAlchemyTokenStore."""
    _table().create_table()
    click.echo("done")


def prune() -> None:
    """Delete what is over in a SQLAlchemyTokenStore: logins, questions, visitors. For once a day."""
    click.echo(f"{_table().prune(state_of().settings.seconds('INPUT_LIFE'))} deleted")


def _table() -> Any:
    store = state_of().settings.get("TOKEN_STORE")
    if not hasattr(store, "create_table"):
        raise click.ClickException("MCP_TOKEN_STORE is no SQLAlchemyTokenStore")
    return store


def _client(alias: str, user: Optional[str]) -> Any:
    from ._server import Server

    server = Server(state_of(), alias)
    return server if user is None else server.for_user(user)
