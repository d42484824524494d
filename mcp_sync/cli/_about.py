"""The commands ``ping`` and ``info``."""

from __future__ import annotations

import time
from typing import Any

import click

from . import _show
from ._completing import servers_first
from ._opened import opened
from ._options import CommonOptions, common_options
from ._targets import only_server

_PLACES = "[TARGET] [-- COMMAND...]"


@click.command()
@click.argument("words", nargs=-1, metavar=_PLACES, shell_complete=servers_first)
@common_options
def ping(options: CommonOptions, words: tuple[str, ...]) -> None:
    """See whether a server answers, and how fast, once the connection stands."""
    with opened(options, only_server(options, words)) as (client, budget, _):
        begun = time.perf_counter()
        client.send_ping(**budget.left())
        took = (time.perf_counter() - begun) * 1000
    if options.as_json:
        _show.echo_json({"milliseconds": round(took, 3)})
    else:
        click.echo(f"answered in {took:.1f} ms")


@click.command()
@click.argument("words", nargs=-1, metavar=_PLACES, shell_complete=servers_first)
@common_options
def info(options: CommonOptions, words: tuple[str, ...]) -> None:
    """Show what a server says about itself: its name, the revision in use, and what it offers."""
    with opened(options, only_server(options, words)) as (client, _, _bar):
        about = client.server_info
        told = {
            "protocolVersion": client.protocol_version,
            "serverInfo": None if about is None else about.to_wire(),
            "capabilities": client.server_capabilities.to_wire(),
            "instructions": client.instructions,
        }
    if options.as_json:
        _show.echo_json(told)
        return
    for line in _lines(told):
        click.echo(_show.clean(line))


def _lines(told: dict[str, Any]) -> list[str]:
    about = told["serverInfo"] or {}
    name = " ".join(str(about[key]) for key in ("name", "version") if about.get(key))
    lines = [f"server        {name or 'does not tell its name'}", f"revision      {told['protocolVersion']}"]
    if about.get("title"):
        lines.insert(1, f"title         {about['title']}")
    offered = [_capability(key, value) for key, value in told["capabilities"].items()]
    lines.append(f"offers        {', '.join(offered) or 'nothing that it tells of'}")
    if told["instructions"]:
        lines.append(f"instructions\n{_show.indent(told['instructions'])}")
    return lines


def _capability(key: str, value: Any) -> str:
    more = [name for name, on in value.items() if on not in (False, None)] if isinstance(value, dict) else []
    return f"{key} ({', '.join(more)})" if more else key
