"""Handles of tasks (2026-07-28): begun here, looked at, answered, cancelled, and finished anywhere."""

from __future__ import annotations

import json
import sys
import threading

import pytest
from engine.background import Background
from engine.scripted import DuplexTarget, PostTarget, modern, refusal, text

from mcp_sync import CancelToken, Client, types
from mcp_sync.errors import (
    AnswerInvalid,
    CallCancelled,
    CallTimeout,
    ConnectionLost,
    InputRequired,
    InvalidResult,
    RemoteError,
    UsageError,
)
from mcp_sync.tasks import InvalidHandle, TaskGone, TaskHandle, TaskState

from .scripts import DONE, ELICIT, asking, begun, completed, in_turn, server, state

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
WHO = {"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": NAME}}
ADA = {"action": "accept", "content": {"name": "Ada"}}


@pytest.fixture(params=[DuplexTarget, PostTarget])
def kind(request):
    return request.param


def yes(context, params):
    return types.ElicitResult(action="accept", content={"ok": True})


# --- the beginning -----------------------------------------------------------------------------------


def test_a_handle_is_there_as_soon_as_the_task_is(kind):
    target = kind(server(state("working"), completed()))
    with Client(target) as client:
        handle = client.start_task("x", {"a": 1}, meta={"trace": "t"})
        assert isinstance(handle, TaskHandle)
        assert (handle.id, handle.tool, handle.requests) == ("t1", "x", {})
        assert not target.now.received("tasks/get")
        assert target.now.received("tools/call")[0]["params"]["_meta"]["trace"] == "t"
        assert handle.status().status == "working"
        assert handle.result().text == "done"


def test_the_state_is_what_the_server_says(kind):
    said = state(
        "working",
        statusMessage="on it",
        createdAt="2026-01-01T00:00:00Z",
        lastUpdatedAt="x",
        pollIntervalMs=1500,
    )
    with Client(kind(server(said))) as client:
        found = client.start_task("x").status()
    raw = found.raw
    assert found == TaskState(
        "t1", "working", "on it", "2026-01-01T00:00:00Z", "x", ttl=60.0, poll_interval=1.5, raw=raw
    )
    assert not found.has_ended
    assert raw["statusMessage"] == "on it"


def test_an_answer_at_once_is_a_finished_handle(kind):
    target = kind(modern(tools_call=lambda request: DONE))
    with Client(target) as client:
        handle = client.start_task("x")
        before = len(target.now.sent)
        assert (handle.id, handle.tool, handle.requests) == ("", "x", {})
        assert handle.status().status == "completed"
        assert handle.result().text == handle.result().text == "done"
        handle.cancel()
        with pytest.raises(UsageError, match="nothing"):
            handle.update({"k": {"action": "cancel"}})
        again = client.task(json.dumps(handle.to_json()))
        assert again.result().text == "done"
        assert len(target.now.sent) == before


def test_an_answer_at_once_that_is_none_is_refused(kind):
    scripts = modern(tools_call=lambda request: {"resultType": "complete", "content": 7})
    with Client(kind(scripts)) as client, pytest.raises(InvalidResult, match="malformed"):
        client.start_task("x")


def test_a_task_whose_id_could_not_be_sent_back_is_refused(kind):
    scripts = server(completed(), tools_call=lambda request: {**begun(), "taskId": "t\ud800"})
    with Client(kind(scripts)) as client, pytest.raises(InvalidResult, match="id of the task is no text"):
        client.start_task("x")


def test_a_question_under_a_key_that_could_not_be_sent_back_is_refused(kind):
    target = kind(server(asking(**{"k\ud800": ELICIT})))
    with Client(target, elicitation_callback=yes) as client:
        with pytest.raises(InvalidResult, match="which is no text"):
            client.call_tool("x")
        assert not target.now.received("tasks/update")


