"""An application for the tests, with a protected server and a plain one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from flask import Flask, jsonify, session

from mcp_sync.contrib.flask import MCP
from mcp_sync.testing import FakeAuthorizationServer, FakeServer, ToolContext

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "flask_app"
FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name", "minLength": 2},
        "age": {"type": "integer"},
    },
    "required": ["name"],
}


def add(a: int, b: int) -> dict[str, int]:
    """Add two numbers."""
    return {"sum": a + b}


def greet(context: ToolContext) -> str:
    """Ask for a name and greet."""
    answer = context.elicit("What is your name?", FORM)
    if answer["action"] != "accept":
        return "Hello, stranger!"
    return f"Hello, {answer['content']['name']}!"


def make_app(**config: Any) -> Flask:
    """Make an application whose user is the one in the session."""
    app = Flask("site")
    app.config.from_mapping({"SECRET_KEY": "a secret", "TESTING": True, **config})
    mcp = MCP()
    mcp.init_app(app)
    app.register_blueprint(mcp.blueprint, url_prefix="/mcp")
    app.extensions["the_mcp"] = mcp

    @mcp.principal_getter
    def user() -> Any:
        return session.get("user")

    @app.get("/login/<name>")
    def login(name: str) -> str:
        session["user"] = name
        return name

    @app.get("/form")
    def form() -> Any:
        return str(mcp.csrf_field())

    @app.get("/use/<alias>/<tool>")
    def use(alias: str, tool: str) -> Any:
        arguments = {"a": 1, "b": 2} if tool == "add" else {}
        return jsonify(text=mcp[alias].call_tool(tool, arguments).text)

    @app.get("/for/<name>/<alias>/<tool>")
    def use_for(name: str, alias: str, tool: str) -> Any:
        return str(mcp[alias].for_user(name).call_tool(tool).text)

    @app.post("/post/<alias>/<tool>")
    def post(alias: str, tool: str) -> Any:
        return jsonify(text=mcp[alias].call_tool(tool).text)

    return app


class World:
    """A protected server with its authorization server, and how users are at both."""

    def __init__(self, auth: FakeAuthorizationServer, fake: FakeServer, url: str) -> None:
        self.auth = auth
        self.fake = fake
        self.url = url

    def app(self, **config: Any) -> Flask:
        servers = {"safe": {"url": self.url, "auth": "oauth"}}
        return make_app(**{"MCP_SERVERS": servers, **config})

    def come_back(self, browser: Any, url: str, user: str = "ada") -> Any:
        """Agree at the authorization server, and follow its redirect."""
        back = urlsplit(self.auth.consent(url, user))
        return browser.get(f"{back.path}?{back.query}", base_url=f"{back.scheme}://{back.netloc}")


@contextmanager
def world(versions: str = "all", **options: Any) -> Iterator[World]:
    with FakeAuthorizationServer(**options) as auth:

        def whoami(context: ToolContext) -> str:
            return str(auth.user_of(context.headers))

        fake = FakeServer(tools=[add, greet, whoami], principal=auth.user_of, versions=versions)
        with fake.serve_http(intercept=auth.guard()) as endpoint:
            yield World(auth, fake, endpoint.url)


def csrf_of(browser: Any, page: str = "/form") -> str:
    found = re.search(r'name="mcp_csrf" value="([^"]+)"', browser.get(page).text)
    assert found is not None
    return found[1]


def close(app: Flask) -> None:
    app.extensions["the_mcp"].registry(app).close()
