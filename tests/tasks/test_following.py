"""Calls of tools that become tasks (2026-07-28): followed to their end, or cancelled with the call."""

from __future__ import annotations

import math
import pickle
import time

import pytest
from engine.background import Background
from engine.scripted import DuplexTarget, PostTarget, modern, refusal, text

from mcp_sync import CancelToken, Client, ClientSession, Limits, Retry, types
from mcp_sync._concurrency import deadline
from mcp_sync._protocol import recovery
from mcp_sync.errors import (
    CallCancelled,
    CallTimeout,
    ConnectFailed,
    ConnectionLost,
    HTTPStatusError,
    InputRoundsExceeded,
    InvalidResult,
    MissingClientCapability,
    OutputInvalid,
    RemoteError,
    ToolFailed,
)
from mcp_sync.tasks import TaskGone, TaskNotification, Tasks, _pace

from .scripts import DONE, ELICIT, IDENTIFIER, asking, begun, completed, in_turn, server, state


@pytest.fixture(params=[DuplexTarget, PostTarget])
def kind(request):
    return request.param


def yes(context, params):
    return types.ElicitResult(action="accept", content={"ok": True})


def declared(target, method):
    meta = target.now.received(method)[0]["params"]["_meta"]
    return meta["io.modelcontextprotocol/clientCapabilities"].get("extensions")


# --- the offer ---------------------------------------------------------------------------------------


def test_every_client_offers_tasks_with_each_request(kind):
    target = kind(server(completed()))
    with Client(target) as client:
        client.call_tool("x")
    for method in ("server/discover", "tools/call", "tasks/get"):
        assert declared(target, method) == {IDENTIFIER: {}}


def test_other_extensions_replace_the_offer_and_may_renew_it():
    target, both = DuplexTarget(modern()), DuplexTarget(modern())
    with Client(target, extensions=["a/b"]), Client(both, extensions=["a/b", Tasks()]):
        pass
    assert declared(target, "server/discover") == {"a/b": {}}
    assert declared(both, "server/discover") == {"a/b": {}, IDENTIFIER: {}}


def test_who_does_not_offer_tasks_and_is_refused_is_told_what_is_missing(kind):
    needed = {"requiredCapabilities": {"extensions": {IDENTIFIER: {}}}}
    target = kind(modern(tools_call=lambda request: refusal(-32021, "tasks are needed", needed)))
    with Client(target, extensions=()) as client:
        for call in (client.call_tool, client.start_task):
            with pytest.raises(MissingClientCapability, match="tasks are needed") as caught:
                call("x")
            assert caught.value.data == needed


@pytest.mark.parametrize("verb", ["call_tool", "start_task"])
def test_a_task_that_nobody_offered_is_refused(kind, verb):
    with Client(kind(server(completed())), extensions=()) as client, pytest.raises(InvalidResult):
        getattr(client, verb)("x")


# --- to the end --------------------------------------------------------------------------------------


def test_the_call_returns_what_the_task_comes_to(kind):
    target = kind(server(state("working"), state("working"), completed()))
    with Client(target) as client:
        assert client.call_tool("x", {"a": 1}).text == "done"
    looks = target.now.received("tasks/get")
    assert [look["params"]["taskId"] for look in looks] == ["t1"] * 3
    assert not target.now.received("tasks/cancel")


def test_the_id_travels_in_a_header_too():
    target = PostTarget(server(asking(k=ELICIT), completed()))
    with Client(target, elicitation_callback=yes) as client:
        client.call_tool("x")
    names = {frame.method: frame.headers.get("Mcp-Name") for frame in target.now.frames}
    assert names["tasks/get"] == names["tasks/update"] == "t1"


def test_a_task_that_was_over_before_it_was_told_of_is_not_waited_for(kind):
    over = begun("completed", pollIntervalMs=60_000)
    target = kind(server(completed(), tools_call=lambda request: over))
    with Client(target, timeout=10) as client:
        assert client.call_tool("x").text == "done"


