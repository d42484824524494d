"""A server that keeps nothing: ``python -m tests.soak.child WAY VERSIONS ANSWERS``.

On stdio it serves standard input and output. Otherwise it prints its URL, and does what the lines of its
standard input say, ``drop`` and ``expire``, until they end.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from mcp_sync.testing import FakeServer, ToolContext


class Forgetful(FakeServer):
    """A server that does not remember what arrived."""

    def record(self, message: Any) -> None:
        """Do nothing."""


def work(context: ToolContext, nonce: int, steps: int) -> str:
    """Report progress and write to the log."""
    for step in range(steps):
        context.progress(step + 1, steps)
        context.log("warning", f"step {step}")
    return f"did {nonce}"


def stop() -> None:
    """End the process."""
    os._exit(0)


def main(way: str, versions: str, answers: str) -> None:
    """Serve."""
    server = Forgetful(tools=[work, stop], versions=versions)
    if way == "serve_stdio":
        server.serve_stdio()
        return
    options = {"answers": answers} if way == "serve_http" else {}
    with getattr(server, way)(**options) as endpoint:
        endpoint.record = lambda request: None
        print(endpoint.url, flush=True)
        for line in sys.stdin:
            if line.strip() == "drop":
                endpoint.drop_connections()
            elif line.strip() == "expire":
                endpoint.expire_sessions()


main(*sys.argv[1:])
