"""The commands against a server over HTTP: what they print, and how they exit."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from command_line import invoke

from mcp_sync import __version__
from mcp_sync.cli.demo_server import build
from mcp_sync.testing import FakeServer, FakeTool, RpcError
from mcp_sync.testing._http import HTTPEndpoint, HTTPReply


@pytest.fixture
def server() -> FakeServer:
    return build()


@pytest.fixture
def endpoint(server: FakeServer) -> Iterator[HTTPEndpoint]:
    with server.serve_http() as served:
        yield served


@pytest.fixture
def url(endpoint: HTTPEndpoint) -> str:
    return endpoint.url


def test_tools_are_listed_as_signatures(url: str) -> None:
    ran = invoke("tools", url)

    assert ran.code == 0
    assert ran.out.startswith("add(a: number, b: number) -> {sum: number}\n    Add two numbers.\ncountdown(")
    assert ran.err == ""


def test_tools_as_json_are_one_document_in_the_shape_of_the_protocol(url: str) -> None:
    tools = invoke("tools", "--json", url).json["tools"]

    assert [tool["name"] for tool in tools] == ["add", "countdown", "greet", "fail"]
    assert tools[0]["inputSchema"]["properties"]["a"] == {"type": "number"}


def test_no_tools_are_said_to_be_none_on_standard_error() -> None:
    with FakeServer(resources={"demo://a": "x"}).serve_http() as endpoint:
        ran = invoke("tools", endpoint.url)

    assert (ran.code, ran.out, ran.err) == (0, "", "The server has no tools.\n")


def test_a_server_that_speaks_only_http_with_sse_is_reached_by_its_url(server: FakeServer) -> None:
    server = FakeServer(tools=dict(server.tools), versions="legacy")
    with server.serve_sse() as endpoint:
        ran = invoke("call", endpoint.url, "add", "a=1", "b=2")

    assert (ran.code, ran.out, ran.err) == (0, '{"sum": 3}\n', "")


def test_a_call_types_its_arguments_and_prints_the_result(url: str) -> None:
    ran = invoke("call", url, "add", "a=1", "b=2.5")

    assert (ran.code, ran.out, ran.err) == (0, '{"sum": 3.5}\n', "")


def test_a_call_as_json_is_the_result_in_the_shape_of_the_protocol(url: str) -> None:
    result = invoke("call", "--json", url, "add", "a=1", "b=2").json

    assert result["structuredContent"] == {"sum": 3}
    assert result["content"] == [{"type": "text", "text": '{"sum": 3}'}]


@pytest.mark.parametrize(
    ("structured", "text", "shown"),
    [
        ({"a": 1, "b": 2}, '{"b": 2, "a": 1}', '{"b": 2, "a": 1}'),
        ({"result": "x"}, "x", "x"),
        ({"entities": [1]}, "[1]", "[1]"),
        ({"content": "a file\n"}, "a file\n", "a file\n"),
        # Only its name tells what the number is.
        ({"degrees": 5}, "5", '5\n{"degrees": 5}'),
        ({"entities": [1]}, "found 1", 'found 1\n{"entities": [1]}'),
        ([1], "[1]", "[1]"),
    ],
)
def test_structured_content_is_shown_where_it_says_more(structured: Any, text: str, shown: str) -> None:
    answer = {"content": [{"type": "text", "text": text}], "structuredContent": structured}
    server = FakeServer(tools=[lambda: "x"])
    server.on("tools/call", lambda message: answer)
    with server.serve_http() as endpoint:
        ran = invoke("call", endpoint.url, "<lambda>")

    assert (ran.code, ran.out) == (0, f"{shown}\n")


def test_arguments_can_come_from_standard_input(url: str) -> None:
    assert invoke("call", url, "add", "-", "b=5", stdin='{"a": 1, "b": 2}').out == '{"sum": 6}\n'


def test_without_a_check_the_tools_are_only_listed_where_a_type_depends_on_it(
    server: FakeServer, url: str
) -> None:
    invoke("call", url, "add", "a:=1", "b:=2", "--no-check")
    assert server.received("tools/list") == []

    for number, words in enumerate((["a=1", "b:=2", "--no-check"], ["a:=1", "b:=2"]), 1):
        invoke("call", url, "add", *words)
        assert len(server.received("tools/list")) == number


@pytest.mark.parametrize(
    ("words", "stdin", "told"),
    [
        (["a=two", "b=2"], None, "a: 'two' is not of type number"),
        (["a:=true", "b=2"], None, "a: true is not of type number"),
        (["-"], '{"a": "2", "b": 2}', 'a: "2" is not of type number'),
        (['{"a": 1, "b": null}'], None, "b: null is not of type number"),
        (["a=1"], None, "missing: b"),
        ([], None, "missing: a, b"),
    ],
)
def test_arguments_that_do_not_match_are_refused_before_anything_is_sent(
    server: FakeServer, url: str, words: list[str], stdin: Any, told: str
) -> None:
    ran = invoke("call", url, "add", *words, stdin=stdin)

    assert (ran.code, ran.out, ran.err) == (2, "", f"mcp-sync: {told}\n")
    assert server.received("tools/call") == []

    error = invoke("call", "--json", url, "add", *words, stdin=stdin).error
    assert (error["kind"], error["exit_code"], error["message"]) == ("usage", 2, told)


def test_arguments_that_do_not_match_are_sent_without_a_check(server: FakeServer, url: str) -> None:
    invoke("call", url, "add", "a=two", "c:=[]", "--no-check")

    (message,) = server.received("tools/call")
    assert message["params"]["arguments"] == {"a": "two", "c": []}


def test_a_list_of_tools_that_is_broken_keeps_nobody_from_calling(server: FakeServer, url: str) -> None:
    server.on("tools/list", lambda message: {"tools": "many"})

    assert invoke("call", url, "add", "a:=1", "b:=2").out == '{"sum": 3}\n'
    assert invoke("call", url, "add", "a=1", "b:=2").code == 5


def test_an_argument_that_the_tool_does_not_declare_is_sent_with_a_warning() -> None:
    tool = FakeTool(lambda **given: str(given), "show", input_schema={"properties": {"delay": {}}})
    with FakeServer(tools=[tool]).serve_http() as endpoint:
        ran = invoke("call", endpoint.url, "show", "Delay=3")
        assert (ran.code, ran.out) == (0, "{'Delay': '3'}\n")
        assert ran.err == "mcp-sync: Delay: the tool declares no such argument; did you mean delay?\n"

        assert invoke("call", "--json", endpoint.url, "show", "Delay=3").err == ""


def test_an_argument_that_is_written_as_an_option_is_told_how_to_write_it(url: str) -> None:
    ran = invoke("call", url, "add", "--a", "1")

    assert ran.code == 2
    assert ran.err.endswith("; an argument of a tool is written a=VALUE\n")
    assert "=VALUE" not in invoke("call", url, "add", "-a").err


@pytest.mark.parametrize(
    "words",
    [
        ["call", "--", "-h", "text=hi"],
        ["prompt", "--", "-h", "text=hi"],
        ["read", "--", "-h"],
        ["complete", "--", "-h", "text=h"],
        ["tasks", "get", "--", "-h"],
        ["tools", "--"],
    ],
)
def test_a_double_dash_before_another_dash_ends_the_options_and_the_next_one_begins_a_command(
    words: list[str],
) -> None:
    server = (
        "from mcp_sync.testing import FakeServer\n"
        "FakeServer(tools={'-h': str.upper}, prompts={'-h': str.upper}, resources={'-h': 'HI'}).serve_stdio()"
    )
    server = server.replace("str.upper", "(lambda text: text.upper())")
    ran = invoke(*words, "--", sys.executable, "-c", server)

    if words[0] in ("complete", "tasks"):
        assert (ran.code, "Method not found" in ran.err) == (5, True)
    else:
        assert (ran.code, "HI" in ran.out or "-h" in ran.out, ran.err) == (0, True, "")


def test_a_name_with_a_dash_needs_no_command(url: str) -> None:
    ran = invoke("call", url, "--json", "--", "-x", "--json")
    assert ran.code == 2
    assert "'--json' is no argument" in ran.error["message"]
    assert "Unknown tool: --json" in invoke("call", url, "--", "--json").err


def test_a_name_may_be_a_double_dash() -> None:
    server = FakeServer(tools={"--": lambda text="": f"<{text}>"}, prompts={"--": lambda: "a prompt"})
    with server.serve_http() as endpoint:
        assert invoke("call", endpoint.url, "--", "--").out == "<>\n"
        assert invoke("call", endpoint.url, "--", "--", "text=--").out == "<-->\n"
        assert "a prompt" in invoke("prompt", endpoint.url, "--", "--").out

    program = "from mcp_sync.testing import FakeServer; FakeServer(tools={'--': lambda: 'x'}).serve_stdio()"
    ran = invoke("call", "--", "--", "--", sys.executable, "-c", program)
    assert (ran.code, ran.out, ran.err) == (0, "x\n", "")


@pytest.mark.parametrize("words", [["call"], ["prompt"], ["read"], ["complete"], ["tasks", "result"]])
def test_whoever_names_what_looks_like_an_option_is_told_how(words: list[str]) -> None:
    ran = invoke(*words, "http://127.0.0.1:9/mcp", "-x")

    assert ran.code == 2
    assert "a name that begins with a dash goes behind a double dash, as in: -- -name" in ran.err


def test_options_stand_anywhere_before_the_double_dash(url: str) -> None:
    assert invoke("call", url, "add", "a=1", "--json", "b=2").json["structuredContent"] == {"sum": 3}


def test_headers_and_mode_reach_the_server(endpoint: HTTPEndpoint) -> None:
    ran = invoke(
        "tools", endpoint.url, "--header", "X-One: 1", "--header", "X-Two:two:2", "--mode", "2025-06-18"
    )

    assert ran.code == 0
    last = endpoint.requests[1]
    assert (last.headers["x-one"], last.headers["x-two"]) == ("1", "two:2")
    assert last.headers["mcp-protocol-version"] == "2025-06-18"


def test_a_question_of_the_server_is_declined_without_a_terminal(url: str) -> None:
    for mode in ("2026-07-28", "2025-11-25"):
        assert invoke("call", url, "greet", "--mode", mode).out == "Hello, whoever you are!\n"


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("tool", "there is no command 'tool'; is it tools?"),
        ("qq", "there is no command 'qq'; mcp-sync --help shows all"),
        ("http://user:geheim@host/mcp", "the command comes before the URL: mcp-sync tools URL"),
    ],
)
def test_a_command_that_there_is_not_tells_what_may_be_meant(word: str, told: str) -> None:
    ran = invoke(word)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.endswith(f"Error: {told}\n")
    assert "geheim" not in ran.err


def test_help_has_a_short_option() -> None:
    assert invoke("call", "-h").out == invoke("call", "--help").out


# --- failures ---------------------------------------------------------------------------------------------


def test_a_tool_that_fails_exits_with_1(url: str) -> None:
    ran = invoke("call", url, "fail", "message=no way")

    assert (ran.code, ran.out, ran.err) == (1, "", "mcp-sync: tool fail failed: no way\n")


def test_a_tool_that_fails_is_a_result_in_json(url: str) -> None:
    ran = invoke("call", "--json", url, "fail")

    assert ran.code == 1
    assert ran.json["isError"] is True
    assert ran.err == ""


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["nonsense"],
        ["tools"],
        ["tools", "ftp://host"],
        ["tools", "name-of-a-server"],
        ["tools", "http://host", "more"],
        ["tools", "http://host", "--nonsense"],
        ["tools", "http://host", "--mode", "2019-01-01"],
        ["tools", "http://host", "--timeout", "0"],
        ["tools", "http://host", "--header", "no colon"],
        ["tools", "http://host", "--header", "A: line\nbreak"],
        ["tools", "--"],
        ["tools", "--header", "A: b", "--", "server"],
        ["call", "http://host"],
        ["call", "--", "server"],
        ["call", "http://host", "tool", "nonsense"],
    ],
)
def test_wrong_use_exits_with_2_and_says_why(words: list[str]) -> None:
    ran = invoke(*words)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err
    assert "Traceback" not in ran.err


def test_an_argument_that_cannot_be_typed_exits_with_2(url: str) -> None:
    ran = invoke("call", url, "add", "a=x", "b=2")

    assert ran.code == 2
    assert "a: 'x' is not of type number" in ran.err


def test_nobody_there_exits_with_3(endpoint: HTTPEndpoint) -> None:
    endpoint.close()
    ran = invoke("tools", "--json", endpoint.url)

    assert (ran.code, ran.out) == (3, "")
    assert ran.error["kind"] == "connection"
    assert ran.error["type"] == "ConnectFailed"
    assert ran.error["request_sent"] is False


def test_no_answer_in_time_exits_with_4(url: str) -> None:
    ran = invoke("call", "--json", url, "countdown", "delay=30", "--timeout", "0.7")

    assert (ran.code, ran.out) == (4, "")
    assert ran.error["kind"] == "timeout"
    assert ran.error["timeout"] == 0.7
    assert ran.error["message"].startswith("not done within 0.7 s: tools/call")


def test_an_error_of_the_server_exits_with_5(url: str) -> None:
    ran = invoke("call", url, "missing")

    assert (ran.code, ran.out) == (5, "")
    warning, error = ran.err.splitlines()
    assert warning == "mcp-sync: the server lists no tool missing"
    assert error.startswith(f"mcp-sync: tools/call: {url} answered: ")


def test_a_tool_that_may_be_misspelt_is_guessed_at(url: str) -> None:
    assert "lists no tool Countdwn; did you mean countdown?\n" in invoke("call", url, "Countdwn").err
    assert invoke("call", "--json", url, "Countdwn").error["kind"] == "protocol"


def test_an_error_of_the_server_in_json_has_its_code_and_data(server: FakeServer, url: str) -> None:
    def refuse(message: Any) -> Any:
        raise RpcError(-32050, "not today", {"try": "tomorrow"})

    server.on("tools/call", refuse)
    ran = invoke("call", "--json", url, "add", "a=1", "b=2")

    assert (ran.code, ran.out) == (5, "")
    expected = {"kind": "protocol", "type": "RemoteError", "message": "not today", "code": -32050}
    assert expected.items() <= ran.error.items()
    assert ran.error["data"] == {"try": "tomorrow"}


def test_a_broken_answer_exits_with_5(server: FakeServer, url: str) -> None:
    server.on("tools/list", lambda message: {"tools": "many"})

    assert invoke("tools", url).code == 5


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_of_authorization_exits_with_6(server: FakeServer, status: int) -> None:
    with server.serve_http(intercept=lambda request: HTTPReply(status)) as endpoint:
        ran = invoke("tools", "--json", endpoint.url)

    assert (ran.code, ran.out) == (6, "")
    assert ran.error["kind"] == "auth"
    assert ran.error["status"] == status


def test_another_bad_status_exits_with_3(server: FakeServer) -> None:
    with server.serve_http(intercept=lambda request: HTTPReply(503)) as endpoint:
        assert invoke("tools", endpoint.url).code == 3


def test_wrong_use_in_json_is_one_line_too() -> None:
    ran = invoke("call", "--json")

    assert (ran.code, ran.out) == (2, "")
    assert ran.error["kind"] == "usage"


def test_the_help_names_the_exit_codes() -> None:
    ran = invoke("--help")

    assert ran.code == 0
    for code in (0, 1, 2, 3, 4, 5, 6, 70, 74, 130):
        assert f"\n  {code:5}  " in ran.out


def test_a_bug_exits_with_70_and_a_traceback(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("mcp_sync.cli._show.tool_text", fail)
    ran = invoke("tools", url)

    assert ran.code == 70
    assert "This is a bug in mcp-sync" in ran.err
    assert "ZeroDivisionError: oops" in ran.err
    assert invoke("tools", "--json", url).code == 0


def test_the_version_is_that_of_the_package() -> None:
    assert invoke("--version").out == f"mcp-sync {__version__}\n"


@pytest.mark.parametrize("words", [["tools", "HTTP://host"], ["call", "http://host", "tool"]])
def test_a_url_and_a_command_are_too_many_servers(words: list[str]) -> None:
    ran = invoke(*words, "--", "server")

    assert ran.code == 2
    assert "give a URL or a command behind --, not both" in ran.err


def test_a_timeout_of_the_command_names_one_number(url: str) -> None:
    ran = invoke("call", url, "countdown", "delay=30", "--timeout", "0.7")

    assert ran.code == 4
    assert re.findall(r"[\d.]+ s\b", ran.err) == ["0.7 s"]


NO_QUESTIONS = "Cannot ask: no back-channel for server-initiated requests"
HINT = "mcp-sync: the server cannot ask questions on this revision; try --mode legacy\n"


def test_a_server_that_cannot_ask_is_hinted_at(server: FakeServer, url: str) -> None:
    assert invoke("call", url, "fail", f"message={NO_QUESTIONS}").err.endswith(f"requests\n{HINT}")
    assert HINT not in invoke("call", url, "fail", f"message={NO_QUESTIONS}", "--mode", "legacy").err
    assert HINT not in invoke("call", url, "fail").err

    def refuse(message: Any) -> Any:
        raise RpcError(-32600, "Roots are unavailable on 2026-07-28 connections")

    server.on("tools/call", refuse)
    ran = invoke("call", url, "add", "a:=1", "b:=2")
    assert ran.code == 5
    assert ran.err.endswith(HINT)
    assert "unavailable" in invoke("call", "--json", url, "add", "a:=1", "b:=2").error["message"]


def test_pages_to_visit_first_are_shown_and_bad_ones_warned_of(server: FakeServer, url: str) -> None:
    pages = [
        {"mode": "url", "url": page, "message": "Sign in", "elicitationId": "1"}
        for page in ("https://example.com/login", "https://example.com/\x1b[31m")
    ]

    def refuse(message: Any) -> Any:
        raise RpcError(-32042, "visit first", {"elicitations": pages})

    server.on("tools/call", refuse)
    ran = invoke("call", url, "add", "a:=1", "b:=2", "--mode", "2025-11-25")

    assert ran.code == 5
    assert "Sign in\n  https://example.com/login\n  It belongs to example.com." in ran.err
    assert "do not visit https://example.com/\\x1b[31m: " in ran.err
    assert (
        "visit first"
        in invoke("call", "--json", url, "add", "a:=1", "b:=2", "--mode", "legacy").error["message"]
    )
