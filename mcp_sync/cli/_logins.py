"""The logins of this user: where they are kept, and with which settings each was made."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional

import click

from .._concurrency.fork import no_fork
from .._files import replace_file
from ..errors import AuthorizationRequired

HOME_VARIABLE = "MCP_SYNC_HOME"
_SETTINGS = ("issuer", "client_id", "client_metadata_url", "scopes", "dpop")


def home() -> Path:
    """Return the folder of this program: ``MCP_SYNC_HOME``, else where programs keep settings of a user."""
    return Path(os.environ.get(HOME_VARIABLE) or click.get_app_dir("mcp-sync"))


def known_logins() -> dict[str, dict[str, Any]]:
    """Return the settings of all logins, by the URL of the server. There are no secrets in them.

    Raises:
        click.UsageError: A file that holds one of them is damaged.
    """
    found = (_read(path) for path in sorted(_folder().glob("*.json")))
    return dict(each for each in found if each is not None)


def login_of(url: str) -> Optional[dict[str, Any]]:
    """Return the settings of the login for a server, ``None`` if there is none.

    Raises:
        click.UsageError: The file that holds them is damaged.
    """
    found = _read(_file(url))
    return None if found is None else found[1]


def keep_login(url: str, settings: Optional[Mapping[str, Any]]) -> None:
    """Remember with which settings somebody has logged in, ``None`` to forget it."""
    if settings is None:
        _file(url).unlink(missing_ok=True)
    else:
        write_private(_file(url), json.dumps({"url": url, "settings": settings}))


def write_private(path: Path, text: str) -> None:
    """Write a file below `home` that nobody else can read, in one step.

    Raises:
        click.UsageError: It cannot be written.
    """
    _make_home()
    try:
        path.parent.mkdir(exist_ok=True, mode=0o700)
        replace_file(path, text.encode("utf-8"), 0o600)
    except OSError as error:
        raise click.UsageError(f"{path} cannot be written: {error.strerror}") from error


def auth_for(url: str) -> Any:
    """Return the authorization that a login has left for a server, ``None`` if there was none.

    It asks nobody: tokens are refreshed, and that is all.
    """
    settings = login_of(url)
    return None if settings is None else make_auth(settings, interactive=False)


def make_auth(settings: Mapping[str, Any], *, interactive: bool, **more: Any) -> Any:
    """Return the authorization with certain settings.

    Args:
        settings: ``device``, ``issuer``, ``client_id``, ``client_secret_variable``, ``client_metadata_url``,
            ``scopes`` and ``dpop``, as far as they were given.
        interactive: Whether the user may be asked.
        more: Arguments of `OAuth` or `DeviceCode`. Without ``show`` the latter refuses to ask.

    Raises:
        click.UsageError: The variable with the secret is not set, or there is no place for tokens.
    """
    with no_fork():
        from ..auth import DeviceCode, FileStore, OAuth

    given = {name: settings[name] for name in _SETTINGS if settings.get(name)}
    variable = settings.get("client_secret_variable")
    if variable:
        secret = os.environ.get(variable)
        if not secret:
            raise click.UsageError(f"the variable {variable} with the secret of the client is not set")
        given["client_secret"] = secret
    given.update(more)
    if interactive:
        _make_home()
    store = FileStore(home() / "tokens")
    if not settings.get("device"):
        return OAuth(store=store, interactive=interactive, **given)
    return DeviceCode(store=store, **{"show": _refuse, **given})


def _refuse(prompt: Any) -> None:
    raise AuthorizationRequired("the login is over; log in again: mcp-sync login --device")


def _make_home() -> None:
    try:
        home().mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        text = f"the folder {home()} cannot be made: {error.strerror}; {HOME_VARIABLE} names another one"
        raise click.UsageError(text) from error


def _folder() -> Path:
    return home() / "logins"


def _file(url: str) -> Path:
    return _folder() / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}.json"


def _read(path: Path) -> Optional[tuple[str, dict[str, Any]]]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return str(found["url"]), dict(found["settings"])
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise click.UsageError(f"{path} is damaged; move it away, and log in again") from error
