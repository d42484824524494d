"""Observers of calls, and OpenTelemetry as one of them."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from mcp_sync import BearerToken, Client, InMemory, InputRequired, UsageError
from mcp_sync.errors import CallTimeout, HTTPStatusError, InternalError, InvalidParams, MCPError
from mcp_sync.otel import OpenTelemetry
from mcp_sync.testing import FakeServer, HTTPReply, RpcError, ToolContext
from mcp_sync.tracing import Peer

from .scripted import DuplexTarget


class Notes:
    """An observer that remembers."""

    def __init__(self, meta=()):
        self.calls = []
        self._meta = dict(meta)

    def begin(self, call):
        call.meta.update(self._meta)
        return threading.get_ident()

    def end(self, call, begun, result, error):
        assert begun == threading.get_ident()
        self.calls.append((call, result, error))


def make_server(**options):
    server = FakeServer(**options)

    @server.tool()
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool()
    def fail() -> str:
        raise ValueError("no")

    @server.tool()
    def ask(context: ToolContext) -> str:
        context.elicit("Really?")
        return "done"

    server.add_resource("memo:1", "text")
    server.add_prompt(lambda: "Hello", "greet")
    return server


# --- observers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("versions", ["modern", "legacy"])
def test_an_observer_is_told_of_each_call_on_its_thread(versions):
    notes = Notes()
    with (
        make_server(versions=versions).serve_http() as endpoint,
        Client(endpoint.url, tracing=notes) as client,
    ):
        client.call_tool("add", {"a": 1, "b": 2})
        client.read_resource("memo:1")
        client.get_prompt("greet")
        with pytest.raises(MCPError):
            client.get_prompt("none")
        told = [(call.method, call.name, call.uri) for call, _, _ in notes.calls]
        assert told == [
            ("tools/call", "add", ""),
            ("resources/read", "", "memo:1"),
            ("prompts/get", "greet", ""),
            ("prompts/get", "none", ""),
        ]
        call, result, error = notes.calls[0]
        assert result["content"] == [{"type": "text", "text": "3"}]
        assert error is None
        assert call.protocol_version == client.protocol_version
        assert call.session_id == client.session_id
        assert call.client == client.name
        assert (call.peer.transport, call.peer.protocol, call.peer.address) == ("tcp", "http", "127.0.0.1")
        assert f":{call.peer.port}/" in endpoint.url
        assert notes.calls[3][2] is not None
        assert len({each.request_id for each, _, _ in notes.calls}) == 4


def test_what_an_observer_adds_is_sent_and_what_the_caller_sets_counts_more():
    server = make_server()
    notes = Notes({"traceparent": "observer", "baggage": "a=1"})
    with Client(InMemory(server), tracing=notes) as client:
        client.call_tool("add", {"a": 1, "b": 2}, meta={"traceparent": "caller"})
    meta = server.received("tools/call")[0]["params"]["_meta"]
    assert (meta["traceparent"], meta["baggage"]) == ("caller", "a=1")
    assert notes.calls[0][0].peer == Peer()


def test_a_function_gives_the_trace_context_of_the_moment():
    server = make_server()
    contexts = iter([{"traceparent": "first"}, None, {"traceparent": "third", "tracestate": "x=1"}])
    with Client(InMemory(server), tracing=lambda: next(contexts)) as client:
        for _ in range(3):
            client.call_tool("add", {"a": 1, "b": 2})
    sent = [request["params"]["_meta"] for request in server.received("tools/call")]
    assert [meta.get("traceparent") for meta in sent] == ["first", None, "third"]
    assert sent[2]["tracestate"] == "x=1"


def test_one_call_is_one_call_whatever_it_takes():
    notes = Notes({"traceparent": "x"})
    server = make_server(versions="modern")
    answers = {"action": "accept", "content": {}}
    with Client(InMemory(server), tracing=notes, elicitation_callback=lambda *_: answers) as client:
        assert client.call_tool("ask").text == "done"
    ((call, _, error),) = notes.calls
    assert (call.sent, error) == (2, None)
    assert {request["params"]["_meta"]["traceparent"] for request in server.received("tools/call")} == {"x"}


def test_the_context_of_the_moment_is_not_kept_in_an_envelope():
    server = make_server(versions="modern")
    with Client(InMemory(server), tracing=Notes({"traceparent": "then"})) as client:
        with pytest.raises(InputRequired) as caught:
            client.call_tool("ask", on_input="raise")
        assert "then" not in str(caught.value.to_json())


def test_an_observer_that_fails_harms_no_call(caplog):
    class Broken:
        def begin(self, call):
            raise RuntimeError("begin")

        def end(self, call, begun, result, error):
            raise RuntimeError("end")

    with Client(InMemory(make_server()), tracing=Broken()) as client:
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
    assert [record.name for record in caplog.records] == ["mcp_sync.tracing"] * 2


def test_a_subscription_is_no_call():
    notes = Notes()
    with Client(InMemory(make_server()), tracing=notes) as client, client.listen(tools=True):
        pass
    assert [call.method for call, _, _ in notes.calls] == []


def test_views_are_told_apart_by_their_principal():
    notes = Notes()
    with make_server().serve_http() as endpoint, Client(endpoint.url, tracing=notes) as client:
        client.for_principal("alice", auth=BearerToken("t")).send_ping()
    assert notes.calls[-1][0].principal == "alice"


@pytest.mark.parametrize("tracing", [7, "yes", Notes, object()])
def test_what_cannot_observe_is_refused(tracing):
    with pytest.raises(UsageError, match="tracing"):
        Client(InMemory(make_server()), tracing=tracing)


# --- OpenTelemetry -----------------------------------------------------------------------------------------


class Telemetry:
    def __init__(self, **options):
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader])
        self.observer = OpenTelemetry(self.provider, self.meters, **options)

    @property
    def spans(self):
        return self.exporter.get_finished_spans()

    def durations(self):
        data = self.reader.get_metrics_data()
        (metric,) = data.resource_metrics[0].scope_metrics[0].metrics
        return metric


@pytest.fixture
def telemetry():
    telemetry = Telemetry()
    yield telemetry
    telemetry.provider.shutdown()
    telemetry.meters.shutdown()


@pytest.mark.parametrize("versions", ["modern", "legacy"])
def test_a_span_has_the_names_of_the_conventions(telemetry, versions):
    server = make_server(versions=versions)
    with server.serve_http() as endpoint, Client(endpoint.url, tracing=telemetry.observer) as client:
        client.call_tool("add", {"a": 1, "b": 2})
        session, version = client.session_id, client.protocol_version
        port = int(endpoint.url.split(":")[2].split("/")[0])
    (span,) = telemetry.spans
    assert (span.name, span.kind, span.status.status_code) == (
        "tools/call add",
        SpanKind.CLIENT,
        StatusCode.UNSET,
    )
    expected = {
        "mcp.method.name": "tools/call",
        "gen_ai.tool.name": "add",
        "gen_ai.operation.name": "execute_tool",
        "mcp.protocol.version": version,
        "jsonrpc.request.id": str(server.received("tools/call")[0]["id"]),
        "network.transport": "tcp",
        "network.protocol.name": "http",
        "server.address": "127.0.0.1",
        "server.port": port,
    }
    if session is not None:
        expected["mcp.session.id"] = session
    assert dict(span.attributes) == expected
    parent = server.received("tools/call")[0]["params"]["_meta"]["traceparent"]
    assert parent.startswith(f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-")


def test_a_span_is_a_child_of_the_one_around_it_and_carries_the_baggage(telemetry):
    server = make_server()
    tracer = telemetry.provider.get_tracer("test")
    with (
        Client(InMemory(server), tracing=telemetry.observer) as client,
        tracer.start_as_current_span("outer"),
    ):
        token = context.attach(baggage.set_baggage("user", "alice"))
        try:
            client.read_resource("memo:1")
            client.submit(client.get_prompt, "greet").result(10)
        finally:
            context.detach(token)
        assert trace.get_current_span().get_span_context().is_valid
    read, prompt, outer = telemetry.spans
    assert (read.name, prompt.name) == ("resources/read", "prompts/get greet")
    assert {read.parent.span_id, prompt.parent.span_id} == {outer.context.span_id}
    assert read.attributes["mcp.resource.uri"] == "memo:1"
    assert prompt.attributes["gen_ai.prompt.name"] == "greet"
    assert server.received("resources/read")[0]["params"]["_meta"]["baggage"] == "user=alice"


def test_the_span_is_current_while_callbacks_of_the_call_run(telemetry):
    current = []

    def answer(*_):
        current.append(trace.get_current_span().get_span_context().span_id)
        return {"action": "accept", "content": {}}

    server = make_server(versions="modern")
    with Client(InMemory(server), tracing=telemetry.observer, elicitation_callback=answer) as client:
        client.call_tool("ask")
    assert current == [telemetry.spans[0].context.span_id]
    assert not trace.get_current_span().get_span_context().is_valid


def attributes_of_failure(telemetry):
    span = telemetry.spans[-1]
    assert span.status.status_code is StatusCode.ERROR
    return span.attributes.get("error.type"), span.attributes.get("rpc.response.status_code")


def test_failures_have_their_types(telemetry):
    server = make_server()
    with Client(InMemory(server), tracing=telemetry.observer) as client:
        assert client.call_tool("fail").is_error
        assert attributes_of_failure(telemetry) == ("tool_error", None)
        with pytest.raises(InvalidParams):
            client.get_prompt("none")
        assert attributes_of_failure(telemetry) == ("-32602", "-32602")
        assert telemetry.spans[-1].status.description
    with Client(DuplexTarget(), tracing=telemetry.observer) as client:
        with pytest.raises(CallTimeout):
            client.call_tool("x", timeout=0.01)
        assert attributes_of_failure(telemetry) == ("CallTimeout", None)
    busy = lambda request: HTTPReply(403)  # noqa: E731
    with server.serve_http(intercept=busy) as endpoint:
        client = Client(endpoint.url, mode="2026-07-28", tracing=telemetry.observer)
        with pytest.raises(HTTPStatusError):
            client.call_tool("add")
        client.close()
        assert attributes_of_failure(telemetry) == ("403", None)


def test_durations_are_counted_in_seconds_by_few_attributes(telemetry):
    with Client(InMemory(make_server()), tracing=telemetry.observer) as client:
        for _ in range(3):
            client.call_tool("add", {"a": 1, "b": 2})
        client.call_tool("fail")
    metric = telemetry.durations()
    assert (metric.name, metric.unit) == ("mcp.client.operation.duration", "s")
    points = {point.attributes["gen_ai.tool.name"]: point for point in metric.data.data_points}
    assert points["add"].count == 3
    assert points["fail"].attributes["error.type"] == "tool_error"
    assert 0 < points["add"].sum < 60
    assert not {"jsonrpc.request.id", "mcp.session.id", "mcp.resource.uri"} & set(points["add"].attributes)


def test_arguments_and_results_are_shown_only_where_somebody_asks_for_it():
    for content in (False, True):
        telemetry = Telemetry(content=content, baggage=False)
        server = make_server()
        with Client(InMemory(server), tracing=telemetry.observer) as client:
            token = context.attach(baggage.set_baggage("user", "alice"))
            client.call_tool("add", {"a": 1, "b": 2})
            context.detach(token)
        shown = telemetry.spans[0].attributes
        assert ("gen_ai.tool.call.arguments" in shown, "gen_ai.tool.call.result" in shown) == (
            content,
            content,
        )
        assert "baggage" not in server.received("tools/call")[0]["params"]["_meta"]
        telemetry.provider.shutdown()
        telemetry.meters.shutdown()


@pytest.mark.parametrize(
    ("uri", "shown", "with_content"),
    [
        ("db://user:CANARY@h/x?token=CANARY&a=1#f", "db://h/x", "db://***@h/x?token=***&a=1#f"),
        ("memo:1?x=CANARY", "memo:1", "memo:1?x=CANARY"),
        ("file:///a/ghp_0123456789abcdefghij", "file:///a/***", "file:///a/***"),
    ],
)
def test_spans_show_no_credentials_of_uris(uri, shown, with_content):
    for content, expected in ((False, shown), (True, with_content)):
        telemetry = Telemetry(content=content)
        client = Client(InMemory(make_server()), tracing=telemetry.observer)
        with client, pytest.raises(InvalidParams):
            client.read_resource(uri)
        assert telemetry.spans[0].attributes["mcp.resource.uri"] == expected
        telemetry.provider.shutdown()
        telemetry.meters.shutdown()


def test_spans_mask_what_is_named_like_a_secret():
    telemetry = Telemetry(content=True)
    server = FakeServer(tools={"echo": lambda passphrase: '{"db_pwd": "CANARY"}'})

    def fail(message):
        raise RpcError(-32603, "no: Authorization: Bearer CANARY-0123, password=CANARY")

    server.on("prompts/get", fail)
    with Client(InMemory(server), tracing=telemetry.observer) as client:
        client.call_tool("echo", {"passphrase": "CANARY"})
        with pytest.raises(InternalError):
            client.get_prompt("x")
    assert "Authorization: ***" in telemetry.spans[1].status.description
    told = [str(dict(span.attributes)) + str(span.status.description) for span in telemetry.spans]
    assert "CANARY" not in "".join(told)
    telemetry.provider.shutdown()
    telemetry.meters.shutdown()


def test_without_the_package_the_extra_is_named():
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "import mcp_sync, mcp_sync.otel\n"
        "try: mcp_sync.otel.OpenTelemetry()\n"
        "except mcp_sync.UsageError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=True
    )
    assert "mcp-sync-client[otel]" in done.stdout


def test_a_client_that_traces_nothing_loads_nothing_for_it():
    names = ["opentelemetry"]
    names += [
        f"mcp_sync.{name}" for name in ("tracing", "trace", "otel", "futures", "streaming", "principals")
    ]
    names += ["mcp_sync._engine.views", "mcp_sync._engine.observing"]
    code = (
        "import sys\nfrom mcp_sync import Client, InMemory\nfrom mcp_sync.testing import FakeServer\n"
        "with Client(InMemory(FakeServer(tools={'x': lambda: 'y'}))) as client: client.call_tool('x')\n"
        f"print([name for name in {names!r} if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=True
    )
    assert done.stdout.strip() == "[]"
