"""A client on the official Python SDK 1.x that tries tasks out, and says in JSON lines what came of it."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from mcp import ClientSession, types
from mcp.client.streamable_http import streamablehttp_client


def say(**facts: Any) -> None:
    """Print one line."""
    print(json.dumps(facts), flush=True)


async def answer(context: Any, params: Any) -> types.ElicitResult:
    """Give a name."""
    return types.ElicitResult(action="accept", content={"name": "Ann"})


async def main(url: str) -> None:
    """Drive one task to its end, with a question in the middle, and cancel another one."""
    async with (
        streamablehttp_client(url) as (read, write, _),
        ClientSession(read, write, elicitation_callback=answer) as session,
    ):
        await drive(session)


async def drive(session: ClientSession) -> None:
    """Talk to the server."""
    greeting = await session.initialize()
    assert greeting.capabilities.tasks is not None
    tools = (await session.list_tools()).tools
    say(support={tool.name: tool.execution.taskSupport for tool in tools if tool.execution})
    tasks = session.experimental
    task = (await tasks.call_tool_as_task("greet", {}, ttl=5000)).task
    say(status=task.status, ttl=task.ttl)
    async for seen in tasks.poll_task(task.taskId):
        if seen.status == "input_required":
            break
    result = await tasks.get_task_result(task.taskId, types.CallToolResult)
    say(text=result.content[0].text, status=(await tasks.get_task(task.taskId)).status)
    other = (await tasks.call_tool_as_task("wait", {})).task
    say(cancelled=(await tasks.cancel_task(other.taskId)).status)
    say(listed=[item.status for item in (await tasks.list_tasks()).tasks])


asyncio.run(main(sys.argv[1]))
