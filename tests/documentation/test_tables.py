"""The tables of the README and of the pages tell the truth."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import mcp_sync
from mcp_sync import Client, Timeouts, errors
from mcp_sync._protocol.versions import TRAITS

from .pages import README, page_named, prose, section, text_of


def test_the_settings_of_a_client_are_all_named() -> None:
    settings = set(inspect.signature(Client).parameters) - {"target"}
    callbacks = section(README, "Callbacks")
    named = set(re.findall(r"`(\w+)=", section(README, "Ten lines") + callbacks))
    named |= set(re.findall(r"^    (\w+_callback|message_handler)=", callbacks, re.MULTILINE))

    assert settings <= named


def test_the_table_of_revisions_is_complete() -> None:
    table = section(README, "Revisions")

    assert re.findall(r"^\| (\d{4}-\d\d-\d\d) ", table, re.MULTILINE) == list(TRAITS)


def test_the_table_of_exit_codes_is_that_of_the_command_line() -> None:
    pytest.importorskip("click")
    from mcp_sync.cli._exit import MEANINGS

    rows = re.findall(r"^\| (\d+) \| (.*) \|$", prose(page_named("command-line")), re.MULTILINE)

    assert rows == [(str(int(code)), text) for code, text in MEANINGS.items()]


def test_the_table_of_bounds_has_the_defaults() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\d+) s ", section(README, "Time, cancellation, Ctrl-C"), re.MULTILINE)

    assert {name: int(seconds) for name, seconds in rows} == vars(Timeouts())


def test_the_tree_of_errors_is_that_of_the_library() -> None:
    tree = section(README, "Errors").split("```")[1]
    named = set(re.findall(r"[A-Z]\w*[a-z]\w*", tree)) - {"TimeoutError", "True"}
    public = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, errors.MCPError)
    }

    assert named <= public
    for name in ("TransportError", "RemoteError", "ProtocolError", "UsageError"):
        assert name in named


def test_the_names_of_all_loggers_are_told() -> None:
    package = Path(mcp_sync.__file__).parent
    # What helps a framework says so on a page of its own.
    sources = [path for path in package.rglob("*.py") if "contrib" not in path.parts]
    texts = [path.read_text(encoding="utf-8") for path in sources]
    names = {name for text in texts for name in re.findall(r'getLogger\("(mcp_sync\.[a-z._]+)"\)', text)}
    told = prose(page_named("observability"))

    assert len(names) > 10
    assert {name for name in names if f"`{name}`" not in told} == set()


def test_the_commands_and_options_of_the_page_are_those_of_the_command_line() -> None:
    click = pytest.importorskip("click")
    from mcp_sync.cli._app import app

    page = page_named("command-line")
    found: dict[str, set[str]] = {}

    def walk(command: Any, name: str) -> None:
        found[name] = {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
        if isinstance(command, click.Group):
            context = click.Context(command)
            for inner in command.list_commands(context):
                walk(command.get_command(context, inner), f"{name} {inner}".strip())

    walk(app, "")
    assert len(found) > 20
    table = re.findall(r"^\| (`.*) \|", section(page, "Commands"), re.MULTILINE)
    named = {word for cell in table for word in re.findall(r"`([a-z]+)", cell)}
    assert {name.partition(" ")[0] for name in found if name} <= named
    options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text_of(page)))
    assert options <= set().union(*found.values()) | {"--help"}


def test_the_commands_of_the_page_about_flask_are_there() -> None:
    pytest.importorskip("flask")
    from mcp_sync.contrib.flask._cli import make_group

    named = set(re.findall(r"flask (?:--app \w+ )?mcp ([a-z-]+)", text_of(page_named("flask"))))

    assert named == set(make_group().commands)
