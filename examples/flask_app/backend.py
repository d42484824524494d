"""What the application talks to: an MCP server, and the authorization server before it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mcp_sync.testing import FakeAuthorizationServer, FakeServer, ToolContext

TABLE = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name", "minLength": 2},
        "guests": {"type": "integer", "title": "Guests", "minimum": 1, "maximum": 8, "default": 2},
        "where": {"type": "string", "title": "Where", "enum": ["inside", "outside"]},
        "quiet": {"type": "boolean", "title": "A quiet corner"},
    },
    "required": ["name", "guests"],
}


def add(a: int, b: int) -> dict[str, int]:
    """Add two numbers."""
    return {"sum": a + b}


def cook(context: ToolContext, courses: int = 5) -> str:
    """Cook some courses, and say how far it is."""
    for course in range(courses):
        context.progress(course, courses, f"course {course + 1} of {courses}")
        context.cancelled.wait(0.7)
    context.progress(courses, courses, "ready")
    return f"{courses} courses are served."


def book(context: ToolContext) -> str:
    """Book a table, once it is known for whom."""
    answer = context.elicit("For whom shall the table be booked?", TABLE)
    if answer["action"] != "accept":
        return "No table was booked."
    table = answer["content"]
    corner = ", in a quiet corner" if table.get("quiet") else ""
    where = table.get("where") or "anywhere"
    return f"A table for {table['guests']}, {where}{corner}, in the name of {table['name']}."


@contextmanager
def running() -> Iterator[str]:
    """Run both while the block runs; gives the URL of the MCP server."""
    with FakeAuthorizationServer() as authorization:
        fake = FakeServer(tools=[add, cook, book], principal=authorization.user_of)
        with fake.serve_http(intercept=authorization.guard()) as endpoint:
            yield endpoint.url
