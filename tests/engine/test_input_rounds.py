"""Calls that need input first (2026-07-28): answered by callbacks, put again until there is a result."""

from __future__ import annotations

import json
import threading

import pytest

from mcp_sync import CancelToken, Client, InMemory, Limits, Retry, types
from mcp_sync.errors import (
    CallCancelled,
    CallTimeout,
    ConnectionLost,
    InputRequired,
    InputRoundsExceeded,
    InvalidResult,
    RemoteError,
    UsageError,
)
from mcp_sync.testing import FakeServer, HTTPReply

from .background import Background
from .scripted import DuplexTarget, PostTarget, in_turn, modern, needs, text

ELICIT = {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {"type": "object"}}}
ROOTS = {"method": "roots/list", "params": {}}


def yes(context, params):
    return types.ElicitResult(action="accept", content={"ok": True})


@pytest.fixture(params=[DuplexTarget, PostTarget])
def kind(request):
    return request.param


def test_the_request_is_put_again_under_a_new_id_with_answers_and_the_state_as_it_came(kind):
    state = 'opaque+/==\u00e9\t"quoted" \u2028'
    target = kind(in_turn(needs(state, k=ELICIT), text("done")))
    with Client(target, elicitation_callback=yes) as client:
        assert client.call_tool("x", {"a": 1}, meta={"trace": "t"}).text == "done"
    first, second = target.now.received("tools/call")
    assert first["id"] != second["id"]
    assert "requestState" not in first["params"]
    assert second["params"] == {
        **first["params"],
        "inputResponses": {"k": {"action": "accept", "content": {"ok": True}}},
        "requestState": state,
    }
    assert second["params"]["_meta"]["trace"] == "t"


def test_no_state_is_sent_where_none_was_given(kind):
    target = kind(in_turn(needs(k=ELICIT), text("done")))
    with Client(target, elicitation_callback=yes) as client:
        client.call_tool("x")
    assert "requestState" not in target.now.received("tools/call")[1]["params"]


def test_a_state_alone_is_brought_back_without_answers(kind):
    target = kind(in_turn(needs("later"), text("done")))
    with Client(target) as client:
        assert client.call_tool("x").text == "done"
    params = target.now.received("tools/call")[1]["params"]
    assert params["requestState"] == "later"
    assert "inputResponses" not in params


def test_three_rounds_carry_only_the_answers_and_the_state_of_the_last_one(kind):
    target = kind(in_turn(needs("1", a=ELICIT), needs("2", b=ROOTS), needs(c=ELICIT), text("done")))
    roots = types.ListRootsResult(roots=[])
    with Client(target, elicitation_callback=yes, list_roots_callback=lambda context: roots) as client:
        assert client.call_tool("x").text == "done"
    sent = [request["params"] for request in target.now.received("tools/call")]
    assert [params.get("requestState") for params in sent] == [None, "1", "2", None]
    assert [list(params.get("inputResponses", {})) for params in sent] == [[], ["a"], ["b"], ["c"]]
    assert len({request["id"] for request in target.now.received("tools/call")}) == 4


def test_several_requests_are_answered_in_their_order_on_the_calling_thread():
    asked = []

    def elicit(context, params):
        asked.append((context.request_id, threading.current_thread()))
        return types.ElicitResult(action="decline")

    target = DuplexTarget(in_turn(needs(b=ELICIT, a=ELICIT), text("done")))
    with Client(target, elicitation_callback=elicit) as client:
        client.call_tool("x")
    assert asked == [("b", threading.current_thread()), ("a", threading.current_thread())]


def test_endless_rounds_end_at_the_limit(kind):
    target = kind(modern(tools_call=lambda request: needs("again", k=ELICIT)))
    client = Client(target, elicitation_callback=yes, limits=Limits(input_rounds=3))
    with client, pytest.raises(InputRoundsExceeded, match="input_rounds"):
        client.call_tool("x")
    assert len(target.now.received("tools/call")) == 4


def test_the_timeout_bounds_all_rounds_together(kind):
    pause = threading.Event()

    def slow(context, params):
        pause.wait(0.06)
        return types.ElicitResult(action="decline")

    target = kind(modern(tools_call=lambda request: needs("again", k=ELICIT)))
    client = Client(target, elicitation_callback=slow, limits=Limits(input_rounds=1000))
    with client, pytest.raises(CallTimeout):
        client.call_tool("x", timeout=0.2)
    assert len(target.now.received("tools/call")) < 10


def test_a_request_without_a_callback_is_an_error_that_names_it(kind):
    target = kind(in_turn(needs(k=ROOTS)))
    client = Client(target, elicitation_callback=yes)
    with client, pytest.raises(InvalidResult, match="roots/list") as caught:
        client.call_tool("x")
    assert caught.value.result["inputRequests"] == {"k": ROOTS}
    assert "list_roots_callback=" in str(caught.value)
    assert 'on_input="raise"' in str(caught.value)


