"""Tasks of the fake server by the extension of the revisions without a handshake, in plain messages."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from plain_peer import EVERYTHING, PREFIX, Message, Peer, modern_meta, text_of
from test_fake_http import Wire, events

from mcp_sync._protocol.versions import LATEST_HANDSHAKE, LATEST_MODERN
from mcp_sync.testing import FakeServer, RpcError, ToolContext

TASKS = f"{PREFIX}tasks"
KNOWN = {**EVERYTHING, "extensions": {TASKS: {}}}
MISSING = {"requiredCapabilities": {"extensions": {TASKS: {}}}}


class Desk:
    """A server with tasks that go on when the test says so."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.server = FakeServer(poll_interval_ms=50)
        self.server.tool(task=True)(self.work)
        self.server.tool(task="required")(self.strict)
        self.server.tool()(self.plain)
        self.server.tool(task=True)(self.ask)
        self.server.tool(task=True)(self.broken)
        self.server.tool(task=True)(self.refused)
        self.peer = Peer(self.server, LATEST_MODERN, KNOWN)

    def work(self, context: ToolContext, name: str = "x") -> str:
        """Work until it is told to go on."""
        context.status(f"working on {name}")
        context.progress(1)
        while not self.go_on.wait(0.01):
            if context.cancelled.is_set():
                return "too late"
        return f"done {name}"

    def strict(self) -> str:
        return "strict"

    def plain(self) -> str:
        return "plain"

    def ask(self, context: ToolContext) -> str:
        first = context.elicit("Name?")
        second = context.ask_all(
            {
                "roots": {"method": "roots/list", "params": {}},
                "sure": {"method": "elicitation/create", "params": {"message": "Sure?"}},
            }
        )
        return f"{first['content']['name']} {second['sure']['action']} {len(second['roots']['roots'])}"

    def broken(self) -> str:
        raise ValueError("broken")

    def refused(self) -> str:
        raise RpcError(-32603, "rate limit", {"after": 5})

    def begin(self, name: str, /, **arguments: Any) -> str:
        """Call a tool and return the id of its task."""
        created = self.peer.call(name, **arguments)
        assert created["resultType"] == "task"
        return str(created["taskId"])

    def get(self, task_id: str) -> Any:
        return self.peer.result("tasks/get", taskId=task_id)


@pytest.fixture
def desk() -> Iterator[Desk]:
    desk = Desk()
    yield desk
    desk.server.tasks.end()


def test_discover_declares_the_extension(desk: Desk) -> None:
    assert desk.peer.result("server/discover")["capabilities"]["extensions"] == {TASKS: {}}
    assert "extensions" not in Peer(FakeServer(), LATEST_MODERN).result("server/discover")["capabilities"]


def test_a_handshake_does_not_declare_the_extension(desk: Desk) -> None:
    message = {"id": 1, "method": "initialize", "params": {"protocolVersion": LATEST_HANDSHAKE}}
    answer: Any = desk.server.handle(message, print)
    assert "extensions" not in answer["result"]["capabilities"]


def test_a_call_becomes_a_task_that_begins_as_working(desk: Desk) -> None:
    created = desk.peer.call("work")
    assert created["resultType"] == "task"
    assert created["status"] == "working"
    assert (created["ttlMs"], created["pollIntervalMs"]) == (3_600_000, 50)
    assert created["createdAt"] == created["lastUpdatedAt"]
    assert not {"task", "result", "content", "requestState"} & set(created)


def test_a_task_is_polled_until_it_is_completed(desk: Desk) -> None:
    task_id = desk.begin("work", name="y")
    desk.server.tasks[task_id].wait_for("working")
    desk.server.wait_for("tools/call")
    working = desk.get(task_id)
    assert (working["resultType"], working["status"]) == ("complete", "working")
    assert "result" not in working
    desk.go_on.set()
    desk.server.tasks[task_id].wait_for()
    completed = desk.get(task_id)
    assert completed["status"] == "completed"
    assert text_of(completed["result"]) == "done y"
    assert completed["lastUpdatedAt"] >= completed["createdAt"]


def test_a_status_message_shows_how_the_task_gets_on(desk: Desk) -> None:
    said = threading.Event()

    @desk.server.tool(task=True)
    def speak(context: ToolContext) -> None:
        context.status("half way")
        said.set()
        desk.go_on.wait(20)

    task_id = desk.begin("speak")
    assert said.wait(20)
    assert desk.get(task_id)["statusMessage"] == "half way"
    desk.go_on.set()


