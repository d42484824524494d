"""``manage.py mcp_call SERVER TOOL key=value ... --user NAME``."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import CommandError

from mcp_sync.contrib.django.servers import mcp

from ._base import ServerCommand


class Command(ServerCommand):
    """See the module."""

    help = "Call a tool: key=value is a string, key:=value is JSON."

    def add_arguments(self, parser: Any) -> None:
        """Add the arguments."""
        parser.add_argument("server", help="the alias of a server")
        parser.add_argument("tool", help="the name of a tool")
        parser.add_argument("arguments", nargs="*", help="key=value, or key:=JSON")
        parser.add_argument("--timeout", type=float, help="seconds; default: DEFAULT_DEADLINE")
        self.add_user(parser)

    def run(self, **options: Any) -> None:
        """Do it."""
        given = {} if options["timeout"] is None else {"timeout": options["timeout"]}
        arguments = dict(map(_argument, options["arguments"]))
        view = self.view(mcp[options["server"]], options["user"])
        result = view.call_tool(options["tool"], arguments, **given)
        if result.is_error:
            raise CommandError(f"the tool reports an error: {result.text}")
        self.stdout.write(result.text or json.dumps(result.structured_content))


def _argument(word: str) -> tuple[str, Any]:
    key, sign, text = word.partition("=")
    if not sign or not key:
        raise CommandError(f"{word!r} is no argument: key=value, or key:=JSON")
    if not key.endswith(":"):
        return key, text
    try:
        return key[:-1], json.loads(text)
    except ValueError:
        raise CommandError(f"{text!r} is no JSON") from None
