"""The command ``completion``."""

from __future__ import annotations

import click

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print a script with which a shell completes commands, servers and tools.

    \b
      eval "$(mcp-sync completion bash)"        in ~/.bashrc
      eval "$(mcp-sync completion zsh)"         in ~/.zshrc
      mcp-sync completion fish | source         in ~/.config/fish/config.fish

    Names of tools come from servers with a URL, and are kept for five minutes. No command is started.
    """
    from click.shell_completion import get_completion_class

    from . import _shells as _shells
    from ._app import COMPLETE_VARIABLE, app

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(app, {}, "mcp-sync", COMPLETE_VARIABLE).source())
