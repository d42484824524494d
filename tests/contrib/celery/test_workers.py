"""Real workers with Redis: prefork and gevent, limits, retries, long tasks, questions, workers that die."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.mark.parametrize("pool", ["prefork", "gevent"])
def test_workers_call_tools_and_end_before_their_limit(pool: str, sender: Any, worker: Any) -> None:
    with worker("-P", pool, "-c", "2") as running:
        sent = [sender.send("call", "echo", {"text": str(n)}) for n in range(6)]
        answers = [each.result for each in sent]
        assert [text for text, _ in answers] == [str(n) for n in range(6)]
        assert all(pid != running.process.pid for _, pid in answers) == (pool == "prefork")
        assert sender.send("report").result == "reported"
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


def test_a_long_tool_survives_the_worker_that_looks_after_it(sender: Any, worker: Any, gate: Any) -> None:
    with worker("-P", "prefork", "-c", "1") as first:
        sent = sender.send("long", "build")
        sent.until("PROGRESS")
        first.kill()
    gate.opened.set()
    with worker("-P", "prefork", "-c", "1"):
        assert sent.result["content"][0]["text"] == "built"
    assert gate.calls == 1


@pytest.mark.parametrize(("task", "tool"), [("call", "greet"), ("long", "publish")])
def test_a_question_waits_and_another_worker_goes_on_with_the_answer(
    task: str, tool: str, sender: Any, worker: Any
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
