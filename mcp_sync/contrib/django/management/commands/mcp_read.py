"""``manage.py mcp_read SERVER URI --user NAME``."""

from __future__ import annotations

from typing import Any

from mcp_sync.contrib.django.servers import mcp

from ._base import ServerCommand


class Command(ServerCommand):
    """See the module."""

    help = "Read a resource."

    def add_arguments(self, parser: Any) -> None:
        """Add the arguments."""
        parser.add_argument("server", help="the alias of a server")
        parser.add_argument("uri", help="the URI of a resource")
        self.add_user(parser)

    def run(self, **options: Any) -> None:
        """Do it."""
        result = self.view(mcp[options["server"]], options["user"]).read_resource(options["uri"])
        for each in result.contents:
            text = getattr(each, "text", None)
            self.stdout.write(text if text is not None else f"({each.mime_type or 'binary'} data)")
