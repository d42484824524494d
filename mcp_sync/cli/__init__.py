"""The command line, ``mcp-sync``. It needs the extra ``cli``: ``pip install 'mcp-sync-client[cli]'``.

Importing this package loads nothing, so that the demo server in it starts fast.
"""

from __future__ import annotations

import sys

_NEEDED = ("click", "rich")


def main() -> None:
    """Run the command line and exit with the code that tells what came of it."""
    from importlib.util import find_spec

    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        what = " and ".join(missing)
        print(f"mcp-sync needs {what}; install by: pip install 'mcp-sync-client[cli]'", file=sys.stderr)
        sys.exit(2)
    from ._app import run

    run()
