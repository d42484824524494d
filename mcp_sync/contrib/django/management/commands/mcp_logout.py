"""``manage.py mcp_logout SERVER --user NAME``."""

from __future__ import annotations

from typing import Any

from mcp_sync.contrib.django.servers import mcp

from ._base import ServerCommand


class Command(ServerCommand):
    """See the module."""

    help = "Have the grant of a user revoked, and forget it."

    def add_arguments(self, parser: Any) -> None:
        """Add the arguments."""
        parser.add_argument("server", help="the alias of a server")
        self.add_user(parser)

    def run(self, **options: Any) -> None:
        """Do it."""
        server = mcp[options["server"]]
        oauth = self.oauth(server, options["user"])
        revoked = oauth.logout(server.url)
        self.stdout.write("revoked and forgotten" if revoked else "forgotten, and not revoked")
