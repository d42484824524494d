"""The ways to a server, and how each is disturbed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable, NamedTuple

from mcp_sync import Client, MCPError, transports

Disturb = Callable[[int], object]


class Lane(NamedTuple):
    """A way to a server.

    Attributes:
        way: The method of the fake server.
        target: The name of the target.
        versions: What the server speaks.
        answers: How Streamable HTTP answers.
        share: Its share of the calls.
    """

    way: str
    target: str
    versions: str
    answers: str = "json"
    share: int = 1


LANES = {
    "HTTP, JSON": Lane("serve_http", "StreamableHTTP", "modern", "json", 2),
    "HTTP, events": Lane("serve_http", "StreamableHTTP", "modern", "sse", 2),
    "HTTP, sessions": Lane("serve_http", "StreamableHTTP", "legacy", "sse", 2),
    "stdio": Lane("serve_stdio", "Stdio", "modern", share=2),
    "stdio, handshake": Lane("serve_stdio", "Stdio", "legacy"),
    "WebSocket": Lane("serve_websocket", "WebSocket", "legacy"),
    "HTTP+SSE": Lane("serve_sse", "LegacySSE", "2024-11-05"),
}


def available() -> dict[str, Lane]:
    """Return the lanes whose transport is there."""
    return {name: lane for name, lane in LANES.items() if hasattr(transports, lane.target)}


@contextmanager
def served(lane: Lane) -> Iterator[tuple[Any, Callable[[Client], Disturb]]]:
    """Serve a lane in a process of its own; yields the target, and what disturbs a client's connection."""
    make_target = getattr(transports, lane.target)
    arguments = ["-m", "tests.soak.child", lane.way, lane.versions, lane.answers]
    if lane.way == "serve_stdio":
        yield make_target(sys.executable, arguments), _stopping
        return
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, *arguments], **pipes) as child:
        url = child.stdout.readline().strip()  # type: ignore[union-attr]

        def tell(number: int) -> None:
            child.stdin.write("expire\n" if number % 2 else "drop\n")  # type: ignore[union-attr]
            child.stdin.flush()  # type: ignore[union-attr]

        yield make_target(url), lambda client: tell
        child.stdin.close()  # type: ignore[union-attr]


def _stopping(client: Client) -> Disturb:
    def stop(number: int) -> None:
        try:
            client.call_tool("stop", timeout=10)
        except MCPError:
            pass  # As it should be: the server has ended.

    return stop
