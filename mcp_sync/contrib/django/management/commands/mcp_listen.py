"""``manage.py mcp_listen SERVER``: turns what a server tells into signals, until it is stopped."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from django.db import close_old_connections

from mcp_sync.contrib.django import signals
from mcp_sync.contrib.django.server import Server
from mcp_sync.contrib.django.servers import mcp
from mcp_sync.subscriptions import ResourceUpdated, ToolsChanged

from ._base import ServerCommand


class Command(ServerCommand):
    """See the module."""

    help = "Send signals for what a server tells: tools_changed, resource_updated. Runs until it is stopped."

    def add_arguments(self, parser: Any) -> None:
        """Add the arguments."""
        parser.add_argument("server", help="the alias of a server")
        parser.add_argument("--resource", action="append", default=[], help="a URI to watch; may be repeated")
        parser.add_argument("--events", type=int, help="end after so many events")
        self.add_user(parser)

    def run(self, **options: Any) -> None:
        """Do it."""
        view = self.view(mcp[options["server"]], options["user"])
        left = options["events"]
        # Ctrl-C is how one that runs in a terminal is stopped.
        with suppress(KeyboardInterrupt), view.listen(tools=True, resources=options["resource"]) as events:
            self.stdout.write("listening")
            for event in events:
                self.tell(options["server"], event)
                left = None if left is None else left - 1
                if left == 0:
                    return

    def tell(self, alias: str, event: Any) -> None:
        """Send the signal for an event, with connections to the database that work."""
        close_old_connections()
        if isinstance(event, ToolsChanged):
            signals.send(signals.tools_changed, Server, alias=alias)
        elif isinstance(event, ResourceUpdated):
            signals.send(signals.resource_updated, Server, alias=alias, uri=event.uri)
        close_old_connections()