def test_a_result_that_comes_with_the_news_of_the_task_is_taken(kind):
    target = kind(server(tools_call=lambda request: begun("completed", result=DONE), tasks_get=None))
    with Client(target, timeout=10) as client:
        assert client.call_tool("x").text == "done"


def test_the_result_is_judged_like_any_other(kind):
    schema = {"name": "x", "inputSchema": {}, "outputSchema": {"type": "object", "required": ["a"]}}
    wrong = completed({"content": [], "structuredContent": {"b": 1}})
    scripts = server(wrong, tools_list=lambda request: {"tools": [schema]})
    with Client(kind(scripts), validation="strict") as client:
        client.list_tools()
        with pytest.raises(OutputInvalid):
            client.call_tool("x")
        with pytest.raises(OutputInvalid):
            client.start_task("x").result()
    with Client(kind(server(completed(text("no", isError=True))))) as client:
        with pytest.raises(ToolFailed):
            client.call_tool("x", raise_on_error=True)
        with pytest.raises(ToolFailed):
            client.start_task("x").result(raise_on_error=True)


def test_words_of_the_server_are_progress_each_once(kind):
    words = [state("working", statusMessage=each) for each in ("a", "a", "b")]
    seen = []
    with Client(kind(server(*words, completed()))) as client:
        client.call_tool("x", progress_callback=lambda *values: seen.append(values))
        assert seen == [(1, None, "a"), (2, None, "b")]


def test_answers_of_the_server_are_signs_of_life(kind, monkeypatch):
    ahead = [0.0]
    monkeypatch.setattr(deadline, "_now", lambda: time.monotonic() + ahead[0])

    def later(request):
        ahead[0] += 40  # seconds: more than half of the silence that is allowed
        return next(states)

    states = iter([state("working")] * 4 + [completed()])
    with Client(kind(server(tasks_get=later))) as client:
        assert client.call_tool("x").text == "done"


@pytest.mark.parametrize("notification", ["notifications/tasks", "notifications/tasks/status"])
def test_a_notification_has_the_task_looked_at_at_once(notification):
    target = DuplexTarget(server(tasks_get=lambda request: next(states)))
    states = iter([state("working", pollIntervalMs=60_000), completed()])
    with Client(target) as client:
        call = Background(client.call_tool, "x")
        target.now.expect("tasks/get")
        target.now.notify(notification, taskId="other", status="completed")
        target.now.notify(notification, **state("working"))
        assert call.result().text == "done"


def test_the_message_handler_gets_the_notification_as_its_model():
    target, seen = DuplexTarget(modern()), []
    with Client(target, message_handler=seen.append) as client:
        target.now.notify("notifications/tasks", **completed())
        target.now.sync()
        client._engine.router.worker.drain(client._deadline(5), 5)
    assert isinstance(seen[0], TaskNotification)
    assert (seen[0].params.task_id, seen[0].params.status) == ("t1", "completed")
    assert seen[0].params.result == DONE


# --- how often ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "least", "most"),
    [(2.0, 2.0, 2.2), (0.0, 0.1, 0.11), (59.0, 59.0, 60.0), (1e12, 60.0, 60.0), (math.inf, 60.0, 60.0)],
)
def test_the_pace_is_that_of_the_server_within_bounds(monkeypatch, asked, least, most):
    monkeypatch.setattr(_pace, "LEAST", 0.1)
    assert least <= _pace.Pace().next(asked) <= most


def test_without_a_wish_of_the_server_the_waits_grow(monkeypatch):
    for name, value in {"LEAST": 0.1, "_FIRST": 0.2, "_GROWN": 5.0}.items():
        monkeypatch.setattr(_pace, name, value)
    pace = _pace.Pace()
    waits = [pace.next(None) for _ in range(20)]
    assert 0.2 <= waits[0] <= 0.22
    assert 5.0 <= waits[-1] <= 5.5
    assert waits[0] < waits[4] < waits[8]


