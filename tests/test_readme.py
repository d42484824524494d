"""The README: its examples run and print what they say, and its tables tell the truth."""

from __future__ import annotations

import contextlib
import inspect
import io
import re
import webbrowser
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from auth.oauth_server import OAuthServer, agree, visit

from mcp_sync import Client, Timeouts, errors
from mcp_sync._protocol.versions import TRAITS
from mcp_sync.cli import demo_server
from mcp_sync.testing import FakeServer, FakeTool, ToolContext

README = Path(__file__).parent.parent / "README.md"
TEXT = README.read_text(encoding="utf-8")

# Where the examples say this, the test has a server of its own.
URL = "https://example.com/mcp"
SECURE_URL = "https://secure.example.com/mcp"

_PROMISE = re.compile(r"^ *print\(.*\)  # (.+)$", re.MULTILINE)


class Block(NamedTuple):
    """A fenced block."""

    language: str
    code: str
    line: int


def blocks(language: str) -> list[Block]:
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    every = [Block(match[1], match[2], TEXT.count("\n", 0, match.start()) + 1) for match in found]
    return [block for block in every if block.language == language]


def shout(context: ToolContext, text: str) -> str:
    """Have the client's model say it louder."""
    message = {"role": "user", "content": {"type": "text", "text": text}}
    answer: str = context.sample({"messages": [message], "maxTokens": 10})["content"]["text"]
    return answer


def broken() -> dict[str, Any]:
    """Return something else than promised."""
    return {"celsius": "warm"}


def report(context: ToolContext, month: str) -> str:
    """Write the report of a month."""
    context.status("adding up")
    return f"The report of {month}"


def publish(context: ToolContext) -> str:
    """Publish it, if somebody agrees."""
    answer = context.elicit("Publish it?", {"type": "object", "properties": {"sure": {"type": "boolean"}}})
    return "published" if answer["content"]["sure"] else "kept"


def forecast() -> str:
    """Show the weather."""
    return "sunny"


def refresh() -> str:
    """Show the weather anew."""
    return "sunny"


def make_server() -> FakeServer:
    celsius = {"type": "object", "properties": {"celsius": {"type": "number"}}}
    served = demo_server.build()
    tasks = (FakeTool(report, task=True), FakeTool(publish, task=True))
    for tool in (FakeTool(shout), FakeTool(broken, output_schema=celsius), *tasks):
        served.add_tool(tool)
    served.server_info = {"name": "example", "version": "1.0"}
    served.add_skill(
        "acme/refunds",
        description="Refund customers by the rules",
        files={"templates/mail.md": "Dear customer"},
    )
    board = "ui://weather/board"
    served.add_tool(FakeTool(forecast, ui=board))
    served.add_tool(FakeTool(refresh, ui={"resourceUri": board, "visibility": ["app"]}))
    asks = {"csp": {"connectDomains": ["https://api.example.com"]}, "permissions": {"geolocation": {}}}
    served.add_app(board, "<!DOCTYPE html><p>Weather", **asks)
    return served


def test_every_example_runs_and_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The user who is asked to log in agrees to everything.
    namespace: dict[str, Any] = {"__name__": "readme", "the_user_logs_in_at": agree}
    names = ("grants", "grants.sqlite", "refunds", "mcp.json", "tools.lock", "results", "search.jsonl")
    files = {f'"{name}"': repr(str(tmp_path / name)) for name in names}
    monkeypatch.setattr(webbrowser, "open", visit)
    monkeypatch.setenv("MCP_TOKEN", "a-token")
    with OAuthServer() as server, make_server().serve_http() as endpoint:
        server.clients["my-service"] = "its secret"
        server.tokens["a-token"] = ""
        with make_server().serve_http(intercept=server.protect) as secure:
            for block in blocks("python"):
                run(block, {URL: endpoint.url, SECURE_URL: secure.url, **files}, namespace)
        for value in namespace.values():
            if isinstance(value, Client):
                value.close()


def run(block: Block, names: dict[str, str], namespace: dict[str, Any]) -> None:
    # With the lines where they are in the README, a failure names the right one.
    source = "\n" * block.line + block.code
    for shown, real in names.items():
        source = source.replace(shown, real)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source, str(README), "exec", dont_inherit=True), namespace)
    promised = _PROMISE.findall(block.code)
    lines = iter(printed.getvalue().splitlines())
    # In this order, with other lines between them.
    missing = [text for text in promised if text not in lines]
    assert not missing, f"line {block.line}: {missing} not printed, but {printed.getvalue()!r}"


def test_the_first_two_commands_are_one_line_each() -> None:
    for block in blocks("sh"):
        assert block.code.count("\n") == 1
        assert block.code.startswith("python3 -m venv .venv && ")
    assert len(blocks("sh")) == 2


def test_every_link_leads_somewhere_and_every_section_is_found() -> None:
    titles = re.findall(r"^## (.+)$", TEXT, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
    linked = set(re.findall(r"\]\(#([^)]+)\)", TEXT))

    assert linked <= anchors
    found = set(re.findall(r"\]\(#([^)]+)\)", section("Where to look")))
    assert anchors - found == {"try-it", "where-to-look", "license"}


def test_the_settings_of_a_client_are_all_named() -> None:
    settings = set(inspect.signature(Client).parameters) - {"target"}
    named = set(re.findall(r"`(\w+)=", section("Ten lines") + section("Callbacks"))) | set(
        re.findall(r"^    (\w+_callback|message_handler)=", section("Callbacks"), re.MULTILINE)
    )

    assert settings <= named


def test_the_table_of_revisions_is_complete() -> None:
    table = section("Revisions")

    assert re.findall(r"^\| (\d{4}-\d\d-\d\d) ", table, re.MULTILINE) == list(TRAITS)


def test_the_table_of_exit_codes_is_that_of_the_command_line() -> None:
    pytest.importorskip("click")
    from mcp_sync.cli._exit import MEANINGS

    rows = re.findall(r"^\| (\d+) \| (.*) \|$", section("The command line"), re.MULTILINE)

    assert rows == [(str(int(code)), text) for code, text in MEANINGS.items()]


def test_the_table_of_bounds_has_the_defaults() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\d+) s ", section("Time, cancellation, Ctrl-C"), re.MULTILINE)

    assert {name: int(seconds) for name, seconds in rows} == vars(Timeouts())


def test_the_tree_of_errors_is_that_of_the_library() -> None:
    tree = section("Errors").split("```")[1]
    named = set(re.findall(r"[A-Z]\w*[a-z]\w*", tree)) - {"TimeoutError", "True"}
    public = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, errors.MCPError)
    }

    assert named <= public
    for name in ("TransportError", "RemoteError", "ProtocolError", "UsageError"):
        assert name in named


def test_it_speaks_to_users_only() -> None:
    for word in ("/tmp", "/work", "/root", "issue #", "TODO"):
        assert word not in TEXT


def section(title: str) -> str:
    return TEXT.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]