def test_questions_before_the_task_are_answered_as_ever(kind):
    asked = {"resultType": "input_required", "inputRequests": {"k": ELICIT}}
    target = kind(server(completed(), tools_call=in_turn(asked, begun())))
    with Client(target, elicitation_callback=yes) as client:
        assert client.start_task("x").id == "t1"


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"name": 7}, "name of a tool"),
        ({"name": "x", "arguments": 7}, "arguments"),
        ({"name": "x", "ttl": -1}, "ttl"),
        ({"name": "x", "ttl": "1"}, "ttl"),
        ({"name": "x", "on_input": "ask"}, "on_input"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_sent(arguments, match):
    target = DuplexTarget(server(completed()))
    with Client(target) as client:
        with pytest.raises(UsageError, match=match):
            client.start_task(**arguments)
        assert not target.now.received("tools/call")


# --- the result --------------------------------------------------------------------------------------


def test_the_result_can_be_had_any_number_of_times_with_one_request(kind):
    target = kind(server(completed(), refusal(-32602, "gone")))
    with Client(target) as client:
        handle = client.start_task("x")
        assert handle.result().text == handle.result().text == "done"
        assert handle.status().status == "completed"
    assert len(target.now.received("tasks/get")) == 1


def test_waiting_that_is_out_of_time_leaves_the_task_alone(kind):
    target = kind(server(tasks_get=lambda request: states[0]))
    states = [state("working")]
    with Client(target) as client:
        handle = client.start_task("x")
        with pytest.raises(CallTimeout, match="task t1") as caught:
            handle.result(timeout=0.05)
        assert caught.value.request_sent is True
        states[0] = completed()
        assert handle.result().text == "done"
    assert not target.now.received("tasks/cancel")


def test_waiting_that_is_cancelled_leaves_the_task_alone(kind):
    target, token = kind(server(state("working", pollIntervalMs=60_000))), CancelToken()
    with Client(target) as client:
        waiting = Background(client.start_task("x").result, cancel=token)
        target.now.expect("tasks/get")
        token.cancel("enough")
        with pytest.raises(CallCancelled, match="enough"):
            waiting.result()
    assert not target.now.received("tasks/cancel")


def test_a_closed_client_wakes_who_waits_for_a_task(kind):
    target = kind(server(state("working", pollIntervalMs=60_000)))
    with Client(target) as client:
        waiting = Background(client.start_task("x").result)
        target.now.expect("tasks/get")
        client.close()
        with pytest.raises(UsageError, match="closed"):
            waiting.result()


@pytest.mark.parametrize(
    ("last", "error"),
    [
        (state("failed", error={"code": -1, "message": "no"}), RemoteError),
        (state("cancelled"), CallCancelled),
        (refusal(-32602, "gone"), TaskGone),
    ],
)
def test_how_it_ended_is_remembered(kind, last, error):
    target = kind(server(last, completed()))
    with Client(target) as client:
        handle = client.start_task("x")
        for _ in range(2):
            with pytest.raises(error):
                handle.result()
    assert len(target.now.received("tasks/get")) == 1


def test_any_number_of_threads_may_wait_and_each_request_is_answered_once(kind):
    asked, barrier = [], threading.Barrier(5)

    def answer(context, params):
        asked.append(context.request_id)
        return yes(context, params)

    target = kind(server(tasks_get=lambda request: states[0]))
    states = [asking(k=ELICIT, other=ELICIT)]
    with Client(target, elicitation_callback=answer) as client:
        handle = client.start_task("x")

        def wait():
            barrier.wait(10)
            return handle.result().text

        waiting = [Background(wait) for _ in range(4)]
        barrier.wait(10)
        target.now.expect("tasks/update")
        target.now.expect("tasks/get", count=12)
        states[0] = completed()
        assert [each.result() for each in waiting] == ["done"] * 4
    assert asked == ["k", "other"]


# --- input -------------------------------------------------------------------------------------------


def test_the_application_may_answer_by_itself(kind):
    target = kind(server(asking(who=WHO, k=ELICIT), asking(k=ELICIT), completed()))
    with Client(target) as client:
        handle = client.start_task("x", on_input="raise")
        with pytest.raises(InputRequired) as caught:
            handle.result()
        assert set(caught.value.requests) == set(handle.requests) == {"who", "k"}
        assert isinstance(handle.requests["who"].params, types.ElicitRequestFormParams)
        handle.update({"who": types.ElicitResult(action="accept", content={"name": "Ada"})})
        assert set(handle.requests) == {"k"}
        with pytest.raises(InputRequired):
            handle.result()
        handle.update({"k": {"action": "decline"}})
        assert handle.result().text == "done"
    sent = [each["params"]["inputResponses"] for each in target.now.received("tasks/update")]
    assert sent == [{"who": ADA}, {"k": {"action": "decline"}}]


@pytest.mark.parametrize("method", ["tools/call", "tasks/get", "tasks/update"])
def test_who_answers_by_itself_declares_that_it_can(kind, method):
    target = kind(server(asking(who=WHO), completed()))
    with Client(target) as client:
        handle = client.start_task("x", on_input="raise")
        handle.status()
        handle.update({"who": ADA})
    meta = target.now.received(method)[0]["params"]["_meta"]
    declared = meta["io.modelcontextprotocol/clientCapabilities"]
    assert declared["elicitation"] == {"form": {}, "url": {}}


def test_an_update_looks_at_the_task_if_it_has_not_been_looked_at(kind):
    target = kind(server(asking(who=WHO)))
    with Client(target) as client:
        client.task("t1").update({"who": ADA})
    assert len(target.now.received("tasks/update")) == 1


@pytest.mark.parametrize(
    ("answers", "match"),
    [
        ({}, "answers are for nothing"),
        ({"other": ADA}, "asks for 'who', and the answers are for .'other'"),
        ({"who": ADA, "other": ADA}, "'other'"),
        ({"who": 7}, "'who'"),
        (7, "answers"),
    ],
)
def test_answers_to_what_was_not_asked_are_not_sent(kind, answers, match):
    target = kind(server(asking(who=WHO)))
    with Client(target) as client, pytest.raises(UsageError, match=match):
        client.start_task("x").update(answers)
    assert not target.now.received("tasks/update")


def test_an_answer_that_does_not_fit_its_form_is_not_sent_and_may_be_mended(kind):
    target = kind(server(asking(who=WHO)))
    with Client(target) as client:
        handle = client.start_task("x")
        with pytest.raises(AnswerInvalid):
            handle.update({"who": {"action": "accept", "content": {"name": 7}}})
        handle.update({"who": ADA})
    assert len(target.now.received("tasks/update")) == 1


def test_nothing_is_answered_twice_not_even_elsewhere(kind):
    target = kind(server(asking(who=WHO)))
    with Client(target) as client:
        handle = client.start_task("x")
        handle.update({"who": ADA})
        for again in (handle, client.task(handle.to_json())):
            with pytest.raises(UsageError, match="asks for nothing"):
                again.update({"who": ADA})
            assert again.status().input_requests
            assert not again.requests
    assert len(target.now.received("tasks/update")) == 1


def test_an_answer_that_the_server_refused_may_be_given_again(kind):
    updates = in_turn(refusal(-32603, "busy"), {"resultType": "complete"})
    target = kind(server(asking(who=WHO), tasks_update=updates))
    with Client(target) as client:
        handle = client.start_task("x")
        with pytest.raises(RemoteError, match="busy"):
            handle.update({"who": ADA})
        handle.update({"who": ADA})


def test_an_answer_that_may_have_arrived_is_not_given_again():
    lost = ConnectionLost("gone", request_sent=True)
    target = PostTarget(server(asking(who=WHO), tasks_update=lambda request: lost))
    with Client(target) as client:
        handle = client.start_task("x")
        with pytest.raises(ConnectionLost):
            handle.update({"who": ADA})
        with pytest.raises(UsageError, match="asks for nothing"):
            handle.update({"who": ADA})
    assert len(target.now.received("tasks/update")) == 1


def test_a_key_that_stands_for_something_else_is_an_error_in_another_process_too(kind):
    target = kind(server(asking(who=WHO), asking(who=ELICIT)))
    with Client(target) as client:
        handle = client.start_task("x")
        handle.update({"who": ADA})
        later = client.task(handle.to_json())
        with pytest.raises(InvalidResult, match="'who'"):
            later.result()


# --- a call that pauses ------------------------------------------------------------------------------


def test_a_call_that_has_become_a_task_can_be_resumed(kind):
    target = kind(server(asking(who=WHO), asking(who=WHO), completed()))
    with Client(target) as client:
        with pytest.raises(InputRequired) as caught:
            client.call_tool("x", {"a": 1}, on_input="raise")
        assert not target.now.received("tasks/cancel")
        envelope = json.dumps(caught.value.to_json(key="secret"))
        assert client.resume(envelope, {"who": ADA}, key="secret").text == "done"
    assert len(target.now.received("tools/call")) == 1
    (update,) = target.now.received("tasks/update")
    assert update["params"]["inputResponses"] == {"who": ADA}


def test_what_was_answered_meanwhile_is_not_answered_by_a_resumption(kind):
    target = kind(server(asking(who=WHO), state("working")))
    with Client(target) as client:
        with pytest.raises(InputRequired) as caught:
            client.call_tool("x", on_input="raise")
        with pytest.raises(UsageError, match="not ask that any more"):
            client.resume(caught.value, {"who": ADA})
    assert not target.now.received("tasks/update")
    assert not target.now.received("tasks/cancel")


def test_a_resumed_call_that_is_out_of_time_cancels_its_task(kind):
    target = kind(server(asking(who=WHO)))
    with Client(target) as client:
        with pytest.raises(InputRequired) as caught:
            client.call_tool("x", on_input="raise")
        with pytest.raises(CallTimeout):
            client.resume(caught.value, {"who": ADA}, timeout=0.05)
        target.now.expect("tasks/cancel")


# --- the end -----------------------------------------------------------------------------------------


def test_a_task_can_be_cancelled(kind):
    target = kind(server(state("cancelled")))
    with Client(target) as client:
        handle = client.start_task("x")
        handle.cancel()
        with pytest.raises(CallCancelled):
            handle.result()
        handle.cancel()
    assert [each["params"]["taskId"] for each in target.now.received("tasks/cancel")] == ["t1"]


def test_cancelling_what_the_server_does_not_know_says_so(kind):
    gone = lambda request: refusal(-32602, "no such task")  # noqa: E731
    with Client(kind(server(tasks_get=gone, tasks_cancel=gone))) as client, pytest.raises(TaskGone):
        client.task("t1").cancel()


def test_a_refusal_to_cancel_what_goes_on_is_an_error(kind):
    scripts = server(state("working"), tasks_cancel=lambda request: refusal(-32602, "never"))
    with Client(kind(scripts)) as client, pytest.raises(RemoteError, match="never"):
        client.task("t1").cancel()


# --- elsewhere ---------------------------------------------------------------------------------------


def test_a_task_is_taken_up_by_its_handle_or_by_its_id(kind):
    target = kind(server(completed(text("done", structuredContent={"a": 1}))))
    with Client(target) as client:
        kept = client.start_task("x").to_json()
    with Client(target) as client:
        for task in (kept, json.dumps(kept), "t1"):
            handle = client.task(task)
            assert handle.result().structured_content == {"a": 1}
        assert client.task(kept).tool == "x"


def test_headers_go_with_all_requests_of_a_handle_and_are_kept_nowhere():
    target = PostTarget(server(asking(who=WHO)))
    with Client(target) as client:
        handle = client.start_task("x", headers={"X-Token": "secret"})
        handle.status()
        handle.update({"who": ADA})
        handle.cancel()
        assert "secret" not in json.dumps(handle.to_json()) + repr(handle)
        client.task("t1", headers={"X-Token": "other"}).status()
    sent = [frame.headers.get("X-Token") for frame in target.now.frames if frame.method.startswith("t")]
    assert sent == ["secret"] * 4 + ["other"]


def test_a_handle_says_what_it_is():
    with Client(DuplexTarget(server(completed()))) as client:
        handle = client.start_task("x")
        assert repr(handle) == "<TaskHandle t1 of tool x: working>"
        handle.result()
        assert repr(handle) == "<TaskHandle t1 of tool x: completed>"
        assert repr(client.task("t2")) == "<TaskHandle t2 of tool ?: not asked yet>"


def changed(**more):
    with Client(DuplexTarget(server(completed()))) as client:
        return {**client.start_task("x").to_json(), **more}


@pytest.mark.parametrize(
    ("handle", "reason"),
    [
        (7, "malformed"),
        ("{", "malformed"),
        ('{"a": 1}', "malformed"),
        ([], "malformed"),
        ({"version": 2}, "version"),
        ({"version": None}, "version"),
        ({"id": 7}, "malformed"),
        ({"id": ""}, "malformed"),
        ({"tool": None}, "malformed"),
        ({"asked": {"k": 7}}, "malformed"),
        ({"asked": []}, "malformed"),
        ({"on_input": "x"}, "malformed"),
        ({"result": 7}, "malformed"),
        ({"server": "x"}, "malformed"),
        ({"principal": "ada"}, "principal"),
        ({}, "server"),
    ],
)
def test_what_is_no_handle_for_this_client_is_refused(handle, reason):
    target = DuplexTarget(server(completed()))
    with Client(target) as client:
        if isinstance(handle, dict):
            mine = client.start_task("x").to_json()
            handle = {**mine, **handle, **({"server": {"key": "another"}} if reason == "server" else {})}
        with pytest.raises(InvalidHandle) as caught:
            client.task(handle)
    assert caught.value.reason == reason


@pytest.mark.parametrize("task", ["", b"t1", None])
def test_what_is_no_id_is_refused(task):
    with Client(DuplexTarget(server(completed()))) as client, pytest.raises(UsageError):
        client.task(task)


def test_a_refused_handle_names_both_servers_and_none_of_their_paths():
    kept = changed(server={"key": "another", "name": "https://b.example:443"})
    client = Client("http://a.example/secret/mcp")
    with pytest.raises(InvalidHandle, match=r"https://b.example:443.*http://a.example:80") as caught:
        client.task(kept)
    client.close()
    assert "secret" not in str(caught.value)


def test_of_many_threads_with_an_answer_one_is_taken():
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        target = PostTarget(server(asking(who=WHO)))
        with Client(target) as client:
            for _ in range(20):
                handle, barrier = client.start_task("x"), threading.Barrier(4)
                before = len(target.now.received("tasks/update"))

                def answer(handle=handle, barrier=barrier):
                    barrier.wait(10)
                    handle.update({"who": ADA})

                errors = [each.error() for each in [Background(answer) for _ in range(4)]]
                assert sum(error is None for error in errors) == 1
                assert all(error is None or isinstance(error, UsageError) for error in errors)
                assert len(target.now.received("tasks/update")) == before + 1
    finally:
        sys.setswitchinterval(usual)


def test_an_answer_to_a_task_that_is_gone_says_so(kind):
    gone = refusal(-32602, "no such task")
    with Client(kind(server(asking(who=WHO), gone, tasks_update=lambda request: gone))) as client:
        handle = client.start_task("x")
        with pytest.raises(TaskGone):
            handle.update({"who": ADA})


@pytest.mark.parametrize("task", ["\ud800", "a\udfffb"])
def test_an_id_that_cannot_be_sent_is_refused_at_once(kind, task):
    with Client(kind(server(state("working")))) as client, pytest.raises(UsageError, match="UTF-8"):
        client.task(task)


def test_a_handle_is_shown_on_one_line(kind):
    with Client(kind(server(state("working")))) as client:
        assert repr(client.task("a\nb")) == r"<TaskHandle a\nb of tool ?: not asked yet>"


def test_who_waits_for_a_task_that_asks_the_application_is_told_how_to_answer(kind):
    with Client(kind(server(asking(k=ELICIT)))) as client:
        handle = client.start_task("x", on_input="raise")
        with pytest.raises(InputRequired, match=r"task t1 of tool x.*update\(\)") as caught:
            handle.result()
        assert caught.value.task_id == "t1"


def test_a_task_that_was_over_before_it_was_told_of_is_looked_at(kind):
    over = begun("completed", pollIntervalMs=60_000)
    with Client(kind(server(completed(), tools_call=lambda request: over)), timeout=10) as client:
        assert client.start_task("x").result().text == "done"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (refusal(-32602, "no such task"), TaskGone),
        (state("working", taskId="another"), InvalidResult),
        (state("paused", taskId="\x1b[2J\n" + "y" * 100_000), InvalidResult),
        (
            state("cancelled", taskId="\x1b[2J\n" + "y" * 100_000, statusMessage="\x1b[2J" * 9999),
            CallCancelled,
        ),
        (state("completed", taskId="\x1b[2J\n" + "y" * 100_000), InvalidResult),
    ],
)
def test_no_id_that_a_server_gave_makes_an_error_long_or_hides_in_it(answer, kind):
    task_id = "\x1b[2J\n" + "y" * 100_000
    with Client(PostTarget(server(answer))) as client:
        handle = client.task(task_id)
        with pytest.raises(kind) as caught:
            handle.result()
        assert caught.value.task_id == task_id
        for words in (str(caught.value), repr(handle)):
            assert words.isprintable()
            assert r"\x1b[2J\ny" in words
            assert len(words) < 2000
        (asked,) = [each for each in client._engine.plan.target.now.sent if each["method"] == "tasks/get"]
        assert asked["params"]["taskId"] == task_id
