"""The official Python SDKs and fastmcp: every feature, over every transport, in both eras."""

from __future__ import annotations

import base64
import json
import threading
import uuid
from typing import Any

import pytest

import mcp_sync
from mcp_sync import (
    AnswerInvalid,
    CallCancelled,
    CallTimeout,
    Client,
    InputRequired,
    RemoteError,
    ToolFailed,
    UrlElicitationRequired,
    types,
)
from mcp_sync.elicitation import accept, validate_answer

from .harness import HANDSHAKE, MODERN, ROOT, WAIT, Background, Endpoint, Harness, is_refused, running_call

ENDPOINTS = [
    Endpoint("sdk1", "stdio", "auto", HANDSHAKE),
    Endpoint("sdk1", "http", "auto", HANDSHAKE),
    Endpoint("sdk1", "sse", "legacy", HANDSHAKE),
    Endpoint("sdk1", "websocket", "auto", HANDSHAKE),
    Endpoint("sdk2", "stdio", "auto", MODERN),
    Endpoint("sdk2", "stdio", "legacy", HANDSHAKE),
    Endpoint("sdk2", "http", "auto", MODERN),
    Endpoint("sdk2", "http", "legacy", HANDSHAKE),
    Endpoint("fastmcp4", "stdio", "auto", MODERN),
    Endpoint("fastmcp4", "stdio", "legacy", HANDSHAKE),
    Endpoint("fastmcp4", "http", "auto", MODERN),
    Endpoint("fastmcp4", "http", "legacy", HANDSHAKE),
]


def among(*makers: str, **wanted: Any) -> pytest.MarkDecorator:
    """Parametrize a test with the endpoints that have its feature."""
    chosen = [
        endpoint
        for endpoint in ENDPOINTS
        if endpoint.maker in makers
        and all(getattr(endpoint, name) == value for name, value in wanted.items())
    ]
    assert chosen
    return pytest.mark.parametrize(
        "python_sdk", [endpoint.parameter() for endpoint in chosen], indirect=True, scope="session"
    )


everywhere = among("sdk1", "sdk2", "fastmcp4")
pytestmark = pytest.mark.interop


def text(result: types.CallToolResult) -> str:
    """Return the text of a result that must not be an error."""
    assert not result.is_error, result
    return result.text


@everywhere
def test_negotiates_the_era_and_learns_the_server(harness: Harness) -> None:
    client = harness.client
    assert client.protocol_version == harness.endpoint.version
    assert client.server_info is not None
    assert client.server_info.name == harness.endpoint.maker
    assert client.instructions == "Made for tests."
    assert client.server_capabilities.tools is not None


@everywhere
def test_lists_the_tools_with_their_schemas(harness: Harness) -> None:
    tools = {tool.name: tool for tool in harness.client.tools()}
    assert {"add", "echo", "picture", "fail", "slow", "talk", "ask_model", "ask_user", "ask_roots"} <= set(
        tools
    )
    assert tools["add"].input_schema["properties"].keys() == {"a", "b"}
    assert tools["add"].output_schema is not None
    assert tools["add"].description == "Add two numbers."


@everywhere
def test_reads_structured_output_and_checks_it(harness: Harness) -> None:
    result = harness.client.call_tool("add", {"a": 2, "b": 3}, validation="strict")
    assert result.structured_content == {"sum": 5}


@everywhere
def test_carries_every_character(harness: Harness) -> None:
    said = 'wörld \u2028\u2029\x85 😀 \\ " \t\r\n' + "x" * 200_000
    assert text(harness.client.call_tool("echo", {"text": said})) == said


@everywhere
def test_reads_an_image(harness: Harness) -> None:
    image = harness.client.call_tool("picture").content[0]
    assert isinstance(image, types.ImageContent)
    assert image.mime_type == "image/png"
    assert base64.b64decode(image.data).startswith(b"\x89PNG")


@everywhere
def test_returns_a_failure_of_the_tool_as_a_result(harness: Harness) -> None:
    result = harness.client.call_tool("fail", {"reason": "out of paper"})
    assert result.is_error
    assert "out of paper" in result.text


