"""What a server asks for before it can answer, and how the request is put again."""

from __future__ import annotations

import pytest

from mcp_sync._protocol.input_rounds import input_requests, next_params
from mcp_sync._protocol.methods import CALL_TOOL, GET_PROMPT, LIST_TOOLS, READ_RESOURCE, spec_of
from mcp_sync.errors import InvalidResult

ASK = {"method": "elicitation/create", "params": {"message": "?"}}


@pytest.mark.parametrize("spec", [CALL_TOOL, GET_PROMPT, READ_RESOURCE])
def test_tools_prompts_and_resources_may_ask_for_input(spec):
    assert input_requests(spec, {"inputRequests": {"k": ASK}, "requestState": "s"}) == {"k": ASK}


@pytest.mark.parametrize("spec", [LIST_TOOLS, spec_of("completion/complete"), spec_of("server/discover")])
def test_other_methods_may_not(spec):
    with pytest.raises(InvalidResult, match=spec.method):
        input_requests(spec, {"inputRequests": {"k": ASK}})


def test_a_state_alone_asks_to_come_again():
    assert input_requests(CALL_TOOL, {"requestState": "opaque"}) == {}


def test_no_requests_beside_a_state_ask_to_come_again():
    assert input_requests(CALL_TOOL, {"inputRequests": {}, "requestState": "opaque"}) == {}


@pytest.mark.parametrize(
    "result",
    [
        {},
        {"inputRequests": None},
        {"inputRequests": []},
        {"inputRequests": "k"},
        {"inputRequests": {"k": None}},
        {"inputRequests": {"k": "elicitation/create"}},
        {"inputRequests": {"k": {}}},
        {"inputRequests": {"k": {"method": None}}},
        {"inputRequests": {"k": {"method": ["roots/list"]}}},
        {"inputRequests": {"k": {"method": "tools/call"}}},
        {"inputRequests": {"good": ASK, "bad": {"method": "acme/ask"}}},
    ],
    ids=repr,
)
def test_what_cannot_be_answered_is_refused_with_the_result_at_hand(result):
    with pytest.raises(InvalidResult) as caught:
        input_requests(CALL_TOOL, result)
    assert caught.value.result == result


def test_the_request_is_put_again_with_the_answers_and_the_state_as_it_came():
    params = {"name": "x", "arguments": {"a": 1}}
    state = 'opaque+/==\u00e9 \t "quoted"'
    again = next_params(params, {"requestState": state}, {"k": {"action": "accept"}})
    assert again == {**params, "inputResponses": {"k": {"action": "accept"}}, "requestState": state}
    assert params == {"name": "x", "arguments": {"a": 1}}


def test_no_state_is_sent_where_none_was_given():
    assert next_params({"name": "x"}, {}, {"k": {}}) == {"name": "x", "inputResponses": {"k": {}}}
    assert "requestState" not in next_params({"name": "x"}, {"requestState": None}, {})


def test_an_empty_state_is_a_state():
    assert next_params({"name": "x"}, {"requestState": ""}, {}) == {"name": "x", "requestState": ""}


def test_answers_and_state_of_an_earlier_round_are_replaced_and_never_kept():
    first = next_params({"name": "x"}, {"requestState": "1"}, {"a": {}})
    second = next_params(first, {"requestState": "2"}, {"b": {}})
    assert second == {"name": "x", "inputResponses": {"b": {}}, "requestState": "2"}
    assert next_params(second, {}, {}) == {"name": "x"}


@pytest.mark.parametrize("state", [7, 0, False, {}, ["s"], "half a pair: \ud800"], ids=repr)
def test_a_state_that_cannot_be_sent_back_as_it_came_is_refused(state):
    for requests in ({"inputRequests": {"k": ASK}}, {}):
        with pytest.raises(InvalidResult, match="requestState"):
            input_requests(CALL_TOOL, {**requests, "requestState": state})


def test_a_key_that_cannot_be_sent_back_is_refused():
    with pytest.raises(InvalidResult, match="key of inputRequests is no text"):
        input_requests(CALL_TOOL, {"inputRequests": {"\ud800": ASK}})
