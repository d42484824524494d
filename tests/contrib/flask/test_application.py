"""The extension in an application: settings, errors, commands, fakes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, g

from mcp_sync import CallTimeout, UsageError
from mcp_sync.auth import MemoryStore
from mcp_sync.config import ConfigError
from mcp_sync.contrib._sealing import Sealer
from mcp_sync.contrib.flask import MCP, SQLAlchemyTokenStore, signals
from mcp_sync.testing import FakeServer, Fault, FaultPlan, HTTPReply, RpcError

from .site import add, close, make_app

TESTS = Path(__file__).parent.parent.parent


def signed_in(app: Any) -> Any:
    browser = app.test_client()
    browser.get("/login/ada")
    return browser


def test_at_import_and_at_start_nothing_is_read_opened_or_started() -> None:
    script = """
import sys, threading
from flask import Flask, g
from mcp_sync.contrib.flask import MCP
mcp = MCP()
app = Flask("x")
app.config.update(MCP_SERVERS={"a": {"url": "${MISSING}"}}, MCP_CONFIG_FILE="nowhere.json")
mcp.init_app(app)
app.register_blueprint(mcp.blueprint)
heavy = ("sqlalchemy", "mcp_sync.client", "websocket", "jsonschema")
print([name for name in heavy if name in sys.modules], threading.active_count())
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, cwd=TESTS.parent, check=False)
    assert (done.returncode, done.stdout) == (0, "[] 1\n"), done


def test_several_applications_share_the_extension_and_no_client() -> None:
    mcp, apps = MCP(), [Flask("one"), Flask("two")]
    for app in apps:
        app.config["MCP_SERVERS"] = {"calc": "http://127.0.0.1:9/mcp"}
        mcp.init_app(app)
        app.register_blueprint(mcp.blueprint)
    clients = []
    for app in apps:
        with app.app_context():
            clients.append(mcp["calc"].client)
        with mcp.use_fake({"calc": FakeServer(tools=[add])}, app), app.app_context():
            assert mcp["calc"].call_tool("add", {"a": 1, "b": 2}).text == '{"sum": 3}'
    assert clients[0] is not clients[1]
    for app in apps:
        mcp.registry(app).close()


def test_a_fake_takes_the_place_of_a_server_for_users_who_have_called_it_before() -> None:
    def where() -> str:
        return "there"

    def fake_where() -> str:
        return "fake"

    where_is = FakeServer(tools=[where])
    with where_is.serve_http() as endpoint:
        app = make_app(MCP_SERVERS={"a": {"url": endpoint.url}})
        mcp = app.extensions["the_mcp"]

        def ask() -> str:
            with app.test_request_context("/"):
                return str(mcp["a"].for_user("ada").call_tool("where").text)

        assert ask() == "there"
        with mcp.use_fake({"a": FakeServer(tools={"where": fake_where})}, app):
            assert ask() == "fake"
        assert ask() == "there"
        close(app)


def test_fakes_take_no_login_and_are_gone_after_the_block() -> None:
    app = make_app(MCP_SERVERS={"safe": {"url": "http://127.0.0.1:9/mcp", "auth": "oauth"}})
    mcp, browser = app.extensions["the_mcp"], signed_in(app)
    with mcp.use_fake({"safe": FakeServer(tools=[add]), "new": FakeServer(tools=[add])}, app):
        assert browser.get("/use/safe/add").json == {"text": '{"sum": 3}'}
        assert browser.get("/use/new/add").status_code == 200
    assert browser.get("/use/safe/add").status_code in (502, 503)
    with app.app_context(), pytest.raises(ConfigError, match="new"):
        mcp["new"]
    close(app)


