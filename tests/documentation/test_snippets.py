"""What the README and the pages show can be done as it is shown: it runs, and prints what they say."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from auth.oauth_server import OAuthServer, agree, visit

from mcp_sync import Client
from mcp_sync.cli import demo_server
from mcp_sync.testing import FakeServer, FakeTool, ToolContext

from .pages import PAGES, README, ROOT, Block, blocks

# Where the pages say this, the tests have servers of their own.
URL = "https://example.com/mcp"
SECURE_URL = "https://secure.example.com/mcp"

_PROMISE = re.compile(r"^ *print\(.*\)  # (.+)$", re.MULTILINE)
# What installs, what runs until it is stopped, and the demo, which has tests of its own.
_LEFT_OUT = re.compile(
    r"(source |python3? -m )?(\S+/)?(pip|venv|activate|celery|gunicorn|mcp-sync (demo|login|listen))\b"
)


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


@pytest.fixture
def names() -> Iterator[dict[str, str]]:
    """The servers: what is shown, and what is there."""
    with OAuthServer() as server, make_server().serve_http() as endpoint:
        server.clients["my-service"] = "its secret"
        server.tokens["a-token"] = ""
        with make_server().serve_http(intercept=server.protect) as secure:
            yield {URL: endpoint.url, SECURE_URL: secure.url}


def _pages() -> list[Any]:
    # Pages with many commands start as many processes.
    many = ("celery", "command-line", "django", "flask")
    return [
        pytest.param(page, id=page.stem, marks=[pytest.mark.heavy] if page.stem in many else [])
        for page in PAGES
    ]


@pytest.mark.timeout(240)
@pytest.mark.parametrize("page", _pages())
def test_every_snippet_of_a_page_runs_and_prints_what_it_says(
    page: Path, names: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MCP_SYNC_HOME", str(tmp_path / "settings"))
    monkeypatch.setenv("MCP_TOKEN", "a-token")
    # The user who is asked to log in agrees to everything.
    monkeypatch.setattr(webbrowser, "open", visit)
    namespace: dict[str, Any] = {"__name__": "page", "the_user_logs_in_at": agree}
    for block in blocks(page):
        if block.file:
            write(block, names)
        elif block.language == "python":
            run(page, block, names, namespace)
        elif block.language == "console":
            type_in(block, names)
    for value in namespace.values():
        if isinstance(value, Client):
            value.close()


def write(block: Block, names: dict[str, str]) -> None:
    path = Path(block.file.lstrip("+"))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a" if block.file.startswith("+") else "w", encoding="utf-8") as file:
        file.write(translated(block.text, names))


def translated(text: str, names: dict[str, str]) -> str:
    for shown, real in names.items():
        text = text.replace(shown, real)
    return text


def run(page: Path, block: Block, names: dict[str, str], namespace: dict[str, Any]) -> None:
    # With the lines where they are on the page, a failure names the right one.
    source = "\n" * block.line + translated(block.text, names)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source, str(page), "exec", dont_inherit=True), namespace)
    promised = _PROMISE.findall(block.text)
    lines = iter(printed.getvalue().splitlines())
    # In this order, with other lines between them.
    missing = [text for text in promised if text not in lines]
    assert not missing, f"line {block.line}: {missing} not printed, but {printed.getvalue()!r}"


def type_in(block: Block, names: dict[str, str]) -> None:
    """Run the commands of a block one by one; where it shows output, they have to print just that."""
    for command, shown in commands(block):
        if _LEFT_OUT.match(command):
            continue
        done = subprocess.run(
            ["bash", "-c", translated(command, names)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={
                **os.environ,
                "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
                "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
            },
            encoding="utf-8",
            timeout=50,
        )
        printed = done.stdout + done.stderr
        for name, real in names.items():
            printed = printed.replace(real, name)
        assert not shown or matches(printed, shown), f"{command!r} printed {printed!r}"
        assert done.returncode == 0 or shown, f"{command!r}: {done}"


def commands(block: Block) -> Iterator[tuple[str, str]]:
    """Give the commands of a console, and the output that is shown below each."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.replace("\\\n", "").partition("\n")
        yield command, shown


def matches(printed: str, shown: str) -> bool:
    """Whether this was printed: all of it, or with a line of three dots what is around it."""
    pattern = re.escape(shown.rstrip()).replace(re.escape("..."), ".*")
    return re.fullmatch(pattern, printed.rstrip(), re.DOTALL) is not None


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_every_block_of_a_page_is_of_a_kind_that_is_tried(page: Path) -> None:
    for block in blocks(page):
        if page == README and block.language in ("sh", "text", ""):
            continue  # The commands, what the demo prints, the tree of errors: each has a test.
        if page.stem == "troubleshooting" and block.language == "text":
            continue  # Messages have a test for each.
        assert block.language in ("python", "console", "json") or block.file, f"line {block.line}"
        if block.language == "json":
            json.loads(block.text)
        if block.language == "console":
            assert block.text.startswith("$ ")


def test_the_first_two_commands_are_one_line_each() -> None:
    for block in blocks(README, "sh"):
        assert block.text.count("\n") == 1
        assert re.match(r"python3 -m venv (--upgrade-deps )?\.venv && ", block.text)
    assert len(blocks(README, "sh")) == 2
