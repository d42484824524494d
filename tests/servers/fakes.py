"""Servers of one tool each, over HTTP, as processes and in memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from mcp_sync.testing import FakeServer, FakeTool

TESTS = Path(__file__).parent.parent
PATIENCE = 20.0

PROCESS = """
import sys
from mcp_sync.testing import FakeServer

def whoami() -> str:
    return sys.argv[1]

FakeServer([whoami], server_info={"name": sys.argv[1], "version": "1.0"}).serve_stdio()
"""


def named(name: str, *tools: str, **settings: Any) -> FakeServer:
    """Return a server whose tools, ``whoami`` by default, say its name."""
    made = [FakeTool(lambda: name, name=tool) for tool in tools or ("whoami",)]
    return FakeServer(made, server_info={"name": name, "version": "1.0"}, **settings)


def process(name: str) -> dict[str, Any]:
    """Return the configuration of such a server as a process."""
    return {
        "command": sys.executable,
        "args": ["-c", PROCESS, name],
        "env": {"PYTHONPATH": str(TESTS.parent)},
    }


@contextmanager
def over_http(*servers: FakeServer) -> Iterator[dict[str, Any]]:
    """Serve them, and give the configuration of all, by name."""
    with ExitStack() as stack:
        yield {
            server.server_info["name"]: {"url": stack.enter_context(server.serve_http()).url}
            for server in servers
        }
