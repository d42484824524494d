"""The command line in a terminal: questions, the progress bar, and what a server may not do to it."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from command_line import DEMO_SERVER, child_environment, run
from terminal import Terminal

FORM_SERVER = """
from mcp_sync.testing import FakeServer

COLOURS = [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]
SCHEMA = {
    "type": "object",
    "properties": {
        "age": {"type": "integer", "title": "Age", "minimum": 18},
        "colour": {"type": "string", "oneOf": COLOURS},
        "sizes": {"type": "array", "items": {"type": "string", "enum": ["S", "M", "L"]}},
        "note": {"type": "string"},
        "news": {"type": "boolean", "default": False},
    },
    "required": ["age", "colour"],
}

def form(context):
    return str(sorted(context.elicit("About you", SCHEMA).get("content", {}).items()))

def page(context):
    return context.elicit_url("Sign \\x1b[31min", "https://xn--bcher-kva.example/login")["action"]

def trap(context):
    return context.elicit_url("Sign in", "https://example.com/\\x1b[31mlogin")["action"]

def agree(context):
    return context.elicit("Delete it all?")["action"]

def paint():
    return "\\x1b[31mred\\x1b]0;title\\x07"

FakeServer(tools=[form, page, trap, agree, paint]).serve_stdio()
"""


def command_line(words: Sequence[str], server: Sequence[str] = ()) -> Terminal:
    """Run a command line in a terminal of its own."""
    behind = ["--", *server] if server else []
    command = [sys.executable, "-m", "mcp_sync.cli", *words, *behind]
    return Terminal(command, child_environment(TERM="xterm", NO_COLOR="1"))


def form_server() -> list[str]:
    return [sys.executable, "-c", FORM_SERVER]


@pytest.mark.parametrize("mode", ["2026-07-28", "2025-11-25"])
def test_a_question_of_the_server_is_asked_in_the_terminal(mode: str) -> None:
    with command_line(["call", "greet", "--mode", mode], DEMO_SERVER) as terminal:
        terminal.expect("The server asks: What is your name?")
        terminal.expect("Your name: ")
        terminal.type("Grace\n")

        assert terminal.finish() == 0
        assert terminal.screen.endswith("Hello, Grace!\r\n")


def test_a_form_is_filled_in_field_by_field_and_checked() -> None:
    with command_line(["call", "form"], form_server()) as terminal:
        terminal.expect("Age [integer]: ")
        terminal.type("\n")
        terminal.expect("an answer is needed")
        terminal.type("old\n")
        terminal.expect("'old' is not of type integer")
        terminal.type("17\n")
        terminal.expect("at least 18")
        terminal.type("18\n")
        terminal.expect("r: Red")
        terminal.expect("colour: ")
        terminal.type("Red\n")
        terminal.expect("choose from r, g")
        terminal.type("r\n")
        terminal.expect("sizes [optional, several: separate them by commas]: ")
        terminal.type("S, L\n")
        terminal.expect("note [optional]: ")
        terminal.type("\n")
        terminal.expect("news [boolean, default: false]: ")
        terminal.type("y\n")

        assert terminal.finish() == 0
        wanted = "[('age', 18), ('colour', 'r'), ('news', True), ('sizes', ['S', 'L'])]\r\n"
        assert terminal.screen.endswith(wanted)


@pytest.mark.parametrize("mode", ["2026-07-28", pytest.param("2025-11-25", marks=pytest.mark.heavy)])
def test_ctrl_d_cancels_a_question(mode: str) -> None:
    with command_line(["call", "agree", "--mode", mode], form_server()) as terminal:
        terminal.expect("Do you agree? [y/N] ")
        terminal.type("\x04")

        assert terminal.finish() == 0
        assert terminal.screen.endswith("\r\ncancel\r\n")


@pytest.mark.parametrize("mode", ["2026-07-28", "2025-11-25"])
def test_ctrl_c_at_a_question_ends_at_once(mode: str) -> None:
    with command_line(["call", "agree", "--mode", mode], form_server()) as terminal:
        terminal.expect("Do you agree? [y/N] ")
        started = time.monotonic()
        terminal.type("\x03")

        assert terminal.finish() == 130
        assert time.monotonic() - started < 4
        assert terminal.screen.endswith("mcp-sync: interrupted\r\n")
        assert "Traceback" not in terminal.screen


# Writes down that it was told to give a call up, and heeds no Ctrl-C of its own.
PATIENT_SERVER = """
import pathlib, signal, sys
from mcp_sync.testing import FakeServer