@everywhere
def test_raises_a_failure_of_the_tool_where_asked(harness: Harness) -> None:
    with pytest.raises(ToolFailed) as caught:
        harness.client.call_tool("fail", {"reason": "out of paper"}, raise_on_error=True)
    assert "out of paper" in caught.value.result.text


@everywhere
def test_reports_wrong_arguments(harness: Harness) -> None:
    assert is_refused(harness.client, "add", {"a": "two", "b": 3})


@everywhere
def test_delivers_progress_in_order_before_the_result(harness: Harness) -> None:
    seen: list[Any] = []
    result = harness.client.call_tool(
        "slow", {"steps": 50}, progress_callback=lambda *report: seen.append(report)
    )
    assert text(result) == "50 steps"
    assert seen == [(step, 50, f"step {step}") for step in range(1, 51)]


@everywhere
def test_delivers_log_messages(harness: Harness) -> None:
    assert text(harness.client.call_tool("talk", {"text": "low on ink"})) == "logged"
    log = harness.logs.get(timeout=WAIT)
    assert log.level == "warning"
    assert "low on ink" in str(log.data)


@everywhere
def test_answers_a_sampling_request(harness: Harness) -> None:
    result = harness.client.call_tool("ask_model", {"prompt": "hello"})
    assert text(result) == "tester: you said hello"


@everywhere
def test_answers_an_elicitation_with_the_defaults_of_its_form(harness: Harness) -> None:
    assert text(harness.client.call_tool("ask_user")) == "accept Zoë 30"
    (asked,) = harness.elicitations
    assert asked.message == "Who are you?"
    assert set(asked.requested_schema["properties"]) == {"name", "age"}


@everywhere
@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_passes_on_that_the_user_would_not_answer(harness: Harness, action: str) -> None:
    harness.elicit_answer = (action, None)
    assert text(harness.client.call_tool("ask_user")) == action


@everywhere
def test_answers_with_the_roots(harness: Harness) -> None:
    assert text(harness.client.call_tool("ask_roots")) == ROOT


@everywhere
def test_a_cancelled_call_ends_here_and_there(harness: Harness) -> None:
    key = uuid.uuid4().hex
    with running_call(harness.client, "hang", {"key": key}) as (call, token):
        token.cancel("no longer needed")
        assert isinstance(call.wait(), CallCancelled)
    assert text(harness.client.call_tool("was_cancelled", {"key": key})) == "yes"


@everywhere
def test_a_timeout_ends_the_call_here_and_there(harness: Harness) -> None:
    started = threading.Event()
    while not started.is_set():  # Until the machine has it begin in that time.
        arguments = {"key": (key := uuid.uuid4().hex)}
        with pytest.raises(CallTimeout):
            harness.client.call_tool(
                "hang", arguments, timeout=0.5, progress_callback=lambda *_: started.set()
            )
    assert text(harness.client.call_tool("was_cancelled", {"key": key})) == "yes"


@everywhere
def test_close_ends_a_call_that_waits(harness: Harness) -> None:
    client = harness.another_client()
    with running_call(client, "hang", {"key": uuid.uuid4().hex}) as (call, _):
        client.close()
        assert type(call.wait()).__name__ == "ClientClosed"


@everywhere
def test_lists_and_reads_resources(harness: Harness) -> None:
    client = harness.client
    assert {str(resource.uri) for resource in client.resources()} == {"note://hello", "note://blob"}
    (note,) = client.read_resource("note://hello").contents
    assert isinstance(note, types.TextResourceContents)
    assert note.text == "Hello, wörld"
    (blob,) = client.read_resource("note://blob").contents
    assert isinstance(blob, types.BlobResourceContents)
    assert base64.b64decode(blob.blob) == bytes(range(256))


@everywhere
def test_lists_and_reads_resource_templates(harness: Harness) -> None:
    (template,) = harness.client.resource_templates()
    assert template.uri_template == "greeting://{name}"
    (greeting,) = harness.client.read_resource("greeting://Bob").contents
    assert isinstance(greeting, types.TextResourceContents)
    assert greeting.text == "Hello, Bob"


