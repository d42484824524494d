"""``manage.py mcp_list``: the servers; with an alias, the tools of one."""

from __future__ import annotations

from typing import Any

from mcp_sync.contrib.django.servers import mcp

from ._base import ServerCommand


class Command(ServerCommand):
    """See the module."""

    help = "List the servers of MCP_SYNC, or the tools of one."

    def add_arguments(self, parser: Any) -> None:
        """Add the arguments."""
        parser.add_argument("server", nargs="?", help="the alias of a server")
        self.add_user(parser)

    def run(self, **options: Any) -> None:
        """Do it."""
        if options["server"] is None:
            self.stdout.write(str(mcp.registry.status()))
            return
        for tool in self.view(mcp[options["server"]], options["user"]).tools():
            text = (tool.description or "").strip().partition("\n")[0]
            self.stdout.write(f"{tool.name}  {text}".rstrip())
