"""The experimental tasks of 2025-11-25, behind the same calls and handles."""

from __future__ import annotations

import pytest
from engine.background import Background
from engine.scripted import DuplexTarget, PostTarget, legacy, modern, refusal, reply_to, text

from mcp_sync import CancelToken, Client, types
from mcp_sync.errors import (
    CallCancelled,
    CallTimeout,
    InvalidResult,
    MethodNotFound,
    NotSupported,
    RemoteError,
)
from mcp_sync.tasks import TaskGone, _following, list_tasks

from .scripts import ELICIT, experiment, state, tool

TOOLS = (tool("must", "required"), tool("may", "optional"), tool("not", "forbidden"), tool("plain"))


@pytest.fixture(params=[DuplexTarget, PostTarget])
def kind(request):
    return request.param


def serving(*states, **more):
    return experiment(*states, tools=TOOLS, **more)


def called(target):
    return [each["params"].get("task") for each in target.now.received("tools/call")]


# --- calls -------------------------------------------------------------------------------------------


def test_a_tool_that_must_be_a_task_is_called_as_one_once_it_was_listed(kind):
    target = kind(serving(state("working"), state("completed")))
    with Client(target, mode="legacy") as client:
        client.list_tools()
        assert client.call_tool("must", {"a": 1}).text == "done"
    assert called(target) == [{}]
    (fetched,) = target.now.received("tasks/result")
    assert fetched["params"]["taskId"] == "t1"
    assert not target.now.received("tasks/cancel")


@pytest.mark.parametrize("name", ["may", "not", "plain"])
def test_all_other_tools_are_called_as_ever(kind, name):
    target = kind(serving(tools_call=lambda request: text("plain")))
    with Client(target, mode="legacy") as client:
        client.list_tools()
        assert client.call_tool(name).text == "plain"
    assert called(target) == [None]


def test_a_tool_that_was_not_listed_is_called_as_ever(kind):
    target = kind(serving(tools_call=lambda request: refusal(-32601, "only as a task")))
    with Client(target, mode="legacy") as client, pytest.raises(MethodNotFound, match="only as a task"):
        client.call_tool("must")
    assert called(target) == [None]


def test_nothing_is_a_task_where_the_server_does_not_offer_it_or_the_client_does_not_want_it(kind):
    plain = legacy(
        tools_list=lambda request: {"tools": list(TOOLS)}, tools_call=lambda request: text("plain")
    )
    for target, options in (
        (kind(plain), {}),
        (kind(serving(tools_call=lambda request: text("plain"))), {"extensions": ()}),
    ):
        with Client(target, mode="legacy", **options) as client:
            client.list_tools()
            assert client.call_tool("must").text == "plain"
            assert client.start_task("must").result().text == "plain"
        assert called(target) == [None, None]


def test_a_tool_that_need_not_be_a_task_any_more_is_called_as_ever(kind):
    lists = iter([[tool("must", "required")], [tool("must")]])
    target = kind(
        experiment(tools_list=lambda request: {"tools": next(lists)}, tools_call=lambda _: text("plain"))
    )
    with Client(target, mode="legacy") as client:
        client.list_tools()
        client.list_tools()
        client.call_tool("must")
    assert called(target) == [None]


def test_a_server_that_makes_no_task_of_it_is_taken_at_its_word(kind):
    target = kind(serving(tools_call=lambda request: text("at once")))
    with Client(target, mode="legacy") as client:
        client.list_tools()
        assert client.call_tool("must").text == "at once"
        handle = client.start_task("may")
        assert (handle.id, handle.result().text) == ("", "at once")


def test_a_task_in_the_metadata_of_an_empty_result_is_one(kind):
    stub = {"content": [], "_meta": {"modelcontextprotocol.io/task": {"taskId": "t1", "status": "working"}}}
    target = kind(serving(state("completed"), tools_call=lambda request: stub))
    with Client(target, mode="legacy") as client:
        client.list_tools()
        assert client.call_tool("must").text == "done"
        assert client.start_task("may").id == "t1"


def test_a_call_that_is_out_of_time_cancels_its_task(kind):
    target = kind(serving(state("working")))
    with Client(target, mode="legacy") as client:
        client.list_tools()
        with pytest.raises(CallTimeout, match="task t1 of tool must") as caught:
            client.call_tool("must", timeout=0.05)
        assert caught.value.request_sent is True
        target.now.expect("tasks/cancel")


