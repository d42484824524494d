"""One client and many threads: each gets what belongs to it, whatever the order of the answers."""

from __future__ import annotations

import random
import threading

import pytest
from engine.background import Background
from engine.scripted import DuplexTarget, PostTarget, legacy, modern, text

from mcp_sync import Client, InMemory
from mcp_sync.errors import CallTimeout, ConnectionLost
from mcp_sync.testing import FakeServer

THREADS, CALLS = 32, 50


class Shuffling:
    """Answers the requests of a duplex channel on a thread of its own, in random order, some too late."""

    def __init__(self, target, seed):
        self._target = target
        self._random = random.Random(seed)
        self._waiting = []
        self._arrived = threading.Condition()
        self._ended = False
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def take(self, request):
        """Script of ``tools/call``: note the request, answer later."""
        with self._arrived:
            self._waiting.append(request)
            self._arrived.notify()

    def _run(self):
        while True:
            with self._arrived:
                # A few at a time, so that there is an order to shuffle; but nobody waits for ever.
                self._arrived.wait_for(lambda: self._ended or len(self._waiting) >= 8, 0.002)
                batch, self._waiting = self._waiting, []
                if self._ended and not batch:
                    return
            self._random.shuffle(batch)
            for request in batch:
                if request["params"]["arguments"].get("late") is None:
                    self._target.now.answer(request, text(request["params"]["arguments"]["nonce"]))

    def answer_late(self):
        """Answer what was left out, now that nobody waits for it."""
        for request in self._target.now.received("tools/call"):
            if request["params"]["arguments"].get("late"):
                self._target.now.answer(request, text(request["params"]["arguments"]["nonce"]))

    def end(self):
        with self._arrived:
            self._ended = True
            self._arrived.notify()
        self.thread.join(10)


def in_threads(work, count=THREADS):
    barrier = threading.Barrier(count)

    def run(number):
        barrier.wait(10)
        return work(number)

    return [thread.result(50) for thread in [Background(run, number) for number in range(count)]]


@pytest.mark.parametrize("scripts", [modern(), legacy()], ids=["modern", "legacy"])
def test_every_thread_gets_its_own_answers_on_a_shared_stream(scripts, tiny_switches):
    target = DuplexTarget(scripts)
    shuffling = Shuffling(target, seed=1)
    target.scripts = {**scripts, "tools/call": shuffling.take}

    def work(number):
        outcomes = []
        for turn in range(CALLS):
            arguments = {"nonce": f"{number}-{turn}"}
            # Every tenth is answered when it is too late.
            late = turn % 10 == 9
            if late:
                arguments["late"] = True
            try:
                said = client.call_tool("echo", arguments, timeout=0.03 if late else 30).text
                outcomes.append(said == arguments["nonce"] and not late)
            except CallTimeout:
                outcomes.append(late)
        return all(outcomes)

    with Client(target) as client:
        assert all(in_threads(work))
        shuffling.answer_late()
        target.now.sync()
        assert client.call_tool("echo", {"nonce": "after"}).text == "after"
        ids = [message["id"] for message in target.now.sent if "id" in message]
        assert len(ids) == len(set(ids)) == THREADS * CALLS + len(ids) - THREADS * CALLS
        assert not client._engine._connection.calls
        cancelled = [
            message["params"]["requestId"] for message in target.now.received("notifications/cancelled")
        ]
        # On a busy machine the time of some is over before they are sent.
        calls = target.now.received("tools/call")
        late = [each["id"] for each in calls if "late" in each["params"]["arguments"]]
        assert sorted(cancelled) == sorted(late)
    shuffling.end()


def test_every_thread_gets_its_own_answers_where_each_reads_its_own(tiny_switches):
    target = PostTarget(modern(tools_call=lambda request: text(request["params"]["arguments"]["nonce"])))

    def work(number):
        return all(
            client.call_tool("echo", {"nonce": f"{number}-{turn}"}).text == f"{number}-{turn}"
            for turn in range(CALLS)
        )

    with Client(target) as client:
        assert all(in_threads(work))
        assert not client._engine._connection.calls


def test_every_thread_gets_its_own_progress(tiny_switches):
    def count(context, nonce: str, steps: int):
        for step in range(steps):
            context.progress(step, message=nonce)
        return nonce

    def work(number):
        for turn in range(10):
            nonce, heard = f"{number}-{turn}", []
            said = client.call_tool(
                "count",
                {"nonce": nonce, "steps": 5},
                progress_callback=lambda *values, heard=heard: heard.append(values),
            )
            assert said.text == nonce
            assert heard == [(float(step), None, nonce) for step in range(5)]
        return True

    with Client(InMemory(FakeServer([count]))) as client:
        assert all(in_threads(work, 16))


def test_threads_that_share_a_client_share_one_connection_also_while_it_opens_and_reopens(tiny_switches):
    target = DuplexTarget(modern(tools_call=lambda request: text(request["params"]["arguments"]["nonce"])))
    lost = threading.Event()

    def work(number):
        failures = 0
        for turn in range(CALLS):
            nonce = f"{number}-{turn}"
            if number == 0 and turn in (10, 30):
                target.now.lose(ConnectionLost("gone"))
                lost.set()
            try:
                assert client.call_tool("echo", {"nonce": nonce}).text == nonce
            except ConnectionLost:
                failures += 1
        return failures

    with Client(target) as client:
        failures = in_threads(work, 16)
        assert client.call_tool("echo", {"nonce": "after"}).text == "after"
    assert sum(failures) <= 2 * 16
    assert len(target.channels) == 3
    assert all(channel.closed.is_set() for channel in target.channels)