@pytest.mark.parametrize("interval", [-5, "soon", True, None, [1], 10**400])
def test_what_is_no_interval_is_none(kind, interval):
    with Client(kind(server(state("working", pollIntervalMs=interval), completed()))) as client:
        assert client.call_tool("x", timeout=10).text == "done"


# --- input -------------------------------------------------------------------------------------------


def test_what_the_task_asks_is_answered_once(kind):
    asked, params = [], []

    def answer(context, given):
        asked.append(context.request_id)
        params.append(given.message)
        return yes(context, given)

    other = {"method": "elicitation/create", "params": {"message": "!", "requestedSchema": {}}}
    both = asking(k=ELICIT, other=other)
    target = kind(server(asking(k=ELICIT), asking(k=ELICIT), both, both, completed()))
    with Client(target, elicitation_callback=answer) as client:
        assert client.call_tool("x").text == "done"
    assert (asked, params) == (["k", "other"], ["?", "!"])
    accepted = {"action": "accept", "content": {"ok": True}}
    assert [each["params"]["inputResponses"] for each in target.now.received("tasks/update")] == [
        {"k": accepted},
        {"other": accepted},
    ]


def test_a_task_that_asks_from_the_beginning_is_looked_at_at_once(kind):
    first = begun("input_required", pollIntervalMs=60_000)
    scripts = server(asking(k=ELICIT), completed(), tools_call=lambda request: first)
    with Client(kind(scripts), elicitation_callback=yes, timeout=10) as client:
        assert client.call_tool("x").text == "done"


def test_a_key_that_comes_again_for_something_else_ends_the_call_and_the_task(kind):
    other = {"method": "roots/list", "params": {}}
    target = kind(server(asking(k=ELICIT), asking(k=other)))
    roots = lambda context: types.ListRootsResult(roots=[])  # noqa: E731
    with Client(target, elicitation_callback=yes, list_roots_callback=roots) as client:
        with pytest.raises(InvalidResult, match="'k'"):
            client.call_tool("x")
        target.now.expect("tasks/cancel")
    assert len(target.now.received("tasks/update")) == 1


def test_input_that_nobody_can_give_ends_the_call_and_the_task(kind):
    target = kind(server(asking(k=ELICIT)))
    with Client(target) as client:
        with pytest.raises(InvalidResult, match="no callback"):
            client.call_tool("x")
        target.now.expect("tasks/cancel")


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_a_callback_raises_ends_the_call_and_the_task(kind, error):
    def fail(context, params):
        raise error("no")

    target = kind(server(asking(k=ELICIT)))
    with Client(target, elicitation_callback=fail) as client:
        with pytest.raises(error):
            client.call_tool("x")
        target.now.expect("tasks/cancel")


def test_a_refusal_by_a_callback_ends_the_call_and_the_task(kind):
    target = kind(server(asking(k=ELICIT)))
    refuse = lambda context, params: types.ErrorData(code=-1, message="not now")  # noqa: E731
    with Client(target, elicitation_callback=refuse) as client:
        with pytest.raises(RemoteError, match="not now"):
            client.call_tool("x")
        target.now.expect("tasks/cancel")


def test_a_task_that_asks_and_asks_is_given_up(kind):
    numbers = iter(range(1000))
    target = kind(server(tasks_get=lambda request: asking(**{f"k{next(numbers)}": ELICIT})))
    with Client(target, elicitation_callback=yes, limits=Limits(input_rounds=3)) as client:
        with pytest.raises(InputRoundsExceeded):
            client.call_tool("x")
        target.now.expect("tasks/cancel")
    assert len(target.now.received("tasks/update")) == 3


# --- the call ends before the task -------------------------------------------------------------------


def test_a_call_that_is_out_of_time_cancels_its_task(kind):
    target = kind(server(state("working")))
    with Client(target) as client:
        with pytest.raises(CallTimeout, match="task t1 of tool x was working") as caught:
            client.call_tool("x", timeout=0.05)
        assert (caught.value.request_sent, caught.value.timeout) == (True, 0.05)
        assert target.now.expect("tasks/cancel")["params"]["taskId"] == "t1"


