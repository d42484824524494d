"""The trace of the wire, the log messages of servers, and the counters."""

from __future__ import annotations

import json
import logging
import pickle
import sys
import time

import pytest

import mcp_sync.logs
from mcp_sync import BearerToken, CallTimeout, Client, InMemory, Stdio, UsageError, types
from mcp_sync._masking import HIDDEN, masked, masked_text
from mcp_sync.errors import MCPError
from mcp_sync.options import CacheOptions
from mcp_sync.testing import FakeServer, HTTPReply, ToolContext
from mcp_sync.trace import Trace

from .background import Background, wait_until
from .scripted import DuplexTarget, text


def make_server(**options):
    server = FakeServer(**options)

    @server.tool()
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool()
    def report(context: ToolContext, level: str, data: object, logger: str = "") -> str:
        context.log(level, data, logger or None)
        return "done"

    return server


# --- the wire ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("versions", ["modern", "legacy"])
def test_each_message_is_a_line_with_method_id_and_time(versions):
    lines = []
    with make_server(versions=versions).serve_http() as endpoint:
        client = Client(endpoint.url, name="weather", trace=lines.append)
        client.call_tool("add", {"a": 1, "b": 2})
        client.close()
    sent = next(line for line in lines if "> tools/call" in line)
    number = sent.split("id=")[1].split()[0]
    received = next(line for line in lines if f"< result id={number}" in line)
    assert " weather > " in sent
    assert '"add"' in sent
    assert sent.endswith(" bytes")
    assert "after " in received
    assert " ms" in received
    assert lines[-1].split(" weather ")[1].startswith("- closing the connection to ")


def test_arguments_and_results_are_shown_only_where_somebody_asks_for_it():
    for content in (False, True):
        lines = []
        with Client(InMemory(make_server()), trace=Trace(lines.append, content=content)) as client:
            client.call_tool("add", {"a": 12345, "b": 1})
        told = "\n".join(lines)
        assert ("12345" in told, "12346" in told) == (content, content)


def test_no_secret_is_written_down():
    lines = []

    def cookie(request):
        return HTTPReply(403, {"Set-Cookie": "c=secret-5"}, b"no") if b"tools/list" in request.body else None

    with make_server().serve_http(intercept=cookie) as endpoint:
        url = endpoint.url.replace("http://", "http://user:secret-1@") + "?token=secret-2"
        with Client(url, headers={"X-Key": "secret-3"}, trace=Trace(lines.append, content=True)) as client:
            alice = client.for_principal("alice", auth=BearerToken("secret-4"))
            arguments = {
                "a": 1,
                "b": 2,
                "password": "secret-6",
                "url": "https://u:secret-7@h/?api_key=secret-8",
            }
            for each in (client, alice):
                each.call_tool("add", arguments, headers={"X-Other": "secret-9"})
                with pytest.raises(MCPError):
                    each.list_tools()
    told = "\n".join(lines)
    assert "tools/call" in told
    assert "X-Other" in told
    assert "secret" not in told


