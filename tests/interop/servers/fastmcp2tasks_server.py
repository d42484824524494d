"""A server on fastmcp 2.14 whose tools run as tasks of 2025-11-25: `fastmcp2tasks_server.py stdio|http`."""

from __future__ import annotations

import asyncio
from functools import partial

from common import run
from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.tasks import TaskConfig

server = FastMCP("fastmcp2 with tasks")
gates: dict[str, asyncio.Event] = {}
optional = TaskConfig(mode="optional")
required = TaskConfig(mode="required")


def gate(key: str) -> asyncio.Event:
    """Return what the task of this key waits for."""
    return gates.setdefault(key, asyncio.Event())


@server.tool(task=optional)
async def work(key: str) -> str:
    """Work until it is told to go on."""
    await gate(key).wait()
    return f"done {key}"


@server.tool
async def go_on(key: str) -> str:
    """Let a task go on."""
    gate(key).set()
    return "told"


@server.tool(task=required)
async def add(a: int, b: int) -> dict[str, int]:
    """Add two numbers, at length."""
    return {"sum": a + b}


@server.tool(task=optional)
async def fail(reason: str) -> str:
    """Fail, as tools do."""
    raise ToolError(reason)


if __name__ == "__main__":
    run(partial(server.run_stdio_async, show_banner=False), server.http_app)
