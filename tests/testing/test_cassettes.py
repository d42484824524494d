"""Sessions are recorded, and replayed as they were: on every revision, and over every transport."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from mcp_sync import (
    CallTimeout,
    Client,
    ConnectionLost,
    HTTPStatusError,
    InMemory,
    InvalidParams,
    StreamableHTTP,
    ToolsChanged,
    UsageError,
    types,
)
from mcp_sync.testing import (
    Cassette,
    FakeServer,
    Fault,
    FaultPlan,
    NotificationCollector,
    Recorder,
    Replay,
    ToolContext,
    UnmatchedRequest,
)

CANARY = "canary-7d20"


def make_server() -> FakeServer:
    def add(context: ToolContext, a: int, b: int) -> dict[str, int]:
        """Add, and tell how far that is."""
        context.progress(1, 2, "half")
        return {"sum": a + b}

    def ask(context: ToolContext) -> str:
        answer = context.elicit("Who?", {"type": "object", "properties": {"name": {"type": "string"}}})
        return f"Hello {answer['content']['name']}"

    def log_in(password: str) -> dict[str, str]:
        return {"token": CANARY, "text": f"password={password}"}

    server = FakeServer(tools=[add, ask, log_in], resources={"demo://a": "A"}, page_size=1)

    def change() -> str:
        server.tools_changed()
        return "changed"

    server.add_tool(change)
    return server


TRANSPORTS = ["memory", "http", "events", "websocket"]
MODES = ["auto", "2026-07-28", "legacy", "2025-06-18"]


def target_of(server: FakeServer, transport: str, stack: ExitStack) -> Any:
    if transport == "memory":
        return InMemory(server)
    if transport == "websocket":
        return stack.enter_context(server.serve_websocket()).url
    answers: Any = "sse" if transport == "events" else "json"
    return stack.enter_context(server.serve_http(answers=answers)).url


def work(target: Any, mode: str) -> list[Any]:
    """Do everything once, and say what came of it."""
    seen = NotificationCollector()
    reports: list[Any] = []

    def answer(context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"name": "Anna"})

    with Client(target, mode=mode, message_handler=seen, elicitation_callback=answer) as client:
        found = [
            client.protocol_version,
            client.server_info,
            [tool.name for tool in client.tools()],
            client.call_tool(
                "add", {"a": 1, "b": 2}, progress_callback=lambda *report: reports.append(report)
            ).structured_content,
            client.call_tool("add", {"a": 2, "b": 2}).structured_content,
            client.read_resource("demo://a").contents[0].text,
            client.call_tool("ask").text,
            reports,
        ]
        with pytest.raises(InvalidParams) as caught:
            client.call_tool("no such tool")
        return [*found, caught.value.message]


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("mode", MODES)
def test_a_replay_is_what_was_recorded(tmp_path, transport, mode):
    path = tmp_path / "session.jsonl"
    server = make_server()
    with ExitStack() as stack:
        recorded = work(Recorder(target_of(server, transport, stack), path), mode)
    replay = Replay(path)
    count = len(server.requests)
    assert work(replay, mode) == recorded
    assert recorded[7] == [(1, 2, "half")]
    assert replay.unused == []
    assert len(server.requests) == count


@pytest.mark.parametrize("mode", ["2026-07-28", "2025-11-25"])
@pytest.mark.parametrize("transport", ["http", "websocket"])
def test_a_subscription_is_replayed_after_what_brought_its_events_about(tmp_path, transport, mode):
    path = tmp_path / "session.jsonl"

    def watch(target: Any) -> list[str]:
        happened: list[str] = []
        with Client(target, mode=mode) as client, client.listen(tools=True) as subscription:
            happened.append(client.call_tool("change").text)
            happened.append(type(subscription.next(timeout=10)).__name__)
        return happened

    with ExitStack() as stack:
        recorded = watch(Recorder(target_of(make_server(), transport, stack), path))
    assert recorded == ["changed", "ToolsChanged"]
    assert watch(Replay(path)) == recorded


def test_an_event_waits_for_the_call_that_brought_it_about(tmp_path):
    path = tmp_path / "session.jsonl"
    with ExitStack() as stack:
        target = Recorder(target_of(make_server(), "http", stack), path)
        client = stack.enter_context(Client(target))
        subscription = stack.enter_context(client.listen(tools=True))
        client.call_tool("change")
        subscription.next(timeout=10)
    with Client(Replay(path)) as client, client.listen(tools=True) as subscription:
        assert subscription.next(timeout=0.2) is None
        client.call_tool("change")
        assert isinstance(subscription.next(timeout=10), ToolsChanged)


@pytest.mark.parametrize("transport", ["http", "websocket"])
def test_a_result_waits_for_the_answer_to_the_question_before_it(tmp_path, transport):
    path = tmp_path / "session.jsonl"
    returned = threading.Event()
    was_early: list[bool] = []

    def answer(context: Any, params: Any) -> types.ElicitResult:
        was_early.append(returned.wait(0.2))
        return types.ElicitResult(action="accept", content={"name": "Anna"})

    def ask(target: Any) -> None:
        with Client(target, mode="legacy", elicitation_callback=answer) as client:
            client.call_tool("ask")
            returned.set()

    with ExitStack() as stack:
        ask(Recorder(target_of(make_server(), transport, stack), path))
    returned.clear()
    ask(Replay(path))
    assert was_early == [False, False]


def test_a_call_ends_in_time_though_its_question_is_not_answered(tmp_path):
    path = tmp_path / "session.jsonl"
    answers = threading.Event()

    def answer(context: Any, params: Any) -> types.ElicitResult:
        answers.wait(10)
        return types.ElicitResult(action="accept", content={"name": "Anna"})

    answers.set()
    with Client(
        Recorder(InMemory(make_server()), path), mode="legacy", elicitation_callback=answer
    ) as client:
        client.call_tool("ask")
    answers.clear()
    with Client(Replay(path), mode="legacy", elicitation_callback=answer) as client:
        with pytest.raises(CallTimeout):
            client.call_tool("ask", timeout=0.2)
        answers.set()


def record(path: Path, use: Callable[[Client], Any], server: Any = None, **options: Any) -> None:
    with Client(Recorder(InMemory(server or make_server()), path, **options), mode="2026-07-28") as client:
        use(client)


def replaying(path: Path, **options: Any) -> Client:
    return Client(Replay(path, **options), mode="2026-07-28")


def test_answers_are_given_in_order_and_each_once(tmp_path):
    path = tmp_path / "session.jsonl"
    numbers = iter(range(10))
    server = FakeServer(tools={"next": lambda: str(next(numbers)), "other": lambda: "x"})
    record(path, lambda client: [client.call_tool("next"), client.call_tool("next")], server)
    with replaying(path) as client:
        assert [client.call_tool("next").text for _ in range(2)] == ["0", "1"]
        with pytest.raises(UnmatchedRequest, match="any more: there were 2, all given"):
            client.call_tool("next")


def test_a_request_that_was_not_recorded_is_an_error_that_names_the_nearest(tmp_path):
    path = tmp_path / "session.jsonl"
    record(path, lambda client: [client.call_tool("add", {"a": 1, "b": b}) for b in (2, 300)])
    with replaying(path) as client:
        with pytest.raises(UnmatchedRequest) as caught:
            client.call_tool("add", {"a": 1, "b": 301})
        assert '"b": 300' in caught.value.nearest
        assert '"b": 301' in str(caught.value)
        with pytest.raises(UnmatchedRequest, match="it has tools/call") as caught:
            client.list_prompts()
        assert caught.value.method == "prompts/list"
        assert caught.value.nearest == ""
        assert client.call_tool("add", {"a": 1, "b": 2}).structured_content == {"sum": 3}


def test_a_strict_replay_wants_the_very_order(tmp_path):
    path = tmp_path / "session.jsonl"
    record(path, lambda client: [client.call_tool("add", {"a": 1, "b": b}) for b in (1, 2)])
    client = replaying(path, strict=True)
    with client, pytest.raises(UnmatchedRequest, match=r'the next is tools/call .*"b": 1'):
        client.call_tool("add", {"a": 1, "b": 2})
    replay = Replay(path)
    with Client(replay, mode="2026-07-28") as client:
        assert client.call_tool("add", {"a": 1, "b": 2}).structured_content == {"sum": 3}
    assert len(replay.unused) == 1
    assert replay.unused[0].startswith("tools/call")


def test_numbers_and_booleans_are_told_apart(tmp_path):
    path = tmp_path / "session.jsonl"
    record(path, lambda client: client.call_tool("add", {"a": 1, "b": 1}))
    with replaying(path) as client, pytest.raises(UnmatchedRequest):
        client.call_tool("add", {"a": True, "b": 1})


def test_no_secret_gets_into_the_file_and_the_replay_works_without_it(tmp_path):
    path = tmp_path / "session.jsonl"
    with make_server().serve_http() as endpoint:
        target = StreamableHTTP(
            f"{endpoint.url}?api_key={CANARY}-url",
            headers={"X-Team": f"{CANARY}-header", "Authorization": f"Bearer {CANARY}-bearer"},
        )
        recorder = Recorder(target, path, secrets=[f"{CANARY}-named"])
        with Client(recorder, mode="legacy") as client:
            client.call_tool("log_in", {"password": f"{CANARY}-argument"})
            client.call_tool("add", {"a": f"{CANARY}-named", "b": f"x{CANARY}-headery"})
        assert any(CANARY in value for value in endpoint.requests[-1].headers.values())
        assert endpoint.requests[-1].headers["mcp-session-id"] not in path.read_text()
    assert CANARY not in path.read_text()
    assert CANARY not in repr(recorder)
    with Client(Replay(path), mode="legacy") as client:
        assert client.call_tool("log_in", {"password": "anything"}).structured_content["token"] == "***"
        client.call_tool("add", {"a": "whatever", "b": "xYy"})


def test_a_function_can_change_what_is_recorded(tmp_path):
    path = tmp_path / "session.jsonl"

    def mask(message: dict[str, Any]) -> dict[str, Any]:
        return json.loads(json.dumps(message).replace("demo://a", "demo://b"))

    record(path, lambda client: client.read_resource("demo://a"), mask=mask)
    with replaying(path) as client:
        assert client.read_resource("demo://b").contents[0].uri == "demo://b"


@pytest.mark.parametrize(
    ("fault", "error"), [(Fault.http(500), HTTPStatusError), (Fault.drop("body"), ConnectionLost)]
)
def test_failures_are_replayed_as_well(tmp_path, fault, error):
    path = tmp_path / "session.jsonl"

    def fail(target: Any) -> tuple[Any, ...]:
        with Client(target, mode="2026-07-28") as client:
            with pytest.raises(error) as caught:
                client.call_tool("add", {"a": 1, "b": 2})
            again = client.call_tool("add", {"a": 1, "b": 2}).structured_content
        return str(caught.value), caught.value.request_sent, getattr(caught.value, "status", None), again

    with make_server().serve_http(faults=FaultPlan({"tools/call": [fault]})) as endpoint:
        recorded = fail(Recorder(endpoint.url, path))
    assert recorded[-1] == {"sum": 3}
    assert fail(Replay(path)) == recorded


def test_many_threads_are_recorded_and_replayed(tmp_path):
    path = tmp_path / "session.jsonl"

    def add_all(target: Any) -> dict[int, Any]:
        found: dict[int, Any] = {}
        with Client(target, mode="2026-07-28") as client:

            def add(number: int) -> None:
                found[number] = client.call_tool("add", {"a": number, "b": 0}).structured_content

            threads = [threading.Thread(target=add, args=(number,)) for number in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        return found

    with make_server().serve_http() as endpoint:
        recorded = add_all(Recorder(endpoint.url, path))
    assert recorded == {number: {"sum": number} for number in range(8)}
    assert add_all(Replay(path)) == recorded


# --- the file -------------------------------------------------------------------------------------------


def test_the_file_is_of_lines_that_say_what_passed_and_when(tmp_path):
    path = tmp_path / "folder" / "session.jsonl"
    with Client(Recorder(InMemory(make_server()), path)) as client:
        client.call_tool("add", {"a": 1, "b": 2})
    head, opened, sent, *rest = [json.loads(line) for line in path.read_text().splitlines()]
    assert head == {"mcp_sync_cassette": 1, "server": "in-memory server"}
    assert (opened["event"], opened["http"], opened["duplex"]) == ("open", False, False)
    assert (sent["to"], sent["method"], sent["on"]) == ("server", "server/discover", 1)
    assert [line["to"] for line in rest] == ["client", "server", "client"]
    assert rest[-1]["message"]["result"]["structuredContent"] == {"sum": 3}
    assert rest[-1]["id"] == rest[-1]["for"] == rest[-2]["id"]
    times = [line["at"] for line in (opened, sent, *rest)]
    assert times == sorted(times)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "line 1: this is no JSON object"),
        ('{"mcp_sync_cassette": 2}\n', "no recording of version 1"),
        ('{"mcp_sync_cassette": 1}\n[]\n', "line 2: this is no JSON object"),
        ('{"mcp_sync_cassette": 1}\n{"on":\n', "line 2: this is no JSON object"),
    ],
)
def test_what_is_no_recording_is_refused_with_the_line(tmp_path, text, says):
    path = tmp_path / "session.jsonl"
    path.write_text(text)
    with pytest.raises(UsageError, match=says):
        Replay(path)


def test_what_cannot_be_a_target_is_refused_at_once(tmp_path):
    with pytest.raises(UsageError):
        Recorder("no target", tmp_path / "session.jsonl")


# --- modes ----------------------------------------------------------------------------------------------


def add_with(cassette: Cassette, *numbers: int, mode: str = "2026-07-28") -> list[Any]:
    with Client(cassette, mode=mode) as client:
        return [client.call_tool("add", {"a": n, "b": 0}).structured_content["sum"] for n in numbers]


def test_once_records_the_first_time_and_replays_from_then_on(tmp_path):
    path, server = tmp_path / "a.jsonl", make_server()
    first = Cassette(InMemory(server), path)
    assert first.recording
    assert add_with(first, 1, 2) == [1, 2]
    second = Cassette(InMemory(server), path)
    assert not second.recording
    assert add_with(second, 1) == [1]
    assert len(second.unused) == 1
    with pytest.raises(UnmatchedRequest):
        add_with(Cassette(InMemory(server), path), 3)
    assert server.count("tools/call") == 2


def test_none_never_records(tmp_path):
    with pytest.raises(UsageError, match="no recording at"):
        Cassette(InMemory(make_server()), tmp_path / "a.jsonl", mode="none")


def test_all_records_anew(tmp_path):
    path, server = tmp_path / "a.jsonl", make_server()
    for _ in range(2):
        assert add_with(Cassette(InMemory(server), path, mode="all"), 1) == [1]
    assert server.count("tools/call") == 2
    assert path.read_text().count('"method": "tools/call"') == 2  # once for the line, once for its message


@pytest.mark.parametrize("mode", ["auto", "2026-07-28", "legacy"])
@pytest.mark.parametrize("transport", ["memory", "http", "websocket"])
def test_new_replays_what_is_there_and_records_the_rest(tmp_path, transport, mode):
    path, server = tmp_path / "a.jsonl", make_server()
    with ExitStack() as stack:
        target = target_of(server, transport, stack)
        assert add_with(Cassette(target, path, mode="new"), 1, mode=mode) == [1]
        assert add_with(Cassette(target, path, mode="new"), 1, 2, 3, mode=mode) == [1, 2, 3]
        assert add_with(Cassette(target, path, mode="new"), 1, 2, 3, mode=mode) == [1, 2, 3]
    assert server.count("tools/call") == 3
    assert add_with(Cassette("http://127.0.0.1:9/mcp", path, mode="none"), 3, 1, 2, mode=mode) == [3, 1, 2]


def test_a_mode_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(UsageError, match="once, none, all, new"):
        Cassette(InMemory(make_server()), tmp_path / "a.jsonl", mode="sometimes")
