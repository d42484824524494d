"""A server on the official Python SDK 1.x with the tasks of 2025-11-25: `sdk1tasks_server.py stdio|http`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from common import run
from mcp.server.experimental.task_context import ServerTaskContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.types import CallToolResult, TextContent, Tool, ToolExecution
from starlette.applications import Starlette
from starlette.routing import Mount

server: Server[Any] = Server("sdk1 with tasks")
server.experimental.enable_tasks()
gates: dict[str, anyio.Event] = {}

TEXT = {"type": "object", "properties": {"key": {"type": "string"}}}
SUPPORT: dict[str, Any] = {
    "work": "optional",
    "go_on": None,
    "add": "required",
    "fail": "optional",
    "ask_user": "optional",
}


def gate(key: str) -> anyio.Event:
    """Return what the task of this key waits for."""
    return gates.setdefault(key, anyio.Event())


def text(words: str, **more: Any) -> CallToolResult:
    """Build a result."""
    return CallToolResult(content=[TextContent(type="text", text=words)], **more)


@server.list_tools()
async def list_tools() -> list[Tool]:
    """List the tools."""
    return [
        Tool(name=name, inputSchema=TEXT, execution=ToolExecution(taskSupport=support) if support else None)
        for name, support in SUPPORT.items()
    ]


async def carry_out(name: str, arguments: dict[str, Any], task: ServerTaskContext) -> CallToolResult:
    """Do what a tool does as a task."""
    if name == "add":
        return text("added", structuredContent={"sum": arguments["a"] + arguments["b"]})
    if name == "fail":
        return text(arguments["reason"], isError=True)
    if name == "ask_user":
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        answer = await task.elicit("Who are you?", schema)
        return text(f"Hello {answer.content['name']}" if answer.content else answer.action)
    await task.update_status("working on it")
    await gate(arguments["key"]).wait()
    return text(f"done {arguments['key']}")


@server.call_tool()
async def call_tool(name: str, arguments: dict[str, Any]) -> Any:
    """Call a tool."""
    experimental = server.request_context.experimental
    experimental.validate_task_mode(SUPPORT[name])
    if experimental.is_task:
        return await experimental.run_task(lambda task: carry_out(name, arguments, task))
    gate(arguments["key"]).set()
    return text("told")


async def serve_stdio() -> None:
    """Serve over the standard streams."""
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def app() -> Starlette:
    """Serve over HTTP."""
    manager = StreamableHTTPSessionManager(server)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield

    return Starlette(routes=[Mount("/mcp", manager.handle_request)], lifespan=lifespan)


if __name__ == "__main__":
    run(serve_stdio, app)
