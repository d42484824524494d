"""``manage.py mcp_call SERVER TOOL [ARGUMENT]... --user NAME``."""

from __future__ import annotations

import argparse
import json
from typing import Any

from django.core.management.base import CommandError

from mcp_sync._given_arguments import read_arguments
from mcp_sync._terminal import PROMPT, interactive
from mcp_sync.contrib.django import conf
from mcp_sync.contrib.django.servers import mcp
from mcp_sync.options import UNSET

from ._base import ServerCommand

_ARGUMENTS = """
An argument is one of
  NAME=VALUE    a value of the type that the tool asks for, else a string
  NAME:=JSON    any JSON value
  NAME=@FILE    the text of a file, read as NAME=VALUE is
  NAME:=@FILE   the JSON value in a file
  {...}         a JSON object of arguments
  -             the same from standard input

They are checked by the tool's schema before anything is sent. Questions of the server are asked in the
terminal, if there is one; otherwise they are declined.
"""


class Command(ServerCommand):
    """See the module."""

    help = "Call a tool and print its result."

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        """Make the parser, whose help says how arguments are written."""
        parser = super().create_parser(prog_name, subcommand, epilog=_ARGUMENTS, **kwargs)
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        return parser

    def add_arguments(self, parser: Any) -> None:
        """Add the arguments."""
        parser.add_argument("server", help="the alias of a server")
        parser.add_argument("tool", help="the name of a tool")
        parser.add_argument("arguments", nargs="*", help="see below")
        text = "seconds; default: DEFAULT_DEADLINE, in a terminal that of the library"
        parser.add_argument("--timeout", type=float, help=text)
        self.add_user(parser)

    def run(self, **options: Any) -> None:
        """Do it."""
        name, timeout = options["tool"], options["timeout"]
        if timeout is None and not interactive():
            timeout = conf.get("DEFAULT_DEADLINE")
        given = read_arguments(options["arguments"])
        # What a person needs for an answer is not to count.
        with mcp.another(options["server"], elicitation_callback=PROMPT, timeout=UNSET) as server:
            view = self.view(server, options["user"])
            bound = {} if timeout is None else {"timeout": timeout}
            result = view.call_tool(name, given.for_tool(view, name), **bound)
        if result.is_error:
            raise CommandError(f"the tool reports an error: {result.text}")
        shown = result.structured_content
        self.stdout.write(result.text if shown is None else json.dumps(shown, ensure_ascii=False))
