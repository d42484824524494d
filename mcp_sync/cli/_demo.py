"""``mcp-sync demo``: a short tour with a server that comes with the package."""

from __future__ import annotations

import sys
from typing import Any, Optional

import click

from .. import Client, Stdio, types
from ..handlers import CallbackContext
from . import _show
from ._logs import log_to_stderr
from ._progress import LiveBar, progress_line

# Questions of the server are answered without asking anybody, so that the demo needs no terminal.
_NAME = "Ada"
_STEPS = {"steps": 4, "delay": 0.1}


@click.command()
def demo() -> None:
    """Start a small server and show what this client does with it."""
    log_to_stderr(as_json=False)
    server = Stdio(sys.executable, ("-m", "mcp_sync.cli.demo_server"), inherit_env="all")
    with Client(server, elicitation_callback=_answer, name="demo") as client:
        _introduce(client)
        _list(client)
        _call_tools(client)
        _read(client)


def _introduce(client: Client) -> None:
    info = client.server_info
    name = info.name if info is not None else "a server without a name"
    _show.heading(f"Connected to {name} over stdio, protocol revision {client.protocol_version}")
    click.echo()


def _list(client: Client) -> None:
    _section("Tools", [_show.tool_text(tool) for tool in client.tools()])
    resources = [_show.resource_text(resource) for resource in client.resources()]
    templates = [_show.template_text(template) for template in client.resource_templates()]
    _section("Resources", resources + templates)
    _section("Prompts", [_show.prompt_text(prompt) for prompt in client.prompts()])


def _section(title: str, entries: list[str]) -> None:
    _show.heading(title)
    for entry in entries:
        click.echo(_show.indent(entry))
    click.echo()


def _call_tools(client: Client) -> None:
    _show.heading("add a=2 b=3")
    _show_result(client.call_tool("add", {"a": 2, "b": 3}))
    _show.heading(f"countdown steps={_STEPS['steps']} delay={_STEPS['delay']}")
    with LiveBar("countdown") as bar:
        report = bar.report if bar.useful() else _print_progress
        result = client.call_tool("countdown", _STEPS, progress_callback=report)
    _show_result(result)
    _show.heading("greet")
    _show_result(client.call_tool("greet"))
    _show.heading("fail")
    _show_result(client.call_tool("fail"))


def _read(client: Client) -> None:
    _show.heading("The resource demo://readme")
    click.echo(_show.indent(_show.contents_text(client.read_resource("demo://readme"))))
    _show.heading("The prompt review, with code='print(1)'")
    prompt = client.get_prompt("review", {"code": "print(1)"})
    click.echo(_show.indent(_show.messages_text(prompt.messages)))


def _show_result(result: types.CallToolResult) -> None:
    text = _show.result_text(result)
    click.echo(_show.indent(f"The tool reports an error: {text}" if result.is_error else text))


def _print_progress(progress: float, total: Optional[float], message: Optional[str]) -> None:
    click.echo(_show.indent(progress_line(progress, total, message)))


def _answer(context: CallbackContext, params: Any) -> types.ElicitResult:
    click.echo(_show.indent(f"The server asks: {params.message}"))
    click.echo(_show.indent(f"We answer: {_NAME}"))
    return types.ElicitResult.accept({"name": _NAME})