@everywhere
def test_raises_for_a_resource_that_is_not_there(harness: Harness) -> None:
    with pytest.raises(RemoteError):
        harness.client.read_resource("note://missing")


@everywhere
def test_lists_and_gets_prompts(harness: Harness) -> None:
    (prompt,) = harness.client.prompts()
    assert prompt.name == "greet"
    assert prompt.arguments is not None
    assert [argument.name for argument in prompt.arguments] == ["name"]
    (message,) = harness.client.get_prompt("greet", {"name": "Bob"}).messages
    assert isinstance(message.content, types.TextContent)
    assert message.content.text == "Say hello to Bob."


@everywhere
def test_raises_for_a_prompt_that_is_not_there(harness: Harness) -> None:
    with pytest.raises(RemoteError):
        harness.client.get_prompt("missing")


@everywhere
def test_completes_an_argument(harness: Harness) -> None:
    reference = types.PromptReference(type="ref/prompt", name="greet")
    result = harness.client.complete(reference, {"name": "name", "value": "Al"})
    assert result.completion.values == ["Albert", "Alice"]


@everywhere
def test_pings(harness: Harness) -> None:
    harness.client.send_ping()


@everywhere
def test_serves_many_threads_at_once(harness: Harness) -> None:
    barrier = threading.Barrier(8)

    def work(number: int) -> list[Any]:
        barrier.wait(WAIT)
        return [
            harness.client.call_tool("add", {"a": number, "b": count}).structured_content
            for count in range(5)
        ]

    calls = [Background(work, number) for number in range(8)]
    for number, call in enumerate(calls):
        assert call.wait() is None
        assert call.result == [{"sum": number + count} for count in range(5)]


@everywhere
def test_two_clients_do_not_disturb_each_other(harness: Harness) -> None:
    with harness.another_client() as other:
        assert other.call_tool("add", {"a": 1, "b": 1}).structured_content == {"sum": 2}
    assert harness.client.call_tool("add", {"a": 1, "b": 2}).structured_content == {"sum": 3}


@among("sdk1")
@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_speaks_the_older_revision_it_is_told_to(harness: Harness, version: str) -> None:
    with harness.another_client(mode=version) as client:
        assert client.protocol_version == version
        assert "5" in text(client.call_tool("add", {"a": 2, "b": 3}))


@among("sdk2", "fastmcp4", modern=True)
def test_speaks_the_stateless_revision_without_a_probe(harness: Harness) -> None:
    with harness.another_client(mode=MODERN) as client:
        assert client.call_tool("add", {"a": 2, "b": 3}).structured_content == {"sum": 5}
        assert client.protocol_version == MODERN


@among("sdk2", transport="http", modern=True)
@pytest.mark.parametrize("region", ["us-west1", " Köln "])
def test_mirrors_an_argument_into_its_header(harness: Harness, region: str) -> None:
    # Nothing was listed on this client: the server refuses the first try, and the schema has to be fetched.
    with harness.another_client() as client:
        seen = text(client.call_tool("mirrored", {"region": region}))
    expected = "us-west1" if region == "us-west1" else "=?base64?IEvDtmxuIA==?="
    assert seen == expected


@among("sdk2", "fastmcp4", modern=True)
@pytest.mark.needs("resume")
def test_pauses_a_call_for_input_and_resumes_it(harness: Harness) -> None:
    with harness.another_client() as client:
        with pytest.raises(InputRequired) as caught:
            client.call_tool("ask_user", on_input="raise")
        (key,) = caught.value.requests
        with pytest.raises(AnswerInvalid) as refused:
            client.resume(caught.value.to_json(), {key: accept({"name": "Bob", "age": "seven"})})
        assert list(refused.value.faults) == ["age"]
        answer = accept(validate_answer(caught.value.requests[key], {"name": "Bob", "age": "7"}))
        assert text(client.resume(caught.value.to_json(), {key: answer})) == "accept Bob 7"


