"""The command ``mcp-sync pins``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from .._concurrency.fork import no_fork
from . import _show
from ._completing import servers_first
from ._exit import ExitCode
from ._options import CommonOptions, common_options
from ._targets import only_server


@click.command()
@click.argument("words", nargs=-1, metavar="[TARGET] [-- COMMAND...]", shell_complete=servers_first)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False),
    required=True,
    help="The file, as client.pin_tools has it.",
)
@click.option(
    "--check", is_flag=True, help="Write nothing: exit with 1 if a tool has changed, is new, or is gone."
)
@common_options
def pins(options: CommonOptions, words: tuple[str, ...], output: str, check: bool) -> int:
    """Write down which tools a server has, or see whether they are those still.

    \b
      mcp-sync pins https://example.com/mcp -o tools.json
      mcp-sync pins https://example.com/mcp -o tools.json --check

    Names, descriptions, schemas and hints count: what a model and a person go by.
    """
    with no_fork():
        from ..typed._lockfile import read_lock, write_lock
        from ..typed._pins import Pins

    path = Path(output)
    try:
        pinned = read_lock(path) if check else {}
    except FileNotFoundError as error:
        raise click.UsageError(f"there is no {path}: without --check it is written") from error
    now = _listed(options, words)
    if not check:
        write_lock(path, now.values())
        if options.as_json:
            _show.echo_json({"output": output, "tools": sorted(now)})
        else:
            click.echo(f"{len(now)} tools written to {_show.clean(output)}")
        return ExitCode.OK
    compared = Pins(path, pinned)
    found = {name: compared.compare(now, name) for name in sorted({*pinned, *now})}
    changes = {name: text for name, text in found.items() if text is not None}
    _tell(options, output, changes, len(now))
    return ExitCode.TOOL if changes else ExitCode.OK


def _listed(options: CommonOptions, words: tuple[str, ...]) -> Mapping[str, Any]:
    with no_fork():
        from ..typed._pins import by_name

    server = only_server(options, words)
    with options.budget as budget, budget.closing(server.client(options)) as client:
        client.open(**budget.left())
        return by_name(client.tools(**budget.left()))


def _tell(options: CommonOptions, output: str, changes: Mapping[str, str], count: int) -> None:
    if options.as_json:
        _show.echo_json({"output": output, "matches": not changes, "changes": dict(changes)})
        return
    if not changes:
        click.echo(f"{count} tools as before")
        return
    for name, text in changes.items():
        told = f" has changed:\n{_show.indent(text)}" if "\n" in text else f" {text}"
        click.echo(_show.clean(f"{name}{told}"))
    click.echo(f"mcp-sync: the tools are not those of {_show.clean(output)}", err=True)
