"""What the server asks of the client on revisions with a handshake: always answered, and never in the way."""

from __future__ import annotations

import threading

import pytest

from mcp_sync import Client, Limits, Timeouts, types
from mcp_sync.errors import ConnectionLost, ProtocolError

from .background import Background, wait_until
from .scripted import DuplexTarget, PostTarget, legacy, text

ROOTS = types.ListRootsResult(roots=[types.Root(uri="file:///work", name="work")])
SAMPLE = {"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}], "maxTokens": 5}
ELICIT = {"message": "name?", "requestedSchema": {"type": "object", "properties": {}}}


def asking(request_id, method, params=None):
    message = {"jsonrpc": "2.0", "id": request_id, "method": method}
    return message if params is None else {**message, "params": params}


def opened(**callbacks):
    target = DuplexTarget(legacy())
    return Client(target, mode="legacy", **callbacks).open(), target


def answer_to(target, count=1):
    return target.now.expect(None, count)


# --- ping ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("request_id", ["srv-1", 7, 0, "", -3, "7", "\u00e9\u2028"])
def test_a_ping_is_answered_with_the_same_id_while_the_client_is_idle(request_id):
    client, target = opened()
    target.now.say(asking(request_id, "ping"))
    answer = answer_to(target)
    assert answer == {"jsonrpc": "2.0", "id": request_id, "result": {}}
    assert type(answer["id"]) is type(request_id)
    client.close()


def test_a_ping_is_answered_during_a_call():
    client, target = opened()
    call = Background(client.call_tool, "x")
    request = target.now.expect("tools/call")
    target.now.say(asking("p", "ping", {}))
    assert answer_to(target)["id"] == "p"
    target.now.answer(request, text("done"))
    assert call.result().text == "done"
    client.close()


def test_a_ping_is_answered_while_every_callback_is_busy():
    entered, leave = [], threading.Event()

    def busy(*args):
        entered.append(args)
        assert leave.wait(10)
        return ROOTS

    client, target = opened(message_handler=busy, logging_callback=busy, list_roots_callback=busy)
    target.now.notify("notifications/message", level="info", data=1)
    for number in range(6):
        target.now.say(asking(number, "roots/list"))
    wait_until(lambda: len(entered) >= 5)
    target.now.say(asking("p", "ping"))
    assert answer_to(target) == {"jsonrpc": "2.0", "id": "p", "result": {}}
    leave.set()
    client.close()


def test_a_ping_is_answered_before_the_handshake_is_done():
    target = DuplexTarget({})
    opening = Background(Client(target, mode="legacy").open)
    wait_until(lambda: target.channels)
    greeting = target.now.expect("initialize")
    target.now.say(asking("early", "ping"))
    assert answer_to(target) == {"jsonrpc": "2.0", "id": "early", "result": {}}
    target.now.answer(greeting, legacy()["initialize"](greeting))
    opening.result().close()


def test_a_ping_is_answered_where_sending_blocks():
    target = DuplexTarget(legacy())
    client = Client(target, mode="legacy").open()
    target.now.post = lambda frame: False
    leave, send = threading.Event(), target.now.send

    def slow(frame, deadline):
        assert leave.wait(10)
        send(frame, deadline)

    target.now.send = slow
    target.now.say(asking("p", "ping"))
    target.now.sync()
    call = Background(client.call_tool, "x")
    target.now.answer(target.now.expect("tools/call"), text("done"))
    assert call.result().text == "done"
    leave.set()
    assert answer_to(target)["id"] == "p"
    client.close()


# --- requests with a callback ----------------------------------------------------------------------------


def test_sampling_elicitation_and_roots_reach_their_callbacks_as_models():
    seen = []

    def sample(context, params):
        seen.append((context.request_id, context.meta, type(params).__name__, params.max_tokens))
        return types.CreateMessageResult(role="assistant", content={"type": "text", "text": "ok"}, model="m")

    def elicit(context, params):
        seen.append((context.request_id, context.meta, type(params).__name__, params.message))
        return types.ElicitResult(action="decline")

    def roots(context):
        seen.append((context.request_id, context.session is client))
        return ROOTS

    client, target = opened(sampling_callback=sample, elicitation_callback=elicit, list_roots_callback=roots)
    target.now.say(asking("a", "sampling/createMessage", {**SAMPLE, "_meta": {"k": 1}}))
    answer_to(target)
    target.now.say(asking(2, "elicitation/create", ELICIT))
    answer_to(target, 2)
    target.now.say(asking(3, "elicitation/create", {"mode": "url", "message": "go", "url": "https://a.b/c"}))
    answer_to(target, 3)
    target.now.say(asking("d", "roots/list"))
    answers = answer_to(target, 4)
    assert [answer["id"] for answer in answers] == ["a", 2, 3, "d"]
    assert answers[0]["result"]["content"] == {"type": "text", "text": "ok"}
    assert answers[1]["result"] == {"action": "decline"}
    assert answers[3]["result"] == {"roots": [{"uri": "file:///work", "name": "work"}]}
    assert seen == [
        ("a", {"k": 1}, "CreateMessageRequestParams", 5),
        (2, {}, "ElicitRequestFormParams", "name?"),
        (3, {}, "ElicitRequestURLParams", "go"),
        ("d", True),
    ]
    client.close()


def test_a_plain_dict_is_a_result_too():
    client, target = opened(list_roots_callback=lambda context: {"roots": []})
    target.now.say(asking(1, "roots/list"))
    assert answer_to(target)["result"] == {"roots": []}
    client.close()


def test_a_callback_refuses_with_error_data():
    def sample(context, params):
        return types.ErrorData(code=-1, message="the user said no", data={"why": "shy"})

    client, target = opened(sampling_callback=sample)
    target.now.say(asking(1, "sampling/createMessage", SAMPLE))
    assert answer_to(target)["error"] == {"code": -1, "message": "the user said no", "data": {"why": "shy"}}
    client.close()


@pytest.mark.parametrize(
    "problem", [ValueError("secret /home/me"), SystemExit(1), KeyboardInterrupt()], ids=repr
)
def test_what_a_callback_raises_is_an_internal_error_without_its_words(problem, caplog):
    def roots(context):
        raise problem

    client, target = opened(list_roots_callback=roots)
    target.now.say(asking(1, "roots/list"))
    assert answer_to(target)["error"] == {"code": -32603, "message": "Internal error"}
    assert type(problem).__name__ in caplog.text
    client.close()


@pytest.mark.parametrize(
    "result",
    [None, 3, "text", object, {"roots": object}, {"roots": float("nan")}, {"roots": "\ud800"}],
    ids=repr,
)
def test_a_result_that_is_none_is_an_internal_error(result, caplog):
    client, target = opened(list_roots_callback=lambda context: result)
    target.now.say(asking(1, "roots/list"))
    assert answer_to(target)["error"]["code"] == -32603
    assert "roots/list" in caplog.text
    client.close()


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("sampling/createMessage", None),
        ("sampling/createMessage", {}),
        ("sampling/createMessage", {"messages": "no"}),
        ("sampling/createMessage", []),
        ("elicitation/create", {}),
        ("elicitation/create", {"mode": "url"}),
        ("elicitation/create", "text"),
    ],
)
def test_params_that_cannot_be_read_are_refused_and_never_reach_the_callback(method, params, caplog):
    called = []

    def answer(context, params):
        called.append(params)

    client, target = opened(sampling_callback=answer, elicitation_callback=answer)
    target.now.say(asking(1, method, params))
    assert answer_to(target)["error"]["code"] in (-32602, -32603)
    assert called == []
    client.close()


