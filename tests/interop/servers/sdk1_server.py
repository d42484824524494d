"""A server on the official Python SDK 1.x: `sdk1_server.py stdio|http`.

With `http` there are also the older SSE at `/sse` and WebSocket at `/ws`.
"""

from __future__ import annotations

import os

from common import BLOB, NAMES, PNG, Cancellations, run
from mcp.server.fastmcp import Context, FastMCP, Image
from mcp.server.fastmcp.exceptions import ToolError
from mcp.server.websocket import websocket_server
from mcp.shared.exceptions import UrlElicitationRequiredError
from mcp.types import Completion, ElicitRequestURLParams, SamplingMessage, TextContent
from pydantic import AnyUrl, BaseModel
from starlette.routing import Mount, WebSocketRoute
from starlette.websockets import WebSocket

server = FastMCP("sdk1", instructions="Made for tests.", log_level="WARNING")
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


@server.tool(structured_output=False)
async def ask_model(prompt: str, ctx: Context) -> str:
    """Ask the client's model."""
    message = SamplingMessage(role="user", content=TextContent(type="text", text=prompt))
    result = await ctx.session.create_message([message], max_tokens=50, related_request_id=ctx.request_id)
    assert isinstance(result.content, TextContent)
    return f"{result.model}: {result.content.text}"


@server.tool(structured_output=False)
async def ask_user(ctx: Context) -> str:
    """Ask the user for a name and an age."""
    answer = await ctx.elicit("Who are you?", Person)
    return f"accept {answer.data.name} {answer.data.age}" if answer.action == "accept" else answer.action


@server.tool(structured_output=False)
async def ask_roots(ctx: Context) -> str:
    """Ask for the client's roots."""
    return " ".join(str(root.uri) for root in (await ctx.session.list_roots()).roots)


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
    """Tell the subscribers that a resource has changed."""
    await ctx.session.send_resource_updated(AnyUrl(uri))
    return "touched"


@server.tool(structured_output=False)
async def relist(ctx: Context) -> str:
    """Tell that the lists of tools and prompts have changed."""
    await ctx.session.send_tool_list_changed()
    await ctx.session.send_prompt_list_changed()
    return "told"


visited: set[str] = set()


@server.tool(structured_output=False)
async def pay(key: str) -> str:
    """Refuse until the user has visited a page."""
    if key not in visited:
        page = ElicitRequestURLParams(
            mode="url", message="Please pay", url=f"https://pay.example/{key}", elicitationId=key
        )
        raise UrlElicitationRequiredError([page])
    return f"paid {key}"


@server.tool(structured_output=False)
async def visit(key: str, ctx: Context) -> str:
    """Stand in for the page: note the visit, and say that it is over."""
    visited.add(key)
    # On the stream of this very request: that one certainly stands.
    await ctx.session.send_elicit_complete(key, ctx.request_id)
    return "thank you"


@server.tool(structured_output=False)
async def crash() -> str:
    """End the server as a fault would."""
    os._exit(9)


@server.tool(structured_output=False)
async def flood(uri: str, count: int, ctx: Context) -> str:
    """Tell again and again that a resource has changed."""
    for _ in range(count):
        await ctx.session.send_resource_updated(AnyUrl(uri))
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


@server._mcp_server.subscribe_resource()
async def subscribe(uri: AnyUrl) -> None:
    """Accept every subscription."""


@server._mcp_server.unsubscribe_resource()
async def unsubscribe(uri: AnyUrl) -> None:
    """Accept every end of a subscription."""


def app() -> object:
    """Serve Streamable HTTP at `/mcp`, the older HTTP with SSE at `/sse`, and WebSocket at `/ws`."""
    everything = server.streamable_http_app()
    everything.routes.append(WebSocketRoute("/ws", serve_websocket))
    everything.routes.append(Mount("/", app=server.sse_app()))
    return everything


async def serve_websocket(socket: WebSocket) -> None:
    """Serve one client over WebSocket."""
    inner = server._mcp_server
    async with websocket_server(socket.scope, socket.receive, socket.send) as (source, sink):
        await inner.run(source, sink, inner.create_initialization_options())


if __name__ == "__main__":
    run(server.run_stdio_async, app)
