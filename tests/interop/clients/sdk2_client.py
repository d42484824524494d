"""A client on the official Python SDK 2.x that says in JSON lines what a server did: `sdk2_client.py URL`."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from mcp.client import Client
from mcp.client.subscriptions import SubscriptionLost


def say(**facts: Any) -> None:
    """Print one line."""
    print(json.dumps(facts), flush=True)


async def main(url: str) -> None:
    """List tools from the cache, then follow two subscriptions to their ends."""
    async with Client(url) as client:
        await client.list_tools()
        tools = await client.list_tools()
        say(tools=[tool.name for tool in tools.tools], ttl=tools.ttl_ms, version=client.protocol_version)
        await client.read_resource("demo://x")
        await client.read_resource("demo://x")
        wanted: Any = {"tools_list_changed": True, "prompts_list_changed": True}
        async with client.listen(**wanted, resource_subscriptions=["demo://x"]) as subscription:
            honored = subscription.honored
            say(honored=honored.model_dump(by_alias=True, mode="json", exclude_none=True))
            async for event in subscription:
                say(event=type(event).__name__)
        say(end="graceful", tools=len((await client.list_tools()).tools))
        try:
            async with client.listen(tools_list_changed=True) as subscription:
                say(listening=True)
                async for event in subscription:
                    say(event=type(event).__name__)
        except SubscriptionLost:
            say(end="lost")


asyncio.run(main(sys.argv[1]))