SECRET_NAMES = (
    *("passphrase", "db_pwd", "userPwd", "user_pass", "access_key", "accessKeyId", "AWS_ACCESS_KEY_ID"),
    *("auth", "x-auth", "otp", "pin", "tokens", "sessionId", "PASSWD", "passcode", "connectionString"),
    *("mfa_code", "security_answer", "cvv", "APIKey", "idToken", "ssh-key", "X-Api-Key", "client.secret"),
    *("pin_code", "pinCode", "session", "session_id", "sessionid", "user_session", "csrf", "xsrf", "SSN"),
    *("refresh_tokens", "csrfToken"),
)
PLAIN_NAMES = (
    "author",
    "progressToken",
    "nextCursor",
    "code",
    "pinned",
    "key",
    "passed",
    "tokenizer",
    "error_code",
    "spin_code",
    "session_count",
    *("max_tokens", "maxTokens", "max_output_tokens", "prompt_tokens", "completionTokens", "total_tokens"),
)
KEYS = (
    *(
        "ghp_0123456789abcdefghijABCDEFGHIJ012345",
        "github_pat_0123456789abcdefghij",
        "glpat-0123456789abcdefghij",
    ),
    *("sk-ant-api03-0123456789abcdef", "sk-0123456789abcdef0123", "sk_" + "live_0123456789abcdef01"),
    *("AKIAIOSFODNN7EXAMPLE", "xoxb-0123456789-abcdef", "AIzaSy0123456789abcdefghijklmnopqrstuvw"),
)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"token": "x"}, {"token": HIDDEN}),
        ({"accessToken": "x", "progressToken": 7}, {"accessToken": HIDDEN, "progressToken": 7}),
        ({"a": [{"client_secret": {"b": 1}}]}, {"a": [{"client_secret": HIDDEN}]}),
        (
            {"API-Key": 1, "Set-Cookie": 2, "requestState": 3},
            dict.fromkeys(("API-Key", "Set-Cookie", "requestState"), HIDDEN),
        ),
        ({"say": "Bearer abcdefghij"}, {"say": f"Bearer {HIDDEN}"}),
        *(({name: "x"}, {name: HIDDEN}) for name in SECRET_NAMES),
        *(({name: "x"}, {name: "x"}) for name in PLAIN_NAMES),
        ({"maxTokens": 100, "tokens": ["x"]}, {"maxTokens": 100, "tokens": HIDDEN}),
        ({"text": '{"password": "x", "n": [1]}'}, {"text": f'{{"password": "{HIDDEN}", "n": [1]}}'}),
        ({"text": '["{\\"otp\\": \\"x\\"}"]'}, {"text": f'["{{\\"otp\\": \\"{HIDDEN}\\"}}"]'}),
        ({"name": "X-Api-Key", "value": "x"}, {"name": "X-Api-Key", "value": HIDDEN}),
        ({"n": 1, "t": True, "z": None}, {"n": 1, "t": True, "z": None}),
        (
            {"args": ["run", "--password", "x", "-v", "--api-key", "--token=y", "z"]},
            {"args": ["run", "--password", HIDDEN, "-v", "--api-key", f"--token={HIDDEN}", "z"]},
        ),
    ],
    ids=str,
)
def test_what_stands_under_the_name_of_a_secret_is_hidden(value, shown):
    assert masked(value) == shown


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("https://u:p@host/x?a=1&access_token=abc#d", f"https://{HIDDEN}@host/x?a=1&access_token={HIDDEN}#d"),
        ("eyJhbGciOi.eyJzdWIiOi.sig-nature", HIDDEN),
        ("basic dXNlcjpwYXNz", f"basic {HIDDEN}"),
        ("the basic idea", "the basic idea"),
        ("in the token: 7 of 8", f"in the token: {HIDDEN} of 8"),
        ('so {"db_password": "a b", "n": 1}', f'so {{"db_password": {HIDDEN}, "n": 1}}'),
        ("password=x y", f"password={HIDDEN} y"),
        ("X-Api-Key: x", f"X-Api-Key: {HIDDEN}"),
        ("Cookie: a=x; b=y\nz", f"Cookie: {HIDDEN}\nz"),
        ("Authorization: token abc, or", f"Authorization: {HIDDEN}, or"),
        *((f"<{key}>", f"<{HIDDEN}>") for key in KEYS),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIC\n-----END RSA PRIVATE KEY-----.", f"{HIDDEN}."),
        ("-----BEGIN PRIVATE KEY-----\nMIIC", HIDDEN),
        (
            "ask-me-anything-about-it and risk-free-investments",
            "ask-me-anything-about-it and risk-free-investments",
        ),
        ("mail me@example.com", "mail me@example.com"),
        ("run --password hunter2 -v", f"run --password {HIDDEN} -v"),
        ("run -v --db-password 'a b' x", f"run -v --db-password {HIDDEN} x"),
        ("run --token-file a --password --verbose", "run --token-file a --password --verbose"),
        ("<a><password>x y</password></a>", f"<a><password>{HIDDEN}</password></a>"),
        (
            '<dbPassword kind="b"><![CDATA[x]]></dbPassword>',
            f'<dbPassword kind="b"><![CDATA[{HIDDEN}</dbPassword>',
        ),
        ("put <token> in the header", "put <token> in the header"),
        ("pin_code=1234 and ssn: 078-05", f"pin_code={HIDDEN} and ssn: {HIDDEN}"),
        ("session=x; 'csrf': 'y'", f"session={HIDDEN}; 'csrf': {HIDDEN}"),
        ("in this session: a talk", "in this session: a talk"),
        ("max_tokens=100, prompt_tokens: 7", "max_tokens=100, prompt_tokens: 7"),
        ("max_tokens=abc", f"max_tokens={HIDDEN}"),
    ],
)
def test_what_looks_like_a_credential_is_hidden(given, shown):
    assert masked_text(given) == shown


@pytest.mark.parametrize(
    "given",
    [
        {"headers": {"X-Api-Key": "opensesame"}},
        {"auth": BearerToken("opensesame")},
        {"auth": ("me", "opensesame")},
        {"user": "me:open%73esame@"},
    ],
    ids=str,
)
def test_a_credential_that_a_server_repeats_is_not_written_down(given):
    lines = []
    with make_server().serve_http() as endpoint:
        trace = Trace(lines.append, content=True)
        url = endpoint.url.replace("://", f"://{given.get('user', '')}", 1)
        options = {name: value for name, value in given.items() if name != "user"}
        with Client(url, trace=trace, **options) as client:
            client.call_tool("report", {"level": "info", "data": "say opensesame"})
    assert "sesame" not in "".join(lines)
    assert any("say (secret)" in line for line in lines)