# Over stdio each server process seals the state with a key of its own.
@among("sdk2", "fastmcp4", transport="http", modern=True)
@pytest.mark.needs("resume")
@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
def test_pauses_a_call_for_input_and_resumes_it_elsewhere(harness: Harness, action: str) -> None:
    with harness.another_client() as first, pytest.raises(InputRequired) as caught:
        first.call_tool("ask_user", on_input="raise")
    envelope = json.dumps(caught.value.to_json(key="secret"))
    (key,) = caught.value.requests
    answer = {"action": action, "content": {"name": "Bob"}}
    with harness.another_client() as second:
        said = text(second.resume(envelope, {key: answer}, key="secret"))
    assert said == ("accept Bob 30" if action == "accept" else action)


@among("sdk2", modern=True)
@pytest.mark.needs("resume")
def test_a_pause_may_be_for_a_model_or_for_roots(harness: Harness) -> None:
    with pytest.raises(InputRequired) as caught:
        harness.client.call_tool("ask_roots", on_input="raise")
    (key,) = caught.value.requests
    answer = types.ListRootsResult(roots=[types.Root(uri="file:///elsewhere")])
    assert text(harness.client.resume(caught.value, {key: answer})) == "file:///elsewhere"


@among("sdk1")
def test_visits_a_page_first_and_makes_the_call_again(harness: Harness) -> None:
    key = uuid.uuid4().hex
    asked = []

    def consent(context: Any, params: Any) -> types.ElicitResult:
        asked.append((params.url, params.elicitation_id))
        assert text(context.session.call_tool("visit", {"key": key})) == "thank you"
        return accept()

    with harness.another_client(elicitation_callback=consent) as client:
        assert text(client.call_tool("pay", {"key": key})) == f"paid {key}"
    assert asked == [(f"https://pay.example/{key}", key)]


@among("sdk1")
def test_without_anybody_to_ask_a_page_to_visit_is_an_error(harness: Harness) -> None:
    with harness.another_client() as client, pytest.raises(UrlElicitationRequired) as caught:
        client.call_tool("pay", {"key": "never"})
    (page,) = caught.value.elicitations
    assert (page.url, page.message) == ("https://pay.example/never", "Please pay")


@among("sdk1")
def test_hears_of_a_changed_resource_it_subscribed_to(harness: Harness) -> None:
    harness.client.subscribe_resource("note://hello")
    assert text(harness.client.call_tool("touch", {"uri": "note://hello"})) == "touched"
    heard = harness.next_message(types.ResourceUpdatedNotification)
    assert str(heard.params.uri) == "note://hello"
    harness.client.unsubscribe_resource("note://hello")


@among("sdk1", "sdk2", listens=True)
@pytest.mark.needs("listen")
def test_listens_for_changed_resources(harness: Harness) -> None:
    with harness.another_client() as client, client.listen(resources=["note://hello"]) as events:
        assert text(client.call_tool("touch", {"uri": "note://hello"})) == "touched"
        event = next(iter(events))
        assert isinstance(event, mcp_sync.ResourceUpdated)
        assert event.uri == "note://hello"


@among("sdk1", transport="http")
def test_takes_up_a_session_from_elsewhere(harness: Harness) -> None:
    assert harness.server is not None
    with harness.another_client() as first:
        session_id = first.session_id
        assert session_id
        with Client(harness.server.url(), session_id=session_id, mode=HANDSHAKE) as second:
            assert second.call_tool("add", {"a": 2, "b": 3}).structured_content == {"sum": 5}
            assert second.session_id == session_id


@among("sdk1", transport="sse")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_url_leads_to_the_older_transport(harness: Harness, mode: str) -> None:
    assert harness.server is not None
    for _ in range(2):
        with Client(harness.server.url("/sse"), mode=mode) as client:
            assert client.call_tool("add", {"a": 2, "b": 3}).structured_content == {"sum": 5}
            assert client.protocol_version == HANDSHAKE
