"""What the site talks to: an MCP server, and the authorization server that guards it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Optional
from urllib.parse import parse_qsl, urlsplit

from mcp_sync.testing import FakeAuthorizationServer, FakeServer, HTTPReply, HTTPRequest, ToolContext

TRIP = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "title": "Where to?", "minLength": 2},
        "nights": {"type": "integer", "title": "Nights", "minimum": 1, "maximum": 14, "default": 2},
        "breakfast": {"type": "boolean", "title": "With breakfast"},
    },
    "required": ["city"],
}


@contextmanager
def running() -> Iterator[str]:
    """Run both; give the URL of the MCP server."""
    with AskingServer() as auth:

        def whoami(context: ToolContext) -> str:
            """Say whose token the request carries."""
            return f"You are {auth.user_of(context.headers)} at this server."

        fake = FakeServer(tools=[whoami, report, book], principal=auth.user_of)
        with fake.serve_http(intercept=auth.guard()) as endpoint:
            yield endpoint.url


def report(context: ToolContext) -> str:
    """Make a report, which takes a while."""
    for step in range(1, 6):
        context.progress(step, 5, f"chapter {step}")
        context.cancelled.wait(0.4)
    return "The report: all is well."


def book(context: ToolContext) -> str:
    """Book a trip: asks where to."""
    answer = context.elicit("Which trip shall I book?", TRIP)
    if answer.get("action") != "accept":
        return "Nothing was booked."
    trip = answer["content"]
    breakfast = "with" if trip.get("breakfast") else "without"
    return f"Booked: {trip['nights']} nights in {trip['city']}, {breakfast} breakfast."


class AskingServer(FakeAuthorizationServer):
    """An authorization server with a page: a person says who they are there, and agrees or not."""

    def _answer(self, request: HTTPRequest) -> HTTPReply:
        parts = urlsplit(request.path)
        query = dict(parse_qsl(parts.query))
        if request.method != "GET" or parts.path != "/authorize" or "answer" in query:
            self.user, self.denies = query.get("name", self.user), query.get("answer") == "no"
            return super()._answer(request)
        return HTTPReply(200, {"Content-Type": "text/html; charset=utf-8"}, _page(query, self.refusal(query)))

    def refusal(self, query: dict[str, str]) -> Optional[str]:
        """Return why a request is not answered, ``None`` if it is."""
        return (
            None if {"client_id", "redirect_uri", "state"} <= query.keys() else "The request is incomplete."
        )


_LARGE = "font: inherit; padding: .5rem 1rem"


def _page(query: dict[str, str], refusal: Optional[str]) -> bytes:
    hidden = "".join(
        f'<input type="hidden" name="{escape(name)}" value="{escape(value)}">'
        for name, value in query.items()
    )
    form = f"""<form method="get">{hidden}
    <p><label for="name">Your name here</label><br>
    <input id="name" name="name" value="ada" required autocomplete="off" style="{_LARGE}"></p>
    <button name="answer" value="yes" style="{_LARGE}">Allow</button>
    <button name="answer" value="no" style="{_LARGE}">Refuse</button></form>"""
    return f"""<!doctype html><html lang="en"><head><meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1"><title>Allow access?</title></head>
    <body style="font: 1rem/1.5 system-ui, sans-serif; max-width: 40rem; margin: 2rem auto; padding: 0 1rem">
    <main><h1>Allow access?</h1><p>A site wants to use the desk for you.</p>{refusal or form}</main></body>
    </html>""".encode()
