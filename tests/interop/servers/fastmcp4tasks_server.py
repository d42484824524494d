"""A server on fastmcp 4 whose tools run as tasks of the extension: `fastmcp4tasks_server.py stdio|http`."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import Any

from common import run
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.utilities.tasks import TaskConfig
from fastmcp_tasks import TasksExtension
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

OFTEN = timedelta(milliseconds=100)
server = FastMCP("fastmcp4 with tasks")
server.add_extension(TasksExtension())
gates: dict[str, asyncio.Event] = {}
optional = TaskConfig(mode="optional", poll_interval=OFTEN)
required = TaskConfig(mode="required", poll_interval=OFTEN)


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


@server.tool(task=optional)
async def ask_user(ctx: Context) -> Any:
    """Ask the user for a name."""
    if ctx.input_responses is None:
        schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        params = ElicitRequestFormParams(message="Who are you?", requested_schema=schema)
        return InputRequiredResult(input_requests={"who": ElicitRequest(params=params)})
    answer = ctx.input_responses["who"]
    return f"Hello {answer.content['name']}" if answer.action == "accept" else answer.action


if __name__ == "__main__":
    run(partial(server.run_stdio_async, show_banner=False), server.http_app)
