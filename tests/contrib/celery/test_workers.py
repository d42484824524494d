"""Real workers with Redis: prefork and gevent, limits, retries, long tasks, questions, workers that die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from mcp_sync.testing import Fault, FaultPlan

from .conftest import HANGING

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.mark.parametrize("pool", ["prefork", "gevent"])
def test_workers_call_tools_and_end_before_their_limit(pool: str, sender: Any, worker: Any) -> None:
    with worker("-P", pool, "-c", "2") as running:
        sent = [sender.send("call", "echo", {"text": str(n)}) for n in range(6)]
        answers = [each.result for each in sent]
        assert [text for text, _ in answers] == [str(n) for n in range(6)]
        assert all(pid != running.process.pid for _, pid in answers) == (pool == "prefork")
        assert sender.send("slow").result == ["timeout", True]
        assert sender.send("unbound").result == 1


def test_a_long_tool_holds_no_worker_and_its_result_is_that_of_the_task(
    sender: Any, worker: Any, gate: Any
) -> None:
    with worker("-P", "prefork", "-c", "1"):
        sent = sender.send("long", "build")
        assert sent.until("PROGRESS")["info"]["message"] in ("at work", None)
        assert sender.send("call", "echo", {"text": "free"}).result[0] == "free"
        gate.opened.set()
        assert sent.result["content"][0]["text"] == "built"
    assert gate.calls == 1


@pytest.mark.parametrize(("tool", "state"), [("build", "PROGRESS"), ("publish", "INPUT_REQUIRED")])
def test_a_long_tool_is_cancelled_at_the_server(
    tool: str, state: str, sender: Any, worker: Any, fake: Any
) -> None:
    with worker("-P", "prefork", "-c", "1"):
        sent = sender.send("long", tool)
        sent.until(state)
        sender.ask("cancel", sent.id)
        while sent.look()["state"] == state:
            time.sleep(0.02)
        assert sent.until("FAILURE")["info"]["error"] == "CallCancelled"
    assert fake.count("tasks/cancel") == 1


@pytest.mark.parametrize("faults", [{"tasks/get": [None, Fault.stall("request")]}], indirect=True)
@pytest.mark.parametrize("is_lost", [False, True])
def test_a_long_tool_survives_the_worker_that_looks_after_it(
    is_lost: bool, sender: Any, worker: Any, gate: Any, faults: FaultPlan
) -> None:
    with worker("-P", "prefork", "-c", "1") as first:
        sent = sender.send("long", "build")
        if is_lost:
            faults.release()
            sent.until("PROGRESS")
        else:
            while not faults.met:  # It is killed in the middle of a look.
                sent.look()
        first.kill()
    gate.opened.set()
    if is_lost:
        # What a worker has taken from Redis, and not noted there, dies with it.
        sender.ask("forget messages")
        sender.ask("look again", sent.id)
    with worker("-P", "prefork", "-c", "1"):
        assert sent.result["content"][0]["text"] == "built"
    assert gate.calls == 1


@pytest.mark.parametrize(
    ("task", "tool", "results"),
    [("call", "greet", "json"), ("long", "publish", "json"), ("long", "publish", "pickle")],
    indirect=["results"],
)
def test_a_question_waits_and_another_worker_goes_on_with_the_answer(
    task: str, tool: str, results: str, sender: Any, worker: Any
) -> None:
    with worker("-P", "prefork", "-c", "1"):
        sent = sender.send(task, tool, {}) if task == "call" else sender.send(task, tool)
        asked = sent.until("INPUT_REQUIRED")["questions"]
    with worker("-P", "gevent", "-c", "1"):
        ((key, message),) = asked.items()
        assert message == "Who are you?"
        sent.answer({key: {"action": "accept", "content": {"name": "Ada"}}})
        said = sent.result["content"][0]["text"]
    assert said == ("Hello, Ada!" if task == "call" else "By Ada")


def test_a_worker_process_that_is_killed_amid_a_call_does_not_call_again(
    sender: Any, worker: Any, fake: Any
) -> None:
    with worker("-P", "prefork", "-c", "1"):
        child = sender.send("call", "echo", {"text": "x"}).result[1]
        sent = sender.send("slow")
        while fake.count("tools/call") < 2:
            sent.look()
        os.kill(child, signal.SIGKILL)
        assert "WorkerLostError" in sent.until("FAILURE")["info"]["error"]
        assert sender.send("call", "echo", {"text": "y"}).result[0] == "y"
    assert fake.count("tools/call") == 3


# In the middle of the call, and of the first look at what the server has made of it.
@pytest.mark.parametrize(
    "faults",
    [{"tools/call": [Fault.stall("answer")]}, {"tasks/get": [Fault.stall("request")]}],
    indirect=True,
)
def test_a_run_that_is_repeated_calls_no_tool_twice(
    sender: Any, worker: Any, gate: Any, faults: FaultPlan
) -> None:
    with worker("-P", "prefork", "-c", "1"):
        sent = sender.send("repeated", "build")
        while not faults.met:
            sent.look()
        ((method, _),) = faults.met
        assert gate.begun.wait(30)
        (first,) = sender.ask("processes")
        os.kill(first, signal.SIGKILL)
        if method == "tools/call":
            failed = sent.until("FAILURE")["info"]
            assert "may have begun its work" in failed["text"]
            assert (failed["error"], failed["has"]["request_sent"]) == ("ConnectionLost", None)
        else:
            gate.opened.set()
            assert sent.result["content"][0]["text"] == "built"
        assert [each == first for each in sender.ask("processes")] == [True, False]
    assert gate.calls == 1


@pytest.mark.parametrize(
    "faults", [{"tools/call": [Fault.http(503, headers={"Retry-After": "2"})]}], indirect=True
)
def test_a_busy_server_is_asked_again_when_it_has_said(sender: Any, worker: Any, fake: Any) -> None:
    with worker("-P", "gevent", "-c", "1"):
        began = time.monotonic()
        sent = sender.send("impatient", "echo", {"text": "x"})
        waiting = sent.until("RETRY")["info"]
        assert "HTTPStatusError" in waiting["is"]
        assert (waiting["has"]["status"], waiting["has"]["retry_after"]) == (503, 2)
        assert sent.result == "x"
        assert time.monotonic() - began >= 2
    assert fake.count("tools/call") == 1


@pytest.mark.parametrize("results", ["json", "pickle"], indirect=True)
def test_errors_keep_what_they_know_in_results(results: str, sender: Any, worker: Any) -> None:
    with worker("-P", "prefork", "-c", "1"):
        failed = sender.send("call", "nowhere", {}).until("FAILURE")["info"]
    assert (failed["error"], failed["is"]) == ("InvalidParams", ["InvalidParams", "RemoteError", "MCPError"])
    assert (failed["has"]["code"], failed["has"]["method"]) == (-32602, "tools/call")


def test_a_soft_limit_that_comes_amid_a_call_cancels_it_at_the_server(sender: Any, worker: Any) -> None:
    with worker("-P", "prefork", "-c", "1"):
        sent = sender.send("unbounded")
        cancelled = HANGING.get(timeout=60)
        assert sent.result == "limit"
        assert cancelled.wait(20)


def test_progress_of_a_tool_is_the_state_of_the_task(sender: Any, worker: Any, gate: Any) -> None:
    with worker("-P", "gevent", "-c", "1"):
        sent = sender.send("report")
        seen = sent.until("PROGRESS")["info"]
        assert (seen["progress"], seen["total"], seen["message"]) == (1, 2, "step 1")
        gate.opened.set()
        assert sent.result == "reported"


@pytest.mark.parametrize("task", ["long", "repeated"])
def test_progress_of_a_long_tool_that_becomes_no_task_of_the_server_is_the_state_of_the_task(
    task: str, sender: Any, worker: Any, gate: Any
) -> None:
    with worker("-P", "prefork", "-c", "1"):
        sent = sender.send(task, "report")
        while "progress" not in (seen := sent.until("PROGRESS")["info"]):
            time.sleep(0.02)
        assert (seen["progress"], seen["total"], seen["message"]) == (1, 2, "step 1")
        gate.opened.set()
        assert sent.result["content"][0]["text"] == "reported"


@pytest.mark.parametrize("tools", [["build"], ["build", "build"]])
def test_what_comes_after_long_tools_comes_when_they_have_ended(
    tools: list[str], sender: Any, worker: Any, gate: Any
) -> None:
    """In a chain, and in a chord; in a queue of their own."""
    with worker("-P", "prefork", "-c", "1", "-Q", "own"):
        last, *first = sender.chain(*tools, queue="own")
        for each in first:
            each.until("PROGRESS")
        assert last.look()["state"] == "PENDING"
        gate.opened.set()
        assert last.result == ["said", *["built"] * len(tools)]
    assert gate.calls == len(tools)


def test_what_comes_after_a_question_comes_when_it_was_answered(sender: Any, worker: Any) -> None:
    with worker("-P", "prefork", "-c", "1", "-Q", "own"):
        last, *first = sender.chain("publish", "publish", queue="own")
        for each, name in zip(first, ("Ada", "Bob")):
            ((key, _),) = each.until("INPUT_REQUIRED")["questions"].items()
            each.answer({key: {"action": "accept", "content": {"name": name}}})
        assert last.result == ["said", "By Ada", "By Bob"]


@pytest.mark.parametrize("pool", ["prefork", "gevent"])
def test_a_long_tool_survives_a_broker_that_is_away_for_a_while(
    pool: str, sender: Any, worker: Any, gate: Any, fake: Any, redis_server: Any
) -> None:
    with worker("-P", pool, "-c", "1") as running:
        sent = sender.send("long", "build")
        while fake.count("tasks/get") < 3:
            sent.look()
        redis_server.kill()
        running.wait_for("Connection to broker lost")
        time.sleep(5)  # Looks at the task fall into the time without Redis.
        redis_server.start()
        gate.opened.set()
        # A worker may die of it, at times, and be started anew by what looks after it.
        with worker("-P", pool, "-c", "1"):
            assert sent.result["content"][0]["text"] == "built"
    assert gate.calls == 1


@pytest.mark.parametrize(
    "faults",
    [{"tasks/update": [Fault.stall("request")]}, {"tasks/update": [Fault.stall("answer")]}],
    indirect=True,
)
def test_an_answer_survives_the_worker_that_brings_it(sender: Any, worker: Any, faults: FaultPlan) -> None:
    with worker("-P", "prefork", "-c", "1") as first:
        sent = sender.send("long", "publish")
        ((key, _),) = sent.until("INPUT_REQUIRED")["questions"].items()
        sent.answer({key: {"action": "accept", "content": {"name": "Ada"}}})
        while not faults.met:
            sent.look()
        first.kill()
    with worker("-P", "prefork", "-c", "1"):
        assert sent.result["content"][0]["text"] == "By Ada"


def test_of_answers_that_come_at_once_over_redis_one_counts(
    sender: Any, worker: Any, told: dict[str, str], fake: Any
) -> None:
    with worker("-P", "prefork", "-c", "1") as first:
        sent = sender.send("call", "greet", {})
        ((key, _),) = sent.until("INPUT_REQUIRED")["questions"].items()
        first.kill()  # Nobody goes on while they come.
    program = (
        "import sys, json; from contrib.celery import jobs; from mcp_sync.contrib import celery as c\n"
        "r = jobs.app.AsyncResult(sys.argv[1]); meta = r.backend.get_task_meta(r.id, cache=False)\n"
        "r.backend.get_task_meta = lambda *_, **__: meta\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "answer = {'action': 'accept', 'content': {'name': sys.argv[3]}}\n"
        "try: c.answer(r, {sys.argv[2]: answer}); print('won')\n"
        "except c.AlreadyAnswered: print('late')\n"
    )
    names, pipes = ("Ada", "Bob", "Eve"), {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    answering = [
        subprocess.Popen([sys.executable, "-c", program, sent.id, key, name], env=told, text=True, **pipes)
        for name in names
    ]
    for each in answering:
        assert each.stdout.readline() == "ready\n"
    for each in answering:
        each.stdin.write("\n")
        each.stdin.flush()
    said = {name: each.communicate(timeout=60)[0].strip() for name, each in zip(names, answering)}
    assert sorted(said.values()) == ["late", "late", "won"]
    winner = next(name for name, what in said.items() if what == "won")
    with worker("-P", "prefork", "-c", "1"):
        assert sent.result["content"][0]["text"] == f"Hello, {winner}!"
    assert fake.count("tools/call") == 2