@pytest.mark.parametrize(
    "method", ["sampling/createMessage", "elicitation/create", "roots/list", "tasks/get", "acme/ask", ""]
)
def test_a_request_that_nobody_answers_is_refused_at_once(method):
    client, target = opened(message_handler=lambda message: None)
    target.now.say(asking("s", method, {}))
    answer = answer_to(target)
    assert answer == {"jsonrpc": "2.0", "id": "s", "error": {"code": -32601, "message": "Method not found"}}
    client.close()


def test_the_message_handler_sees_server_requests_as_models_and_does_not_answer():
    seen = []
    client, target = opened(message_handler=seen.append, list_roots_callback=lambda context: ROOTS)
    target.now.say(asking(1, "roots/list"), asking(2, "acme/ask", {"a": 1}))
    answer_to(target, 2)
    wait_until(lambda: len(seen) == 2)
    assert [type(message).__name__ for message in seen] == ["ListRootsRequest", "UnknownRequest"]
    client.close()


def test_a_slow_callback_holds_nothing_else_up():
    entered, leave = threading.Event(), threading.Event()

    def slow(context, params):
        entered.set()
        assert leave.wait(10)
        return types.ElicitResult(action="cancel")

    client, target = opened(elicitation_callback=slow, list_roots_callback=lambda context: ROOTS)
    target.now.say(asking("slow", "elicitation/create", ELICIT))
    assert entered.wait(10)
    target.now.say(asking("fast", "roots/list"))
    assert answer_to(target)["id"] == "fast"
    call = Background(client.call_tool, "x")
    target.now.answer(target.now.expect("tools/call"), text("done"))
    assert call.result().text == "done"
    leave.set()
    assert answer_to(target, 2)[1]["id"] == "slow"
    client.close()


