"""What the commands have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

from mcp_sync.contrib.django.authorization import WebOAuth
from mcp_sync.contrib.django.server import Server
from mcp_sync.contrib.django.servers import mcp
from mcp_sync.errors import MCPError


class ServerCommand(BaseCommand):
    """A command about servers, or what is kept of them."""

    def handle(self, *args: Any, **options: Any) -> None:
        """Run it; an error of a server is one line."""
        try:
            self.run(**options)
        except MCPError as error:
            raise CommandError(f"{type(error).__name__}: {error}") from error

    def run(self, **options: Any) -> None:
        """Do what the command is for."""
        raise NotImplementedError

    def aliases(self, named: Sequence[str]) -> list[str]:
        """Return the servers that a command is for: those that were named, else all that may be used."""
        return list(named) or [each.name for each in mcp.registry.status() if each.state != "disabled"]

    def add_user(self, parser: Any) -> None:
        """Add the option for a user."""
        parser.add_argument("--user", help="the user name of a user whose grant is used")

    def view(self, server: Server, name: Any) -> Any:
        """Return the client to use."""
        user = self._user_of(server, name)
        return server if user is None else server.for_user(user)

    def oauth(self, server: Server, name: Any) -> WebOAuth:
        """Return the authorization by which a user, or the application itself, logs in."""
        oauth = server.oauth_for(self._user_of(server, name))
        if oauth is None:
            raise CommandError(f"nobody logs in at {server.alias}")
        return oauth

    def _user_of(self, server: Server, name: Any) -> Any:
        if name is None:
            if server.needs_user:
                raise CommandError(f"each user has a grant for {server.alias}: give --user")
            return None
        model = get_user_model()
        found = model._default_manager.filter(**{model.USERNAME_FIELD: name}).first()
        if found is None:
            raise CommandError(f"there is no user {name!r}")
        return found