signal.signal(signal.SIGINT, signal.SIG_IGN)

def wait(context):
    context.progress(1, 9, "well under way")
    if context.cancelled.wait(30):
        pathlib.Path(sys.argv[1]).write_text("told")
    return "late"

FakeServer(tools=[wait]).serve_stdio()
"""


@pytest.mark.parametrize("mode", ["2026-07-28", pytest.param("2025-11-25", marks=pytest.mark.heavy)])
def test_ctrl_c_tells_a_server_that_it_has_started(tmp_path: Path, mode: str) -> None:
    mark = tmp_path / "mark"
    server = [sys.executable, "-c", PATIENT_SERVER, str(mark)]
    with command_line(["call", "wait", "--mode", mode], server) as terminal:
        terminal.expect("well under way")
        terminal.type("\x03")

        assert terminal.finish() == 130
    assert mark.read_text() == "told"
    assert terminal.screen.endswith("mcp-sync: interrupted\r\n")


@pytest.mark.parametrize("mode", ["2026-07-28", pytest.param("2025-11-25", marks=pytest.mark.heavy)])
def test_a_question_is_dropped_when_the_time_is_over(mode: str) -> None:
    with command_line(["call", "agree", "--timeout", "3", "--mode", mode], form_server()) as terminal:
        terminal.expect("Do you agree? [y/N] ")

        assert terminal.finish() == 4
        assert "not done within 3 s" in terminal.screen


@pytest.mark.parametrize(
    ("typed", "action"),
    [("y", "accept"), pytest.param("n", "decline", marks=pytest.mark.heavy), ("", "decline")],
)
def test_a_question_without_fields_is_a_yes_or_no(typed: str, action: str) -> None:
    with command_line(["call", "agree"], form_server()) as terminal:
        terminal.expect("Delete it all?")
        terminal.expect("[y/N] ")
        terminal.type(f"{typed}\n")

        assert terminal.finish() == 0
        assert terminal.screen.endswith(f"{action}\r\n")


def test_a_page_is_shown_and_never_opened() -> None:
    with command_line(["call", "page"], form_server()) as terminal:
        terminal.expect("Sign \\x1b[31min")
        terminal.expect("https://xn--bcher-kva.example/login")
        terminal.expect("It belongs to xn--bcher-kva.example")
        terminal.expect("which reads bücher.example may look like another one")
        terminal.expect("Will you? [y/N] ")
        terminal.type("y\n")
        terminal.expect("Ctrl-C gives it up")

        assert terminal.finish() == 0
        assert terminal.screen.endswith("accept\r\n")


def test_a_page_that_nobody_should_visit_is_declined() -> None:
    with command_line(["call", "trap"], form_server()) as terminal:
        assert terminal.finish() == 0
        assert "https://example.com/\\x1b[31mlogin" in terminal.screen
        assert terminal.screen.endswith("decline\r\n")


def test_a_server_cannot_drive_the_terminal() -> None:
    with command_line(["call", "paint"], form_server()) as terminal:
        assert terminal.finish() == 0
        assert terminal.screen == "\\x1b[31mred\\x1b]0;title\\x07\r\n"


def test_progress_is_drawn_and_wiped_away() -> None:
    with command_line(["call", "countdown", "steps=3"], DEMO_SERVER) as terminal:
        terminal.expect(" to go")

        assert terminal.finish() == 0
        assert terminal.screen.endswith("\x1b[2Kliftoff\r\n")


def test_an_input_that_a_configuration_declares_is_asked_for_once(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    script = "import sys; from mcp_sync.testing import FakeServer; words = sys.argv[1:]\n"
    script += "FakeServer(tools=dict(words=lambda: ' '.join(words))).serve_stdio()"
    inputs = [
        {"id": "key", "type": "promptString", "description": "The key", "password": True},
        {"id": "region", "type": "pickString", "options": ["eu", "us"], "default": "eu"},
    ]
    words = ["-c", script, "${input:key}", "${input:region}", "${input:key}"]
    server = {"command": sys.executable, "args": words, "inheritEnv": "all"}
    path.write_text(json.dumps({"servers": {"here": server}, "inputs": inputs}))
    with command_line(["call", "here", "words", "--config", str(path)]) as terminal:
        terminal.expect("The key: ")
        terminal.type("geheim\n")
        terminal.expect("region (eu, us) [eu]: ")
        terminal.type("asia\n")
        terminal.expect("'asia' is not one of")
        terminal.type("us\n")

        assert terminal.finish() == 0
        assert terminal.screen.count("geheim") == 2
        assert terminal.screen.endswith("geheim us geheim\r\n")
        assert terminal.screen.count("The key: ") == 1


def test_without_a_terminal_an_input_is_missed(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    server = {"command": "x", "args": ["${input:key}"]}
    path.write_text(json.dumps({"servers": {"here": server}, "inputs": [{"id": "key"}]}))
    ran = run("tools", "here", "--config", str(path))

    assert ran.code == 2
    assert ran.err.endswith("the input key has no value: it is asked for only where there is a terminal\n")


TALKATIVE_SERVER = """
from mcp_sync.testing import FakeServer

