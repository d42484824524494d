"""The commands ``resources`` and ``read``."""

from __future__ import annotations

from typing import Any, Optional

import click

from . import _show
from ._completing import resource_words, servers_first
from ._opened import all_of, opened, save, save_option
from ._options import CommonOptions, NamingCommand, common_options
from ._targets import named_server, only_server


@click.command()
@click.argument("words", nargs=-1, metavar="[TARGET] [-- COMMAND...]", shell_complete=servers_first)
@common_options
def resources(options: CommonOptions, words: tuple[str, ...]) -> None:
    """List the resources of a server, and its templates for them."""
    with opened(options, only_server(options, words)) as (client, budget, _):
        found = all_of(client.resources(**budget.left()))
        templates = all_of(client.resource_templates(**budget.left()))
    if options.as_json:
        _show.echo_json(
            {
                "resources": [resource.to_wire() for resource in found],
                "resourceTemplates": [template.to_wire() for template in templates],
            }
        )
        return
    texts = [_show.resource_text(each) for each in found] + [_show.template_text(each) for each in templates]
    if not texts:
        click.echo("The server has no resources.", err=True)
    for text in texts:
        _show.heading(text)


@click.command(cls=NamingCommand)
@click.argument("words", nargs=-1, metavar="[TARGET] URI... [-- COMMAND...]", shell_complete=resource_words)
@save_option
@common_options
def read(options: CommonOptions, words: tuple[str, ...], folder: Optional[str]) -> None:
    """Read resources and print them. What is no text is named only: --save FOLDER writes it into a file."""
    server, uris = named_server(options, words)
    if not uris:
        raise click.UsageError("name the URI of a resource")
    with opened(options, server) as each:
        results = [
            each.client.read_resource(uri, progress_callback=each.progress(), **each.budget.left())
            for uri in uris
        ]
    _finish(results, options, folder)


def _finish(results: list[Any], options: CommonOptions, folder: Optional[str]) -> None:
    for result in results:
        save(result, folder)
    if options.as_json:
        first, rest = results[0].to_wire(), results[1:]
        for result in rest:
            first["contents"] = [*first["contents"], *result.to_wire()["contents"]]
        _show.echo_json(first)
        return
    for result in results:
        _show.echo(_show.contents_text(result))
