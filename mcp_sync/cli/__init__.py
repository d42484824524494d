"""The command line, ``mcp-sync``. It needs the extra ``cli``: ``pip install 'mcp-sync-client[cli]'``.

Importing this package loads nothing, so that the demo server in it starts fast.
"""

from __future__ import annotations

import sys

_NEEDED = ("click", "rich")


def main() -> None:
    """Run the command line and exit with the code that tells what came of it."""
    try:
        from ._app import run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _NEEDED:
            raise
        hint = "mcp-sync needs click and rich; install them by: pip install 'mcp-sync-client[cli]'"
        print(hint, file=sys.stderr)
        sys.exit(2)
    run()