def talk(context):
    context.progress(1, 4, "word " * 100)
    context.elicit("Go on?", {"type": "object", "properties": {}})
    return "done"

FakeServer(tools=[talk]).serve_stdio()
"""


def test_a_long_message_leaves_the_bar_its_place() -> None:
    with command_line(["call", "talk"], [sys.executable, "-c", TALKATIVE_SERVER]) as terminal:
        terminal.expect("Go on?")
        drawn = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", terminal.screen)
        assert re.search("talk .* 25% word word", drawn)
        assert "\n" not in drawn.split("word word")[1].split("\r")[0]
        terminal.type("\n")
        assert terminal.finish() == 0


def test_in_a_narrow_terminal_progress_stays_on_one_line() -> None:
    server = [sys.executable, "-m", "mcp_sync.cli.demo_server"]
    command = [sys.executable, "-m", "mcp_sync.cli", "call", "countdown", "steps=2", "--", *server]
    environment = child_environment(TERM="xterm", NO_COLOR="1")
    # Where it is set, it says more than the terminal itself.
    environment.pop("COLUMNS", None)
    with Terminal(command, environment, (24, 20)) as terminal:
        assert terminal.finish() == 0
        assert terminal.screen.endswith("\x1b[1A\x1b[2Kliftoff\r\n")
    # One line is drawn again and again, no wider than the terminal, and without colours.
    drawn = re.sub(r"\x1b\[\??\d*[A-KhlA]", "", terminal.screen).split("\r\n")[0].split("\r")
    assert "countdo" in drawn[-1]
    assert max(map(len, drawn)) <= 20
    assert "\x1b" not in "".join(drawn)


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1", "TERM": "xterm"}, {"TERM": "dumb"}])
@pytest.mark.parametrize("words", [["doctor"], pytest.param(["tools"], marks=pytest.mark.heavy), ["servers"]])
def test_nothing_is_coloured_where_that_is_not_wanted(words: list[str], environment: dict[str, str]) -> None:
    server = ["--", sys.executable, "-m", "mcp_sync.cli.demo_server"] if words != ["servers"] else []
    command = [sys.executable, "-m", "mcp_sync.cli", *words, *server]
    with Terminal(command, child_environment(**environment)) as terminal:
        assert terminal.finish() == 0
        assert "\x1b" not in terminal.screen


def test_a_terminal_that_cannot_be_drawn_on_gets_lines() -> None:
    server = ["--", sys.executable, "-m", "mcp_sync.cli.demo_server"]
    command = [sys.executable, "-m", "mcp_sync.cli", "call", "countdown", "steps=2", "delay=0", *server]
    with Terminal(command, child_environment(TERM="dumb")) as terminal:
        assert terminal.finish() == 0
        assert terminal.screen.splitlines() == [
            "countdown [##########..........] 1/2  1 to go",
            "countdown [####################] 2/2  0 to go",
            "liftoff",
        ]
