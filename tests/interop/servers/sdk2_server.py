"""A server on the official Python SDK 2.x, both eras: `sdk2_server.py stdio|http`."""

from __future__ import annotations

import os
from typing import Annotated

from common import BLOB, NAMES, PNG, Cancellations, run
from mcp.server.caching import CacheHint
from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resolve import Elicit, ListRoots, Resolve, Sample
from mcp.types import Completion, CreateMessageResult, ListRootsResult, SamplingMessage, TextContent
from pydantic import BaseModel, Field

server = MCPServer(
    "sdk2",
    version="2.0",
    instructions="Made for tests.",
    log_level="ERROR",
    cache_hints={
        "tools/list": CacheHint(ttl_ms=60_000, scope="public"),
        "resources/read": CacheHint(ttl_ms=60_000),
    },
)
cancellations = Cancellations()


class Sum(BaseModel):
    """What `add` returns."""

    sum: int


class Person(BaseModel):
    """What `ask_user` asks for."""

    name: str
    age: int = 30


@server.tool()
def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(sum=a + b)


@server.tool(structured_output=False)
def echo(text: str) -> str:
    """Return the text as it came."""
    return text


@server.tool()
def picture() -> Image:
    """Return a picture of one pixel."""
    return Image(data=PNG, format="png")


@server.tool()
def fail(reason: str) -> str:
    """Fail, as tools do."""
    raise ToolError(reason)


@server.tool(structured_output=False)
async def slow(steps: int, ctx: Context) -> str:
    """Report progress at each step."""
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps, f"step {step}")
    return f"{steps} steps"


@server.tool(structured_output=False)
async def talk(text: str, ctx: Context) -> str:
    """Log a warning."""
    await ctx.warning(text)
    return "logged"


def _ask_model(prompt: str) -> Sample:
    message = SamplingMessage(role="user", content=TextContent(type="text", text=prompt))
    return Sample([message], max_tokens=50)


@server.tool(structured_output=False)
async def ask_model(prompt: str, answer: Annotated[CreateMessageResult, Resolve(_ask_model)]) -> str:
    """Ask the client's model."""
    return f"{answer.model}: {answer.content.text}"


def _ask_user() -> Elicit[Person]:
    return Elicit("Who are you?", Person)


@server.tool(structured_output=False)
async def ask_user(answer: Annotated[ElicitationResult[Person], Resolve(_ask_user)]) -> str:
    """Ask the user for a name and an age."""
    if isinstance(answer, AcceptedElicitation):
        return f"accept {answer.data.name} {answer.data.age}"
    return answer.action


def _ask_roots() -> ListRoots:
    return ListRoots()


@server.tool(structured_output=False)
async def ask_roots(answer: Annotated[ListRootsResult, Resolve(_ask_roots)]) -> str:
    """Ask for the client's roots."""
    return " ".join(str(root.uri) for root in answer.roots)


@server.tool(structured_output=False)
async def hang(key: str, ctx: Context) -> str:
    """Report that it runs, then wait to be cancelled."""
    await ctx.report_progress(1, 1, "running")
    await cancellations.hang(key)
    return "nobody cancelled"


@server.tool(structured_output=False)
async def was_cancelled(key: str) -> str:
    """Say whether the call of `hang` with this key was cancelled."""
    return "yes" if await cancellations.wait(key) else "no"


@server.tool(structured_output=False)
async def touch(uri: str, ctx: Context) -> str:
    """Tell those who listen that a resource has changed."""
    await ctx.notify_resource_updated(uri)
    return "touched"


Region = Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]


@server.tool(structured_output=False)
def mirrored(region: Region, ctx: Context) -> str:
    """Return the header in which the client must have mirrored the argument."""
    return (ctx.headers or {}).get("mcp-param-region", "no header")


@server.tool(structured_output=False)
async def relist(ctx: Context) -> str:
    """Tell that the lists of tools and prompts have changed."""
    await ctx.notify_tools_changed()
    await ctx.notify_prompts_changed()
    return "told"


@server.tool(structured_output=False)
async def crash() -> str:
    """End the server as a fault would."""
    os._exit(9)


@server.tool(structured_output=False)
async def flood(uri: str, count: int, ctx: Context) -> str:
    """Tell again and again that a resource has changed."""
    for _ in range(count):
        await ctx.notify_resource_updated(uri)
    return "told"


@server.resource("note://hello", mime_type="text/plain")
def hello() -> str:
    """A short text."""
    return "Hello, wörld"


@server.resource("note://blob", mime_type="application/octet-stream")
def blob() -> bytes:
    """Every byte once."""
    return BLOB


@server.resource("greeting://{name}", mime_type="text/plain")
def greeting(name: str) -> str:
    """A greeting for somebody."""
    return f"Hello, {name}"


@server.prompt()
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Say hello to {name}."


@server.completion()
async def complete(ref: object, argument: object, context: object) -> Completion:
    """Complete a name."""
    return Completion(values=[name for name in NAMES if name.startswith(argument.value)])


if __name__ == "__main__":
    run(server.run_stdio_async, server.streamable_http_app)