def test_a_variable_that_a_process_repeats_is_not_written_down():
    lines = []
    program = (
        "import json, os, sys\n"
        "for line in sys.stdin:\n"
        "    n = json.loads(line)['id']\n"
        "    info = {'name': os.environ['API_KEY'], 'version': '1'}\n"
        "    answer = {'protocolVersion': '2025-11-25', 'capabilities': {}, 'serverInfo': info}\n"
        "    print(json.dumps({'jsonrpc': '2.0', 'id': n, 'result': answer}), flush=True)\n"
    )
    target = Stdio(sys.executable, ["-c", program], env={"API_KEY": "opensesame"})
    with (
        pytest.raises(MCPError),
        Client(target, trace=Trace(lines.append, content=True), timeout=5) as client,
    ):
        client.list_tools()
    assert any("(secret)" in line for line in lines)
    assert "sesame" not in "".join(lines)


def test_a_line_is_bounded_and_stays_a_line():
    lines = []
    with Client(InMemory(make_server()), trace=Trace(lines.append, content=True, limit=300)) as client:
        client.call_tool("report", {"level": "info", "data": "x" * 100_000 + "\nforged line"})
    assert max(map(len, lines)) < 400
    assert not any("\n" in line for line in lines)


def test_a_huge_message_is_not_looked_at_in_full():
    assert len(json.dumps(masked([[n] for n in range(100_000)]))) < 100_000
    deep = value = []
    for _ in range(1000):
        value.append([])
        value = value[0]
    assert "..." in json.dumps(masked(deep))


@pytest.mark.parametrize(
    "text",
    [
        "-" * 90_000,
        "--password" * 9_000,
        "<" * 90_000,
        "<password " * 9_000,
        "<password>" * 9_000,
        "--" + "a-" * 45_000,
    ],
    ids=lambda text: text[:12],
)
def test_no_text_takes_long_to_be_looked_at(text):
    began = time.process_time()
    masked_text(text)
    assert time.process_time() - began < 5.0


def test_what_writes_may_fail_without_harm(caplog):
    def write(line):
        raise OSError("full")

    with Client(InMemory(make_server()), trace=write) as client:
        assert client.call_tool("add", {"a": 1, "b": 2}).text == "3"
    assert [record.name for record in caplog.records] == ["mcp_sync.trace"]


def test_failures_and_the_end_of_a_connection_are_written_down():
    lines, target = [], DuplexTarget()
    with Client(target, trace=lines.append) as client:
        with pytest.raises(CallTimeout):
            client.call_tool("x", timeout=0.01)
        call = Background(client.call_tool, "x")
        target.now.expect("tools/call", 2)
        target.now.lose(MCPError("gone with token=x?token=secret"))
        assert call.error() is not None
    assert any("! lost: gone" in line for line in lines)
    assert any("> notifications/cancelled" in line for line in lines)
    assert "secret" not in "".join(lines)


def test_the_environment_turns_it_on_for_all_clients(monkeypatch, capsys):
    for value, is_on in (("1", True), ("0", False), ("", False)):
        monkeypatch.setenv("MCP_SYNC_TRACE", value)
        with Client(InMemory(make_server())) as client:
            client.send_ping()
        assert (" > " in capsys.readouterr().err) is is_on
    monkeypatch.setenv("MCP_SYNC_TRACE", "1")
    with Client(InMemory(make_server()), trace=False) as client:
        client.send_ping()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("trace", [7, "stderr", Trace])
def test_what_cannot_write_is_refused(trace):
    with pytest.raises(UsageError, match="trace"):
        Client(InMemory(make_server()), trace=trace)


# --- the log messages of servers ---------------------------------------------------------------------------


@pytest.mark.parametrize("versions", ["modern", "legacy"])
def test_log_messages_of_servers_go_to_a_logger_of_their_client(versions, caplog):
    caplog.set_level(logging.DEBUG, "mcp_sync.server")
    target = InMemory(make_server(versions=versions))
    to_logging = mcp_sync.logs.to_logging
    with Client(target, name="weather", logging_callback=to_logging, log_level="debug") as client:
        for level in ("debug", "notice", "warning", "emergency"):
            client.call_tool("report", {"level": level, "data": "rain", "logger": "sky"})
        wait_until(lambda: len(caplog.records) == 4)
    record = caplog.records[1]
    assert [each.levelno for each in caplog.records] == [10, 20, 30, 50]
    assert (record.name, record.getMessage()) == ("mcp_sync.server.weather", "[sky] rain")
    assert (record.mcp_level, record.mcp_logger, record.mcp_data) == ("notice", "sky", "rain")


