"""A small MCP server to try a client on: ``python -m mcp_sync.cli.demo_server``.

It speaks every revision over standard input and output and needs nothing but the standard library, so
that it starts fast.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any, Optional

from .._version import __version__
from ..testing import FakeResource, FakeServer, FakeTool, ToolContext

README = """\
# Demo server

Tools: add, countdown, greet, fail. Resources: this text and demo://notes/{name}. Prompt: review.
"""

_SUM_SCHEMA = {"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]}
_NAME_SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "title": "Your name", "minLength": 1}},
    "required": ["name"],
}

NOTES = ("ideas", "shopping", "standup")
LANGUAGES = ("C", "Go", "Java", "JavaScript", "Kotlin", "PHP", "Perl", "Python", "Ruby", "Rust")


def add(a: float, b: float) -> dict[str, Any]:
    """Add two numbers."""
    return {"sum": a + b}


def countdown(context: ToolContext, steps: int = 5, delay: float = 0.2) -> str:
    """Count down slowly and report progress, with a delay in seconds before each step."""
    for step in range(steps):
        context.log("debug", f"step {step + 1}")
        if context.cancelled.wait(delay):
            return "cancelled"
        context.progress(step + 1, steps, f"{steps - step - 1} to go")
    return "liftoff"


def greet(context: ToolContext) -> str:
    """Ask for a name and greet."""
    answer = context.elicit("What is your name?", _NAME_SCHEMA)
    if answer.get("action") != "accept":
        return "Hello, whoever you are!"
    return f"Hello, {answer.get('content', {}).get('name', 'nobody')}!"


def fail(message: str = "This tool always fails.") -> str:
    """Fail, to show what an error of a tool looks like."""
    raise RuntimeError(message)


def note(name: str) -> str:
    """Return the note of that name."""
    return f"This is the note {name!r}."


def review(code: str, language: str = "Python") -> str:
    """Ask for a review of some code."""
    return f"Please review this {language} code:\n\n{code}"


def complete(ref: Mapping[str, Any], argument: Mapping[str, Any], known: Mapping[str, str]) -> list[str]:
    """Suggest names of notes, or languages of a review."""
    names = {"name": NOTES, "language": LANGUAGES}.get(argument["name"], ())
    start = argument["value"].lower()
    return [name for name in names if name.lower().startswith(start)]


def build() -> FakeServer:
    """Build the demo server."""
    server = FakeServer(
        tools=[FakeTool(add, output_schema=_SUM_SCHEMA), countdown, greet, fail],
        resources={
            "demo://readme": FakeResource(README, mime_type="text/markdown"),
            "demo://notes/{name}": FakeResource(note, mime_type="text/plain"),
        },
        prompts=[review],
        complete=complete,
        instructions="A server to try a client on.",
        server_info={"name": "mcp-sync-demo", "version": __version__},
    )
    # The same in each process: a site has one for each worker, and any of them goes on with a question.
    server.secret = b"mcp-sync-demo"
    return server


def main() -> None:
    """Serve until standard input ends, or SIGTERM or SIGINT arrives."""
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, _leave)
    build().serve_stdio()


def _leave(number: int, frame: Optional[FrameType]) -> None:
    sys.exit(0)


if __name__ == "__main__":
    main()
