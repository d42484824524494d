"""Tools, resources, prompts, lists and overrides of the fake server, in both eras."""

from __future__ import annotations

import sys
import threading
from typing import Annotated, Any, Literal, Optional

import pytest
from plain_peer import PREFIX, Peer, text_of
from pydantic import BaseModel

from mcp_sync import types
from mcp_sync._protocol.versions import LATEST_HANDSHAKE, LATEST_MODERN
from mcp_sync.testing import FakePrompt, FakeResource, FakeServer, FakeTool, RpcError, ToolContext


class Point(BaseModel):
    x: int


def add(a: int, b: float = 1.5) -> dict[str, float]:
    """Add two numbers.

    And more about it.
    """
    return {"sum": a + b}


# --- tools -----------------------------------------------------------------------------------------------


def test_a_plain_function_becomes_a_tool_with_a_schema_and_a_description(version: str) -> None:
    (tool,) = Peer(FakeServer(tools=[add]), version).result("tools/list")["tools"]
    assert tool == {
        "name": "add",
        "description": "Add two numbers.",
        "inputSchema": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "number", "default": 1.5}},
            "required": ["a"],
            "additionalProperties": False,
        },
    }


def test_annotations_become_schemas() -> None:
    def every(
        context: ToolContext,
        one: Literal["x", "y"],
        two: list[int],
        three: Optional[str],
        four: Annotated[str, {"x-mcp-header": "Region"}],
        five: dict[str, Any],
        six: ToolContext,
        seven: Unknown,  # type: ignore[name-defined]  # noqa: F821
        eight: Annotated[int, {"title": "Eight"}] = None,  # type: ignore[assignment]  # noqa: RUF013
        *rest: Any,
        **others: Any,
    ) -> None:
        pass

    (tool,) = Peer(FakeServer(tools=[every]), LATEST_MODERN).result("tools/list")["tools"]
    schema = tool["inputSchema"]
    assert schema["properties"] == {
        "one": {"enum": ["x", "y"]},
        "two": {"type": "array", "items": {"type": "integer"}},
        "three": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "four": {"type": "string", "x-mcp-header": "Region"},
        "five": {"type": "object"},
        "six": {},
        "seven": {},
        "eight": {"type": "integer", "title": "Eight"},
    }
    assert "additionalProperties" not in schema


@pytest.mark.skipif(sys.version_info < (3, 14), reason="annotations are evaluated with their function")
def test_an_annotation_may_name_what_is_not_there() -> None:
    names: dict[str, Any] = {}
    source = "def make(size: int, kind: absent.Kind, parts: list[Absent]) -> Absent: return size"
    exec(compile(source, "<test>", "exec", dont_inherit=True), names)
    peer = Peer(FakeServer(tools=[names["make"]]), LATEST_MODERN)
    (tool,) = peer.result("tools/list")["tools"]
    assert tool["inputSchema"]["properties"] == {"size": {"type": "integer"}, "kind": {}, "parts": {}}
    result = peer.result("tools/call", name="make", arguments={"size": 1, "kind": 2, "parts": 3})
    assert text_of(result) == "1"


def test_a_tool_can_be_described_in_full() -> None:
    spec = FakeTool(
        len,
        name="count",
        description="Count.",
        input_schema={"type": "object", "title": "T"},
        output_schema={"type": "object"},
        extra={"title": "Counter", "annotations": {"readOnlyHint": True}},
    )
    (tool,) = Peer(FakeServer(tools={"ignored": spec}), LATEST_MODERN).result("tools/list")["tools"]
    assert tool == {
        "name": "count",
        "description": "Count.",
        "inputSchema": {"type": "object", "title": "T"},
        "outputSchema": {"type": "object"},
        "title": "Counter",
        "annotations": {"readOnlyHint": True},
    }


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ("words", {"content": [{"type": "text", "text": "words"}]}),
        ({"a": 1}, {"content": [{"type": "text", "text": '{"a": 1}'}], "structuredContent": {"a": 1}}),
        (None, {"content": []}),
        (3, {"content": [{"type": "text", "text": "3"}]}),
        ([1, 2], {"content": [{"type": "text", "text": "[1, 2]"}]}),
        (
            {"type": "image", "data": "", "mimeType": "x/y"},
            {"content": [{"type": "image", "data": "", "mimeType": "x/y"}]},
        ),
        ([{"type": "text", "text": "1"}], {"content": [{"type": "text", "text": "1"}]}),
        ({"content": [], "isError": True}, {"content": [], "isError": True}),
        (
            [types.ImageContent(data="", mime_type="x/y"), types.TextContent(text="1")],
            {"content": [{"type": "image", "data": "", "mimeType": "x/y"}, {"type": "text", "text": "1"}]},
        ),
        (types.CallToolResult(content=[], is_error=True), {"content": [], "isError": True}),
        (Point(x=1), {"content": [{"type": "text", "text": '{"x": 1}'}], "structuredContent": {"x": 1}}),
    ],
)
def test_what_a_tool_returns_becomes_its_result(returned: Any, expected: Any) -> None:
    assert Peer(FakeServer(tools={"give": lambda: returned}), LATEST_HANDSHAKE).call("give") == expected


