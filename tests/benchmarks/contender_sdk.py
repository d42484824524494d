"""The official SDK, driven from blocking code the way its users do: through anyio's blocking portal."""

from __future__ import annotations

import logging
import sys
import time
from contextlib import ExitStack
from typing import Any

from anyio.from_thread import start_blocking_portal
from mcp import Client, StdioServerParameters

logging.disable(logging.WARNING)


class Contender:
    """One `mcp.Client` behind one portal."""

    def open(self, target: dict[str, Any]) -> None:
        """Start the portal and connect."""
        server: Any = target.get("url")
        if server is None:
            command, *args = target["command"]
            server = StdioServerParameters(command=command, args=args)
        self.stack = ExitStack()
        self.portal = self.stack.enter_context(start_blocking_portal())
        mode = "legacy" if target.get("legacy") else "auto"
        self.client = self.stack.enter_context(
            self.portal.wrap_async_context_manager(Client(server, mode=mode))
        )
        self.portal.call(self.client.list_tools)

    def close(self) -> None:
        """Disconnect and stop the portal."""
        self.stack.close()

    def call(self) -> None:
        """Make one small call."""
        result = self.portal.call(self.client.call_tool, "add", {"a": 1, "b": 2})
        assert result.content[0].text == "3"

    def big(self) -> int:
        """Make one call with a big result; return the text's length."""
        return len(self.portal.call(self.client.call_tool, "add", {"a": 1, "b": 2}).content[0].text)

    async def _pages(self) -> int:
        count, cursor = 0, None
        while True:
            page = await self.client.list_tools(cursor=cursor)
            count += len(page.tools)
            cursor = page.next_cursor
            if cursor is None:
                return count

    def pages(self) -> int:
        """Fetch every page of tools; return how many tools there were."""
        return self.portal.call(self._pages)

    def progress(self) -> tuple[float, list[float]]:
        """Make one call that reports progress; return its seconds and what had arrived when it returned."""
        seen: list[float] = []

        async def show(progress: float, total: float | None, message: str | None) -> None:
            seen.append(progress)

        async def call() -> Any:
            return await self.client.call_tool("add", {"a": 1, "b": 2}, progress_callback=show)

        start = time.perf_counter()
        self.portal.call(call)
        return time.perf_counter() - start, list(seen)


def whole(url: str) -> None:
    """Be a whole short-lived program: connect, list, call, leave."""
    import anyio

    async def main() -> None:
        async with Client(url) as client:
            await client.list_tools()
            await client.call_tool("add", {"a": 1, "b": 2})

    anyio.run(main)


if __name__ == "__main__":
    whole(sys.argv[1])
