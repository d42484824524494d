"""What the commands about pinned tools have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mcp_sync.contrib.django.servers import mcp

from ._base import ServerCommand

FOLDER = "mcp-tools"


class PinCommand(ServerCommand):
    """A command about the files that say which tools servers had: one for each, in a folder."""

    def add_arguments(self, parser: Any) -> None:
        """Add the arguments."""
        parser.add_argument("servers", nargs="*", help="aliases; default: all but those that are disabled")
        parser.add_argument("--folder", default=FOLDER, help="where the files are; default: %(default)s")
        self.add_user(parser)

    def run(self, **options: Any) -> None:
        """Do it for each server."""
        failed = []
        for alias in self.aliases(options["servers"]):
            view = self.view(mcp[alias], options["user"])
            if not self.pinned(alias, view, Path(options["folder"]) / f"{alias}.json"):
                failed.append(alias)
        self.end(failed)

    def pinned(self, alias: str, view: Any, path: Path) -> bool:
        """Do what the command is for, and return whether all is well."""
        raise NotImplementedError

    def end(self, failed: list[str]) -> None:
        """Say what there is to be said at the end."""