def test_no_callback_is_run_when_one_of_the_requests_cannot_be_answered():
    asked = []
    target = DuplexTarget(in_turn(needs(a=ELICIT, b=ROOTS)))
    client = Client(target, elicitation_callback=lambda *args: asked.append(args))
    with client, pytest.raises(InvalidResult):
        client.call_tool("x")
    assert asked == []


@pytest.mark.parametrize(
    "result",
    [
        needs(k={"method": "acme/ask"}),
        needs(),
        {"resultType": "partial", "content": []},
        {"resultType": None, "content": []},
        {"resultType": "input_required", "inputRequests": []},
    ],
    ids=repr,
)
def test_what_cannot_be_understood_is_never_returned_as_a_result(kind, result):
    target = kind(in_turn(result))
    with Client(target, elicitation_callback=yes) as client, pytest.raises(InvalidResult):
        client.call_tool("x")


def test_methods_that_may_not_ask_are_refused(kind):
    target = kind(modern(tools_list=lambda request: needs(k=ELICIT)))
    with Client(target, elicitation_callback=yes) as client, pytest.raises(InvalidResult, match="tools/list"):
        client.list_tools()


def test_prompts_and_resources_may_ask_too(kind):
    results = {
        "prompts/get": {"messages": []},
        "resources/read": {"contents": [{"uri": "demo://1", "text": "hi"}]},
    }

    def answer(request):
        return results[request["method"]] if "inputResponses" in request["params"] else needs(k=ELICIT)

    target = kind(modern(prompts_get=answer, resources_read=answer))
    with Client(target, elicitation_callback=yes) as client:
        assert client.get_prompt("p").messages == []
        assert client.read_resource("demo://1").contents[0].text == "hi"


def test_what_a_callback_raises_is_raised_by_the_call_itself():
    def fail(context, params):
        raise ZeroDivisionError("the callback's own")

    target = DuplexTarget(in_turn(needs(k=ELICIT), text("done")))
    with Client(target, elicitation_callback=fail) as client:
        with pytest.raises(ZeroDivisionError, match="own"):
            client.call_tool("x")
        assert client.call_tool("x").text == "done"


def test_a_refusal_of_a_callback_is_raised_by_the_call():
    refusal = types.ErrorData(code=-7, message="the user said no", data={"a": 1})
    target = DuplexTarget(in_turn(needs(k=ELICIT)))
    client = Client(target, elicitation_callback=lambda context, params: refusal)
    with client, pytest.raises(RemoteError, match="said no") as caught:
        client.call_tool("x")
    assert (caught.value.code, caught.value.data) == (-7, {"a": 1})
    assert len(target.now.received("tools/call")) == 1


def test_cancelling_while_a_callback_thinks_ends_the_call_before_the_next_round():
    token = CancelToken()

    def think(context, params):
        token.cancel("changed my mind")
        return types.ElicitResult(action="accept")

    target = DuplexTarget(in_turn(needs("s", k=ELICIT), text("done")))
    with Client(target, elicitation_callback=think) as client, pytest.raises(CallCancelled):
        client.call_tool("x", cancel=token)
    assert len(target.now.received("tools/call")) == 1


def lose_between_rounds(**options):
    def think(context, params):
        client._engine._connection.lost(ConnectionLost("gone while thinking"))
        return types.ElicitResult(action="accept")

    target = DuplexTarget(in_turn(needs("s", k=ELICIT), text("done")))
    client = Client(target, elicitation_callback=think, **options)
    return target, client


@pytest.mark.parametrize("attempts", [1, 3])
def test_a_connection_that_is_lost_between_two_rounds_is_replaced(attempts):
    # The next round is another request, and needs nothing of the connection: the server's state goes with it.
    target, client = lose_between_rounds(retry=Retry(attempts=attempts))
    with client:
        assert client.call_tool("x").text == "done"
    last = target.now.received("tools/call")[-1]["params"]
    assert (last["requestState"], last["inputResponses"]["k"]["action"]) == ("s", "accept")
    assert len(target.channels) == 2


def test_progress_of_every_round_is_delivered():
    heard = []

    def work(request):
        token = request["params"]["_meta"]["progressToken"]
        params = {"progressToken": token, "progress": token}
        note = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
        return [note, text("done") if "inputResponses" in request["params"] else needs(k=ELICIT)]

    target = PostTarget(modern(tools_call=work))
    with Client(target, elicitation_callback=yes) as client:
        client.call_tool("x", progress_callback=lambda *values: heard.append(values[0]))
    assert heard == [float(request["id"]) for request in target.now.received("tools/call")]