def test_poll_interval_and_ttl_may_change(desk: Desk) -> None:
    task_id = desk.begin("work")
    desk.server.tasks[task_id].poll_interval_ms = None
    desk.server.tasks[task_id].ttl_ms = None
    shown = desk.get(task_id)
    assert "pollIntervalMs" not in shown
    assert shown["ttlMs"] is None


def test_a_tool_that_fails_completes_its_task(desk: Desk) -> None:
    task_id = desk.begin("broken")
    desk.server.tasks[task_id].wait_for()
    assert desk.get(task_id)["status"] == "completed"
    assert desk.get(task_id)["result"] == {"content": [{"type": "text", "text": "broken"}], "isError": True}


def test_an_error_of_the_protocol_fails_the_task(desk: Desk) -> None:
    task_id = desk.begin("refused")
    desk.server.tasks[task_id].wait_for()
    failed = desk.get(task_id)
    assert (failed["status"], failed["statusMessage"]) == ("failed", "rate limit")
    assert failed["error"] == {"code": -32603, "message": "rate limit", "data": {"after": 5}}
    assert "result" not in failed


# --- input -----------------------------------------------------------------------------------------------


def test_a_task_asks_and_is_answered_by_updates(desk: Desk) -> None:
    task_id = desk.begin("ask")
    task = desk.server.tasks[task_id]
    task.wait_for("input_required")
    asked = desk.get(task_id)
    assert asked["inputRequests"]["input-1"]["params"]["message"] == "Name?"
    assert desk.get(task_id)["inputRequests"] == asked["inputRequests"]
    answer = {"action": "accept", "content": {"name": "Ann"}}
    ack = desk.peer.result("tasks/update", taskId=task_id, inputResponses={"input-1": answer})
    assert ack["resultType"] == "complete"
    assert "taskId" not in ack
    task.wait_for("input_required")
    assert set(desk.get(task_id)["inputRequests"]) == {"roots", "sure"}
    desk.peer.result("tasks/update", taskId=task_id, inputResponses={"roots": {"roots": []}, "other": {}})
    assert set(desk.get(task_id)["inputRequests"]) == {"sure"}
    late = {"sure": {"action": "decline"}, "input-1": answer}
    desk.peer.result("tasks/update", taskId=task_id, inputResponses=late)
    task.wait_for("completed")
    assert text_of(desk.get(task_id)["result"]) == "Ann decline 0"
    assert "inputRequests" not in desk.get(task_id)


def test_a_task_waits_for_answers_only_so_long() -> None:
    server = FakeServer(answer_timeout=0.01)

    @server.tool(task=True)
    def ask(context: ToolContext) -> str:
        return str(context.elicit("?"))

    task_id = Peer(server, LATEST_MODERN, KNOWN).call("ask")["taskId"]
    assert server.tasks[task_id].wait_for().status == "completed"


def test_a_tool_may_ask_first_and_then_begin_a_task() -> None:
    server = FakeServer(extensions={TASKS: {}})

    @server.tool()
    def composed(context: ToolContext) -> Message:
        name = context.elicit("Name?")["content"]["name"]
        return context.start_task(lambda inside: f"Hello {name}")

    peer = Peer(server, LATEST_MODERN, KNOWN)
    first = peer.call("composed")
    assert first["resultType"] == "input_required"
    responses = {key: {"action": "accept", "content": {"name": "Ann"}} for key in first["inputRequests"]}
    retry = {"inputResponses": responses, "requestState": first["requestState"]}
    created = peer.result("tools/call", name="composed", arguments={}, **retry)
    assert created["resultType"] == "task"
    assert "requestState" not in created
    server.tasks[created["taskId"]].wait_for("completed")
    assert text_of(peer.result("tasks/get", taskId=created["taskId"])["result"]) == "Hello Ann"


# --- the end ---------------------------------------------------------------------------------------------


