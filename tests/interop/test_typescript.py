"""The reference servers on the official TypeScript SDK: `server-everything` and `server-filesystem`."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_sync import CallCancelled, Client, RemoteError, ResourceUpdated, ToolsChanged, types
from mcp_sync.transports import Stdio

from . import install
from .harness import HANDSHAKE, ROOT, WAIT, Endpoint, Harness, HttpServer, is_refused, running_call

pytestmark = pytest.mark.interop

ENDPOINTS = [
    Endpoint("everything", transport, mode, HANDSHAKE)
    for transport in ("stdio", "http", "sse")
    for mode in ("auto", "legacy")
]
READY = {"http": "listening on port", "sse": "running on port"}
NAMES = {"stdio": "stdio", "http": "streamableHttp", "sse": "sse"}


@pytest.fixture(scope="session", params=[endpoint.parameter() for endpoint in ENDPOINTS])
def everything(request: pytest.FixtureRequest, http_servers: dict[str, HttpServer]) -> Iterator[Harness]:
    """Connect one client to the server that shows everything; the tests of an endpoint share it."""
    endpoint: Endpoint = request.param
    script = install.npm_script("@modelcontextprotocol/server-everything", "dist", "index.js")
    command = [str(install.node()), str(script), NAMES[endpoint.transport]]
    if endpoint.transport == "stdio":
        made = Harness.over_stdio(endpoint, command)
    else:
        name = f"everything-{endpoint.transport}"
        if name not in http_servers:
            http_servers[name] = HttpServer.told_its_port(command, READY[endpoint.transport])
        made = Harness.over_http(endpoint, http_servers[name])
    with made.client:
        yield made


@pytest.fixture
def harness(everything: Harness) -> Harness:
    """Return the shared harness with nothing recorded."""
    everything.reset()
    return everything


def text(result: types.CallToolResult) -> str:
    """Return the text of a result that must not be an error."""
    assert not result.is_error, result
    return result.text


def test_negotiates_and_learns_the_server(harness: Harness) -> None:
    assert harness.client.protocol_version == HANDSHAKE
    assert harness.client.server_info is not None
    assert harness.client.server_info.name == "mcp-servers/everything"
    assert harness.client.instructions


def test_a_url_leads_to_the_transport_that_the_server_speaks(harness: Harness) -> None:
    if harness.server is not None:
        path = "/sse" if harness.endpoint.transport == "sse" else "/mcp"
        with Client(harness.server.url(path), mode=harness.endpoint.mode) as client:
            assert client.protocol_version == HANDSHAKE


def test_lists_the_tools(harness: Harness) -> None:
    tools = {tool.name: tool for tool in harness.client.tools()}
    assert {"echo", "get-sum", "trigger-sampling-request", "trigger-elicitation-request"} <= set(tools)
    annotations = tools["get-sum"].annotations
    assert annotations is not None
    assert annotations.read_only_hint is True


def test_calls_a_tool(harness: Harness) -> None:
    assert text(harness.client.call_tool("get-sum", {"a": 2, "b": 3})) == "The sum of 2 and 3 is 5."


def test_carries_every_character(harness: Harness) -> None:
    said = 'wörld \u2028\u2029 😀 \\ " \t\r\n' + "x" * 50_000
    assert text(harness.client.call_tool("echo", {"message": said})) == f"Echo: {said}"


def test_reads_structured_output_and_checks_it(harness: Harness) -> None:
    result = harness.client.call_tool("get-structured-content", {"location": "Chicago"}, validation="strict")
    assert result.structured_content == {
        "temperature": 36,
        "conditions": "Light rain / drizzle",
        "humidity": 82,
    }


def test_reads_an_image(harness: Harness) -> None:
    before, image, after = harness.client.call_tool("get-tiny-image").content
    assert isinstance(before, types.TextContent)
    assert isinstance(image, types.ImageContent)
    assert isinstance(after, types.TextContent)
    assert base64.b64decode(image.data).startswith(b"\x89PNG")


def test_reads_annotations(harness: Harness) -> None:
    content = harness.client.call_tool("get-annotated-message", {"messageType": "error"}).content[0]
    assert content.annotations is not None
    assert content.annotations.priority == 1
    assert content.annotations.audience == ["user", "assistant"]


def test_reads_links_to_resources(harness: Harness) -> None:
    content = harness.client.call_tool("get-resource-links", {"count": 2}).content
    links = [item for item in content if isinstance(item, types.ResourceLink)]
    assert len(links) == 2


def test_reads_an_embedded_resource(harness: Harness) -> None:
    content = harness.client.call_tool(
        "get-resource-reference", {"resourceType": "Text", "resourceId": 1}
    ).content
    (embedded,) = [item for item in content if isinstance(item, types.EmbeddedResource)]
    assert isinstance(embedded.resource, types.TextResourceContents)


def test_reports_wrong_arguments(harness: Harness) -> None:
    assert is_refused(harness.client, "get-sum", {"a": "two", "b": 3})


def test_delivers_progress_in_order_before_the_result(harness: Harness) -> None:
    seen: list[Any] = []
    result = harness.client.call_tool(
        "trigger-long-running-operation",
        {"duration": 0.2, "steps": 4},
        progress_callback=lambda progress, total, message: seen.append((progress, total)),
    )
    assert "completed" in text(result)
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_cancelled_call_ends_at_once(harness: Harness) -> None:
    arguments = {"duration": 120, "steps": 1200}
    with running_call(harness.client, "trigger-long-running-operation", arguments) as (call, token):
        token.cancel("no longer needed")
        assert isinstance(call.wait(), CallCancelled)
    assert text(harness.client.call_tool("echo", {"message": "still here"})) == "Echo: still here"


def test_answers_a_sampling_request(harness: Harness) -> None:
    result = harness.client.call_tool("trigger-sampling-request", {"prompt": "hello", "maxTokens": 10})
    assert "you said Resource trigger-sampling-request context: hello" in text(result)


def test_answers_an_elicitation_with_the_defaults_of_its_form(harness: Harness) -> None:
    result = text(harness.client.call_tool("trigger-elicitation-request"))
    assert "User provided" in result
    assert "Zoë" in result
    assert "It was a dark and stormy night." in result
    (asked,) = harness.elicitations
    assert asked.requested_schema["required"] == ["name"]


def test_passes_on_that_the_user_declined(harness: Harness) -> None:
    harness.elicit_answer = ("decline", None)
    assert "declined" in text(harness.client.call_tool("trigger-elicitation-request"))


def test_answers_with_the_roots(harness: Harness) -> None:
    assert ROOT in text(harness.client.call_tool("get-roots-list"))


def test_sets_the_level_and_delivers_log_messages(harness: Harness) -> None:
    harness.client.set_logging_level("debug")
    assert "Started" in text(harness.client.call_tool("toggle-simulated-logging"))
    try:
        assert "message" in str(harness.logs.get(timeout=WAIT).data)
    finally:
        assert "Stopped" in text(harness.client.call_tool("toggle-simulated-logging"))


def test_lists_and_reads_resources(harness: Harness) -> None:
    first = next(iter(harness.client.resources()))
    (contents,) = harness.client.read_resource(str(first.uri)).contents
    assert isinstance(contents, types.TextResourceContents)
    assert contents.text


def test_lists_and_reads_resource_templates(harness: Harness) -> None:
    templates = {template.uri_template for template in harness.client.resource_templates()}
    assert "demo://resource/dynamic/text/{resourceId}" in templates
    (contents,) = harness.client.read_resource("demo://resource/dynamic/blob/7").contents
    assert isinstance(contents, types.BlobResourceContents)
    assert base64.b64decode(contents.blob)


def test_raises_for_a_resource_that_is_not_there(harness: Harness) -> None:
    with pytest.raises(RemoteError):
        harness.client.read_resource("demo://nothing")


def test_hears_of_a_changed_resource_it_subscribed_to(harness: Harness) -> None:
    uri = "demo://resource/dynamic/text/1"
    harness.client.subscribe_resource(uri)
    assert "Started" in text(harness.client.call_tool("toggle-subscriber-updates"))
    try:
        assert str(harness.next_message(types.ResourceUpdatedNotification).params.uri) == uri
    finally:
        assert "Stopped" in text(harness.client.call_tool("toggle-subscriber-updates"))
        harness.client.unsubscribe_resource(uri)


def test_listens_for_changed_resources(harness: Harness) -> None:
    uri = "demo://resource/static/document/features.md"
    with harness.another_client() as client, client.listen(tools=True, resources=[uri]) as events:
        assert events.honoured == events.asked
        assert "Started" in text(client.call_tool("toggle-subscriber-updates"))
        while (event := events.next(WAIT)) == ToolsChanged():
            pass  # It registers tools that fit what the client can do.
        assert event == ResourceUpdated(uri)
        assert "Stopped" in text(client.call_tool("toggle-subscriber-updates"))


def test_lists_and_gets_prompts(harness: Harness) -> None:
    assert "args-prompt" in {prompt.name for prompt in harness.client.prompts()}
    (message,) = harness.client.get_prompt("args-prompt", {"city": "Paris", "state": "Texas"}).messages
    assert isinstance(message.content, types.TextContent)
    assert message.content.text == "What's weather in Paris, Texas?"


def test_completes_an_argument_in_its_context(harness: Harness) -> None:
    reference = types.PromptReference(type="ref/prompt", name="completable-prompt")
    first = harness.client.complete(reference, {"name": "department", "value": "S"})
    assert first.completion.values == ["Sales", "Support"]
    second = harness.client.complete(
        reference, {"name": "name", "value": "E"}, context_arguments={"department": "Sales"}
    )
    assert second.completion.values == ["Eve"]


def test_pings(harness: Harness) -> None:
    harness.client.send_ping()


def filesystem(*folders: Path, **options: Any) -> Client:
    """Make a client that starts the filesystem server."""
    script = install.npm_script("@modelcontextprotocol/server-filesystem", "dist", "index.js")
    target = Stdio(str(install.node()), (str(script), *map(str, folders)))
    return Client(target, **options)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_filesystem_server_writes_and_reads_files(tmp_path: Path, mode: str) -> None:
    with filesystem(tmp_path, mode=mode) as client:
        path = str(tmp_path / "nötes.txt")
        text(client.call_tool("write_file", {"path": path, "content": "first\nsecond\n"}))
        assert (tmp_path / "nötes.txt").read_text(encoding="utf-8") == "first\nsecond\n"
        read = client.call_tool("read_text_file", {"path": path, "head": 1}, validation="strict")
        assert read.structured_content == {"content": "first"}
        assert "[FILE] nötes.txt" in text(client.call_tool("list_directory", {"path": str(tmp_path)}))


def test_the_filesystem_server_refuses_a_path_outside(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    with filesystem(inside) as client:
        result = client.call_tool("read_text_file", {"path": str(tmp_path / "secret.txt")})
        assert result.is_error
        assert "Access denied" in result.text


def test_the_filesystem_server_follows_the_roots(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    roots = [first]

    def list_roots(context: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri=root.as_uri()) for root in roots])

    def wait_until_allowed(folder: Path) -> None:
        deadline = time.monotonic() + WAIT
        while str(folder) not in text(client.call_tool("list_allowed_directories")):
            assert time.monotonic() < deadline, f"{folder} was never allowed"

    with filesystem(tmp_path, list_roots_callback=list_roots) as client:
        wait_until_allowed(first)
        roots[:] = [second]
        client.send_roots_list_changed()
        wait_until_allowed(second)