def test_a_cancelled_call_cancels_its_task(kind):
    target, token = kind(serving(state("working", pollInterval=60_000))), CancelToken()
    with Client(target, mode="legacy") as client:
        client.list_tools()
        call = Background(client.call_tool, "must", cancel=token)
        target.now.expect("tasks/get")
        token.cancel()
        with pytest.raises(CallCancelled):
            call.result()
        target.now.expect("tasks/cancel")


def test_a_notification_has_the_task_looked_at_at_once():
    target = DuplexTarget(serving(state("working", pollInterval=60_000), state("completed")))
    with Client(target, mode="legacy") as client:
        waiting = Background(client.start_task("may").result)
        target.now.expect("tasks/get")
        target.now.notify("notifications/tasks/status", **state("completed"))
        assert waiting.result().text == "done"


@pytest.mark.parametrize(
    ("last", "result", "error"),
    [
        ("failed", refusal(-32602, "the tool says no"), RemoteError),
        ("cancelled", text("done"), CallCancelled),
        ("paused", text("done"), InvalidResult),
        ("completed", {"content": 7}, InvalidResult),
    ],
)
def test_what_becomes_of_the_task_becomes_of_the_call(kind, last, result, error):
    target = kind(serving(state(last), tasks_result=lambda request: result))
    with Client(target, mode="legacy") as client:
        client.list_tools()
        with pytest.raises(error) as caught:
            client.call_tool("must")
        assert not isinstance(caught.value, TaskGone)


def test_a_failed_task_whose_result_is_an_error_of_the_tool_returns_it(kind):
    failed = text("it broke", isError=True)
    target = kind(serving(state("failed"), tasks_result=lambda request: failed))
    with Client(target, mode="legacy") as client:
        client.list_tools()
        assert client.call_tool("must").is_error


# --- input -------------------------------------------------------------------------------------------


def test_a_task_that_needs_input_may_ask_on_the_stream_of_its_result():
    related = {"io.modelcontextprotocol/related-task": {"taskId": "t1"}}
    question = {
        "jsonrpc": "2.0",
        "id": 77,
        "method": ELICIT["method"],
        "params": {**ELICIT["params"], "_meta": related},
    }
    target = DuplexTarget(serving(state("input_required"), state("completed"), tasks_result=None))
    yes = lambda context, params: types.ElicitResult(action="accept", content={})  # noqa: E731
    with Client(target, mode="legacy", elicitation_callback=yes) as client:
        client.list_tools()
        call = Background(client.call_tool, "must")
        fetching = target.now.expect("tasks/result")
        target.now.say(question)
        assert target.now.expect(None)["result"] == {"action": "accept", "content": {}, "_meta": related}
        target.now.say(reply_to(fetching, text("done")))
        assert call.result().text == "done"
    assert len(target.now.received("tasks/result")) == 1


def test_a_server_that_is_silent_there_is_looked_at_again(kind, monkeypatch):
    monkeypatch.setattr(_following, "_SILENCE", 0.02)
    results = iter([None, text("done")])
    target = kind(
        serving(state("input_required"), state("completed"), tasks_result=lambda request: next(results))
    )
    with Client(target, mode="legacy") as client:
        assert client.start_task("may").result().text == "done"
    assert len(target.now.received("tasks/result")) == 2


def test_a_tool_that_fails_while_it_could_ask_fails_the_call(kind):
    target = kind(
        serving(state("input_required"), state("failed"), tasks_result=lambda _: refusal(-32000, "broken"))
    )
    with Client(target, mode="legacy") as client, pytest.raises(RemoteError, match="broken"):
        client.start_task("may").result()


def test_answers_are_given_by_callbacks_alone(kind):
    with Client(kind(serving(state("input_required"))), mode="legacy") as client:
        handle = client.start_task("may")
        assert handle.status().input_requests == handle.requests == {}
        with pytest.raises(NotSupported, match="callbacks"):
            handle.update({"k": {"action": "cancel"}})
        with pytest.raises(NotSupported):
            client.start_task("may", on_input="raise")


# --- handles -----------------------------------------------------------------------------------------