def test_an_exception_becomes_a_result_with_is_error(version: str) -> None:
    def fail() -> None:
        raise ValueError("no luck")

    result = Peer(FakeServer(tools=[fail]), version).call("fail")
    assert result["isError"] is True
    assert text_of(result) == "no luck"


def test_arguments_that_do_not_fit_become_a_result_with_is_error(version: str) -> None:
    result = Peer(FakeServer(tools=[add]), version).call("add", nonsense=1)
    assert result["isError"] is True
    assert "add" in text_of(result)


def test_a_type_error_inside_a_tool_is_not_mistaken_for_wrong_arguments() -> None:
    def broken() -> None:
        raise TypeError("inside")

    assert text_of(Peer(FakeServer(tools=[broken]), LATEST_MODERN).call("broken")) == "inside"


def test_an_unknown_tool_is_an_error_of_the_protocol(version: str) -> None:
    error = Peer(FakeServer(tools=[add]), version).error("tools/call", name="nope", arguments={})
    assert (error["code"], error["message"]) == (-32602, "Unknown tool: nope")


def test_a_tool_may_answer_with_an_error_of_the_protocol(version: str) -> None:
    def refuse() -> None:
        raise RpcError(-4711, "not today", {"why": "rain"})

    error = Peer(FakeServer(tools=[refuse]), version).error("tools/call", name="refuse")
    assert error == {"code": -4711, "message": "not today", "data": {"why": "rain"}}


def test_tools_come_and_go(version: str) -> None:
    server = FakeServer()
    peer = Peer(server, version)
    server.add_tool(add)
    server.add_tool(lambda: "hi", name="hello")
    assert text_of(peer.call("hello")) == "hi"
    server.remove_tool("add")
    assert [tool["name"] for tool in peer.result("tools/list")["tools"]] == ["hello"]


# --- lists -----------------------------------------------------------------------------------------------


def test_a_list_is_cut_into_pages(version: str) -> None:
    peer = Peer(FakeServer(tools={f"t{n}": add for n in range(5)}, page_size=2), version)
    pages, cursor = [], None
    while True:
        page = peer.result("tools/list", **({"cursor": cursor} if cursor else {}))
        pages.append([tool["name"] for tool in page["tools"]])
        cursor = page.get("nextCursor")
        if cursor is None:
            break
    assert pages == [["t0", "t1"], ["t2", "t3"], ["t4"]]


@pytest.mark.parametrize("cursor", ["", "x", "page-from-9", "page-from--1"])
def test_an_unknown_cursor_is_refused(version: str, cursor: str) -> None:
    peer = Peer(FakeServer(tools=[add, text_of], page_size=1), version)
    assert peer.error("tools/list", cursor=cursor)["code"] == -32602


# --- resources and prompts -------------------------------------------------------------------------------


def test_text_bytes_functions_and_templates_can_be_read(version: str) -> None:
    server = FakeServer(
        resources={
            "demo://text": "words",
            "demo://bytes": b"\x00\xff",
            "demo://made": lambda: "made",
            "demo://full": FakeResource({"text": "<b>", "mimeType": "text/html"}),
            "demo://notes/{name}/{part}": lambda context, name, part: f"{name} {part} {context.version}",
        }
    )
    peer = Peer(server, version)

    def contents(uri: str) -> Any:
        return peer.result("resources/read", uri=uri)["contents"]

    assert contents("demo://text") == [{"uri": "demo://text", "mimeType": "text/plain", "text": "words"}]
    assert contents("demo://bytes") == [{"uri": "demo://bytes", "blob": "AP8="}]
    assert contents("demo://made") == [{"uri": "demo://made", "text": "made"}]
    assert contents("demo://full") == [{"uri": "demo://full", "mimeType": "text/html", "text": "<b>"}]
    assert contents("demo://notes/a/b")[0]["text"] == f"a b {version}"
    listed = peer.result("resources/list")["resources"]
    assert [item["name"] for item in listed] == ["text", "bytes", "made", "full"]
    assert listed[0]["size"] == 5
    (template,) = peer.result("resources/templates/list")["resourceTemplates"]
    assert template == {"uriTemplate": "demo://notes/{name}/{part}", "name": "notes"}


