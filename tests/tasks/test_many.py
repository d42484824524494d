"""Many tasks, and one thread that waits for them."""

from __future__ import annotations

import threading
import time

import pytest
from engine.background import Background
from engine.scripted import DuplexTarget, PostTarget, refusal, text

from mcp_sync import CancelToken, Client, Retry, Timeouts, types
from mcp_sync._concurrency import deadline
from mcp_sync._protocol import recovery
from mcp_sync.errors import (
    CallCancelled,
    CallTimeout,
    ClientClosed,
    ConnectFailed,
    HTTPStatusError,
    InvalidResult,
    RemoteError,
    UsageError,
)
from mcp_sync.tasks import TaskGone, _following, as_completed, wait_all

from .scripts import ELICIT, asking, experiment, server, state


@pytest.fixture(params=[DuplexTarget, PostTarget])
def kind(request):
    return request.param


class Crowd:
    """A server of tasks with ids, which end in the order that a test wants."""

    def __init__(self):
        self.ended = {}
        self.threads = set()

    def scripts(self, **more):
        return server(tasks_get=self.look, **more)

    def look(self, request):
        self.threads.add(threading.get_ident())
        task_id = request["params"]["taskId"]
        return {**state("working"), **self.ended.get(task_id, {}), "taskId": task_id}

    def end(self, *task_ids):
        for task_id in task_ids:
            self.ended[task_id] = state("completed", result=text(task_id))


def test_each_comes_when_it_has_ended(kind):
    crowd = Crowd()
    with Client(kind(crowd.scripts())) as client:
        handles = [client.task(each) for each in "abc"]
        crowd.end("b")
        found = as_completed(handles, timeout=10)
        assert next(found).id == "b"
        crowd.end("c")
        assert next(found).id == "c"
        crowd.end("a")
        assert [each.result().text for each in found] == ["a"]


def test_two_hundred_are_looked_at_by_one_thread():
    crowd = Crowd()
    ids = [f"t{number}" for number in range(200)]
    target = PostTarget(crowd.scripts())
    with Client(target) as client:
        client.send_ping()
        before = threading.active_count()
        waiting = Background(wait_all, [client.task(each) for each in ids])
        target.now.expect("tasks/get", count=400)
        assert threading.active_count() <= before + 1
        crowd.end(*ids)
        waiting.result()
    assert len(crowd.threads) == 1


def test_they_may_belong_to_several_clients_and_come_twice(kind):
    crowds, targets = [Crowd(), Crowd()], []
    for crowd in crowds:
        crowd.end("a")
        targets.append(kind(crowd.scripts()))
    with Client(targets[0]) as one, Client(targets[1]) as two:
        first = one.task("a")
        wait_all([first, first, two.task("a")], timeout=10)
        assert first.status().status == "completed"


def test_nothing_is_nothing_to_wait_for():
    assert list(as_completed([])) == []
    wait_all([], timeout=0)


def test_those_that_have_ended_are_not_looked_at(kind):
    crowd = Crowd()
    crowd.end("a")
    target = kind(crowd.scripts())
    with Client(target) as client:
        handle = client.task("a")
        handle.result()
        assert list(as_completed([handle])) == [handle]
    assert len(target.now.received("tasks/get")) == 1


def test_one_that_is_gone_has_ended(kind):
    with Client(kind(server(refusal(-32602, "gone")))) as client:
        (handle,) = as_completed([client.task("a")], timeout=10)
        with pytest.raises(TaskGone):
            handle.result()
        with pytest.raises(TaskGone):
            handle.status()


def test_questions_are_answered_by_the_callbacks(kind):
    yes = lambda context, params: types.ElicitResult(action="accept", content={})  # noqa: E731
    target = kind(server(asking(k=ELICIT), asking(k=ELICIT), state("completed", result=text("done"))))
    with Client(target, elicitation_callback=yes) as client:
        wait_all([client.task("t1")], timeout=10)
    assert len(target.now.received("tasks/update")) == 1


def test_one_that_asks_the_application_comes_with_its_questions(kind):
    with Client(kind(server(asking(k=ELICIT)))) as client:
        (handle,) = as_completed([client.start_task("x", on_input="raise")], timeout=10)
        assert set(handle.requests) == {"k"}


