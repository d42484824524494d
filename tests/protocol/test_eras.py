"""What depends on the revision: params, headers, kinds of results, capabilities."""

from __future__ import annotations

import json

import pytest

from mcp_sync._protocol import methods
from mcp_sync._protocol.eras import COMPLETE, INPUT_REQUIRED, HandshakeEra, StatelessEra, client_capabilities
from mcp_sync._protocol.versions import HANDSHAKE_VERSIONS, TRAITS
from mcp_sync.errors import InvalidResult, NotSupported

INFO = {"name": "client", "version": "1"}
KEYS = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": INFO,
    "io.modelcontextprotocol/clientCapabilities": {"roots": {}},
}


@pytest.fixture
def stateless():
    return StatelessEra("2026-07-28", INFO, {"roots": {}})


@pytest.fixture
def handshake():
    return HandshakeEra("2025-11-25", {"capabilities": {}})


def test_a_stateless_request_says_who_sends_it_each_time(stateless):
    assert stateless.params({"name": "x"}, {}) == {"name": "x", "_meta": KEYS}


def test_a_caller_can_add_to_the_meta_of_a_stateless_request_but_not_lie(stateless):
    given = {"progressToken": 3, "io.modelcontextprotocol/protocolVersion": "1999-01-01"}
    assert stateless.params({}, given)["_meta"] == {"progressToken": 3, **KEYS}


def test_building_params_leaves_what_the_caller_gave_alone(stateless, handshake):
    for era in (stateless, handshake):
        params, meta = {"name": "x"}, {"a": 1}
        era.params(params, meta)["extra"] = 1
        assert (params, meta) == ({"name": "x"}, {"a": 1})


def test_a_handshake_request_has_meta_only_where_somebody_gave_some(handshake):
    assert handshake.params({"name": "x"}, {}) == {"name": "x"}
    assert handshake.params({"name": "x"}, {"a": 1}) == {"name": "x", "_meta": {"a": 1}}


def test_only_stateless_requests_are_mirrored_in_headers(stateless, handshake):
    mirrored = {"Mcp-Method": "tools/call", "Mcp-Name": "x"}
    assert stateless.headers(methods.CALL_TOOL, {"name": "x"}) == mirrored
    assert stateless.headers(methods.LIST_TOOLS, {}) == {"Mcp-Method": "tools/list"}
    assert handshake.headers(methods.CALL_TOOL, {"name": "x"}) == {}


@pytest.mark.parametrize("version", HANDSHAKE_VERSIONS)
def test_a_handshake_gives_sessions_and_resumption_and_a_header_where_the_revision_has_it(version):
    wire = HandshakeEra(version).wire(True)
    assert wire.version_header == (version if TRAITS[version].version_header else None)
    assert (wire.sessions, wire.get_stream, wire.resumable) == (True, True, True)
    assert not HandshakeEra(version).wire(False).get_stream


def test_a_stateless_channel_has_neither_sessions_nor_a_stream_of_its_own(stateless):
    wire = stateless.wire(True)
    assert wire.version_header == "2026-07-28"
    assert (wire.sessions, wire.get_stream, wire.resumable) == (False,) * 3


def test_only_a_handshake_lets_the_server_ask_and_cancels_by_a_notification(stateless, handshake):
    assert (handshake.server_requests, handshake.cancel_notification) == (True, True)
    assert (stateless.server_requests, stateless.cancel_notification) == (False, False)


def test_the_kind_of_a_stateless_result_is_complete_unless_it_says_otherwise(stateless):
    assert stateless.result_kind({}) == COMPLETE
    assert stateless.result_kind({"resultType": "complete"}) == COMPLETE
    assert stateless.result_kind({"resultType": "input_required"}) == INPUT_REQUIRED


@pytest.mark.parametrize("kind", [None, 1, ["complete"], {"a": 1}])
def test_a_kind_of_result_that_is_no_string_is_refused(stateless, kind):
    with pytest.raises(InvalidResult) as caught:
        stateless.result_kind({"resultType": kind})
    assert caught.value.result == {"resultType": kind}


def test_a_handshake_server_may_use_the_word_for_something_else(handshake):
    assert handshake.result_kind({"resultType": "input_required"}) == COMPLETE


@pytest.mark.parametrize("spec", [methods.PING, methods.SUBSCRIBE, methods.UNSUBSCRIBE, methods.SET_LEVEL])
def test_what_the_stateless_revision_lacks_is_refused_by_name(stateless, handshake, spec):
    handshake.check(spec)
    with pytest.raises(NotSupported) as caught:
        stateless.check(spec)
    assert (caught.value.method, caught.value.version) == (spec.method, "2026-07-28")


@pytest.mark.parametrize("spec", [methods.DISCOVER, methods.LISTEN])
def test_what_the_handshake_revisions_lack_is_refused_by_name(stateless, handshake, spec):
    stateless.check(spec)
    with pytest.raises(NotSupported):
        handshake.check(spec)


def test_a_method_of_nobody_knows_whom_is_passed(stateless, handshake):
    spec = methods.spec_of("acme/do")
    stateless.check(spec)
    handshake.check(spec)
    assert not spec.input_rounds


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("2024-11-05", {"sampling": {}, "roots": {"listChanged": True}}),
        ("2025-03-26", {"sampling": {}, "roots": {"listChanged": True}}),
        ("2025-06-18", {"sampling": {}, "roots": {"listChanged": True}, "elicitation": {}}),
        (
            "2025-11-25",
            {"sampling": {}, "roots": {"listChanged": True}, "elicitation": {"form": {}, "url": {}}},
        ),
        (
            "2026-07-28",
            {"sampling": {}, "roots": {}, "elicitation": {"form": {}, "url": {}}},
        ),
    ],
)
def test_capabilities_are_declared_in_the_words_of_the_revision(version, expected):
    declared = client_capabilities(
        TRAITS[version], sampling=True, elicitation=True, roots=True, extensions={"x/y": {}}
    )
    assert declared == {**expected, "extensions": {"x/y": {}}}
    json.dumps(declared)


@pytest.mark.parametrize("version", TRAITS)
def test_nothing_is_declared_that_nobody_answers(version):
    assert client_capabilities(TRAITS[version], sampling=False, elicitation=False, roots=False) == {}
