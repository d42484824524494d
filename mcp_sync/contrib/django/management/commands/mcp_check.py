"""``manage.py mcp_check``: ask every server, or some."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError

from mcp_sync.contrib.django.servers import mcp
from mcp_sync.errors import MCPError

from ._base import ServerCommand


class Command(ServerCommand):
    """See the module."""

    help = "Open each server (or those that are named), and say how it went."

    def add_arguments(self, parser: Any) -> None:
        """Add the arguments."""
        parser.add_argument("servers", nargs="*", help="aliases; default: all but those that are disabled")
        self.add_user(parser)

    def run(self, **options: Any) -> None:
        """Do it."""
        failed = 0
        for alias in self.aliases(options["servers"]):
            try:
                text = self.asked(alias, options["user"])
            except (MCPError, CommandError) as error:
                failed += 1
                text = f"failed: {type(error).__name__}: {error}"
            self.stdout.write(f"{alias}: {text}")
        if failed:
            raise CommandError(f"{failed} of the servers cannot be used")

    def asked(self, alias: str, user: Any) -> str:
        """Return what a server says of itself."""
        view = self.view(mcp[alias], user)
        count = len(list(view.tools()))
        info = view.server_info
        name = f"{info.name} {info.version}" if info is not None else "a server"
        return f"{name}, revision {view.protocol_version}, {count} tools"