def test_waiting_that_is_out_of_time_leaves_them_alone(kind):
    crowd = Crowd()
    crowd.end("b")
    target = kind(crowd.scripts())
    with Client(target) as client:
        seen = []
        while not seen:  # Until the machine is quick enough to look at both in that time.
            with pytest.raises(CallTimeout) as caught:
                for handle in as_completed([client.task("a"), client.task("b")], timeout=0.1):
                    seen.append(handle.id)
        assert str(caught.value) == "1 of 2 tasks have not ended (a), within 0.1 s"
        assert caught.value.request_sent is True
        many = [client.task(f"t{number}") for number in range(12)]
        with pytest.raises(CallTimeout, match=r"^12 of 12 tasks have not ended \(t0, t1, .*, t9, \.\.\.\)"):
            wait_all(many, timeout=0.05)
    assert seen == ["b"]
    assert not target.now.received("tasks/cancel")


def test_time_that_runs_out_does_not_hide_why_the_last_look_failed():
    failures = []

    def look(request):
        if request["params"]["taskId"] == "a":
            return state("working", taskId="a")
        return failures.pop() if failures else None

    target = PostTarget(server(tasks_get=look))
    with Client(target, retry=Retry(attempts=1, backoff=0.01)) as client:
        failures.append(HTTPStatusError("503 Unavailable", status=503, request_sent=True))
        expected = (
            r"2 of 2 tasks have not ended \(a, b\), within 0\.5 s; of b the last look failed: 503 Unavail"
        )
        with pytest.raises(CallTimeout, match=expected) as caught:
            wait_all([client.task("a"), client.task("b")], timeout=0.5)
        assert isinstance(caught.value.__cause__, HTTPStatusError)
        failures.append(HTTPStatusError("503 Unavailable", status=503, request_sent=True))
        expected = "task b was not looked at then; the last look failed: 503 Unavailable"
        with pytest.raises(CallTimeout, match=expected) as caught:
            client.task("b").result(timeout=0.5)
        assert isinstance(caught.value.__cause__, HTTPStatusError)


def test_waiting_that_is_cancelled_leaves_them_alone(kind):
    target, token = kind(server(state("working", pollIntervalMs=60_000))), CancelToken()
    with Client(target) as client:
        waiting = Background(wait_all, [client.task("t1")], cancel=token)
        target.now.expect("tasks/get")
        token.cancel()
        with pytest.raises(CallCancelled, match=r"1 of 1 tasks have not ended \(t1\)"):
            waiting.result()
    assert not target.now.received("tasks/cancel")


def test_a_notification_has_its_task_looked_at_at_once():
    crowd = Crowd()
    target = DuplexTarget(crowd.scripts())
    crowd.ended = {each: {"pollIntervalMs": 60_000} for each in "ab"}
    with Client(target) as client:
        found = as_completed([client.task("a"), client.task("b")], timeout=10)
        waiting = Background(next, found)
        target.now.expect("tasks/get", count=2)
        crowd.end("b")
        target.now.notify("notifications/tasks", taskId="b")
        assert waiting.result().id == "b"
        found.close()
    assert len(target.now.received("tasks/get")) == 3


def test_a_loop_that_is_left_watches_no_longer(kind):
    with Client(kind(Crowd().scripts())) as client:
        found = as_completed([client.task("a")], timeout=0.05)
        with pytest.raises(CallTimeout):
            next(found)
        assert client._engine.router._watching == ()


@pytest.mark.parametrize(
    ("trouble", "error"),
    [
        (state("paused"), InvalidResult),
        (refusal(-32603, "broken"), RemoteError),
        (HTTPStatusError("no", status=500, request_sent=True), HTTPStatusError),
        (asking(k=ELICIT), ValueError),
    ],
)
def test_one_that_cannot_be_waited_for_comes_too_and_the_others_go_on(trouble, error, monkeypatch):
    def fail(context, params):
        raise ValueError("no answer")

    def look(request):
        ended = {**state("completed", result=text("done")), "taskId": request["params"]["taskId"]}
        return trouble if request["params"]["taskId"] == "t1" else ended

    monkeypatch.setattr(recovery, "_LONGEST_OUTAGE", 0.02)
    target = PostTarget(server(tasks_get=look))
    with Client(target, retry=Retry(attempts=1), elicitation_callback=fail) as client:
        handles = [client.task(each) for each in ("t1", "a", "b")]
        wait_all(handles, timeout=10)
        with pytest.raises(error):
            handles[0].result()
        looks = len(target.now.received("tasks/get"))
        assert [each.result().text for each in handles[1:]] == ["done", "done"]
        assert len(target.now.received("tasks/get")) == looks
        with pytest.raises(error):  # This time the server was asked again.
            handles[0].result(timeout=10)
        assert len(target.now.received("tasks/get")) > looks