def test_a_task_is_cancelled_and_stays_so(desk: Desk) -> None:
    task_id = desk.begin("work")
    ack = desk.peer.result("tasks/cancel", taskId=task_id)
    assert set(ack) == {"resultType", "_meta"}
    assert desk.get(task_id)["status"] == "cancelled"
    assert desk.peer.result("tasks/cancel", taskId=task_id)["resultType"] == "complete"
    desk.server.tasks.end()
    assert desk.get(task_id)["status"] == "cancelled"
    assert "result" not in desk.get(task_id)


def test_a_task_that_waits_for_input_can_be_cancelled(desk: Desk) -> None:
    task_id = desk.begin("ask")
    desk.server.tasks[task_id].wait_for("input_required")
    desk.peer.result("tasks/cancel", taskId=task_id)
    assert "inputRequests" not in desk.get(task_id)


def test_a_task_can_vanish(desk: Desk) -> None:
    task_id = desk.begin("work")
    task = desk.server.tasks[task_id]
    desk.server.tasks.forget(task_id)
    for method in ("tasks/get", "tasks/cancel"):
        assert desk.peer.error(method, taskId=task_id)["code"] == -32602
    assert desk.peer.error("tasks/update", taskId=task_id, inputResponses={})["code"] == -32602
    task.cancel()


def test_the_test_can_end_a_task_by_itself(desk: Desk) -> None:
    task = desk.server.tasks[desk.begin("work")]
    assert task.complete({"content": []}) is True
    assert task.fail(RpcError(-1, "late")) is False
    assert desk.get(task.id)["result"] == {"content": []}
    task.cancelled.set()


def test_waiting_for_a_task_is_bounded(desk: Desk) -> None:
    with pytest.raises(TimeoutError, match="there are 0 tasks, not 1"):
        desk.server.tasks.wait_for(timeout=0.01)
    task_id = desk.begin("work")
    with pytest.raises(TimeoutError, match="the task is working, not failed"):
        desk.server.tasks.wait_for()[0].wait_for("failed", timeout=0.01)
    assert list(desk.server.tasks) == [task_id]


# --- who may do what -------------------------------------------------------------------------------------


def test_a_client_that_does_not_know_tasks_gets_a_plain_result(desk: Desk) -> None:
    desk.go_on.set()
    assert text_of(Peer(desk.server, LATEST_MODERN).call("work")) == "done x"
    assert text_of(desk.peer.call("plain")) == "plain"


def test_a_client_that_does_not_know_tasks_is_told_what_is_missing(desk: Desk) -> None:
    task_id = desk.begin("work")
    stranger = Peer(desk.server, LATEST_MODERN)
    refusals = [
        stranger.error("tools/call", name="strict"),
        stranger.error("tasks/get", taskId=task_id),
        stranger.error("tasks/update", taskId=task_id, inputResponses={}),
        stranger.error("tasks/cancel", taskId=task_id),
        stranger.error("subscriptions/listen", notifications={"taskIds": [task_id]}),
    ]
    assert [(refusal["code"], refusal["data"]) for refusal in refusals] == [(-32021, MISSING)] * 5


@pytest.mark.parametrize("method", ["tasks/result", "tasks/list"])
def test_methods_of_the_experiment_are_not_found(method: str, desk: Desk) -> None:
    assert desk.peer.error(method, taskId="x")["code"] == -32601


def test_a_server_without_tasks_does_not_know_their_methods() -> None:
    peer = Peer(FakeServer(), LATEST_MODERN, KNOWN)
    assert peer.error("tasks/get", taskId="x")["code"] == -32601


def test_a_server_that_declares_no_tasks_makes_none() -> None:
    server = FakeServer(capabilities={"tools": {}})
    server.tool(task="required")(lambda: "at once")
    peer = Peer(server, LATEST_MODERN, KNOWN)
    assert peer.result("server/discover")["capabilities"] == {"tools": {}}
    assert text_of(peer.call(next(iter(server.tools)))) == "at once"
    assert peer.error("tasks/get", taskId="x")["code"] == -32601


def test_the_task_parameter_of_the_experiment_is_ignored(desk: Desk) -> None:
    result = desk.peer.result("tools/call", name="plain", arguments={}, task={"ttl": 1})
    assert result["resultType"] == "complete"


# --- HTTP and notifications ------------------------------------------------------------------------------


