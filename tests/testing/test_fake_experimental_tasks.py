"""Tasks of the fake server as the last revision with a handshake tries them out, in plain messages."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from plain_peer import PREFIX, Message, Peer, text_of, validate
from test_fake_http import Wire, events
from test_fake_server_input import answering
from test_fake_stdio import Pipes

from mcp_sync._protocol.versions import HANDSHAKE_VERSIONS, LATEST_HANDSHAKE
from mcp_sync.testing import FakeServer, RpcError, ToolContext

RELATED = f"{PREFIX}related-task"


class Desk:
    """A server with tasks that go on when the test says so."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.server = FakeServer()
        self.server.tool(task=True)(self.work)
        self.server.tool(task="required")(self.strict)
        self.server.tool()(self.plain)
        self.server.tool(task=True)(self.greet)
        self.server.tool(task=True)(self.broken)
        self.server.tool(task=True)(self.refused)
        self.peer = Peer(self.server, LATEST_HANDSHAKE)

    def work(self, context: ToolContext) -> str:
        while not self.go_on.wait(0.01):
            if context.cancelled.is_set():
                return "too late"
        context.progress(1, 1)
        return "done"

    def strict(self) -> str:
        return "strict"

    def plain(self) -> str:
        return "plain"

    def greet(self, context: ToolContext) -> str:
        return f"Hello {context.elicit('Name?')['content']['name']}"

    def broken(self) -> str:
        raise ValueError("broken")

    def refused(self) -> str:
        raise RpcError(-32000, "no", {"why": "x"})

    def begin(self, name: str, ttl: Any = None, **params: Any) -> Any:
        task = {} if ttl is None else {"ttl": ttl}
        created = self.peer.result("tools/call", name=name, arguments={}, task=task, **params)
        validate(LATEST_HANDSHAKE, "CreateTaskResult", created)
        return created["task"]


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk()
    yield desk
    desk.server.tasks.end()


def capabilities(server: FakeServer, version: str) -> Any:
    message = {"id": 1, "method": "initialize", "params": {"protocolVersion": version}}
    answer: Any = server.handle(message, print)
    return answer["result"]["capabilities"]


def test_the_handshake_declares_tasks_where_there_are_some(desk: Desk) -> None:
    declared = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    assert capabilities(desk.server, LATEST_HANDSHAKE)["tasks"] == declared
    assert "tasks" not in capabilities(desk.server, HANDSHAKE_VERSIONS[1])
    assert "tasks" not in capabilities(FakeServer(tools=[desk.plain]), LATEST_HANDSHAKE)


def test_tools_say_whether_they_can_be_called_as_a_task(desk: Desk) -> None:
    listed = desk.peer.result("tools/list")
    validate(LATEST_HANDSHAKE, "ListToolsResult", listed)
    support = {tool["name"]: tool.get("execution") for tool in listed["tools"]}
    assert support["work"] == {"taskSupport": "optional"}
    assert support["strict"] == {"taskSupport": "required"}
    assert support["plain"] is None
    older = Peer(desk.server, HANDSHAKE_VERSIONS[1]).result("tools/list")["tools"]
    assert all("execution" not in tool for tool in older)


def test_a_call_with_a_task_is_answered_at_once_and_polled(desk: Desk) -> None:
    task = desk.begin("work", ttl=60_000)
    assert (task["status"], task["ttl"]) == ("working", 60_000)
    shown = desk.peer.result("tasks/get", taskId=task["taskId"])
    validate(LATEST_HANDSHAKE, "GetTaskResult", shown)
    assert shown["status"] == "working"
    desk.go_on.set()
    result = desk.peer.result("tasks/result", taskId=task["taskId"])
    assert text_of(result) == "done"
    assert result["_meta"] == {RELATED: {"taskId": task["taskId"]}}
    assert desk.peer.result("tasks/get", taskId=task["taskId"])["status"] == "completed"


