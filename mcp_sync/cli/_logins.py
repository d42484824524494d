"""The logins of this user: where they are kept, and with which settings each was made."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional

import click

from .._concurrency.fork import hold_off
from .._protocol.visible import clean
from ..errors import AuthorizationRequired

HOME_VARIABLE = "MCP_SYNC_HOME"
_SETTINGS = ("issuer", "client_id", "client_metadata_url", "scopes")


def home() -> Path:
    """Return the folder of this program: ``MCP_SYNC_HOME``, else where programs keep settings of a user."""
    return Path(os.environ.get(HOME_VARIABLE) or click.get_app_dir("mcp-sync"))


def known_logins() -> dict[str, dict[str, Any]]:
    """Return the settings of all logins, by the URL of the server. There are no secrets in them.

    Raises:
        click.UsageError: The file that holds them is damaged.
    """
    path = _file()
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise click.UsageError(f"{path} is damaged; move it away: {error}") from error
    known = found if isinstance(found, dict) else {}
    return {url: each for url, each in known.items() if isinstance(each, dict)}


def keep_login(url: str, settings: Optional[Mapping[str, Any]]) -> None:
    """Remember with which settings somebody has logged in, ``None`` to forget it."""
    known = known_logins()
    known.pop(url, None)
    if settings is not None:
        known[url] = dict(settings)
    path = _file()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = path.with_suffix(f".new-{os.getpid()}")
    new.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    new.replace(path)


def auth_for(url: str) -> Any:
    """Return the authorization that a login has left for a server, ``None`` if there was none.

    It asks nobody: tokens are refreshed, and that is all.
    """
    settings = known_logins().get(url)
    return None if settings is None else make_auth(settings, interactive=False)


def make_auth(settings: Mapping[str, Any], *, interactive: bool, **more: Any) -> Any:
    """Return the authorization with certain settings.

    Args:
        settings: ``device``, ``issuer``, ``client_id``, ``client_secret_variable``, ``client_metadata_url``
            and ``scopes``, as far as they were given.
        interactive: Whether the user may be asked.
        more: Arguments of `OAuth` or `DeviceCode`.

    Raises:
        click.UsageError: The variable with the secret is not set.
    """
    with hold_off():
        from ..auth import DeviceCode, FileStore, OAuth

    given = {name: settings[name] for name in _SETTINGS if settings.get(name)}
    variable = settings.get("client_secret_variable")
    if variable:
        secret = os.environ.get(variable)
        if not secret:
            raise click.UsageError(f"the variable {variable} with the secret of the client is not set")
        given["client_secret"] = secret
    given.update(more)
    store = FileStore(home() / "tokens")
    if not settings.get("device"):
        return OAuth(store=store, interactive=interactive, **given)
    return DeviceCode(store=store, show=_show if interactive else _refuse, **given)


def _show(prompt: Any) -> None:
    click.echo(clean(str(prompt)), err=True)


def _refuse(prompt: Any) -> None:
    raise AuthorizationRequired("the login is over; log in again: mcp-sync login --device")


def _file() -> Path:
    return home() / "logins.json"
