"""What the commands about pinned tools have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from mcp_sync.contrib.django.servers import mcp
from mcp_sync.errors import MCPError

from ._base import ServerCommand

FOLDER = "mcp-tools"


class PinCommand(ServerCommand):
    """A command about the files that say which tools servers had: one for each, in a folder.

    Attributes:
        failure: What is said of the servers of which not all is well.
    """

    failure: str

    def add_arguments(self, parser: Any) -> None:
        """Add the arguments."""
        parser.add_argument("servers", nargs="*", help="aliases; default: all but those that are disabled")
        parser.add_argument("--folder", default=FOLDER, help="where the files are; default: %(default)s")
        self.add_user(parser)

    def run(self, **options: Any) -> None:
        """Do it for each server, whatever becomes of the others."""
        failed = []
        for alias in self.aliases(options["servers"]):
            try:
                view = self.view(mcp[alias], options["user"])
                is_well = self.pinned(alias, view, Path(options["folder"]) / f"{alias}.json")
            except (MCPError, CommandError) as error:
                self.stdout.write(f"{alias}: failed: {type(error).__name__}: {error}")
                is_well = False
            if not is_well:
                failed.append(alias)
        if failed:
            raise CommandError(f"{self.failure}: {', '.join(failed)}")

    def pinned(self, alias: str, view: Any, path: Path) -> bool:
        """Do what the command is for, and return whether all is well."""
        raise NotImplementedError