def test_a_request_that_the_server_takes_back_is_not_answered():
    entered, leave = threading.Event(), threading.Event()

    def slow(context):
        entered.set()
        assert leave.wait(10)
        return ROOTS

    client, target = opened(list_roots_callback=slow)
    target.now.say(asking("s", "roots/list"))
    assert entered.wait(10)
    target.now.notify("notifications/cancelled", requestId="s")
    target.now.sync()
    leave.set()
    target.now.say(asking("p", "ping"))
    assert answer_to(target)["id"] == "p"
    client._engine.router.crew.handlers.drain(client._deadline(5), 5)
    assert [answer["id"] for answer in target.now.received(None)] == ["p"]
    client.close()


def test_more_requests_than_fit_are_refused_and_the_clocks_go_on():
    entered, leave = threading.Event(), threading.Event()

    def slow(context):
        entered.set()
        assert leave.wait(10)
        return ROOTS

    client, target = opened(list_roots_callback=slow, limits=Limits(queue_length=1, handler_threads=1))
    call = Background(client.call_tool, "x")
    request = target.now.expect("tools/call")
    target.now.say(asking(0, "roots/list"))
    assert entered.wait(10)
    target.now.say(asking(1, "roots/list"), asking(2, "roots/list"))
    answer = answer_to(target)
    assert (answer["id"], answer["error"]["code"]) == (2, -32603)
    leave.set()
    answer_to(target, 3)
    target.now.answer(request, text("done"))
    call.result()
    client.close()


def test_requests_whose_refusals_nobody_takes_are_forgotten():
    client, target = opened(limits=Limits(queue_length=2))
    entered, leave = threading.Event(), threading.Event()

    def slow(frame, deadline):
        entered.set()
        assert leave.wait(10)

    target.now.send = slow
    target.now.say(asking("first", "vendor/what"))
    assert entered.wait(10)
    target.now.say(*(asking(number, "vendor/what") for number in range(50)))
    target.now.sync()
    assert len(client._engine._connection._unasked._serving) <= 3
    leave.set()
    client.close()


def test_an_answer_that_cannot_be_sent_is_given_up_quietly():
    client, target = opened(list_roots_callback=lambda context: ROOTS)
    tried = threading.Event()

    def broken(frame, deadline):
        tried.set()
        raise ConnectionLost("gone")

    target.now.send = broken
    target.now.say(asking(1, "roots/list"))
    assert tried.wait(10)
    client.close()


# --- capabilities ----------------------------------------------------------------------------------------


def test_only_what_has_a_callback_is_declared():
    client, target = opened(list_roots_callback=lambda context: ROOTS)
    assert target.now.received("initialize")[0]["params"]["capabilities"] == {"roots": {"listChanged": True}}
    client.close()
    client, target = opened(message_handler=print, logging_callback=print)
    assert target.now.received("initialize")[0]["params"]["capabilities"] == {}
    client.close()


def test_on_the_stateless_revision_each_request_declares_it():
    target = DuplexTarget()
    client = Client(target, sampling_callback=lambda context, params: None, extensions=["x/y"]).open()
    call = Background(client.call_tool, "x")
    for method in ("server/discover", "tools/call"):
        meta = target.now.expect(method)["params"]["_meta"]
        declared = meta["io.modelcontextprotocol/clientCapabilities"]
        assert declared == {"sampling": {}, "extensions": {"x/y": {}}}
    target.now.answer(target.now.expect("tools/call"), text("done"))
    call.result()
    client.close()


# --- the stateless revision ------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["ping", "roots/list", "acme/ask"])
def test_a_stateless_server_must_not_ask_and_gets_no_answer_but_is_reported(method):
    seen, target = [], DuplexTarget()
    with Client(target, message_handler=seen.append, list_roots_callback=lambda context: ROOTS) as client:
        call = Background(client.call_tool, "x")
        request = target.now.expect("tools/call")
        target.now.say(asking("s", method))
        target.now.answer(request, text("done"))
        assert call.result().text == "done"
        wait_until(lambda: seen)
        assert isinstance(seen[0], ProtocolError)
        assert target.now.received(None) == []


def test_a_request_on_a_calls_own_stream_holds_the_clock_of_that_call_alone():
    leave = threading.Event()
    target = PostTarget(
        legacy(
            tools_call=lambda request: (
                [asking("s", "roots/list"), lambda: leave.wait(0.3), text("done")]
                if request["params"]["name"] == "asks"
                else None
            )
        )
    )

    def slow(context):
        leave.wait(5)
        return ROOTS

    timeouts = Timeouts(silence=0.1)
    with Client(target, mode="legacy", list_roots_callback=slow, timeouts=timeouts) as client:
        asks = Background(client.call_tool, "asks")
        silent = Background(client.call_tool, "silent")
        assert isinstance(silent.error(), TimeoutError)
        assert asks.result().text == "done"
        leave.set()
