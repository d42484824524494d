"""The command ``servers``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

import click

from . import _show
from ._configuration import config_file
from ._exit import ExitCode
from ._logs import log_to_stderr
from ._options import config_option, json_option
from ._words import in_words

if TYPE_CHECKING:
    from ..config import Config


class _Source(NamedTuple):
    """A configuration file, and what is in it."""

    host: str
    path: str
    config: Optional[Config]
    error: str = ""


@click.command()
@json_option()
@config_option()
@click.option(
    "--check", is_flag=True, help="Say what keeps servers from being used; exit with 1 if anything."
)
def servers(as_json: bool, config: Optional[str], check: bool) -> int:
    """List the servers in configuration files: the one that names come from, and those of known hosts.

    What may be a secret is hidden. --config FILE lists the servers of that file alone.
    """
    log_to_stderr(as_json)
    sources = list(_sources(config))
    faults = _faults(sources) if check else []
    if as_json:
        _show.echo_json({"files": [_as_dict(each) for each in sources], "problems": faults})
    else:
        _print(sources)
        for fault in faults:
            click.echo(f"mcp-sync: {_show.clean(fault)}", err=True)
    broken = config is not None and any(each.config is None for each in sources)
    return ExitCode.TOOL if faults or (check and broken) else ExitCode.OK


def _sources(config: Optional[str]) -> Iterator[_Source]:
    from ..config import ConfigError, host_files, load_config

    named = config_file(config)
    if named is not None:
        # The file that was asked for must be right.
        yield _Source("mcp-sync", named, load_config(named))
    if config is not None:
        return
    seen = {Path(named).absolute()} if named is not None else set()
    for host, path in host_files():
        if path.absolute() in seen:
            continue
        try:
            yield _Source(host, str(path), load_config(path))
        except ConfigError as error:
            yield _Source(host, str(path), None, str(error))


def _faults(sources: list[_Source]) -> list[str]:
    return [in_words(str(error)) for each in sources if each.config for error in each.config.check()]


def _as_dict(source: _Source) -> dict[str, Any]:
    told: dict[str, Any] = {"host": source.host, "file": source.path}
    if source.config is None:
        return {**told, "error": source.error}
    return {**told, "servers": source.config.to_json()["mcpServers"]}


def _print(sources: list[_Source]) -> None:
    if not sources:
        click.echo("There are no configuration files.", err=True)
    for source in sources:
        click.echo(click.style(_show.clean(f"{source.path} ({source.host})"), bold=True))
        if source.config is None:
            click.echo(_show.indent(_show.clean(source.error)))
            continue
        if not source.config.servers:
            click.echo("  no servers")
        for name, server in source.config.servers.items():
            click.echo(_show.indent(_show.clean(_line(name, server.to_json()))))


def _line(name: str, told: dict[str, Any]) -> str:
    # What stands before it in an error, the file and the server, is in the list already.
    fault = told.get("error", "").rpartition(f"server {name!r}")[2].lstrip(",: ")
    where = fault or told.get("url") or " ".join(map(str, [told.get("command"), *told.get("args", ())]))
    off = ", disabled" if told.get("disabled") else ""
    return f"{name} [{told['type']}{off}] {where}"
