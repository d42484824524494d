"""Calls on threads of the client: their futures, and what ends them."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import gc
import os
import sys
import threading
import weakref

import pytest
from concurrency.striking import strike_at

from mcp_sync import CancelToken, Client, InMemory, Limits, types
from mcp_sync.errors import (
    CallCancelled,
    CallTimeout,
    ClientClosed,
    Forked,
    RemoteError,
    ToolFailed,
    UsageError,
)
from mcp_sync.testing import FakeServer, ToolContext

from .background import Background, collected, wait_until
from .scripted import DuplexTarget, PostTarget, modern, text

PATIENCE = 10


def adder():
    server = FakeServer()

    @server.tool()
    def add(a: int, b: int) -> int:
        return a + b

    return InMemory(server)


def test_a_submitted_call_is_a_future_of_the_standard_library():
    with Client(adder()) as client:
        calls = {client.submit(client.call_tool, "add", {"a": n, "b": 1}, timeout=5): n for n in range(50)}
        for call in concurrent.futures.as_completed(calls, PATIENCE):
            assert isinstance(call, concurrent.futures.Future)
            assert call.result().text == str(calls[call] + 1)
        assert concurrent.futures.wait(calls).done == set(calls)
        told = []
        next(iter(calls)).add_done_callback(told.append)
        assert told == [next(iter(calls))]


def test_what_a_call_raises_the_future_has():
    with Client(adder()) as client:
        assert isinstance(client.submit(client.get_prompt, "none").exception(PATIENCE), RemoteError)
        failing = client.submit(client.call_tool, "add", {"a": "x"}, raise_on_error=True)
        assert isinstance(failing.exception(PATIENCE), (ToolFailed, RemoteError))
        assert isinstance(client.submit(client.call_tool, 7).exception(PATIENCE), UsageError)


def test_a_method_that_iterates_gives_a_list_of_all():
    with Client(adder()) as client:
        assert [tool.name for tool in client.submit(client.tools).result(PATIENCE)] == ["add"]


@pytest.mark.parametrize("other", [print, "call_tool", Client.call_tool, lambda: None])
def test_only_methods_of_this_very_client_can_be_submitted(other):
    with Client(adder()) as client, pytest.raises(UsageError, match=r"client\.call_tool"):
        client.submit(other, "add")


def test_a_method_of_another_client_cannot_be_submitted():
    with Client(adder()) as client, Client(adder()) as other, pytest.raises(UsageError):
        client.submit(other.call_tool, "add")


@pytest.mark.parametrize("kind", [DuplexTarget, PostTarget])
def test_cancelling_ends_a_call_that_runs_at_once(kind):
    target = kind()
    with Client(target) as client:
        told = []
        call = client.submit(client.call_tool, "x")
        call.add_done_callback(told.append)
        waiter = Background(concurrent.futures.wait, [call])
        wait_until(lambda: target.now.received("tools/call"))
        assert call.running()
        assert call.cancel("no need")
        assert call.cancelled()
        assert told == [call]
        assert waiter.result().done == {call}
        with pytest.raises(concurrent.futures.CancelledError):
            call.result(0)
        assert call.cancel()
        assert list(concurrent.futures.as_completed([call], 0)) == [call]


def test_the_server_is_told_of_a_cancelled_call_with_the_reason():
    target = DuplexTarget()
    with Client(target) as client:
        call = client.submit(client.call_tool, "x")
        request = target.now.expect("tools/call")
        call.cancel("no need")
        told = target.now.expect("notifications/cancelled")
        assert told["params"] == {"requestId": request["id"], "reason": "no need"}


def test_a_token_that_was_given_cancels_as_well_and_serves_other_calls_too():
    target, token = DuplexTarget(), CancelToken()
    with Client(target) as client:
        first = client.submit(client.call_tool, "x", cancel=token)
        second = client.submit(client.call_tool, "x", cancel=token)
        wait_until(lambda: len(target.now.received("tools/call")) == 2)
        assert first.cancel()
        assert not second.done()
        token.cancel("all of them")
        error = second.exception(PATIENCE)
        assert isinstance(error, CallCancelled)
        assert error.reason == "all of them"
        late = client.submit(client.call_tool, "x", cancel=token).exception(PATIENCE)
        assert isinstance(late, CallCancelled)
        assert len(target.now.received("tools/call")) == 2


def test_a_token_keeps_nothing_of_the_calls_that_are_over():
    token = CancelToken()
    with Client(adder()) as client:
        for n in range(20):
            client.submit(client.call_tool, "add", {"a": n, "b": 1}, cancel=token).result(PATIENCE)
    wait_until(lambda: gc.collect() is not None and not token._followers)


def test_a_reason_is_a_string_and_a_call_that_has_ended_cannot_be_cancelled():
    with Client(adder()) as client:
        call = client.submit(client.call_tool, "add", {"a": 1, "b": 1})
        with pytest.raises(UsageError):
            call.cancel(7)
        assert call.result(PATIENCE).text == "2"
        assert not call.cancel()
        assert not call.cancelled()


def test_more_calls_than_threads_wait_and_can_be_cancelled_unsent():
    target = DuplexTarget()
    with Client(target, limits=Limits(submit_threads=2)) as client:
        calls = [client.submit(client.call_tool, "x") for _ in range(5)]
        wait_until(lambda: len(target.now.received("tools/call")) == 2)
        assert calls[3].cancel()
        requests = target.now.received("tools/call")
        for request in requests:
            target.now.answer(request, text("done"))
        wait_until(lambda: len(target.now.received("tools/call")) == 4)
        for request in target.now.received("tools/call")[2:]:
            target.now.answer(request, text("done"))
        for call in (calls[0], calls[1], calls[2], calls[4]):
            assert call.result(PATIENCE).text == "done"


def test_an_idle_client_has_no_threads_for_calls():
    with Client(adder()) as client:
        assert not submit_threads(client)
        client.submit(client.call_tool, "add", {"a": 1, "b": 1}).result(PATIENCE)
        wait_until(lambda: not submit_threads(client))
        assert client.submit(client.call_tool, "add", {"a": 1, "b": 1}).result(PATIENCE).text == "2"


def submit_threads(client):
    return [thread for thread in threading.enumerate() if thread.name == f"mcp_sync-{client.name}-submit"]


def test_closing_ends_the_calls_that_run_and_those_that_wait():
    target = DuplexTarget()
    client = Client(target, limits=Limits(submit_threads=2)).open()
    calls = [client.submit(client.call_tool, "x") for _ in range(5)]
    wait_until(lambda: len(target.now.received("tools/call")) == 2)
    client.close()
    for call in calls:
        assert isinstance(call.exception(PATIENCE), ClientClosed)
    assert not submit_threads(client)
    with pytest.raises(ClientClosed):
        client.submit(client.call_tool, "x")


def test_a_closed_client_takes_no_first_call_either():
    client = Client(adder())
    client.close()
    with pytest.raises(ClientClosed):
        client.submit(client.call_tool, "add")


def test_a_call_may_close_the_client_that_it_runs_on():
    client = Client(adder()).open()
    call = client.submit(client.close)
    assert concurrent.futures.wait([call], PATIENCE).done
    assert client.closed


def test_calls_see_the_context_variables_of_their_caller():
    variable = contextvars.ContextVar("variable", default="none")
    server, seen = FakeServer(), []

    @server.tool()
    def look() -> str:
        seen.append(variable.get())
        variable.set("changed")
        return variable.get()

    with Client(InMemory(server)) as client:
        variable.set("mine")
        client.submit(client.call_tool, "look").result(PATIENCE)
    assert seen == ["mine"]
    assert variable.get() == "mine"


def test_a_future_with_its_error_keeps_no_forgotten_client():
    client = Client(adder()).open()
    failed = client.submit(client.get_prompt, "none")
    done = client.submit(client.call_tool, "add", {"a": 1, "b": 1})
    assert isinstance(failed.exception(PATIENCE), RemoteError)
    assert done.result(PATIENCE).text == "2"
    reference = weakref.ref(client)
    del client
    assert collected(reference)
    assert "get_prompt" in [
        entry.name for entry in __import__("traceback").extract_tb(failed.exception().__traceback__)
    ]


def test_a_call_in_flight_keeps_its_client_until_its_end():
    target = DuplexTarget()
    client = Client(target).open()
    call = client.submit(client.call_tool, "x")
    request = target.now.expect("tools/call")
    reference = weakref.ref(client)
    del client
    gc.collect()
    assert reference() is not None
    target.now.answer(request, text("done"))
    assert call.result(PATIENCE).text == "done"
    assert collected(reference)


def test_asyncio_can_wait_for_a_call_and_cancel_it():
    target = DuplexTarget()

    async def main(client):
        call = client.submit(client.call_tool, "x")
        task = asyncio.wrap_future(call)
        while not target.now.received("tools/call"):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return call

    with Client(target) as client:
        assert asyncio.run(main(client)).cancelled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_in_a_forked_child_the_parents_calls_have_failed_and_new_ones_run():
    target = DuplexTarget()
    with Client(target) as client:
        call = client.submit(client.call_tool, "x")
        request = target.now.expect("tools/call")
        child = os.fork()
        if not child:
            code = 1
            try:
                if isinstance(call.exception(5), Forked):
                    fresh = Client(adder())
                    answer = fresh.submit(fresh.call_tool, "add", {"a": 1, "b": 1}).result(5)
                    code = 0 if answer.text == "2" else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        target.now.answer(request, text("done"))
        assert call.result(PATIENCE).text == "done"


def test_ending_and_cancelling_at_the_same_time_settle_a_call_once():
    with Client(adder()) as client:
        for _ in range(100):
            told = []
            call = client.submit(client.call_tool, "add", {"a": 1, "b": 1})
            call.add_done_callback(told.append)
            canceller = Background(call.cancel)
            concurrent.futures.wait([call], PATIENCE)
            assert canceller.result() == call.cancelled()
            wait_until(lambda told=told: told)
            assert len(told) == 1


@pytest.mark.skipif(sys.version_info < (3, 11), reason="signals are looked for at more points, unsafe ones")
def test_a_cancel_that_a_signal_handler_interrupts_can_be_repeated():
    target, number = DuplexTarget(), 1
    with Client(target) as client:
        while True:
            call = client.submit(client.call_tool, "x")
            wait_until(lambda count=number: len(target.now.received("tools/call")) == count)
            was_struck = strike_at(number, call.cancel)
            assert call.cancel()
            assert call.cancelled()
            wait_until(lambda count=number: len(target.now.received("notifications/cancelled")) == count)
            if not was_struck:
                break
            number += 1
    assert number > 5


# --- more calls than threads ---------------------------------------------------------------------------


def test_a_call_that_no_thread_is_free_for_in_time_ends_unsent():
    target = DuplexTarget()
    with Client(target, limits=Limits(submit_threads=1)) as client:
        first = client.submit(client.call_tool, "x")
        request = target.now.expect("tools/call")
        late = client.submit(client.call_tool, "late", timeout=0.05)
        other = client.submit(client.call_tool, "other", timeout=PATIENCE)
        error = late.exception(PATIENCE)
        assert isinstance(error, CallTimeout)
        assert (error.timeout, error.request_sent) == (0.05, False)
        assert "submit_threads" in str(error)
        target.now.answer(request, text("done"))
        assert first.result(PATIENCE).text == "done"
        target.now.answer(target.now.expect("tools/call", count=2)[1], text("done"))
        assert other.result(PATIENCE).text == "done"
        wait_until(lambda: not [each for each in threading.enumerate() if "submit-clock" in each.name])
    assert [each["params"]["name"] for each in target.now.received("tools/call")] == ["x", "other"]


def test_the_time_of_the_client_counts_while_a_call_waits_too():
    target = DuplexTarget()
    with Client(target, timeout=0.1, limits=Limits(submit_threads=1)).open(timeout=PATIENCE) as client:
        first = client.submit(client.call_tool, "x", timeout=None)
        request = target.now.expect("tools/call")
        error = client.submit(client.call_tool, "x").exception(PATIENCE)
        assert isinstance(error, CallTimeout)
        assert error.request_sent is False
        target.now.answer(request, text("done"))
        first.result(PATIENCE)


def test_what_a_call_has_waited_is_taken_off_its_time():
    target = DuplexTarget()
    with Client(target, limits=Limits(submit_threads=1)) as client:
        first = client.submit(client.call_tool, "x")
        request = target.now.expect("tools/call")
        second = client.submit(client.call_tool, "x", timeout=600)
        second._submitted -= 599.9
        target.now.answer(request, text("done"))
        first.result(PATIENCE)
        error = second.exception(PATIENCE)
        assert isinstance(error, CallTimeout)
        assert (error.timeout, error.request_sent) == (600, True)
        assert "waited for a thread" in str(error)


@pytest.mark.parametrize("queued", [0, 3])
def test_a_callback_may_wait_for_a_call_that_it_submits_while_all_threads_are_busy(queued):
    def answer(context, params):
        return types.ElicitResult(
            action="accept", content={"said": client.submit(client.call_tool, "inner").result(PATIENCE).text}
        )

    def call(request):
        params = request["params"]
        if params["name"] == "ask" and "inputResponses" not in params:
            gate.wait(PATIENCE)
            question = {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}}
            return {"resultType": "input_required", "inputRequests": {"k": question}, "requestState": "s"}
        return text(params["name"])

    gate = threading.Barrier(2)
    client = Client(
        PostTarget(modern(tools_call=call)), elicitation_callback=answer, limits=Limits(submit_threads=2)
    )
    with client:
        calls = [client.submit(client.call_tool, "ask") for _ in range(2 + 2 * queued)]
        assert [each.result(PATIENCE).text for each in calls] == ["ask"] * len(calls)


def test_what_is_done_at_the_end_of_a_call_may_wait_for_another_one():
    with Client(adder(), limits=Limits(submit_threads=1)) as client:
        seen, over = [], threading.Event()

        def go_on(call):
            seen.append(client.submit(client.call_tool, "add", {"a": 1, "b": 1}).result(PATIENCE).text)
            over.set()

        client.submit(client.call_tool, "add", {"a": 1, "b": 2}).add_done_callback(go_on)
        assert over.wait(PATIENCE)
        assert seen == ["2"]


# --- calls that wait for calls ----------------------------------------------------------------------------


def asking(**options):
    """Make a client whose tool ``ask`` asks something first, and which has one thread for calls."""

    def call(request):
        params = request["params"]
        if params["name"].startswith("ask") and "inputResponses" not in params:
            question = {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}}
            state = params["name"]
            return {"resultType": "input_required", "inputRequests": {"k": question}, "requestState": state}
        return text(params["name"])

    target = PostTarget(modern(tools_call=call))
    return Client(target, limits=Limits(submit_threads=1), **options)


def test_calls_may_wait_for_calls_as_deep_as_one_likes():
    left = list(range(30))

    def answer(context, params):
        inner = client.submit(client.call_tool, "ask" if left.pop() else "inner")
        return types.ElicitResult(action="accept", content={"said": inner.result(PATIENCE).text})

    with asking(elicitation_callback=answer) as client:
        assert client.submit(client.call_tool, "ask").result(PATIENCE).text == "ask"
        assert not left
        # As soon as nothing waits any more, there is no more than one.
        client.submit(client.call_tool, "x").result(PATIENCE)
        wait_until(lambda: len(submit_threads(client)) <= 1)


def test_no_more_calls_run_than_admitted_besides_those_that_wait():
    most, running, lock = 0, 0, threading.Lock()

    def run(context, params):
        nonlocal most, running
        if params.message == "leaf":
            with lock:
                running += 1
                most = max(most, running)
            pause.wait(0.005)
            with lock:
                running -= 1
            return types.ElicitResult(action="accept", content={})
        calls = [client.submit(client.call_tool, "leaf") for _ in range(40)]
        for call in calls:
            call.result(PATIENCE)
        return types.ElicitResult(action="accept", content={})

    def call(request):
        params = request["params"]
        if "inputResponses" not in params:
            asked = {"message": params["name"], "requestedSchema": {}}
            question = {"method": "elicitation/create", "params": asked}
            return {"resultType": "input_required", "inputRequests": {"k": question}, "requestState": "s"}
        return text(params["name"])

    pause = threading.Event()
    target = PostTarget(modern(tools_call=call))
    with Client(target, limits=Limits(submit_threads=2), elicitation_callback=run) as client:
        outer = [client.submit(client.call_tool, "outer") for _ in range(3)]
        for each in outer:
            assert each.result(PATIENCE).text == "outer"
    assert most <= 2


def test_a_callback_outside_of_the_calls_may_wait_for_one_while_they_wait_for_it():
    def answer(context, params):
        said = client.submit(client.call_tool, "echo", {"word": "inner"}).result(PATIENCE).text
        return types.ElicitResult(action="accept", content={"said": said})

    server = FakeServer()

    @server.tool()
    def echo(word: str) -> str:
        return word

    @server.tool()
    def ask(context: ToolContext) -> str:
        schema = {"type": "object", "properties": {"said": {"type": "string"}}}
        return str(context.elicit("?", schema)["content"]["said"])

    options = {"mode": "legacy", "limits": Limits(submit_threads=1), "elicitation_callback": answer}
    with server.serve_http() as endpoint, Client(endpoint.url, **options) as client:
        assert client.submit(client.call_tool, "ask").result(PATIENCE).text == "inner"
