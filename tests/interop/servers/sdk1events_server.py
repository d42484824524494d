"""A server on the official Python SDK 1.x that keeps its events, so that broken streams can be taken up."""

from __future__ import annotations

import anyio
from common import run
from mcp.server.fastmcp import Context, FastMCP
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.types import JSONRPCMessage


class Events(EventStore):
    """All events of all streams, in memory; the id of one is its place."""

    def __init__(self) -> None:
        self._events: list[tuple[str, JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        """Keep an event."""
        self._events.append((stream_id, message))
        return str(len(self._events))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        """Send what came on the stream of an event after it."""
        stream_id = self._events[int(last_event_id) - 1][0]
        for place, (stream, message) in enumerate(self._events, 1):
            if place > int(last_event_id) and stream == stream_id and message is not None:
                await send_callback(EventMessage(message, str(place)))
        return stream_id


server = FastMCP("sdk1 with events", event_store=Events(), log_level="ERROR")
runs: dict[str, int] = {}


@server.tool()
async def count(key: str, steps: int, context: Context) -> str:
    """Report each step, and say how often the tool ran for this key."""
    runs[key] = runs.get(key, 0) + 1
    for step in range(1, steps + 1):
        await context.report_progress(step, steps)
        await anyio.sleep(0.05)
    return f"ran {runs[key]} time(s)"


if __name__ == "__main__":
    run(server.run_stdio_async, server.streamable_http_app)