def test_a_missing_resource_has_the_code_of_its_era() -> None:
    server = FakeServer(resources={"demo://x": "x"})
    assert Peer(server, LATEST_MODERN).error("resources/read", uri="demo://y")["code"] == -32602
    assert Peer(server, LATEST_HANDSHAKE).error("resources/read", uri="demo://y")["code"] == -32002


def test_prompts_are_listed_and_filled_in(version: str) -> None:
    def review(code: str, language: str = "Python") -> str:
        """Review code."""
        return f"{language}: {code}"

    def talk() -> list[Any]:
        return [{"role": "assistant", "content": {"type": "text", "text": "?"}}, "!"]

    peer = Peer(FakeServer(prompts=[review, FakePrompt(talk, description="Talk.")]), version)
    listed = peer.result("prompts/list")["prompts"]
    assert listed[0]["arguments"] == [
        {"name": "code", "required": True},
        {"name": "language", "required": False},
    ]
    filled = peer.result("prompts/get", name="review", arguments={"code": "x"})
    assert filled["description"] == "Review code."
    assert filled["messages"] == [{"role": "user", "content": {"type": "text", "text": "Python: x"}}]
    assert [m["role"] for m in peer.result("prompts/get", name="talk")["messages"]] == ["assistant", "user"]
    assert peer.error("prompts/get", name="review", arguments={})["code"] == -32602
    assert peer.error("prompts/get", name="nope")["code"] == -32602


