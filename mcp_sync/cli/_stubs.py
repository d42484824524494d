"""The command ``mcp-sync stubs``."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Optional

import click

from .._concurrency.fork import no_fork
from .._files import replace_file
from . import _show
from ._completing import servers_first
from ._exit import ExitCode
from ._options import CommonOptions, common_options
from ._targets import only_server


@click.command()
@click.argument("words", nargs=-1, metavar="[TARGET] [-- COMMAND...]", shell_complete=servers_first)
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="The file to write; default: print it.")
@click.option(
    "--check", is_flag=True, help="Write nothing: exit with 1 if the file is not what would be written."
)
@common_options
def stubs(options: CommonOptions, words: tuple[str, ...], output: Optional[str], check: bool) -> int:
    """Write a typed Python module for the tools of a server.

    \b
      mcp-sync stubs https://example.com/mcp -o tools.py
      mcp-sync stubs https://example.com/mcp -o tools.py --check
    """
    if check and not output:
        raise click.UsageError("--check needs -o FILE, the file to look at")
    text = _written(options, words)
    if check:
        return _compared(Path(str(output)), text, options.as_json)
    if output:
        _write(Path(output), text)
    elif options.as_json:
        _show.echo_json({"module": text})
    else:
        click.echo(text, nl=False)
    if output and options.as_json:
        _show.echo_json({"output": output})
    return ExitCode.OK


def _written(options: CommonOptions, words: tuple[str, ...]) -> str:
    with no_fork():
        from ..typed import generate_stubs

    server = only_server(options, words)
    with options.budget as budget, budget.closing(server.client(options)) as client:
        client.open(**budget.left())
        return generate_stubs(list(client.tools(**budget.left())))


def _write(path: Path, text: str) -> None:
    try:
        # The same bytes on every system.
        replace_file(path, text.encode("utf-8"))
    except OSError as error:
        raise click.UsageError(f"{path} cannot be written: {error.strerror}") from error


def _compared(path: Path, text: str, as_json: bool) -> int:
    try:
        there = path.read_bytes().decode("utf-8", "replace").replace("\r\n", "\n")
    except OSError as error:
        raise click.UsageError(f"{path} cannot be read: {error.strerror}") from error
    if as_json:
        _show.echo_json({"output": str(path), "matches": there == text})
    elif there != text:
        before, after = there.splitlines(), text.splitlines()
        for line in difflib.unified_diff(before, after, str(path), "the server now", lineterm=""):
            click.echo(_show.clean(line))
    if there == text:
        return ExitCode.OK
    if not as_json:
        click.echo(f"mcp-sync: {path} is not what the tools of the server are now", err=True)
    return ExitCode.TOOL