def test_a_call_without_a_task_is_a_plain_call(desk: Desk) -> None:
    desk.go_on.set()
    assert text_of(desk.peer.call("work")) == "done"


def test_the_support_of_a_tool_is_binding(desk: Desk) -> None:
    assert desk.peer.error("tools/call", name="plain", task={})["code"] == -32601
    assert desk.peer.error("tools/call", name="strict")["code"] == -32601


def test_a_server_that_does_not_declare_tasks_ignores_the_parameter() -> None:
    peer = Peer(FakeServer(tools=[lambda: "x"]), LATEST_HANDSHAKE)
    name = next(iter(peer.server.tools))
    assert text_of(peer.result("tools/call", name=name, task={})) == "x"
    assert peer.error("tasks/get", taskId="x")["code"] == -32601


def test_older_revisions_have_no_tasks(desk: Desk) -> None:
    peer = Peer(desk.server, HANDSHAKE_VERSIONS[1])
    assert text_of(peer.result("tools/call", name="plain", task={})) == "plain"
    assert peer.error("tasks/list")["code"] == -32601


def test_tasks_are_listed_page_by_page(desk: Desk) -> None:
    ids = [desk.begin("work")["taskId"] for _ in range(3)]
    desk.server.page_size = 2
    first = desk.peer.result("tasks/list")
    second = desk.peer.result("tasks/list", cursor=first["nextCursor"])
    validate(LATEST_HANDSHAKE, "ListTasksResult", first)
    assert [task["taskId"] for task in (*first["tasks"], *second["tasks"])] == ids
    assert desk.peer.error("tasks/list", cursor="nonsense")["code"] == -32602


def test_a_failing_tool_fails_its_task_and_keeps_its_result(desk: Desk) -> None:
    task = desk.begin("broken")
    result = desk.peer.result("tasks/result", taskId=task["taskId"])
    assert (result["isError"], text_of(result)) == (True, "broken")
    shown = desk.peer.result("tasks/get", taskId=task["taskId"])
    assert shown["status"] == "failed"
    assert shown["statusMessage"]


def test_an_error_of_the_protocol_comes_from_the_result(desk: Desk) -> None:
    task = desk.begin("refused")
    error = desk.peer.error("tasks/result", taskId=task["taskId"])
    assert error == {"code": -32000, "message": "no", "data": {"why": "x"}}


def test_a_cancelled_task_is_shown_at_once_and_cancelled_only_once(desk: Desk) -> None:
    task = desk.begin("work")
    shown = desk.peer.result("tasks/cancel", taskId=task["taskId"])
    validate(LATEST_HANDSHAKE, "CancelTaskResult", shown)
    assert shown["status"] == "cancelled"
    assert desk.peer.error("tasks/cancel", taskId=task["taskId"])["code"] == -32602
    assert "cancelled" in desk.peer.error("tasks/result", taskId=task["taskId"])["message"]


@pytest.mark.parametrize("method", ["tasks/get", "tasks/result", "tasks/cancel"])
def test_an_unknown_task_is_refused(method: str, desk: Desk) -> None:
    assert desk.peer.error(method, taskId="nope")["code"] == -32602


def test_what_a_task_asks_comes_while_its_result_is_waited_for(desk: Desk) -> None:
    task = desk.begin("greet")
    desk.server.tasks[task["taskId"]].wait_for("input_required")
    assert desk.peer.result("tasks/get", taskId=task["taskId"])["status"] == "input_required"
    answer = {"action": "accept", "content": {"name": "Ann"}}
    asked = answering(desk.peer, lambda message: {"result": answer})
    assert text_of(desk.peer.result("tasks/result", taskId=task["taskId"])) == "Hello Ann"
    assert asked[0]["method"] == "elicitation/create"
    assert asked[0]["params"]["_meta"] == {RELATED: {"taskId": task["taskId"]}}


