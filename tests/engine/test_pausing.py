"""Calls that wait for input: raised with all that is needed to go on, and resumed elsewhere (2026-07-28)."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_sync import (
    AnswerInvalid,
    CallTimeout,
    Client,
    EnvelopeRejected,
    InMemory,
    InputRequired,
    InvalidResult,
    NotSupported,
    OutputInvalid,
    ToolFailed,
    UsageError,
    types,
)
from mcp_sync.testing import FakeServer, ToolContext

from .scripted import DuplexTarget, PostTarget, in_turn, legacy, modern, needs, text

FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2},
        "age": {"type": "integer", "minimum": 18, "default": 30},
    },
    "required": ["name"],
}
ASK = {"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": FORM}}
VISIT = {
    "method": "elicitation/create",
    "params": {"mode": "url", "message": "Pay", "url": "https://pay.example/1"},
}
ROOTS = {"method": "roots/list", "params": {}}
WRITE = {
    "method": "sampling/createMessage",
    "params": {"messages": [{"role": "user", "content": {"type": "text", "text": "?"}}], "maxTokens": 5},
}
ADA = types.ElicitResult.accept({"name": "Ada"})


def waiting(client, *args, **options):
    with pytest.raises(InputRequired) as caught:
        client.call_tool(*(args or ("x", {"a": 1})), on_input="raise", **options)
    return caught.value


@pytest.fixture(params=[DuplexTarget, PostTarget])
def kind(request):
    return request.param


def test_a_request_for_input_is_raised_with_what_the_server_asks_and_its_state(kind):
    state = 'opaque+/==\u00e9\t"quoted" \u2028'
    target = kind(in_turn(needs(state, who=ASK, pay=VISIT)))
    with Client(target) as client:
        pause = waiting(client)
    assert pause.requests["who"].params.message == "Who?"
    assert pause.requests["who"].params.requested_schema == FORM
    assert isinstance(pause.requests["pay"].params, types.ElicitRequestURLParams)
    assert pause.requests["pay"].params.url == "https://pay.example/1"
    assert (pause.method, pause.params) == ("tools/call", {"name": "x", "arguments": {"a": 1}})
    assert (pause.request_state, pause.principal) == (state, None)
    assert len(target.now.received("tools/call")) == 1


def test_no_callback_is_run(kind):
    asked = []
    target = kind(in_turn(needs(who=ASK, roots=ROOTS)))
    callbacks = {
        "elicitation_callback": lambda *given: asked.append(given),
        "list_roots_callback": asked.append,
    }
    with Client(target, **callbacks) as client:
        assert set(waiting(client).requests) == {"who", "roots"}
    assert asked == []


def test_the_call_declares_that_a_person_can_be_asked_and_nothing_that_needs_a_program(kind):
    target = kind(in_turn(needs(who=ASK), text("plain")))
    with Client(target) as client:
        waiting(client)
        client.call_tool("x")
    key = "io.modelcontextprotocol/clientCapabilities"
    declared = [request["params"]["_meta"][key] for request in target.now.received("tools/call")]
    assert [each.get("elicitation") for each in declared] == [{"form": {}, "url": {}}, None]
    assert not {"sampling", "roots"} & declared[0].keys()


def test_a_round_without_requests_goes_on_by_itself(kind):
    target = kind(in_turn(needs("wait"), needs("wait more"), needs("asked", who=ASK)))
    with Client(target) as client:
        assert waiting(client).request_state == "asked"
    assert [r["params"].get("requestState") for r in target.now.received("tools/call")] == [
        None,
        "wait",
        "wait more",
    ]


def test_prompts_and_resources_wait_too(kind):
    scripts = modern(
        prompts_get=lambda request: (
            {"messages": []} if "inputResponses" in request["params"] else needs("s", who=ASK)
        ),
        resources_read=lambda request: (
            {"contents": []} if "inputResponses" in request["params"] else needs("s", who=ASK)
        ),
    )
    with Client(kind(scripts)) as client:
        with pytest.raises(InputRequired) as prompt:
            client.get_prompt("p", {"a": "1"}, on_input="raise")
        with pytest.raises(InputRequired) as resource:
            client.read_resource("x://y", on_input="raise")
        assert isinstance(client.resume(prompt.value.to_json(), {"who": ADA}), types.GetPromptResult)
        assert isinstance(client.resume(resource.value.to_json(), {"who": ADA}), types.ReadResourceResult)


@pytest.mark.parametrize("verb", ["call_tool", "get_prompt", "read_resource"])
@pytest.mark.parametrize("value", ["ask", "", None, True])
def test_another_value_of_on_input_is_refused(verb, value):
    target = DuplexTarget()
    with pytest.raises(UsageError, match="on_input"):
        getattr(Client(target), verb)("x:y", on_input=value)
    assert target.channels == []


def test_with_a_handshake_it_is_refused_before_anything_is_sent(kind):
    target = kind(legacy(tools_call=lambda request: text("done")))
    with Client(target) as client:
        client.open()
        with pytest.raises(NotSupported, match="on_input") as caught:
            client.call_tool("x", on_input="raise")
    assert (caught.value.method, caught.value.version) == ("tools/call", "2025-11-25")
    assert target.now.received("tools/call") == []


@pytest.mark.parametrize(
    "request_for_input",
    [
        {"method": "elicitation/create"},
        {"method": "elicitation/create", "params": {"mode": "url", "message": "?"}},
        {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": 3}},
        {"method": "sampling/createMessage", "params": {"messages": 3}},
    ],
)
def test_a_malformed_request_is_the_servers_fault(request_for_input):
    target = DuplexTarget(in_turn(needs(k=request_for_input)))
    with Client(target) as client, pytest.raises(InvalidResult, match="malformed"):
        client.call_tool("x", on_input="raise")


# --- the envelope ---------------------------------------------------------------------------------------


def test_an_envelope_is_json_and_leads_back_to_the_same_requests(kind):
    with Client(kind(in_turn(needs("s", who=ASK, roots=ROOTS)))) as client:
        pause = waiting(client)
    for key in (None, "secret", b"secret"):
        stored = json.dumps(pause.to_json(key=key))
        for data in (json.loads(stored), stored, stored.encode()):
            again = InputRequired.from_json(data, key=key)
            assert again.requests == pause.requests
            assert (again.id, again.created_at, again.params) == (pause.id, pause.created_at, pause.params)


def test_a_pause_can_be_pickled_and_resumed():
    target = DuplexTarget(in_turn(needs("s", who=ASK), text("done")))
    with Client(target) as client:
        again = pickle.loads(pickle.dumps(waiting(client)))
        assert client.resume(again, {"who": ADA}).text == "done"


def test_two_pauses_have_names_of_their_own():
    with Client(DuplexTarget(in_turn(needs("s", who=ASK), needs("s", who=ASK)))) as client:
        assert waiting(client).id != waiting(client).id


def test_arguments_are_kept_as_they_were_sent():
    model = types.Root(uri="file:///x")
    with Client(DuplexTarget(in_turn(needs("s", who=ASK)))) as client:
        pause = waiting(client, "x", {"root": model, "pair": (1, 2.5), 3: None})
    assert pause.params["arguments"] == {"root": {"uri": "file:///x"}, "pair": [1, 2.5], "3": None}


def test_an_envelope_holds_no_secret_of_the_client():
    server = FakeServer(tools=[greet])
    with server.serve_http() as endpoint:
        url = endpoint.url.replace("http://", "http://user:hunter2@") + "?token=hunter2"
        with Client(url, headers={"X-Key": "hunter2"}) as client:
            pause = waiting(client, "greet", headers={"X-Other": "hunter2"})
    assert "hunter2" not in json.dumps(pause.to_json())
    assert "hunter2" not in repr(pause)


@pytest.mark.parametrize("key", ["", b"", 3])
def test_what_is_no_key_is_refused(key):
    with Client(DuplexTarget(in_turn(needs("s", who=ASK)))) as client:
        pause = waiting(client)
    with pytest.raises(UsageError, match="key"):
        pause.to_json(key=key)


# --- resuming -------------------------------------------------------------------------------------------


def test_a_resumed_call_carries_params_answers_and_state(kind):
    target = kind(in_turn(needs("st\u00e4te", who=ASK), text("done")))
    with Client(target) as client:
        envelope = waiting(client, meta={"trace": "t"}).to_json()
        result = client.resume(envelope, {"who": ADA}, meta={"more": 1})
    assert isinstance(result, types.CallToolResult)
    first, second = (request["params"] for request in target.now.received("tools/call"))
    assert second == {
        **first,
        "_meta": {**first["_meta"], "more": 1},
        "inputResponses": {"who": {"action": "accept", "content": {"name": "Ada", "age": 30}}},
        "requestState": "st\u00e4te",
    }
    assert second["_meta"]["trace"] == "t"


def test_no_state_is_sent_where_none_came(kind):
    target = kind(in_turn(needs(who=ASK), text("done")))
    with Client(target) as client:
        client.resume(waiting(client).to_json(), {"who": types.ElicitResult.decline()})
    assert "requestState" not in target.now.received("tools/call")[1]["params"]


def test_answers_of_all_kinds_may_be_models_or_dicts(kind):
    target = kind(in_turn(*[needs("s", who=ASK, pay=VISIT, w=WRITE, r=ROOTS), text("done")] * 2))
    written = types.CreateMessageResult.from_text("hi", model="m")
    models = {
        "who": ADA,
        "pay": types.ElicitResult.accept(),
        "w": written,
        "r": types.ListRootsResult(roots=[types.Root(uri="file:///x")]),
    }
    callbacks = {"sampling_callback": lambda *given: None, "list_roots_callback": lambda *given: None}
    with Client(target, **callbacks) as client:
        client.resume(waiting(client).to_json(), models)
        dicts = {key: model.to_wire() for key, model in models.items()}
        client.resume(waiting(client).to_json(), dicts)
    calls = target.now.received("tools/call")
    assert calls[1]["params"]["inputResponses"] == calls[3]["params"]["inputResponses"]
    assert calls[1]["params"]["inputResponses"]["pay"] == {"action": "accept"}
    assert calls[1]["params"]["inputResponses"]["w"] == written.to_wire()


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_what_was_typed_before_the_user_said_no_is_not_sent(action):
    target = DuplexTarget(in_turn(needs(who=ASK), text("done")))
    with Client(target) as client:
        client.resume(waiting(client).to_json(), {"who": {"action": action, "content": {"name": 3}}})
    assert target.now.received("tools/call")[1]["params"]["inputResponses"] == {"who": {"action": action}}


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({}, "no answer to 'who'"),
        ({"who": ADA, "other": ADA}, "did not ask for 'other'"),
        ({"who": "yes"}, "'who' must be"),
        ({"who": None}, "'who' must be"),
        ({"who": {"action": "perhaps"}}, "'who' is no ElicitResult"),
        ({"who": {}}, "'who' is no ElicitResult"),
        ({"who": {1: 2}}, "'who' is no ElicitResult"),
        ({"who": types.ListRootsResult(roots=[])}, "'who' is of another kind"),
        ({"who": types.ErrorData(code=1, message="no")}, "'who' is of another kind"),
        ([ADA], "answers must be"),
    ],
)
def test_answers_that_do_not_fit_the_requests_are_refused_unsent(answers, words):
    target = DuplexTarget(in_turn(needs("s", who=ASK)))
    with Client(target) as client:
        envelope = waiting(client).to_json()
        with pytest.raises(UsageError, match=words):
            client.resume(envelope, answers)
    assert len(target.now.received("tools/call")) == 1


@pytest.mark.parametrize(
    ("content", "faults"),
    [
        (None, {"name": "an answer is needed"}),
        ({"name": "A"}, {"name": "at least 2 characters"}),
        ({"name": "Ada", "age": 17}, {"age": "at least 18"}),
        ({"name": "Ada", "age": "18"}, {"age": "must be a whole number"}),
        ({"age": 1.5}, {"name": "an answer is needed", "age": "must be a whole number"}),
        ({"name": "Ada", "nmae": "x"}, {"nmae": "the form has no such field"}),
    ],
)
def test_a_form_that_is_filled_in_wrongly_is_refused_unsent_field_by_field(content, faults):
    target = DuplexTarget(in_turn(needs("s", who=ASK)))
    with Client(target) as client:
        envelope = waiting(client).to_json()
        with pytest.raises(AnswerInvalid) as caught:
            client.resume(envelope, {"who": types.ElicitResult.accept(content)})
    assert (caught.value.key, caught.value.faults) == ("who", faults)
    for name, fault in faults.items():
        assert f"{name}: {fault}" in str(caught.value)
    assert len(target.now.received("tools/call")) == 1


def test_a_server_may_ask_again_and_the_new_envelope_is_for_the_same_call(kind):
    target = kind(in_turn(needs("1", who=ASK), needs("2", pay=VISIT), text("done")))
    with Client(target) as client:
        first = waiting(client)
        with pytest.raises(InputRequired) as again:
            client.resume(first.to_json(), {"who": ADA})
        assert again.value.params == first.params
        assert again.value.id != first.id
        assert client.resume(again.value.to_json(), {"pay": {"action": "accept"}}).text == "done"
    sent = [request["params"] for request in target.now.received("tools/call")]
    assert [params.get("requestState") for params in sent] == [None, "1", "2"]
    assert [list(params.get("inputResponses", {})) for params in sent] == [[], ["who"], ["pay"]]


def test_a_resumed_call_may_go_on_with_callbacks(kind):
    target = kind(in_turn(needs("1", who=ASK), needs("2", again=ASK), text("done")))
    with Client(target, elicitation_callback=lambda context, params: ADA) as client:
        assert client.resume(waiting(client).to_json(), {"who": ADA}, on_input="answer").text == "done"


def test_options_of_a_tool_call_count_when_it_is_resumed():
    failed = text("no", isError=True)
    wrong = text("1", structuredContent={"n": "one"})
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    tool = {"name": "x", "inputSchema": {"type": "object"}, "outputSchema": schema}
    left = iter([needs("s", who=ASK), failed, needs("s", who=ASK), wrong])
    target = DuplexTarget(modern(tools_call=lambda r: next(left), tools_list=lambda r: {"tools": [tool]}))
    with Client(target) as client:
        list(client.tools())
        with pytest.raises(ToolFailed):
            client.resume(waiting(client).to_json(), {"who": ADA}, raise_on_error=True)
        with pytest.raises(OutputInvalid):
            client.resume(waiting(client).to_json(), {"who": ADA}, validation="strict")


def test_a_resumed_call_ends_in_its_time_and_is_not_repeated(kind):
    left = iter([needs("s", who=ASK)])
    target = kind(modern(tools_call=lambda request: next(left, None)))
    with Client(target) as client:
        envelope = waiting(client).to_json()
        with pytest.raises(CallTimeout) as caught:
            client.resume(envelope, {"who": ADA}, timeout=0.2)
    assert caught.value.request_sent is True
    assert len(target.now.received("tools/call")) == 2


# --- envelopes that must not be resumed -------------------------------------------------------------------


def refused(client, envelope, **options):
    with pytest.raises(EnvelopeRejected) as caught:
        client.resume(envelope, {"who": ADA}, **options)
    return caught.value.reason


def changed(value):
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, dict):
        return {**value, "x": 1}
    return "x" if value is None else value + 1


@pytest.mark.parametrize("key", [None, "secret"])
def test_every_member_of_an_envelope_is_guarded(key):
    target = DuplexTarget(in_turn(needs("s", who=ASK)))
    with Client(target) as client:
        envelope = waiting(client).to_json(key=key)
        for name in envelope:
            if name != "seal":
                reason = "malformed" if name == "kind" else "version" if name == "version" else "tampered"
                assert refused(client, {**envelope, name: changed(envelope[name])}, key=key) == reason, name
                without = {member: value for member, value in envelope.items() if member != name}
                assert refused(client, without, key=key) == reason, name
        seal = envelope["seal"]
        for other in ({}, {**seal, "value": "0" * 64}, {**seal, "value": None}, {**seal, "value": "\u00e9"}):
            assert refused(client, {**envelope, "seal": other}, key=key) == "tampered"
        assert refused(client, {**envelope, "more": 1}, key=key) == "tampered"
    assert len(target.now.received("tools/call")) == 1


def test_a_seal_of_another_key_or_of_none_does_not_do():
    with Client(DuplexTarget(in_turn(needs("s", who=ASK)))) as client:
        pause = waiting(client)
        assert refused(client, pause.to_json(key="secret"), key="other") == "tampered"
        for made, given in (("secret", None), (None, "secret")):
            with pytest.raises(EnvelopeRejected, match="give key= to both") as caught:
                client.resume(pause.to_json(key=made), {"who": ADA}, key=given)
            assert caught.value.reason == "tampered"


@pytest.mark.parametrize(
    "data",
    [
        None,
        3,
        [],
        "",
        "{",
        "[]",
        b"\xff",
        "[" * 100_000,
        {},
        {"kind": "other"},
        {"seal": 1},
        {"who": float("nan")},
    ],
)
def test_what_is_no_envelope_is_refused(data):
    with Client(DuplexTarget()) as client:
        assert refused(client, data) == "malformed"


def test_an_envelope_of_another_version_is_refused():
    with Client(DuplexTarget(in_turn(needs("s", who=ASK)))) as client:
        assert refused(client, {**waiting(client).to_json(), "version": 2}) == "version"


@pytest.mark.parametrize("change", [{"method": "tools/list"}, {"params": {}}, {"params": {"name": "x"}}])
def test_a_sealed_envelope_for_no_such_call_is_refused(change):
    with Client(DuplexTarget(in_turn(needs("s", who=ASK)))) as client:
        pause = waiting(client)
        pause._envelope.update(change)
        assert refused(client, pause.to_json()) == "malformed"


@pytest.mark.parametrize(
    "change", [{"created_at": True}, {"created_at": 1.5}, {"state": 3}, {"requests": []}]
)
def test_a_sealed_envelope_of_another_form_is_refused(change):
    with Client(DuplexTarget(in_turn(needs("s", who=ASK)))) as client:
        pause = waiting(client)
        pause._envelope.update(change)
        assert refused(client, pause.to_json()) == "malformed"


def test_an_envelope_of_another_server_is_refused_unsent():
    one, other = DuplexTarget(in_turn(needs("s", who=ASK))), DuplexTarget(in_turn(text("done")))
    with Client(one) as client:
        envelope = waiting(client).to_json()
    assert refused(Client(other), envelope) == "server"
    assert other.channels == []


def test_an_envelope_of_another_principal_is_refused_unsent():
    target = DuplexTarget(in_turn(needs("s", who=ASK), text("done")))
    with Client(target) as client:
        client._engine.plan.principal = "ada"
        pause = waiting(client)
        assert pause.principal == "ada"
        for other in (None, "bob"):
            client._engine.plan.principal = other
            assert refused(client, pause.to_json()) == "principal"
        client._engine.plan.principal = "ada"
        assert client.resume(pause.to_json(), {"who": ADA}).text == "done"
    assert len(target.now.received("tools/call")) == 2


def test_an_envelope_of_another_revision_is_refused_unsent():
    target = DuplexTarget(in_turn(needs("s", who=ASK)))
    with Client(target) as client:
        envelope = waiting(client).to_json()
    target.scripts = legacy(tools_call=lambda request: text("done"))
    with Client(target) as client:
        assert refused(client, envelope) == "revision"
    assert target.now.received("tools/call") == []


def test_an_envelope_may_be_too_old(monkeypatch):
    target = DuplexTarget(in_turn(needs("s", who=ASK), text("done")))
    with Client(target) as client:
        pause = waiting(client)
        now = pause.created_at
        monkeypatch.setattr("mcp_sync._resuming.time.time", lambda: now + 61)
        assert refused(client, pause.to_json(), max_age=60) == "expired"
        with pytest.raises(UsageError, match="max_age"):
            client.resume(pause, {"who": ADA}, max_age="60")
        assert client.resume(pause.to_json(), {"who": ADA}, max_age=62).text == "done"


def test_numbers_may_come_back_from_a_database_in_their_other_form():
    with Client(DuplexTarget(in_turn(needs("s", who=ASK), text("done")))) as client:
        envelope = waiting(client, "x", {"n": 1e3, "m": 2}).to_json()
        envelope["params"]["arguments"] = {"n": 1000, "m": 2.0}
        assert client.resume(envelope, {"who": ADA}).text == "done"


def test_a_state_of_ten_megabytes_survives():
    state = "\u00e9x" * 5_000_000
    target = DuplexTarget(in_turn(needs(state, who=ASK), text("done")))
    with Client(target) as client:
        stored = json.dumps(waiting(client).to_json(key="k"))
        assert client.resume(stored, {"who": ADA}, key="k").text == "done"
    assert target.now.received("tools/call")[1]["params"]["requestState"] == state


# --- with a server --------------------------------------------------------------------------------------


def greet(context: ToolContext) -> str:
    """Ask for a name, and greet."""
    answer = context.elicit("Who?", FORM)
    return f"Hello, {answer['content']['name']} ({answer['content']['age']})"


ELSEWHERE = """
import sys, json
from mcp_sync import Client, types
envelope = json.load(sys.stdin)
with Client(sys.argv[1]) as client:
    answers = {key: types.ElicitResult.accept({"name": "Grace"}) for key in envelope["requests"]}
    print(client.resume(envelope, answers, key="secret").text)
"""


def test_a_call_is_resumed_in_another_process():
    root = str(Path(__file__).parent.parent.parent)
    with FakeServer(tools=[greet]).serve_http() as endpoint:
        with Client(endpoint.url) as client:
            stored = json.dumps(waiting(client, "greet").to_json(key="secret"))
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", ELSEWHERE, endpoint.url],
            input=stored,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": root},
            timeout=50,
        )
    assert (done.stdout, done.stderr) == ("Hello, Grace (30)\n", "")


def test_a_server_in_memory_is_the_same_for_each_client():
    server = FakeServer(tools=[greet])
    with Client(InMemory(server)) as client:
        envelope = waiting(client, "greet").to_json()
    with Client(InMemory(server)) as client:
        assert client.resume(envelope, {"input-1": ADA}).text == "Hello, Ada (30)"