def test_a_wrong_alias_lists_the_known_ones_and_an_unknown_key_is_warned_of(caplog: Any) -> None:
    app = make_app(MCP_SERVERS={"weather": "http://127.0.0.1:9/mcp"}, MCP_DEDLINE=3)
    assert "unknown key MCP_DEDLINE; did you mean MCP_DEADLINE?" in caplog.text
    with app.app_context(), pytest.raises(ConfigError, match=r"did you mean 'weather'\? Known: weather"):
        app.extensions["the_mcp"]["wether"]
    with pytest.raises(UsageError, match=r"call mcp\.init_app"), Flask("x").app_context():
        MCP()["weather"]


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"MCP_TOKEN_STORE": "session"}, "tokens do not go into the session"),
        ({"MCP_TOKEN_STORE": 3}, "must be 'memory' or a store, not int"),
        ({"MCP_TOKEN_STORE": MemoryStore(), "SECRET_KEY": None}, "set SECRET_KEY"),
        ({"MCP_DEADLINE": "soon"}, "MCP_DEADLINE must be a number"),
    ],
)
def test_settings_that_cannot_be_say_so(config: Any, text: str) -> None:
    app = make_app(MCP_SERVERS={"a": {"url": "http://127.0.0.1:9/mcp", "auth": "oauth"}}, **config)
    told = app.test_cli_runner().invoke(args=["mcp", "check"])
    if "MCP_DEADLINE" in config:
        with app.app_context(), pytest.raises(ConfigError, match=text):
            app.extensions["the_mcp"].registry()
    else:
        assert told.exit_code == 1
        assert text in told.output


def test_a_server_that_cannot_be_harms_no_other() -> None:
    app = make_app(MCP_SERVERS={"fine": "http://127.0.0.1:9/mcp", "bad": {"command": "x", "args": "-v"}})
    with app.app_context():
        assert app.extensions["the_mcp"].registry()["fine"].name == "fine"
        with pytest.raises(ConfigError, match="'args': this must be a list"):
            app.extensions["the_mcp"]["bad"].call_tool("add")
    told = app.test_cli_runner().invoke(args=["mcp", "check"])
    assert told.exit_code == 1
    assert "fine: ok" in told.output
    assert "bad: the configuration, server 'bad', key 'args': this must be a list" in told.output
    close(app)


def test_the_commands_list_call_and_check(monkeypatch: Any) -> None:
    app = make_app(MCP_SERVERS={"safe": {"url": "http://127.0.0.1:9/mcp", "auth": "oauth"}, "bad": "${x"})
    app.config["MCP_SERVERS"]["bad"] = {"url": "https://h/mcp", "headers": {"X": "${MISSING_HERE}"}}
    mcp, run = app.extensions["the_mcp"], app.test_cli_runner().invoke
    assert run(args=["mcp", "list"]).output == "safe  (users log in)\nbad\n"
    checked = run(args=["mcp", "check"])
    assert checked.exit_code == 1
    assert "safe: ok" in checked.output
    assert "MISSING_HERE is not set" in checked.output
    with mcp.use_fake({"bad": FakeServer(tools=[add])}, app):
        assert run(args=["mcp", "list", "bad"]).output == "add  Add two numbers.\n"
        called = run(args=["mcp", "call", "bad", "add", "a=1", "b:=2", "--user", "ada"])
        assert called.output == '{"sum": 3}\n'
        for words, text in ((["a"], "'a' is no argument"), (["a=1"], "missing: b"), (["a=x"], "a: 'x' is")):
            wrong = run(args=["mcp", "call", "bad", "add", *words])
            assert (wrong.exit_code, text in wrong.output) == (2, True)
    nobody = run(args=["mcp", "call", "safe", "add"])
    assert (nobody.exit_code, "name the user" in nobody.output) == (2, True)
    unknown = run(args=["mcp", "list", "nowhere"])
    assert (unknown.exit_code, "Known: safe, bad" in unknown.output) == (1, True)
    close(app)


def test_faults_of_servers_get_the_right_status() -> None:
    replies = {
        "busy": HTTPReply(503, {"Retry-After": "120"}),
        "often": HTTPReply(429, {"Retry-After": "90"}),
        "broken": HTTPReply(500),
    }

    def intercept(request: Any) -> Any:
        return next((reply for name, reply in replies.items() if f'"{name}"'.encode() in request.body), None)

    with FakeServer(tools=[add]).serve_http(intercept=intercept) as endpoint:
        app = make_app(MCP_SERVERS={"x": endpoint.url, "down": "http://127.0.0.1:9/mcp"})
        browser = signed_in(app)
        seen = {}
        for name in replies:
            answer = browser.get(f"/use/x/{name}", headers={"Accept": "application/json"})
            seen[name] = (answer.status_code, answer.headers.get("Retry-After"), answer.json["error"])
        down = browser.get("/use/down/add")
        close(app)
    assert seen == {
        "busy": (503, "120", "busy"),
        "often": (503, "90", "busy"),
        "broken": (502, None, "bad_gateway"),
    }
    assert down.status_code == 502
    assert "127.0.0.1" not in down.text