def test_a_call_that_is_out_of_time_in_the_middle_of_a_wait_cancels_its_task(kind):
    target = kind(server(state("working", pollIntervalMs=60_000)))
    with Client(target) as client:
        with pytest.raises(CallTimeout, match="task t1 of tool x was working"):
            client.call_tool("x", timeout=0.05)
        target.now.expect("tasks/cancel")


def test_a_cancelled_call_cancels_its_task(kind):
    target, token = kind(server(state("working", pollIntervalMs=60_000))), CancelToken()
    with Client(target) as client:
        call = Background(client.call_tool, "x", cancel=token)
        target.now.expect("tasks/get")
        token.cancel("enough")
        with pytest.raises(CallCancelled, match="enough"):
            call.result()
        target.now.expect("tasks/cancel")


def test_a_cancellation_that_nobody_answers_holds_nobody_up(kind):
    target = kind(server(state("working"), tasks_cancel=lambda request: None))
    with Client(target) as client, pytest.raises(CallTimeout):
        client.call_tool("x", timeout=0.05)


# --- the task ends otherwise -------------------------------------------------------------------------


def test_a_failed_task_raises_its_error(kind):
    failed = state("failed", error={"code": -32000, "message": "no luck", "data": {"why": "x"}})
    target = kind(server(failed))
    with Client(target) as client, pytest.raises(RemoteError, match="no luck") as caught:
        client.call_tool("x")
    assert (caught.value.code, caught.value.data) == (-32000, {"why": "x"})
    assert not target.now.received("tasks/cancel")


@pytest.mark.parametrize("error", [None, "broken", {}, {"code": "x", "message": 7}])
def test_a_failure_without_an_error_is_one_all_the_same(kind, error):
    target = kind(server(state("failed", error=error, statusMessage="it broke")))
    with Client(target) as client, pytest.raises(RemoteError, match="it broke"):
        client.call_tool("x")


def test_a_cancelled_task_is_a_cancelled_call(kind):
    target = kind(server(state("cancelled", statusMessage="by the operator")))
    with Client(target) as client, pytest.raises(CallCancelled, match="by the operator") as caught:
        client.call_tool("x")
    assert caught.value.reason == "by the operator"
    assert not target.now.received("tasks/cancel")


def test_a_task_that_vanishes_is_named(kind):
    target = kind(server(state("working"), refusal(-32602, "Task has expired")))
    with Client(target) as client, pytest.raises(TaskGone, match=r"task t1.*Task has expired") as caught:
        client.call_tool("x")
    assert (caught.value.code, caught.value.task_id) == (-32602, "t1")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.task_id) == (str(caught.value), "t1")


def test_an_error_of_the_server_is_that_of_the_call(kind):
    with (
        Client(kind(server(refusal(-32603, "broken")))) as client,
        pytest.raises(RemoteError, match="broken"),
    ):
        client.call_tool("x")


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        (state("paused"), "unknown status 'paused'"),
        (state("Completed"), "unknown status"),
        ({"resultType": "complete", "taskId": "t1"}, "unknown status None"),
        (state("completed", taskId="t2"), "answered for t2"),
        (state("completed"), "without a result"),
        (state("completed", result="done"), "without a result"),
        (state("completed", result=asking(k=ELICIT) | {"resultType": "input_required"}), "without a result"),
        (state("input_required"), "without saying which"),
        (state("input_required", inputRequests=["k"]), "without saying which"),
        (asking(k={"method": "tools/call"}), "unknown input request"),
        (asking(k="?"), "unknown input request"),
        (state("completed", result={"content": 7}), "malformed"),
    ],
)
def test_what_makes_no_sense_is_refused(kind, wrong, match):
    scripts = server(wrong)
    with Client(kind(scripts), elicitation_callback=yes) as client, pytest.raises(InvalidResult, match=match):
        client.call_tool("x")


