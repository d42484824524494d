"""Errors speak the words of the command line: options that can be typed, not arguments of Python."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from command_line import ROOT, Ran, invoke

from mcp_sync import types
from mcp_sync.cli._words import PHRASES, in_words
from mcp_sync.testing import FakeServer
from mcp_sync.testing._http import HTTPReply

# An argument of a function, a name of a class with a field, or a call.
OF_PYTHON = re.compile(r"\b[a-z_]+=(?:[A-Z'\"{[ ,;:]|$)|\b[A-Z]\w+\.\w+|\w\(\)")


def told(ran: Ran, code: int) -> str:
    """Return what an error says, which has nothing of Python in it."""
    assert ran.code == code, ran
    assert "Traceback" not in ran.err
    assert OF_PYTHON.search(ran.err) is None, ran.err
    return ran.err


def strings_of_the_library() -> str:
    """Return all that the library can say, a string on each line, with {} for what is filled in."""
    found = []
    for path in (ROOT / "mcp_sync").rglob("*.py"):
        if "cli" not in path.parts:
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.JoinedStr):
                    parts = [each.value if isinstance(each, ast.Constant) else "{}" for each in node.values]
                    found.append("".join(map(str, parts)))
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.append(node.value)
    return "\n".join(found)


def test_each_phrase_is_one_that_the_library_still_says() -> None:
    said = strings_of_the_library()
    gone = [pattern for pattern, _ in PHRASES if re.search(pattern, said) is None]

    assert gone == []


def test_what_a_server_says_stays_as_it_is() -> None:
    server = FakeServer(tools=[lambda: "x"])

    def refuse(message: Any) -> Any:
        raise ValueError("overwrite=True")

    server.add_tool(refuse, "refuse")
    with server.serve_http() as endpoint:
        ran = invoke("call", endpoint.url, "refuse", "message=x")

    assert ran.err == "mcp-sync: tool refuse failed: overwrite=True\n"


def test_files_that_are_there_already(tmp_path: Path) -> None:
    block = types.ImageContent(type="image", data="AAAA", mime_type="image/png").to_wire()
    server = FakeServer(tools=[lambda: "x"])
    server.on("tools/call", lambda message: {"content": [block]})
    with server.serve_http() as endpoint:
        words = ("call", endpoint.url, "<lambda>", "--save", str(tmp_path))
        assert invoke(*words).code == 0
        text = told(invoke(*words), 2)

    assert text.endswith("image-1.png is there already: name another folder\n")


@pytest.mark.parametrize("mode", ["legacy", "2025-06-18"])
def test_a_mode_that_the_server_does_not_speak(mode: str) -> None:
    with FakeServer(tools=[lambda: "x"], versions="modern").serve_http() as endpoint:
        text = told(invoke("tools", endpoint.url, "--mode", mode), 5)

    assert f"--mode {mode} admits" in text
    assert "--mode auto finds " in text


def test_credentials_that_are_missing() -> None:
    with FakeServer().serve_http(intercept=lambda request: HTTPReply(401)) as endpoint:
        text = told(invoke("tools", endpoint.url), 6)

    assert "give credentials by --header, or log in" in text
    assert "mcp-sync login TARGET" in text


def test_a_login_over_http_to_another_machine() -> None:
    text = told(invoke("login", "http://192.0.2.1/mcp", "--timeout", "5"), 2)

    assert text == "mcp-sync: the token would go to http://192.0.2.1/mcp in clear: use https\n"


def test_a_command_that_is_quoted_whole() -> None:
    text = told(invoke("tools", "--", "python server.py"), 3)

    assert text.endswith("; do not quote it together with its arguments\n")


def test_a_question_that_nobody_can_answer_here() -> None:
    message = {"role": "user", "content": {"type": "text", "text": "?"}}
    asked = {"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": 5}}
    server = FakeServer(tools=[lambda: "x"])
    server.on("tools/call", lambda _: {"resultType": "input_required", "inputRequests": {"one": asked}})
    with server.serve_http() as endpoint:
        text = told(invoke("call", endpoint.url, "<lambda>"), 5)

    assert text.endswith("the server asks for sampling/createMessage, which this command cannot answer\n")


def test_what_a_server_does_not_offer() -> None:
    with FakeServer(tools=[lambda: "x"]).serve_http() as endpoint:
        text = told(invoke("complete", endpoint.url, "prompt", "name=x"), 5)

    assert text.startswith("mcp-sync: the server does not offer that: completion/complete: ")


def test_a_registration_that_the_server_does_not_offer_names_the_options() -> None:
    text = (
        "https://a.example registers no clients by itself: have this client registered there, and give its "
        "client_id (with its client_secret, if it has one)"
    )

    assert in_words(text).endswith("and give --client-id (with --client-secret-env, if it has one)")


def test_silence_and_a_slow_start_name_the_option() -> None:
    silent = "x: y was silent for 60 s (Timeouts.silence; with progress_callback= or reset_on_progress=True "
    silent += "progress counts as a sign of life)"

    assert in_words(silent) == "x: y was silent for 60 s; --timeout SECONDS gives it more time"
    assert OF_PYTHON.search(silent)


def test_a_time_that_no_clock_has() -> None:
    for seconds in ("5s", "0", "nan", "inf", "1e400"):
        assert "is no number of seconds above 0" in told(invoke("tools", "--timeout", seconds, "--", "x"), 2)
    said = told(invoke("tools", "--timeout", "1e30", "--", "x"), 2)
    assert said == "mcp-sync: timeout is longer than any clock can wait\n"
