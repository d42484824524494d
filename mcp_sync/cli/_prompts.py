"""The commands ``prompts``, ``prompt`` and ``complete``."""

from __future__ import annotations

from typing import Any, Optional

import click

from .._given_arguments import GivenArguments, read_arguments
from . import _show
from ._completing import prompt_words, servers_first
from ._opened import all_of, opened, save, save_option, show_list
from ._options import CommonOptions, NamingCommand, common_options
from ._targets import named_server, only_server


@click.command()
@click.argument("words", nargs=-1, metavar="[TARGET] [-- COMMAND...]", shell_complete=servers_first)
@common_options
def prompts(options: CommonOptions, words: tuple[str, ...]) -> None:
    """List the prompts of a server, with their arguments."""
    with opened(options, only_server(options, words)) as (client, budget, _):
        found = all_of(client.prompts(**budget.left()))
    show_list(options, "prompts", found, _show.prompt_text)


@click.command(cls=NamingCommand)
@click.argument(
    "words", nargs=-1, metavar="[TARGET] PROMPT [KEY=TEXT]... [-- COMMAND...]", shell_complete=prompt_words
)
@save_option
@common_options
def prompt(options: CommonOptions, words: tuple[str, ...], folder: Optional[str]) -> None:
    """Fill in a prompt and print its messages. Arguments are texts, written as for call."""
    server, rest = named_server(options, words)
    if not rest:
        raise click.UsageError("name a prompt")
    texts = _texts(read_arguments(rest[1:], **options.budget.left()))
    with opened(options, server) as each:
        result = each.client.get_prompt(
            rest[0], texts, progress_callback=each.progress(), **each.budget.left()
        )
    save(result, folder)
    if options.as_json:
        _show.echo_json(result.to_wire())
    else:
        _show.echo(_show.messages_text(result.messages))


def _texts(given: GivenArguments) -> dict[str, str]:
    """Return the arguments of a prompt, which are all texts.

    Raises:
        click.UsageError: One of them is something else.
    """
    values: dict[str, Any] = given.typed(None)
    for key, value in values.items():
        if not isinstance(value, str):
            raise click.UsageError(
                f"{key}: the argument of a prompt must be a text, not {type(value).__name__}"
            )
    return values


@click.command(cls=NamingCommand)
@click.argument("words", nargs=-1, metavar="[TARGET] REFERENCE ARGUMENT=START [KEY=TEXT]... [-- COMMAND...]")
@common_options
def complete(options: CommonOptions, words: tuple[str, ...]) -> None:
    """Complete an argument of a prompt, or of a resource template.

    REFERENCE is the name of a prompt or a URI template, START what is typed of the argument so far. What
    follows are arguments that have their values already.
    """
    server, rest = named_server(options, words)
    if len(rest) < 2:
        raise click.UsageError("name a prompt or a URI template, and ARGUMENT=START")
    texts = _texts(read_arguments(rest[1:], **options.budget.left()))
    (name, start), *context = texts.items()
    with opened(options, server) as (client, budget, _):
        result = client.complete(
            _reference(rest[0]), {"name": name, "value": start}, dict(context) or None, **budget.left()
        )
    if options.as_json:
        _show.echo_json(result.to_wire())
        return
    for value in result.completion.values:
        _show.echo(value)
    if result.completion.has_more:
        click.echo("mcp-sync: there are more", err=True)


def _reference(word: str) -> dict[str, str]:
    if "://" in word or "{" in word:
        return {"type": "ref/resource", "uri": word}
    return {"type": "ref/prompt", "name": word}