def test_a_page_to_visit_first_is_shown_and_an_unsafe_one_is_not() -> None:
    def wanting(url: str) -> Any:
        visit = {"mode": "url", "message": "Pay first", "url": url, "elicitationId": "1"}
        raise RpcError(-32042, "pay first", {"elicitations": [visit]})

    def pay() -> Any:
        wanting("https://pay.example/x")

    def trap() -> Any:
        wanting("javascript:alert(1)")

    app = make_app(MCP_SERVERS={"x": "http://127.0.0.1:9/mcp"})
    fake = FakeServer(tools=[pay, trap], versions="2025-11-25")
    with app.extensions["the_mcp"].use_fake({"x": fake}, app):
        shown = signed_in(app).get("/use/x/pay")
        trapped = signed_in(app).get("/use/x/trap")
    assert shown.status_code == 409
    assert "<strong>pay.example</strong>" in shown.text
    assert 'href="/use/x/pay"' in shown.text
    assert (trapped.status_code, "javascript" in trapped.text) == (502, False)
    close(app)


def test_all_calls_of_a_request_end_within_one_deadline() -> None:
    plan = FaultPlan({"tools/call": [None, Fault.stall("answer")]})
    with FakeServer(tools=[add]).serve_http(faults=plan) as endpoint:
        app = make_app(MCP_SERVERS={"x": endpoint.url}, MCP_DEADLINE=1.0)
        mcp = app.extensions["the_mcp"]

        @app.get("/twice")
        def twice() -> str:
            mcp["x"].call_tool("add", {"a": 1, "b": 2})
            return str(mcp["x"].call_tool("add", {"a": 1, "b": 2}, timeout=60))

        answer = app.test_client().get("/twice")
        with app.test_request_context():
            late = mcp["x"].call_tool
            g._mcp_sync_budget._end = 0
            with pytest.raises(CallTimeout, match="no time is left"):
                late("add", {"a": 1, "b": 2})
        plan.release()
        close(app)
    assert answer.status_code == 504


def test_signals_tell_of_calls_and_a_receiver_that_fails_harms_nobody(caplog: Any) -> None:
    app = make_app(MCP_SERVERS={"x": "http://127.0.0.1:9/mcp"})
    told = []

    def receiver(sender: Any, **values: Any) -> None:
        told.append((sender, values["server"], values["tool"], values["ok"]))
        raise ValueError("secret")

    fakes = app.extensions["the_mcp"].use_fake({"x": FakeServer(tools=[add])}, app)
    with fakes, signals.tool_called.connected_to(receiver):
        assert signed_in(app).get("/use/x/add").status_code == 200
    assert told == [(app, "x", "add", True)]
    assert "secret" not in caplog.text
    close(app)


def test_servers_of_older_revisions_are_called_without_questions() -> None:
    app = make_app(MCP_SERVERS={"x": "http://127.0.0.1:9/mcp"})
    with app.extensions["the_mcp"].use_fake({"x": FakeServer(tools=[add], versions="legacy")}, app):
        assert signed_in(app).get("/use/x/add").status_code == 200
    close(app)


def test_prefixed_variables_of_the_environment_name_servers(monkeypatch: Any) -> None:
    monkeypatch.setenv("SITE_MCP_SERVERS__calc__url", "http://127.0.0.1:9/mcp")
    app = Flask("x")
    app.config.from_prefixed_env("SITE")
    mcp = MCP(app)
    with app.app_context():
        assert "calc" in mcp.registry()


def test_a_store_needs_an_engine() -> None:
    with pytest.raises(UsageError, match="needs an engine"):
        SQLAlchemyTokenStore("sqlite://")


def test_what_is_encrypted_is_worth_nothing_elsewhere_or_without_the_key() -> None:
    old, new = Sealer(["old"], "x"), Sealer(["new", "old"], "x")
    text = old.seal({"a": 1}, "here")
    assert new.unseal(text, "here") == {"a": 1}
    assert new.unseal(text, "there") is None
    assert old.unseal(new.seal(1, "here"), "here") is None
    assert Sealer(["old"], "y").unseal(text, "here") is None
    assert old.unseal("rubbish", "here") is None
    assert "old" not in repr(old)


def test_what_is_long_is_not_kept_in_memory_once_it_was_decrypted() -> None:
    sealer = Sealer(["a secret"], "x")
    for text in ("short", "l" * 100_000):
        sealed = sealer.seal(text, "here")
        assert [sealer.unseal(sealed, "here") for _ in range(2)] == [text] * 2
    assert sealer._kept.cache_info().currsize == 1
