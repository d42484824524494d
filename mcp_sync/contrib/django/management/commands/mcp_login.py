"""``manage.py mcp_login SERVER --user NAME``: a login without the browser of this machine.

Whoever logs in opens the address that is shown, and pastes the one at which the browser ends.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandError

from mcp_sync.contrib.django import conf
from mcp_sync.contrib.django.authorization import address_of
from mcp_sync.contrib.django.servers import mcp

from ._base import ServerCommand


class Command(ServerCommand):
    """See the module."""

    help = "Connect a user to a server: shows an address, and takes the one at which the browser ends."

    def add_arguments(self, parser: Any) -> None:
        """Add the arguments."""
        parser.add_argument("server", help="the alias of a server")
        self.add_user(parser)

    def run(self, **options: Any) -> None:
        """Do it."""
        server = mcp[options["server"]]
        oauth = self.oauth(server, options["user"])
        # A port at which nothing listens: what counts is the address that the browser shows then.
        uri = conf.get("BASE_URL") and address_of("callback", server.alias)
        flow = oauth.begin(server.url, uri or "http://127.0.0.1:1/callback")
        self.stdout.write(f"Open this address, and log in:\n{flow.url}\n")
        self.stdout.write("The browser may show an error then. Paste the address that it shows:")
        try:
            address = input().strip()
        except EOFError:
            raise CommandError("no address was given, so nothing has changed") from None
        oauth.finish(address)
        self.stdout.write(f"connected to {server.alias}")