def test_headers_of_the_caller_go_with_every_round():
    target = PostTarget(in_turn(needs("s", k=ELICIT), text("done")))
    with Client(target, elicitation_callback=yes) as client:
        client.call_tool("x", headers={"X-Trace": "1"})
    frames = [frame for frame in target.now.frames if frame.method == "tools/call"]
    assert [frame.headers["X-Trace"] for frame in frames] == ["1", "1"]
    assert [frame.headers["Mcp-Name"] for frame in frames] == ["x", "x"]


def test_a_server_that_seals_its_state_accepts_what_comes_back():
    def ask(context):
        first = context.elicit("first?")["action"]
        second = context.elicit("second?")["action"]
        return f"{first}, {second}"

    answers = iter(["accept", "decline"])

    def elicit(context, params):
        return types.ElicitResult(action=next(answers))

    with Client(InMemory(FakeServer([ask])), elicitation_callback=elicit) as client:
        assert client.call_tool("ask").text == "accept, decline"


def test_calls_of_many_threads_do_not_mix_up_their_rounds():
    def ask(context, name: str):
        return name + context.elicit(name)["content"]["echo"]

    def elicit(context, params):
        return types.ElicitResult(action="accept", content={"echo": params.message})

    with Client(InMemory(FakeServer([ask])), elicitation_callback=elicit) as client:
        calls = [Background(client.call_tool, "ask", {"name": f"<{n}>"}) for n in range(16)]
        assert [call.result().text for call in calls] == [f"<{n}>" * 2 for n in range(16)]


# --- what comes back as it came --------------------------------------------------------------------------


def raw_answer(body, method="tools/call"):
    """Have a server answer one method with these bytes, where ``ID`` stands for the id of the request."""
    came = []

    def answer(request):
        message = json.loads(request.body or b"{}")
        if message.get("method") != method:
            return None
        came.append(message)
        return HTTPReply(
            200, {"content-type": "application/json"}, body.replace(b"ID", b"%d" % message["id"])
        )

    return answer, came


@pytest.mark.parametrize("mark", [b"\\ud800", b"\xff"])
@pytest.mark.parametrize("where", ["state", "key"])
def test_what_could_not_be_sent_back_as_it_came_is_refused_before_anybody_is_asked(where, mark):
    state, key = (b"s" + mark, b"k") if where == "state" else (b"s", b"k" + mark)
    asked = b'"inputRequests":{"%s":{"method":"roots/list","params":{}}}' % key
    body = b'{"jsonrpc":"2.0","id":ID,"result":{"resultType":"input_required",%s,"requestState":"%s"}}'
    answer, came = raw_answer(body % (asked, state))
    calls = []

    def roots(context):
        calls.append(context)
        return types.ListRootsResult(roots=[])

    with FakeServer().serve_http(intercept=answer) as endpoint:
        client = Client(endpoint.url, list_roots_callback=roots)
        with client, pytest.raises(InvalidResult, match="is no text"):
            client.call_tool("x")
    assert len(came) == 1
    assert not calls


def test_a_state_of_any_letters_is_sent_back_as_it_came():
    state = b"\xc3\xa9\\ud83d\\ude00\\u2028"
    result = b'"resultType":"input_required","requestState":"%s","x":"\\ud800"' % state
    body = b'{"jsonrpc":"2.0","id":ID,"result":{%s}}' % result
    answer, came = raw_answer(body)
    with FakeServer().serve_http(intercept=answer) as endpoint:
        client = Client(endpoint.url, limits=Limits(input_rounds=1))
        with client, pytest.raises(InputRoundsExceeded):
            client.call_tool("x")
    assert [message["params"].get("requestState") for message in came] == [None, "\u00e9\U0001f600\u2028"]


LONG = "y" * 100_000


@pytest.mark.parametrize(
    "answer",
    [
        {"resultType": LONG, "content": []},
        {"resultType": [LONG], "content": []},
        needs(**{LONG: {"method": LONG}}),
    ],
)
def test_no_name_that_a_server_gave_makes_an_error_long(kind, answer):
    target = kind(modern(tools_call=lambda request: answer))
    with Client(target, elicitation_callback=yes) as client, pytest.raises(InvalidResult) as caught:
        client.call_tool("x")
    assert "yyy" in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_no_key_that_a_server_gave_makes_an_error_of_resume_long(kind):
    target = kind(in_turn(needs(**{LONG: ELICIT})))
    with Client(target) as client:
        with pytest.raises(InputRequired) as caught:
            client.call_tool("x", on_input="raise")
        kept = caught.value.to_json()
        for answers in ({}, {"other": {"action": "decline"}}, {LONG: 1}, {LONG: {"action": "odd"}}):
            with pytest.raises(UsageError) as refused:
                client.resume(kept, answers)
            assert "yyy" in str(refused.value)
            assert len(str(refused.value)) < 1000
