"""The arguments of a tool, as a person types them on a command line.

- ``words``: from words to arguments, typed by the tool's input schema;
- ``check``: arguments against that schema, and what is wrong in one line;
- ``schemas``: what the schema says of one argument.
"""

from __future__ import annotations

from .words import GivenArguments, read_arguments

__all__ = ["GivenArguments", "read_arguments"]
