"""The commands ``login``, ``logout`` and ``status``."""

from __future__ import annotations

import time
from typing import Any, Optional

import click

from .._protocol.urls import public_url
from ..errors import CallTimeout, MCPError
from . import _show
from ._completing import servers_first
from ._exit import ExitCode, exit_code, report
from ._logins import keep_login, known_logins, login_of, make_auth
from ._opened import opened
from ._options import CommonOptions, common_options
from ._targets import Server, only_server

_PLACE = "TARGET"


@click.command()
@click.argument("words", nargs=-1, metavar=_PLACE, shell_complete=servers_first)
@click.option("--device", is_flag=True, help="Show a code, to be entered in a browser anywhere.")
@click.option("--paste", is_flag=True, help="Show an address, and have pasted where the browser ended.")
@click.option("--port", type=click.IntRange(1, 65535), help="The port that the browser comes back to.")
@click.option("--issuer", metavar="URL", help="The only authorization server that may be asked.")
@click.option("--client-id", metavar="ID", help="The name of the client, where it was registered by hand.")
@click.option("--client-secret-env", metavar="VARIABLE", help="The variable with its secret, if it has one.")
@click.option("--client-metadata-url", metavar="URL", help="Where the metadata document of the client lies.")
@click.option("--dpop", is_flag=True, help="Ask for tokens that are bound to a key. Takes the extra jwt.")
@click.option("--new-client", is_flag=True, help="Register this client anew: the server has forgotten it.")
@click.option(
    "--scope", "scopes", multiple=True, metavar="SCOPE", help="Ask for it; may be given several times."
)
@common_options
def login(
    options: CommonOptions,
    words: tuple[str, ...],
    device: bool,
    paste: bool,
    port: Optional[int],
    client_secret_env: Optional[str],
    new_client: bool,
    **given: Any,
) -> int:
    """Log in to a server with a browser. Commands use what comes of it, and renew it by themselves.

    It is kept in a folder that only you can read (MCP_SYNC_HOME; else where programs keep settings).
    """
    if device and (paste or port):
        raise click.UsageError("--device takes no browser here: leave out --paste and --port")
    server, url = _server(options, words)
    # As they are read again from the file that keeps them.
    settings = {name: list(each) if name == "scopes" else each for name, each in given.items() if each}
    if device:
        settings["device"] = True
    if client_secret_env:
        settings["client_secret_variable"] = client_secret_env
    show = _Guide()
    asking = {"show": show} if device else {"interaction": _interaction(paste, port, show)}
    auth = make_auth(settings, interactive=True, **asking)
    if new_client or login_of(url) not in (None, settings):
        # What there is was given for something else.
        auth.logout(url)
    if new_client:
        auth.reset_client(url)
    try:
        with opened(options, server, auth=auth) as (client, budget, _):
            client.send_ping(**budget.left())
    except MCPError as error:
        if auth.status(url).state == "valid":
            # The user has done what there was to do, whatever the server does.
            keep_login(url, settings)
        elif isinstance(error, CallTimeout) and show.has_told:
            # It was for the user that the connection had to wait.
            text = f"the login was not finished in the browser within {error.timeout or 0:g} s"
            error = CallTimeout(text, timeout=error.timeout, request_sent=error.request_sent)
        report(error, options.as_json, is_login=True)
        return exit_code(error)
    status = auth.status(url)
    if status.state == "none":
        click.echo("The server does not ask anybody to log in.", err=True)
    else:
        keep_login(url, settings)
    _print([(url, status)], options)
    return ExitCode.OK


class _Guide:
    """Tells the user where to log in, and remembers that it did."""

    def __init__(self) -> None:
        self.has_told = False

    def __call__(self, what: Any) -> None:
        self.has_told = True
        click.echo(_show.clean(str(what)), err=True)


def _interaction(paste: bool, port: Optional[int], show: _Guide) -> Any:
    from ..auth import LoopbackBrowser, PasteBack

    def open_browser(url: str) -> Any:
        import webbrowser

        show(f"Opening a browser. If none comes up, visit\n  {url}")
        return webbrowser.open(url)

    if not paste:
        return LoopbackBrowser(port or 0, open=open_browser)
    return PasteBack(show=show) if port is None else PasteBack(show, redirect_uri=_loopback(port))


def _loopback(port: int) -> str:
    return f"http://127.0.0.1:{port}/callback"


@click.command()
@click.argument("words", nargs=-1, metavar=_PLACE, shell_complete=servers_first)
@common_options
def logout(options: CommonOptions, words: tuple[str, ...]) -> None:
    """Forget a login, and have its tokens revoked where the server offers that."""
    _, url = _server(options, words)
    settings = login_of(url)
    if settings is None:
        raise click.UsageError(f"there is no login for {public_url(url)}")
    revoked = make_auth(settings, interactive=False).logout(url)
    keep_login(url, None)
    if options.as_json:
        _show.echo_json({"url": public_url(url), "revoked": revoked})
    else:
        click.echo("logged out" if revoked else "logged out here; the server did not revoke the tokens")


@click.command()
@click.argument("words", nargs=-1, metavar=f"[{_PLACE}]", shell_complete=servers_first)
@common_options
def status(options: CommonOptions, words: tuple[str, ...]) -> None:
    """Show the logins that there are, or that for one server. Asks nobody."""
    if words:
        _, url = _server(options, words)
        known = {url: login_of(url) or {}}
    else:
        known = known_logins()
    if not known and not options.as_json:
        click.echo("There are no logins.", err=True)
    found = [(url, make_auth(known[url], interactive=False).status(url)) for url in known]
    _print(found, options)


def _server(options: CommonOptions, words: tuple[str, ...]) -> tuple[Server, str]:
    server = only_server(options, words)
    if server.url is None:
        raise click.UsageError("a server that is started by a command needs no login: name one with a URL")
    return server, server.url


def _print(found: list[tuple[str, Any]], options: CommonOptions) -> None:
    if options.as_json:
        _show.echo_json({"logins": [{"url": public_url(url), **vars(status)} for url, status in found]})
        return
    for url, status in found:
        click.echo(_show.clean(f"{public_url(url)} {_text(status)}"))


def _text(status: Any) -> str:
    words = [status.state.replace("_", " ")]
    if status.expires_at is not None and status.state == "valid":
        words.append(f"for {max(0, round((status.expires_at - time.time()) / 60))} minutes")
    if status.scope:
        words.append(f"scope {status.scope}")
    if status.issuer:
        words.append(f"by {status.issuer}")
    return ", ".join(words)
