"""What commands that talk to a server have in common: an open client, a place for files, and lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional, TypeVar

import click

from .._concurrency.fork import no_fork
from ..errors import InvalidResult, MethodNotFound
from . import _show
from ._budget import Budget
from ._options import CommonOptions
from ._progress import LiveBar
from ._targets import Server

if TYPE_CHECKING:
    from ..client import Client


T = TypeVar("T")


class Opened(NamedTuple):
    """An open client, and what belongs to the command.

    Attributes:
        client: The client.
        budget: The time that is left.
        bar: The progress bar.
    """

    client: Client
    budget: Budget
    bar: LiveBar

    def progress(self) -> Any:
        """Return the progress callback, ``None`` where nobody would see it."""
        return self.bar.report if self.bar.useful() else None


@contextmanager
def opened(options: CommonOptions, server: Server, label: str = "", **given: Any) -> Iterator[Opened]:
    """Open a client for a command, and close it.

    Args:
        options: What was typed.
        server: The server.
        label: What stands at the progress bar.
        given: More arguments of `Client`.
    """
    with no_fork():
        from ._ask import Asker

    with options.budget as budget, LiveBar(label) as bar:
        asker = Asker(bar, budget.spent)
        # The asker leaves first: the client would wait for a question that nobody answers.
        with budget.closing(server.client(options, elicitation_callback=asker, **given)) as client, asker:
            client.open(**budget.left())
            yield Opened(client, budget, bar)


def save_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option ``--save``."""
    return click.option(
        "--save",
        "folder",
        type=click.Path(file_okay=False),
        metavar="FOLDER",
        help="Write images, sounds and resources into files there; none that is there is replaced.",
    )(function)


def save(result: Any, folder: Optional[str]) -> None:
    """Save the content of a result, and say where.

    Args:
        result: A result with content.
        folder: Where to, ``None`` for nowhere.

    Raises:
        FolderRefused: It cannot be written.
        InvalidResult: What the server sent cannot be decoded.
    """
    if folder is None:
        return
    try:
        paths = result.save(folder)
    except ValueError as error:
        raise InvalidResult(f"the server sent content that is no base64: {error}") from error
    for path in paths:
        click.echo(f"saved {_show.clean(str(path))}", err=True)


def all_of(found: Iterable[T]) -> list[T]:
    """Return all of a list; none where the server has no such list."""
    try:
        return list(found)
    except MethodNotFound:
        return []


def show_list(options: CommonOptions, key: str, found: Iterable[Any], text: Callable[[Any], str]) -> None:
    """Print a list of what a server has.

    Args:
        options: What was typed.
        key: What it is called.
        found: What there is.
        text: Returns how one of it looks.
    """
    entries = list(found)
    if options.as_json:
        _show.echo_json({key: [entry.to_wire() for entry in entries]})
        return
    if not entries:
        click.echo(f"The server has no {key}.", err=True)
    for entry in entries:
        _show.heading(text(entry))