def test_a_refused_question_reaches_the_tool(desk: Desk) -> None:
    task = desk.begin("greet")
    answering(desk.peer, lambda message: {"error": {"code": -1, "message": "not now"}})
    result = desk.peer.result("tasks/result", taskId=task["taskId"])
    assert (result["isError"], text_of(result)) == (True, "not now (-1)")


def test_a_question_is_put_again_when_the_client_gave_up_waiting() -> None:
    server = FakeServer()

    @server.tool(task=True)
    def greet(context: ToolContext) -> str:
        return f"Hello {context.elicit('Name?')['content']['name']}"

    pipes = Pipes(server)

    def send(method: str, number: int, **params: Any) -> None:
        pipes.write(_line({"jsonrpc": "2.0", "id": number, "method": method, "params": params}))

    try:
        send("initialize", 1, protocolVersion=LATEST_HANDSHAKE, capabilities={"elicitation": {}})
        pipes.read()
        send("tools/call", 2, name="greet", task={})
        seen = [pipes.read(), pipes.read()]
        task_id = next(message["result"]["task"]["taskId"] for message in seen if "result" in message)
        send("tasks/result", 3, taskId=task_id)
        assert pipes.read()["method"] == "elicitation/create"
        cancelled = {"method": "notifications/cancelled", "params": {"requestId": 3}}
        pipes.write(_line({"jsonrpc": "2.0", **cancelled}))
        send("tasks/result", 4, taskId=task_id)
        question = pipes.read()
        result = {"action": "accept", "content": {"name": "Ann"}}
        pipes.write(_line({"jsonrpc": "2.0", "id": question["id"], "result": result}))
        answers = [pipes.read() for _ in range(3)]
        assert (
            text_of(next(message["result"] for message in answers if message.get("id") == 4)) == "Hello Ann"
        )
    finally:
        pipes.close()
        server.tasks.end()


def test_changes_are_told_to_the_client_that_began_the_task(desk: Desk) -> None:
    task = desk.begin("work", _meta={"progressToken": "p"})
    desk.go_on.set()
    desk.server.tasks[task["taskId"]].wait_for("completed")
    desk.server.tasks.end()
    progress, status = desk.peer.sent
    assert progress["method"] == "notifications/progress"
    assert progress["params"]["_meta"] == {RELATED: {"taskId": task["taskId"]}}
    validate(LATEST_HANDSHAKE, "TaskStatusNotification", status)
    assert status["params"]["status"] == "completed"
    assert "_meta" not in status["params"]


def test_a_question_waits_for_the_next_stream_when_the_client_has_left(session: requests.Session) -> None:
    desk = Desk()
    with desk.server.serve_http() as endpoint:
        wire = Wire(endpoint, session)
        wire.initialize()
        task = wire.post("tools/call", {"name": "greet", "task": {}}).json()["result"]["task"]
        with wire.post("tasks/result", {"taskId": task["taskId"]}) as left:
            assert next(events(left))[1]["method"] == "elicitation/create"
        with wire.post("tasks/result", {"taskId": task["taskId"]}) as response:
            stream = (message for _, message in events(response))
            question = next(stream)
            result = {"action": "accept", "content": {"name": "Ann"}}
            answer = {"jsonrpc": "2.0", "id": question["id"], "result": result}
            assert wire.send(answer).status_code == 202
            assert text_of(next(stream)["result"]) == "Hello Ann"
    desk.server.tasks.end()


def test_a_client_in_memory_may_answer_a_change_by_another_one(desk: Desk) -> None:
    def cancel(message: Message) -> None:
        if message["params"]["status"] == "input_required":
            desk.peer.result("tasks/cancel", taskId=message["params"]["taskId"])

    desk.peer.on_send = cancel
    task = desk.begin("greet")
    assert desk.server.tasks[task["taskId"]].wait_for().status == "cancelled"


def _line(message: Message) -> bytes:
    return json.dumps(message).encode()