def test_a_client_that_is_closed_does_not_hold_up_the_tasks_of_others():
    one, other, crowd = PostTarget(server(state("working"))), PostTarget(Crowd().scripts()), Crowd()
    other.scripts = crowd.scripts()
    with Client(one) as closed, Client(other) as client:
        first, second = closed.task("t1"), client.task("a")
        found = as_completed([first, second], timeout=10)
        waiting = Background(next, found)
        one.now.expect("tasks/get", count=2)
        closed.close()
        assert waiting.result() is first
        crowd.end("a")
        assert next(found) is second
        with pytest.raises(ClientClosed):
            first.result()


def test_one_of_2025_11_25_that_asks_does_not_hold_up_the_others(monkeypatch):
    monkeypatch.setattr(_following, "_SHARED_SILENCE", 0.01)

    def look(request):
        task_id = request["params"]["taskId"]
        return {**state("input_required" if task_id == "a" else "completed"), "taskId": task_id}

    def result(request):
        return None if request["params"]["taskId"] == "a" else text("done")

    target = PostTarget(experiment(tasks_get=look, tasks_result=result))
    with Client(target, mode="legacy") as client:
        found = as_completed([client.task(each) for each in "abc"], timeout=60)
        began = time.monotonic()
        assert [next(found).id, next(found).id] == ["b", "c"]
        assert time.monotonic() - began < _following._SILENCE
        found.close()


def test_failures_of_the_connection_pass():
    failed = ConnectFailed("nobody there")
    target = PostTarget(server(state("working"), failed, failed, state("completed", result=text("done"))))
    with Client(target) as client:
        wait_all([client.task("t1")], timeout=10)


@pytest.mark.parametrize(
    ("handles", "options"),
    [(["t1"], {}), (None, {}), ("t1", {}), (7, {}), ([], {"timeout": "1"}), ([], {"timeout": -1})],
)
def test_what_is_no_task_and_no_time_is_refused_at_once(handles, options):
    with pytest.raises(UsageError):
        as_completed(handles, **options)


def test_a_server_that_is_silent_does_not_hold_the_others_up_for_ever(kind):
    crowd = Crowd()
    crowd.end("b")
    silent, other = kind(server(tasks_get=None)), kind(crowd.scripts())
    with Client(silent, timeouts=Timeouts(silence=0.05)) as client, Client(other) as second:
        handles = [client.task("a"), second.task("b")]
        wait_all(handles)
        with pytest.raises(CallTimeout, match="silent"):
            handles[0].result()
        assert handles[1].result().text == "b"


def test_a_look_that_is_not_answered_is_given_up_for_the_sake_of_the_others(monkeypatch):
    monkeypatch.setattr(_following, "_SHARED_LOOK", 0.01)
    crowd = Crowd()
    crowd.end("b")
    silent, other = PostTarget(server(tasks_get=None)), PostTarget(crowd.scripts())
    with Client(silent) as client, Client(other) as second:
        found = as_completed([client.task("a"), second.task("b")], timeout=60)
        assert next(found).id == "b"
        found.close()


def test_a_slow_server_delays_its_own_tasks_alone(monkeypatch):
    monkeypatch.setattr(_following, "_SHARED_LOOK", 0.2)
    crowd = Crowd()
    crowd.end("b")
    silent, other = PostTarget(server(tasks_get=None)), PostTarget(crowd.scripts())
    with Client(silent) as client, Client(other) as second:
        handles = [*(client.task(f"a{number}") for number in range(6)), second.task("b")]
        found = as_completed(handles, timeout=60)
        assert next(found).id == "b"
        assert len(silent.now.received("tasks/get")) == 1
        found.close()


def test_what_the_caller_does_in_between_is_no_silence(kind, monkeypatch):
    ahead, crowd = [0.0], Crowd()
    monkeypatch.setattr(deadline, "_now", lambda: time.monotonic() + ahead[0])
    crowd.end("a", "b")
    with Client(kind(crowd.scripts())) as client:
        for _ in as_completed([client.task("a"), client.task("b")]):
            ahead[0] += 1000
