"""The official SDK 1.30 over HTTP with SSE, driven from blocking code through anyio's blocking portal."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any

from anyio.from_thread import start_blocking_portal
from mcp import ClientSession
from mcp.client.sse import sse_client

logging.disable(logging.WARNING)


@asynccontextmanager
async def _session(url: str) -> AsyncIterator[ClientSession]:
    async with sse_client(url) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        yield session


class Contender:
    """One `mcp.ClientSession` behind one portal."""

    def open(self, target: dict[str, Any]) -> None:
        """Start the portal and connect."""
        self.stack = ExitStack()
        self.portal = self.stack.enter_context(start_blocking_portal())
        self.session = self.stack.enter_context(
            self.portal.wrap_async_context_manager(_session(target["url"]))
        )
        self.portal.call(self.session.list_tools)

    def close(self) -> None:
        """Disconnect and stop the portal."""
        self.stack.close()

    def call(self) -> None:
        """Make one small call."""
        result = self.portal.call(self.session.call_tool, "add", {"a": 1, "b": 2})
        assert result.content[0].text == "3"