def test_completions_are_asked_of_the_function(version: str) -> None:
    def complete(ref: Any, argument: Any, context: Any) -> list[str]:
        return [f"{ref['name']} {argument['value']} {context}"] * 101

    peer = Peer(FakeServer(complete=complete), version)
    params = {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": "v"}}
    completion = peer.result("completion/complete", **params, context={"arguments": {"k": "w"}})["completion"]
    assert completion["values"][0] == "p v {'k': 'w'}"
    assert (len(completion["values"]), completion["total"], completion["hasMore"]) == (100, 101, True)
    assert Peer(FakeServer(), version).error("completion/complete", **params)["code"] == -32601


# --- what else a tool can do -----------------------------------------------------------------------------


def test_progress_goes_only_to_a_client_that_asked_for_it(version: str) -> None:
    def work(context: ToolContext) -> None:
        context.progress(1)
        context.progress(2, 3, "soon")

    peer = Peer(FakeServer(tools=[work]), version)
    peer.call("work")
    assert peer.sent == []
    peer.call("work", _meta={"progressToken": "t"})
    assert [message["params"] for message in peer.sent] == [
        {"progressToken": "t", "progress": 1},
        {"progressToken": "t", "progress": 2, "total": 3, "message": "soon"},
    ]


def shout(context: ToolContext) -> None:
    context.log("info", "quiet", logger="l")
    context.log("error", {"loud": True})


def test_log_messages_follow_the_level_of_the_request_or_of_the_connection() -> None:
    server = FakeServer(tools=[shout])
    modern = Peer(server, LATEST_MODERN)
    modern.call("shout")
    assert modern.sent == []
    modern.call("shout", _meta={f"{PREFIX}logLevel": "warning"})
    assert [message["params"] for message in modern.sent] == [{"level": "error", "data": {"loud": True}}]

    legacy = Peer(server, LATEST_HANDSHAKE)
    legacy.call("shout")
    assert legacy.sent[0]["params"] == {"level": "info", "data": "quiet", "logger": "l"}
    legacy.sent.clear()
    legacy.result("logging/setLevel", level="critical")
    legacy.call("shout")
    assert legacy.sent == []
    assert legacy.error("logging/setLevel", level="loud")["code"] == -32602


def test_a_cancelled_request_gets_no_answer_and_its_tool_notices(version: str) -> None:
    started = threading.Event()
    seen = []

    def slow(context: ToolContext) -> str:
        started.set()
        seen.append(context.cancelled.wait(20))
        context.progress(1)
        return "too late"

    peer = Peer(FakeServer(tools=[slow]), version)
    message = peer.message("tools/call", name="slow", _meta={"progressToken": 1})
    answers: list[Any] = []
    caller = threading.Thread(target=lambda: answers.append(peer.deliver(message)))
    caller.start()
    assert started.wait(20)
    peer.tell("notifications/cancelled", requestId=12345)
    peer.tell("notifications/cancelled", requestId=message["id"])
    caller.join(20)
    assert (answers, seen, peer.sent) == ([None], [True], [])


# --- overrides and records -------------------------------------------------------------------------------


def test_an_override_answers_in_place_of_the_server_and_gets_what_the_revision_asks_for() -> None:
    server = FakeServer(tools=[add], ttl_ms=5, cache_scope="public")
    server.on("tools/list", lambda message: {"tools": [], "n": message["params"].get("cursor")})
    result = Peer(server, LATEST_MODERN).result("tools/list", cursor="c")
    assert (result["n"], result["resultType"]) == ("c", "complete")
    assert (result["ttlMs"], result["cacheScope"]) == (5, "public")
    assert Peer(server, LATEST_HANDSHAKE).result("tools/list") == {"tools": [], "n": None}


def test_a_raw_override_is_left_as_it_is() -> None:
    server = FakeServer()
    server.on("tools/list", lambda message: {"tools": "rubbish"}, raw=True)
    assert Peer(server, LATEST_MODERN).result("tools/list") == {"tools": "rubbish"}


def test_an_override_may_pass_on_report_progress_or_stay_silent(version: str) -> None:
    server = FakeServer(tools=[add])
    peer = Peer(server, version)
    seen = []
    server.on("tools/list", lambda message: seen.append(message["id"]) or NotImplemented)
    assert len(peer.result("tools/list")["tools"]) == 1
    assert len(seen) == 1
    server.on("tools/list", lambda message, context: context.progress(1))
    assert peer.request("tools/list", _meta={"progressToken": 1}) is None
    assert len(peer.sent) == 1


def test_an_override_that_fails_is_an_internal_error(version: str, caplog: pytest.LogCaptureFixture) -> None:
    server = FakeServer()
    server.on("custom/thing", lambda message: 1 / 0)
    error = Peer(server, version).error("custom/thing")
    assert error == {"code": -32603, "message": "ZeroDivisionError: division by zero"}
    assert "custom/thing failed" in caplog.text


def test_notifications_can_be_watched() -> None:
    server = FakeServer()
    seen: list[Any] = []
    server.on("notifications/roots/list_changed", seen.append)
    Peer(server, LATEST_HANDSHAKE).tell("notifications/roots/list_changed", x=1)
    assert [message["params"] for message in seen] == [{"x": 1}]


def test_every_message_is_recorded(version: str) -> None:
    server = FakeServer(tools=[add])
    Peer(server, version).call("add", a=1)
    assert server.received("tools/call")[0]["params"]["arguments"] == {"a": 1}
    assert server.requests[-1]["method"] == "tools/call"
    server.requests.clear()
    assert server.requests


@pytest.mark.parametrize("message", [[], "x", None, {"id": 1, "method": 5}])
def test_what_is_no_message_is_refused(message: Any) -> None:
    assert FakeServer().handle(message, print)["error"]["code"] == -32600


def test_an_answer_that_nobody_waits_for_is_dropped() -> None:
    assert FakeServer().handle({"id": [1], "result": {}}, print) is None
    assert FakeServer().handle({"id": 999, "result": {}}, print) is None


@pytest.mark.parametrize("method", ["add_tool", "add_prompt"])
def test_the_order_of_arguments_is_told_where_it_is_the_wrong_one(method: str) -> None:
    add = getattr(FakeServer(), method)
    with pytest.raises(TypeError, match=rf"{method}\(function, 'y'\)"):
        add("y", len)
    with pytest.raises(TypeError, match="the function first"):
        add(len, len)


def test_a_tool_is_decorated_with_and_without_details(version: str) -> None:
    server = FakeServer()

    @server.tool
    def plain(a: int) -> int:
        return a

    @server.tool(description="Doubles.")
    def double(a: int) -> int:
        return 2 * a

    assert (plain(3), double(3)) == (3, 6)
    peer = Peer(server, version)
    tools = peer.result("tools/list")["tools"]
    assert [(tool["name"], tool.get("description")) for tool in tools] == [
        ("plain", None),
        ("double", "Doubles."),
    ]
    assert text_of(peer.call("double", a=3)) == "6"
