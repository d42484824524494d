"""The commands ``flask mcp``: ``list``, ``call``, ``status``, ``login``, ``logout``, ``check`` and more."""

from __future__ import annotations

import functools
import json
import sys
from typing import TYPE_CHECKING, Any, Callable, Optional

import click
from flask import current_app
from flask.cli import AppGroup

from ..._given_arguments import read_arguments
from ...auth import Key
from ...auth._store_edge import StoreEdge
from ...config import ConfigError
from ...errors import AuthError, AuthorizationRequired, HTTPStatusError, MCPError, UsageError
from ...options import UNSET
from .._bounded import Budget
from .._sealing import SEALED
from . import signals
from ._errors import first_line
from ._settings import SECONDS
from ._state import state_of

if TYPE_CHECKING:
    from ..._servers.status import ServerStatus
    from .._entries import Entry
    from ._state import AppState


def make_group() -> AppGroup:
    """Return the commands."""
    group = AppGroup("mcp", help="Look at MCP servers, and call them.")
    commands = (list_servers, call, status, login, logout, check, create_table, prune)
    names = {list_servers: "list", create_table: "create-table"}
    for command in commands:
        group.command(names.get(command, command.__name__))(_in_short(command))
    return group


def _in_short(command: Callable[..., None]) -> Callable[..., None]:
    """Have the errors of a command told in a line."""

    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> None:
        try:
            command(*args, **options)
        except MCPError as error:
            # What is wrong with the configuration is no matter of how the command was typed.
            is_misuse = isinstance(error, UsageError) and not isinstance(error, ConfigError)
            raise (click.UsageError if is_misuse else click.ClickException)(_text(error)) from None

    return run


def _text(error: MCPError) -> str:
    cause = first_line(error.__cause__) if isinstance(error, AuthError) else ""
    return f"{error}{cause and f': {cause}'}"


@click.argument("alias", required=False)
def list_servers(alias: Optional[str]) -> None:
    """List the servers, or the tools of one of them."""
    if alias is None:
        for name, entry in state_of().entries.items():
            click.echo(f"{name}{'  (users log in)' if entry.auth is not None else ''}")
        return
    for tool in _client(alias, None).tools():
        text = " ".join((tool.description or "").split())
        click.echo(f"{tool.name}  {text}".rstrip())


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
    given = read_arguments(arguments)
    # What a person needs for an answer is not to count.
    with state.registry.another(alias, elicitation_callback=PROMPT, timeout=UNSET) as client:
        server = Server(state, alias, client, Budget(timeout))
        caller = server if user is None else server.for_user(user)
        result = caller.call_tool(tool, given.for_tool(caller, tool))
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

    aliases = list(state_of().entries) if alias is None else [alias]
    disabled = {each.name: each for each in state_of().registry.status() if each.state == "disabled"}
    found = StatusTable(disabled.get(each) or _opened(each, user, timeout) for each in aliases)
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
    oauth, url = _oauth(alias, user)
    click.echo(f"Open this address, and log in:\n{oauth.begin(url).url}")
    click.echo("The browser may show an error then. Paste the address that it shows:")
    answer = click.prompt("", prompt_suffix="", default="", show_default=False)
    # The site itself has finished the login if the browser is logged in there as this user.
    if oauth.status(url).state != "valid":
        oauth.finish(answer.strip())
    signals.send(signals.grant_created, server=alias, principal=f"user:{user}")
    click.echo(f"connected to {alias}")


@click.argument("alias")
@click.option("--user", required=True, help="Who logs out: the key of the user.")
def logout(alias: str, user: str) -> None:
    """Give the grant of a user back, and forget it. Takes MCP_BASE_URL."""
    oauth, url = _oauth(alias, user)
    oauth.logout(url)
    signals.send(signals.grant_revoked, server=alias, principal=f"user:{user}")
    click.echo(f"disconnected from {alias}")


def _oauth(alias: str, user: str) -> tuple[Any, str]:
    state = state_of()
    if not state.asks_users(alias):
        raise click.ClickException(f"nobody logs in to {alias}")
    return state.oauth(alias, f"user:{user}"), state.server_url(alias)


def check() -> None:
    """Check the configuration and the token store, without asking any server."""
    state = state_of()
    for warning in state.settings.unknown():
        click.echo(f"warning: {warning}")
    entries = state.entries
    _ = state.store
    for key in SECONDS:
        state.settings.seconds(key)
    state.settings.base_url()
    faults = [_is_wrong(alias, functools.partial(_check_server, entry)) for alias, entry in entries.items()]
    given = state.settings.get("TOKEN_STORE")
    if given or state.mcp._load is not None:
        faults.append(_is_wrong("token store", functools.partial(_check_store, state, given)))
    elif not current_app.testing:
        click.echo("warning: grants are kept in the memory of each process; set MCP_TOKEN_STORE")
    sys.exit(1 if any(faults) else 0)


def _is_wrong(name: str, look: Callable[[], None]) -> bool:
    try:
        look()
    except MCPError as error:
        click.echo(f"{name}: {_text(error)}")
        return True
    click.echo(f"{name}: ok")
    return False


def _check_server(entry: Entry) -> None:
    for warning in entry.warnings:
        click.echo(f"warning: {warning}")
    if hasattr(entry.server, "check"):
        entry.server.check()
    if entry.auth is not None:
        entry.oauth_options()


def _check_store(state: AppState, given: Any) -> None:
    if hasattr(given, "check"):
        given.check()
    # Nobody keeps anything there.
    StoreEdge(state.store).get(Key("check"))
    if hasattr(given, "unreadable"):
        count = given.unreadable(lambda value: state.sealer.can_read(value.get(SEALED)))
        if count:
            click.echo(
                f"warning: {count} of the newest records cannot be decrypted, and count as not there; if a "
                "secret was replaced, put the old one behind it"
            )


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