@pytest.mark.parametrize("task_id", [None, 7, ""])
def test_a_task_without_an_id_is_refused(kind, task_id):
    scripts = server(tools_call=lambda request: begun(taskId=task_id))
    with Client(kind(scripts)) as client:
        for verb in (client.call_tool, client.start_task):
            with pytest.raises(InvalidResult, match="without an id"):
                verb("x")


# --- the connection ----------------------------------------------------------------------------------


def status(code):
    return HTTPStatusError("no", status=code, request_sent=True)


def test_failures_of_the_connection_pass_while_the_task_goes_on():
    lost = ConnectionLost("gone", request_sent=True)
    states = in_turn(status(502), lost, state("working"), status(503), status(429), completed())
    target = PostTarget(server(tasks_get=states))
    with Client(target, retry=Retry(attempts=1)) as client:
        assert client.call_tool("x").text == "done"


@pytest.mark.parametrize("code", [502, 403])
def test_a_server_that_is_not_there_any_more_ends_the_call_and_names_the_task(code, monkeypatch):
    monkeypatch.setattr(recovery, "_LONGEST_OUTAGE", 0.02)
    target = PostTarget(server(state("working"), status(code)))
    with Client(target, retry=Retry(attempts=1)) as client:
        for waits in (lambda: client.call_tool("x"), lambda: client.task("t1").result()):
            with pytest.raises(
                HTTPStatusError, match=r"task t1.* was (working|not looked at) then"
            ) as caught:
                waits()
            assert (caught.value.request_sent, caught.value.task_id) == (True, "t1")
            assert pickle.loads(pickle.dumps(caught.value)).task_id == "t1"
    looks = len(target.now.received("tasks/get"))
    assert looks > 4 if code == 502 else looks == 3
    assert not target.now.received("tasks/cancel")


def test_a_server_that_is_away_for_a_while_is_asked_again_from_the_first_look_on():
    away = [ConnectFailed("nobody there")] * 10
    target = PostTarget(server(*away, state("working"), *away, completed()))
    with Client(target, retry=Retry(attempts=1)) as client:
        assert client.task("t1").result(timeout=10).text == "done"


def test_a_connection_that_is_lost_while_nobody_looks_is_opened_again():
    target = DuplexTarget(server(state("working", pollIntervalMs=20), completed()))
    with Client(target, timeout=10) as client:
        call = Background(client.call_tool, "x")
        target.now.expect("tasks/get")
        target.now.lose(ConnectionLost("gone"))
        assert call.result().text == "done"
    assert len(target.channels) == 2


def test_a_connection_that_cannot_be_opened_again_ends_the_call_at_once():
    target = DuplexTarget(server(state("working", pollIntervalMs=1), ConnectionLost("gone")))
    with ClientSession(target) as session:
        session.discover()
        with pytest.raises(ConnectionLost) as caught:
            session.call_tool("x")
        assert caught.value.task_id == "t1"


def test_ctrl_c_cancels_the_task():
    def interrupt(request):
        raise KeyboardInterrupt

    target = PostTarget(server(tasks_get=interrupt))
    with Client(target) as client:
        with pytest.raises(KeyboardInterrupt):
            client.call_tool("x")
        target.now.expect("tasks/cancel")


def test_an_answer_that_the_server_refuses_ends_the_call_and_the_task(kind):
    target = kind(server(asking(k=ELICIT), tasks_update=lambda request: refusal(-32603, "no answer")))
    with Client(target, elicitation_callback=yes) as client:
        with pytest.raises(RemoteError, match="no answer"):
            client.call_tool("x")
        target.now.expect("tasks/cancel")


@pytest.mark.parametrize("task_id", ["tä sk", "a\nb", "=?x?=", "  "])
def test_an_id_may_hold_anything(task_id):
    scripts = server({**completed(), "taskId": task_id}, tools_call=lambda request: begun(taskId=task_id))
    target = PostTarget(scripts)
    with Client(target) as client:
        assert client.call_tool("x").text == "done"
    (frame,) = [each for each in target.now.frames if each.method == "tasks/get"]
    assert frame.headers["Mcp-Name"].isascii()
    assert "\n" not in frame.headers["Mcp-Name"]
