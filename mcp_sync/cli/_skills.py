"""The commands ``skills list``, ``skills read`` and ``skills download``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import click

from ..errors import NotSupported
from . import _show
from ._completing import servers_first
from ._opened import Opened, opened
from ._options import CommonOptions, common_options
from ._targets import Server, named_server, only_server


@click.group()
def skills() -> None:
    """List, read and download the skills of a server. Each file is verified, and none is run."""


@contextmanager
def _with_skills(options: CommonOptions, server: Server) -> Iterator[Opened]:
    from ..skills import Skills
    from ..tasks import Tasks

    with opened(options, server, extensions=[Tasks(), Skills()]) as each:
        yield each


@skills.command("list")
@click.argument("words", nargs=-1, metavar="[TARGET] [-- COMMAND...]", shell_complete=servers_first)
@common_options
def list_(options: CommonOptions, words: tuple[str, ...]) -> None:
    """List the skills of a server."""
    found: list[Any] = []
    with _with_skills(options, only_server(options, words)) as (client, budget, _), suppress(NotSupported):
        found = list(client.skills.list(**budget.left()))
    if options.as_json:
        _show.echo_json({"skills": [_as_dict(skill) for skill in found]})
        return
    if not found:
        click.echo("The server has no skills.", err=True)
    for skill in found:
        size = f"{len(skill.files)} files, {skill.size} bytes" if skill.files is not None else "dynamic"
        _show.heading(f"{skill.uri} [{size}]\n{_show.indent(skill.description, 4)}")


def _as_dict(skill: Any) -> dict[str, Any]:
    files = None if skill.files is None else {path: file.size for path, file in skill.files.items()}
    return {
        "uri": skill.uri,
        "name": skill.name,
        "description": skill.description,
        "files": files,
        "fingerprint": skill.fingerprint,
    }


@skills.command()
@click.argument(
    "words", nargs=-1, metavar="[TARGET] SKILL [FILE] [-- COMMAND...]", shell_complete=servers_first
)
@common_options
def read(options: CommonOptions, words: tuple[str, ...]) -> None:
    """Print a file of a skill, its SKILL.md without FILE. SKILL is its URI, or the path in that."""
    server, rest = named_server(options, words)
    if len(rest) not in (1, 2):
        raise click.UsageError("name a skill, and one of its files if you like")
    with _with_skills(options, server) as (client, budget, _):
        content = client.skills.read(*rest, **budget.left())
    data = content.data.decode("utf-8", "backslashreplace")
    if options.as_json:
        _show.echo_json({"path": content.path, "mimeType": content.mime_type, "text": data})
    else:
        _show.echo(data)


@skills.command()
@click.argument(
    "words", nargs=-1, metavar="[TARGET] SKILL FOLDER [-- COMMAND...]", shell_complete=servers_first
)
@click.option("--overwrite", is_flag=True, help="Replace what a former download wrote, and nothing else.")
@common_options
def download(options: CommonOptions, words: tuple[str, ...], overwrite: bool) -> None:
    """Write all files of a skill into a new folder; all of them, or none."""
    server, rest = named_server(options, words)
    if len(rest) != 2:
        raise click.UsageError("name a skill and a folder")
    with _with_skills(options, server) as (client, budget, _):
        where = client.skills.download(rest[0], rest[1], overwrite=overwrite, **budget.left())
    if options.as_json:
        _show.echo_json({"folder": str(where)})
    else:
        click.echo(_show.clean(str(where)))