def test_what_comes_too_fast_is_counted_and_left_out(caplog, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(mcp_sync.logs.time, "monotonic", lambda: clock[0])
    take = mcp_sync.logs.ToLogging("mcp_sync.server.flood")

    def say(data, level="warning", count=1):
        for _ in range(count):
            take(types.LoggingMessageNotificationParams(level=level, data=data))
        said = [record.getMessage() for record in caplog.records]
        assert all(hasattr(record, "mcp_data") for record in caplog.records)
        caplog.clear()
        return said

    beginning = "More comes than is logged; messages are left out from here on"
    assert say("x", count=3000) == ["x"] * 200 + [beginning]
    assert say("bad", "error") == ["bad"]
    clock[0] += 1
    assert say("y", count=2) == ["2800 messages were left out before this one", "y", "y"]
    clock[0] += 1
    assert len(say("x" * 9000, count=3000)) == 14
    clock[0] += 1
    assert say("z") == ["2987 messages were left out before this one", "z"]


def test_what_a_record_holds_is_bounded_too(caplog):
    take = mcp_sync.logs.ToLogging("mcp_sync.server.long")
    for data in ({"n": 1}, {"n": "x" * 100_000}):
        take(types.LoggingMessageNotificationParams(level="error", data=data))
    short, long = (record.mcp_data for record in caplog.records)
    assert short == {"n": 1}
    assert len(long) < 9000


def test_a_server_can_neither_forge_lines_nor_flood_the_log(caplog):
    server = make_server()
    with Client(InMemory(server), logging_callback=mcp_sync.logs.to_logging) as client:
        for data in ("a\nERROR root forged\x1b[2J\u2028", {"b": ["\x9b"]}, "x" * 100_000, 7):
            client.call_tool("report", {"level": "error", "data": data, "logger": "l\r\n"})
        wait_until(lambda: len(caplog.records) == 4)
    messages = [record.getMessage() for record in caplog.records]
    assert messages[0] == "[l\\r\\n] a\\nERROR root forged\\x1b[2J\\u2028"
    assert all(message.isprintable() for message in messages)
    assert max(map(len, messages)) < 9000


# --- counters ----------------------------------------------------------------------------------------------


def test_counters_tell_what_a_client_has_done():
    replies = []

    def busy(request):
        if b'"tools/list"' in request.body and not replies:
            replies.append(1)
            return HTTPReply(503, {"Retry-After": "0"})
        return None

    with make_server(ttl_ms=60_000, versions="modern").serve_http(intercept=busy) as endpoint:
        client = Client(endpoint.url, cache=CacheOptions(), logging_callback=lambda params: None)
        before = client.stats
        client.list_tools()
        client.list_tools()
        client.call_tool("report", {"level": "error", "data": "x"})
        with pytest.raises(MCPError):
            client.get_prompt("none")
        after = client.stats
        client.close()
    assert (after.calls, dict(after.errors), after.retries) == (3, {"InvalidParams": 1}, 1)
    assert (after.connections, after.notifications, after.dropped, after.in_flight) == (1, 1, 0, 0)
    assert after.cache is not None
    assert after.cache.hits == 1
    assert (before.calls, dict(before.errors)) == (0, {})
    with pytest.raises(TypeError):
        after.errors["x"] = 1
    assert repr(after.errors) == "{'InvalidParams': 1}"
    assert pickle.loads(pickle.dumps(after)) == after


def test_calls_in_flight_and_connections_are_counted():
    target = DuplexTarget()
    with Client(target) as client:
        call = Background(client.call_tool, "x")
        request = target.now.expect("tools/call")
        assert (client.stats.in_flight, client.stats.calls) == (1, 0)
        target.now.answer(request, text("done"))
        call.result()
        assert (client.stats.in_flight, client.stats.calls) == (0, 1)
        target.now.lose(MCPError("gone"))
        wait_until(lambda: client._engine.is_lost)
        client.open()
        assert client.stats.connections == 2
        assert client.stats.cache is None


def test_a_view_counts_on_its_own():
    with make_server().serve_http() as endpoint, Client(endpoint.url) as client:
        view = client.for_principal("alice", auth=BearerToken("t"))
        view.call_tool("add", {"a": 1, "b": 2})
        assert (view.stats.calls, client.stats.calls) == (1, 0)


def test_no_count_is_lost_among_threads():
    with Client(InMemory(make_server())) as client:
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            calls = [client.submit(client.call_tool, "add", {"a": 1, "b": 1}) for _ in range(300)]
            for call in calls:
                call.result(20)
        finally:
            sys.setswitchinterval(before)
        assert client.stats.calls == 300
