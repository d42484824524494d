"""A server on fastmcp 4, both eras: `fastmcp4_server.py stdio|http`."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from common import BLOB, NAMES, PNG, Cancellations, run
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.utilities.types import Image
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
    ListRootsRequest,
    SamplingMessage,
    TextContent,
)
from pydantic import BaseModel

server = FastMCP("fastmcp4", version="4.0", instructions="Made for tests.")
cancellations = Cancellations()


class Sum(BaseModel):
    """What `add` returns."""

    sum: int


class Person(BaseModel):
    """What `ask_user` asks for."""

    name: str
    age: int = 30


@server.tool
def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(sum=a + b)


@server.tool(output_schema=None)
def echo(text: str) -> str:
    """Return the text as it came."""
    return text


@server.tool
def picture() -> Image:
    """Return a picture of one pixel."""
    return Image(data=PNG, format="png")


@server.tool
def fail(reason: str) -> str:
    """Fail, as tools do."""
    raise ToolError(reason)


@server.tool
async def slow(steps: int, ctx: Context) -> str:
    """Report progress at each step."""
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps, f"step {step}")
    return f"{steps} steps"


@server.tool
async def talk(text: str, ctx: Context) -> str:
    """Log a warning."""
    await ctx.warning(text)
    return "logged"


def _message(prompt: str) -> SamplingMessage:
    return SamplingMessage(role="user", content=TextContent(type="text", text=prompt))


@server.tool
async def ask_model(prompt: str, ctx: Context) -> Any:
    """Ask the client's model, in the way of the session's era."""
    if not ctx._is_modern_protocol():
        answer = await ctx.session.create_message([_message(prompt)], max_tokens=50)
    elif ctx.input_responses is None:
        params = CreateMessageRequestParams(messages=[_message(prompt)], max_tokens=50)
        return InputRequiredResult(input_requests={"model": CreateMessageRequest(params=params)})
    else:
        answer = ctx.input_responses["model"]
    return f"{answer.model}: {answer.content.text}"


@server.tool
async def ask_user(ctx: Context) -> Any:
    """Ask the user for a name and an age, in the way of the session's era."""
    if not ctx._is_modern_protocol():
        told = await ctx.elicit("Who are you?", Person)
        return f"accept {told.data.name} {told.data.age}" if told.action == "accept" else told.action
    if ctx.input_responses is None:
        params = ElicitRequestFormParams(message="Who are you?", requested_schema=Person.model_json_schema())
        return InputRequiredResult(
            input_requests={"who": ElicitRequest(params=params)}, request_state="asked once"
        )
    assert ctx.request_state == "asked once"
    answer = ctx.input_responses["who"]
    if answer.action != "accept":
        return answer.action
    person = Person.model_validate(answer.content)
    return f"accept {person.name} {person.age}"


@server.tool
async def ask_roots(ctx: Context) -> Any:
    """Ask for the client's roots, in the way of the session's era."""
    if not ctx._is_modern_protocol():
        answer = await ctx.session.list_roots()
    elif ctx.input_responses is None:
        return InputRequiredResult(input_requests={"roots": ListRootsRequest()})
    else:
        answer = ctx.input_responses["roots"]
    return " ".join(str(root.uri) for root in answer.roots)


@server.tool
async def hang(key: str, ctx: Context) -> str:
    """Report that it runs, then wait to be cancelled."""
    await ctx.report_progress(1, 1, "running")
    await cancellations.hang(key)
    return "nobody cancelled"


@server.tool
async def was_cancelled(key: str) -> str:
    """Say whether the call of `hang` with this key was cancelled."""
    return "yes" if await cancellations.wait(key) else "no"


@server.tool(output_schema=None)
async def relist(ctx: Context) -> str:
    """Tell that the lists of tools and prompts have changed."""
    await ctx.session.send_tool_list_changed()
    await ctx.session.send_prompt_list_changed()
    return "told"


@server.tool(output_schema=None)
async def crash() -> str:
    """End the server as a fault would."""
    os._exit(9)


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


@server.prompt
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Say hello to {name}."


@server.completion
def complete(ref: Any, argument: Any, context: Any) -> list[str]:
    """Complete a name."""
    return [name for name in NAMES if name.startswith(argument.value)]


if __name__ == "__main__":
    run(partial(server.run_stdio_async, show_banner=False), server.http_app)
