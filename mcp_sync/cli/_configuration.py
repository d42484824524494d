"""The configuration file in which a command finds servers by name."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional

import click

from .._protocol.visible import clean

if TYPE_CHECKING:
    from ..config import ServerConfig
    from ._budget import Budget

# What a URL has when somebody has left out how it begins, or took another beginning.
_ADDRESS = re.compile(r":\d|/|\w\.\w")

CONFIG_VARIABLE = "MCP_SYNC_CONFIG"
CONFIG_FILE = "mcp.json"


logger = logging.getLogger("mcp_sync.config")


def configured(file: Optional[str], word: str, budget: Budget, *, may_ask: bool = True) -> ServerConfig:
    """Return a server of a configuration, and log what is ignored of that one alone.

    Args:
        file: The file, ``None`` for the default.
        word: The name that was typed.
        budget: How long whoever writes the file is waited for, if it is a pipe.
        may_ask: Whether somebody may be asked for the inputs that it declares.

    Raises:
        click.UsageError: There is none.
        ConfigError: It cannot be read, or has no such server.
    """
    from .._protocol.urls import public_url
    from ..config._config import read_config, unknown_server
    from ..config._errors import Place

    is_address = _ADDRESS.search(word) is not None
    # Without a password.
    shown = public_url(word) if is_address else word
    found = config_file(file)
    if found is None:
        raise click.UsageError(
            f"{shown!r} is no URL (http, https, ws, wss), and there is no {CONFIG_FILE} here with names of "
            "servers (--config FILE names another one); a server that is to be started goes behind --"
        )
    config = read_config(found, _TypedInputs() if may_ask else None, **budget.left())
    if word not in config.servers:
        import shutil

        text = unknown_server(shown, config.servers, config.file)
        if word and (os.path.exists(word) or shutil.which(word)):
            raise click.UsageError(f"{text}. A server that is to be started goes behind --")
        if is_address:
            raise click.UsageError(f"{text}. A URL begins with http://, https://, ws:// or wss://")
    server = config[word]
    for warning in config.warnings:
        if warning.startswith(str(Place(config.file, word))):
            logger.warning("%s", warning)
    return server


class _TypedInputs:
    """Asks for the inputs that a configuration declares, as VS Code does, each once."""

    def __init__(self) -> None:
        self._typed: dict[str, str] = {}

    def __call__(self, declared: Mapping[str, Any]) -> Optional[str]:
        """Return the value of an input, ``None`` where there is nobody to ask."""
        name = str(declared["id"])
        if name not in self._typed and sys.stdin is not None and sys.stdin.isatty():
            self._typed[name] = _prompt(name, declared)
        return self._typed.get(name)


def _prompt(name: str, declared: Mapping[str, Any]) -> str:
    default, options = declared.get("default"), declared.get("options")
    is_secret = declared.get("password") is True
    typed: str = click.prompt(
        clean(str(declared.get("description") or name)),
        default=default if isinstance(default, str) else None,
        hide_input=is_secret,
        show_default=not is_secret,
        type=click.Choice(list(map(str, options))) if isinstance(options, list) else str,
        err=True,
    )
    return typed


def config_file(file: Optional[str]) -> Optional[str]:
    """Return the configuration file that is used, ``None`` if there is none."""
    named = file or os.environ.get(CONFIG_VARIABLE)
    return named or (CONFIG_FILE if os.path.isfile(CONFIG_FILE) else None)
