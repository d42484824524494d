"""The commands ``tasks list``, ``tasks get``, ``tasks result`` and ``tasks cancel``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

import click

from ..errors import MethodNotFound
from . import _show
from ._completing import servers_first
from ._opened import opened, save_option
from ._options import CommonOptions, NamingCommand, common_options
from ._targets import Server, named_server, only_server
from ._tools import finish

if TYPE_CHECKING:
    from ..tasks import TaskState

_ONE = "[TARGET] TASK [-- COMMAND...]"


@click.group()
def tasks() -> None:
    """Look after calls that take long. `mcp-sync call --detach` begins one, and prints its id."""


@tasks.command("list")
@click.argument("words", nargs=-1, metavar="[TARGET] [-- COMMAND...]", shell_complete=servers_first)
@common_options
def list_(options: CommonOptions, words: tuple[str, ...]) -> None:
    """List the tasks that a server of revision 2025-11-25 knows; later ones have no such list."""
    from ..tasks import list_tasks

    with opened(options, only_server(options, words)) as (client, budget, _):
        try:
            found = [task.status(**budget.left()) for task in list_tasks(client, **budget.left())]
        except MethodNotFound:
            # With tasks of which it keeps no list there may be some.
            if client.server_capabilities.tasks is not None:
                raise
            found = []
    if options.as_json:
        _show.echo_json({"tasks": [dict(state.raw) for state in found]})
        return
    if not found:
        click.echo("The server knows no tasks.", err=True)
    for state in found:
        click.echo(_text(state))


@tasks.command(cls=NamingCommand)
@click.argument("words", nargs=-1, metavar=_ONE, shell_complete=servers_first)
@common_options
def get(options: CommonOptions, words: tuple[str, ...]) -> None:
    """Show how a task is getting on."""
    server, task_id = _named(options, words)
    with opened(options, server) as (client, budget, _):
        state = client.task(task_id).status(**budget.left())
    _print(state, options)


@tasks.command(cls=NamingCommand)
@click.argument("words", nargs=-1, metavar=_ONE, shell_complete=servers_first)
@save_option
@common_options
def result(options: CommonOptions, words: tuple[str, ...], folder: Optional[str]) -> int:
    """Wait for the end of a task and print its result, as call does."""
    server, task_id = _named(options, words)
    with opened(options, server, task_id) as each:
        found = each.client.task(task_id).result(progress_callback=each.progress(), **each.budget.left())
    return finish(f"of task {task_id}", found, options, folder)


@tasks.command(cls=NamingCommand)
@click.argument("words", nargs=-1, metavar=_ONE, shell_complete=servers_first)
@common_options
def cancel(options: CommonOptions, words: tuple[str, ...]) -> None:
    """Ask the server to give a task up, and show what became of it."""
    server, task_id = _named(options, words)
    with opened(options, server) as (client, budget, _):
        task = client.task(task_id)
        task.cancel(**budget.left())
        state = task.status(**budget.left())
    _print(state, options)


def _named(options: CommonOptions, words: tuple[str, ...]) -> tuple[Server, str]:
    server, rest = named_server(options, words)
    if len(rest) != 1:
        raise click.UsageError("name one task, by its id")
    return server, rest[0]


def _print(state: TaskState, options: CommonOptions) -> None:
    if options.as_json:
        _show.echo_json({"taskId": state.id, "status": state.status, **state.raw})
    else:
        click.echo(_text(state))


def _text(state: TaskState) -> str:
    said = f": {state.status_message}" if state.status_message else ""
    return _show.clean(f"{state.id} {state.status}{said}")