def test_requests_over_http_name_the_task_in_a_header(desk: Desk, session: requests.Session) -> None:
    task_id = desk.begin("work")
    params = {"taskId": task_id, "_meta": modern_meta(KNOWN)}
    headers = {"MCP_Protocol_Version": LATEST_MODERN, "Mcp_Method": "tasks/get"}
    with desk.server.serve_http() as endpoint:
        wire = Wire(endpoint, session)
        assert wire.post("tasks/get", params, **headers).json()["error"]["code"] == -32020
        named = wire.post("tasks/get", params, **headers, Mcp_Name=task_id)
    assert named.json()["result"]["taskId"] == task_id


def test_changes_are_told_to_those_who_listen(desk: Desk, session: requests.Session) -> None:
    task_id = desk.begin("ask")
    task = desk.server.tasks[task_id].wait_for("input_required")
    wanted = {"taskIds": [task_id, "unknown"]}
    with desk.server.serve_http() as endpoint:
        meta = modern_meta(KNOWN)
        wire = Wire(endpoint, session)
        with wire.modern("subscriptions/listen", meta, notifications=wanted) as response:
            stream = (message for _, message in events(response))
            assert next(stream)["params"]["notifications"] == {"taskIds": [task_id]}
            task.answer({"input-1": {"action": "accept", "content": {"name": "Ann"}}})
            working, asking = next(stream), next(stream)
            task.answer({"roots": {"roots": []}, "sure": {"action": "accept"}})
            again, completed = next(stream), next(stream)
    assert working["method"] == "notifications/tasks"
    assert [message["params"]["status"] for message in (working, asking, again, completed)] == [
        "working",
        "input_required",
        "working",
        "completed",
    ]
    assert set(asking["params"]["inputRequests"]) == {"roots", "sure"}
    assert text_of(completed["params"]["result"]) == "Ann accept 0"
    assert completed["params"]["_meta"] == {f"{PREFIX}subscriptionId": 1}
    assert desk.peer.sent == []


def test_other_tasks_and_handshake_clients_hear_nothing(desk: Desk) -> None:
    legacy = Peer(desk.server, LATEST_HANDSHAKE)
    task_id = desk.begin("work")
    heard: queue.Queue[Message] = queue.Queue()
    listener = Peer(desk.server, LATEST_MODERN, KNOWN)
    listener.on_send = heard.put
    message = listener.message("subscriptions/listen", notifications={"taskIds": ["other"]})
    thread = threading.Thread(target=listener.deliver, args=(message,))
    thread.start()
    desk.server.wait_for_subscriptions()
    desk.server.tasks[task_id].cancel()
    desk.server.end_subscriptions()
    thread.join(20)
    assert heard.get(timeout=20)["params"]["notifications"] == {}
    assert heard.empty()
    assert legacy.sent == []


def test_a_task_is_of_no_use_to_anybody_else(session: requests.Session) -> None:
    server = FakeServer(principal=lambda headers: headers.get("authorization"))
    server.tool(task=True)(lambda: "x")
    name = next(iter(server.tools))
    meta = {"_meta": modern_meta(KNOWN)}
    with server.serve_http() as endpoint:
        wire = Wire(endpoint, session)
        called = wire.modern("tools/call", modern_meta(KNOWN), name=name, arguments={}).json()["result"]
        task_id = called["taskId"]
        wanted = {"MCP_Protocol_Version": LATEST_MODERN, "Mcp_Method": "tasks/get", "Mcp_Name": task_id}
        mine = wire.post("tasks/get", {"taskId": task_id, **meta}, **wanted)
        theirs = wire.post("tasks/get", {"taskId": task_id, **meta}, **wanted, Authorization="Bearer other")
    assert mine.json()["result"]["taskId"] == task_id
    assert theirs.json()["error"]["code"] == -32602
    server.tasks.end()


def test_a_task_may_use_a_key_twice(desk: Desk) -> None:
    @desk.server.tool(task=True)
    def twice(context: ToolContext) -> str:
        roots = {"same": {"method": "roots/list", "params": {}}}
        return str([context.ask_all(roots), context.ask_all(roots)])

    task = desk.server.tasks[desk.begin("twice")]
    for number in range(2):
        task.wait_for("input_required")
        desk.peer.result("tasks/update", taskId=task.id, inputResponses={"same": {"roots": [number]}})
    task.wait_for()
    assert text_of(desk.get(task.id)["result"]) == str([{"same": {"roots": [n]}} for n in range(2)])
