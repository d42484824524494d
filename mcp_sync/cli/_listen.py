"""The command ``listen``."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import click

from . import _show
from ._completing import servers_first
from ._opened import Opened, opened
from ._options import CommonOptions, common_options
from ._targets import only_server

if TYPE_CHECKING:
    from ..subscriptions import Event

_TEXTS = {
    "ToolsChanged": "the list of tools has changed",
    "PromptsChanged": "the list of prompts has changed",
    "ResourcesChanged": "the list of resources has changed",
    "ResourceUpdated": "changed:",
    "Resync": "events may have been lost",
}


@click.command()
@click.argument("words", nargs=-1, metavar="[TARGET] [-- COMMAND...]", shell_complete=servers_first)
@click.option("--tools", is_flag=True, help="Watch the list of tools.")
@click.option("--prompts", is_flag=True, help="Watch the list of prompts.")
@click.option("--resources", is_flag=True, help="Watch the list of resources.")
@click.option("--resource", multiple=True, metavar="URI", help="Watch this one; may be given several times.")
@click.option("--count", type=click.IntRange(min=1), help="End after so many events.")
@common_options
def listen(options: CommonOptions, words: tuple[str, ...], count: int, **asked: Any) -> None:
    """Watch a server, and print what changes, a line for each event, until Ctrl-C.

    Without options it watches all lists. --timeout bounds the opening, and then the watching: when it is
    over, that is no error. With --json each event is a line of JSON.
    """
    server = only_server(options, words)
    asked["resource_list"] = asked.pop("resources")
    asked["resources"] = asked.pop("resource")
    if not any(asked.values()):
        asked.update(tools=True, prompts=True, resource_list=True)
    with opened(options, server) as each:
        _watch(each, asked, count, options.as_json)


def _watch(each: Opened, asked: dict[str, Any], count: int, as_json: bool) -> None:
    with each.client.listen(**asked, **each.budget.left()) as events:
        if not as_json:
            click.echo("Watching; Ctrl-C ends it.", err=True)
        shown = 0
        while shown != count and not each.budget.spent():
            event = events.next(timeout=each.budget.left().get("timeout"))
            if event is None:
                return
            click.echo(_line(event, as_json))
            shown += 1


def _line(event: Event, as_json: bool) -> str:
    """Return an event as a line."""
    name, uri = type(event).__name__, getattr(event, "uri", None)
    if as_json:
        kind = re.sub("(?<=.)(?=[A-Z])", "_", name).lower()
        return json.dumps({"event": kind, **({"uri": uri} if uri is not None else {})})
    return _show.clean(f"{_TEXTS[name]} {uri}" if uri is not None else _TEXTS[name])