def test_a_task_is_asked_for_with_its_time_where_the_tool_admits_it(kind):
    target = kind(serving(state("completed"), tools_call=lambda request: answer(request)))

    def answer(request):
        return {"task": state("working")} if "task" in request["params"] else text("plain")

    with Client(target, mode="legacy") as client:
        ids = [client.start_task(each["name"], ttl=1.5).id for each in TOOLS]
    assert ids == ["t1", "t1", "", ""]
    assert called(target) == [{"ttl": 1500}, {"ttl": 1500}, None, None]
    assert len(target.now.received("tools/list")) == 1


def test_a_tool_that_is_not_listed_is_called_as_ever_by_a_handle(kind):
    target = kind(serving(tools_call=lambda request: text("plain")))
    with Client(target, mode="legacy") as client:
        assert client.start_task("unknown").id == ""


def test_a_handle_is_taken_up_and_finished(kind):
    said = {**state("working", ttl=None, pollInterval=1500), "ttlMs": None}
    target = kind(serving(said, state("completed")))
    with Client(target, mode="legacy") as client:
        kept = client.start_task("may").to_json()
    with Client(target, mode="legacy") as client:
        handle = client.task(kept)
        found = handle.status()
        assert (found.status, found.ttl, found.poll_interval) == ("working", None, 1.5)
        assert handle.result().text == handle.result().text == "done"
    assert len(target.now.received("tasks/result")) == 1


def test_an_unknown_task_is_gone(kind):
    gone = lambda request: refusal(-32602, "Task not found")  # noqa: E731
    with Client(kind(serving(tasks_get=gone)), mode="legacy") as client, pytest.raises(TaskGone):
        client.task("t2").result()


def test_cancelling_a_task_that_has_ended_is_no_error(kind):
    refused = lambda request: refusal(-32602, "completed already")  # noqa: E731
    with Client(kind(serving(state("completed"), tasks_cancel=refused)), mode="legacy") as client:
        client.task("t1").cancel()


def test_the_tasks_of_the_server_can_be_listed(kind):
    pages = iter(
        [{"tasks": [state("working")], "nextCursor": "2"}, {"tasks": [state("completed", taskId="t2")]}]
    )
    target = kind(serving(state("completed"), tasks_list=lambda request: next(pages)))
    with Client(target, mode="legacy") as client:
        first, second = list_tasks(client)
        assert (first.id, second.id) == ("t1", "t2")
        assert first.result().text == "done"
        before = len(target.now.received("tasks/get"))
        assert second.status().status == "completed"
        assert len(target.now.received("tasks/get")) == before


def test_later_revisions_have_no_list_of_tasks(kind):
    with Client(kind(modern())) as client, pytest.raises(NotSupported):
        next(list_tasks(client))


# --- progress ----------------------------------------------------------------------------------------


def reporting(target):
    """Report progress of the task, when the client looks at it."""

    def look(request):
        call = target.now.received("tools/call")[0]
        token = call["params"]["_meta"]["progressToken"]
        for params in (
            {"progress": 1, "total": 2, "message": "half"},
            {"progress": "much"},
            {"progress": 2, "total": 2, "progressToken": "another"},
        ):
            target.now.notify("notifications/progress", **{"progressToken": token, **params})
        target.now.sync()
        return next(states)

    states = iter([state("working", statusMessage="words"), state("completed")])
    return look


def test_progress_of_a_task_reaches_the_callback_and_stands_for_its_words():
    seen = []
    target = DuplexTarget(serving())
    target.scripts["tasks/get"] = reporting(target)
    with Client(target, mode="legacy") as client:
        client.list_tools()
        client.call_tool("must", progress_callback=lambda *values: seen.append(values))
        assert set(seen) == {(1, 2, "half")}
        assert client._engine.router._watching == ()


def test_words_of_a_task_are_progress_where_there_is_no_other():
    seen = []
    target = DuplexTarget(serving(state("working", statusMessage="words"), state("completed")))
    with Client(target, mode="legacy") as client:
        client.list_tools()
        client.call_tool("must", progress_callback=lambda *values: seen.append(values))
        assert seen == [(1, None, "words")]


def test_progress_is_asked_for_only_where_somebody_wants_it():
    target = DuplexTarget(serving(state("completed")))
    with Client(target, mode="legacy") as client:
        client.list_tools()
        client.call_tool("must")
        client.call_tool("must", reset_on_progress=True)
    metas = [each["params"].get("_meta", {}) for each in target.now.received("tools/call")]
    assert ["progressToken" in meta for meta in metas] == [False, True]
