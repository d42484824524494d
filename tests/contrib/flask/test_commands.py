"""``flask mcp``: what is checked, and questions in a terminal."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from cli.terminal import Terminal

from mcp_sync.auth import Key
from mcp_sync.contrib.flask import SQLAlchemyTokenStore

from .site import make_app

SERVERS = {"safe": {"url": "http://127.0.0.1:9/mcp", "auth": "oauth"}}

SITE = """
import sys
from flask import Flask
from mcp_sync.contrib.flask import MCP

app = Flask(__name__)
demo = {{"command": sys.executable, "args": ["-m", "mcp_sync.cli.demo_server"], "mode": {mode!r}}}
app.config.from_mapping(SECRET_KEY="a secret", MCP_SERVERS={{"demo": demo}}, MCP_DEADLINE=0.01)
MCP(app)
"""


@pytest.mark.parametrize("mode", ["2026-07-28", "2025-11-25"])
def test_a_question_is_asked_in_the_terminal_and_no_deadline_of_requests_hurries(
    mode: str, tmp_path: Path
) -> None:
    (tmp_path / "site_here.py").write_text(SITE.format(mode=mode))
    command = [sys.executable, "-m", "flask", "--app", "site_here", "mcp", "call", "demo", "greet"]
    with Terminal(command, dict(os.environ), folder=str(tmp_path)) as terminal:
        terminal.expect("Your name: ")
        terminal.type("Grace\n")

        assert terminal.finish() == 0
        assert "Hello, Grace!" in terminal.screen


def test_a_server_that_is_disabled_is_no_failure() -> None:
    demo = {"command": sys.executable, "args": ["-m", "mcp_sync.cli.demo_server"]}
    off = {"url": "http://127.0.0.1:9/mcp", "disabled": True}
    app = make_app(MCP_SERVERS={"demo": demo, "off": off})
    ran = app.test_cli_runner().invoke(args=["mcp", "status"])
    app.extensions["mcp_sync"].registry.close()

    states = [line.split()[:2] for line in ran.output.splitlines()]
    assert (ran.exit_code, states[1:]) == (0, [["demo", "open"], ["off", "disabled"]])


def checked(app: Any) -> tuple[int, str]:
    ran = app.test_cli_runner().invoke(args=["mcp", "check"])
    return ran.exit_code, ran.output


def store_in(folder: Path) -> SQLAlchemyTokenStore:
    engine = sa.create_engine(f"sqlite:///{folder}/site.sqlite", poolclass=sa.pool.NullPool)
    return SQLAlchemyTokenStore(engine)


def test_check_says_what_is_wrong_with_the_table_and_the_database(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    app = make_app(MCP_SERVERS=SERVERS, MCP_TOKEN_STORE=store)
    missing = (
        "token store: there is no table 'mcp_sync_records': run flask mcp create-table, or your migrations"
    )
    assert checked(app) == (1, f"safe: ok\n{missing}\n")
    assert app.test_cli_runner().invoke(args=["mcp", "create-table"]).exit_code == 0
    assert checked(app) == (0, "safe: ok\ntoken store: ok\n")
    with store.engine.begin() as connection:
        connection.execute(sa.text("ALTER TABLE mcp_sync_records DROP COLUMN version"))
    code, said = checked(app)
    assert (code, "lacks the column version: have your migrations add" in said) == (1, True)
    with store.engine.begin() as connection:
        connection.execute(sa.text("ALTER TABLE mcp_sync_records DROP COLUMN principal"))
    assert "lacks the columns principal, version" in checked(app)[1]
    nowhere = make_app(MCP_SERVERS=SERVERS, MCP_TOKEN_STORE=store_in(tmp_path / "gone"))
    code, said = checked(nowhere)
    assert (code, "token store: the database cannot be used: OperationalError: " in said) == (1, True)
    assert "unable to open database file" in said
    for command in ("create-table", "prune"):
        ran = nowhere.test_cli_runner().invoke(args=["mcp", command])
        assert (ran.exit_code, "flask mcp check says why: " in ran.output) == (1, True)


def test_a_store_that_cannot_be_used_says_what_to_do_about_it(tmp_path: Path, caplog: Any) -> None:
    app = make_app(MCP_SERVERS=SERVERS, MCP_TOKEN_STORE=store_in(tmp_path))
    browser = app.test_client()
    browser.get("/login/ada")
    assert browser.get("/use/safe/add").status_code == 503
    assert (
        "the token store cannot use its table 'mcp_sync_records' (OperationalError); flask mcp" in caplog.text
    )
    assert "SealedStore" not in caplog.text


@pytest.mark.parametrize(
    ("load", "said"),
    [
        (lambda key: {}[key], "the function of mcp.token_loader failed: KeyError"),
        (lambda key: b"text", "the function of mcp.token_loader must return a str or None, not a bytes"),
    ],
)
def test_functions_that_cannot_be_used_are_named(load: Any, said: str) -> None:
    app = make_app(MCP_SERVERS=SERVERS)
    app.extensions["the_mcp"].token_loader(load)
    app.extensions["the_mcp"].token_saver(lambda key, text, old: None)
    code, told = checked(app)
    assert (code, said in told) == (1, True)


def test_records_that_no_key_can_read_are_told(tmp_path: Path, caplog: Any) -> None:
    store = store_in(tmp_path)
    store.create_table()
    app = make_app(MCP_SERVERS=SERVERS, MCP_TOKEN_STORE=store)
    key = Key("grant", principal="user:ada")
    assert app.extensions["mcp_sync"].store.put(key, {"a": 1}, None)
    assert checked(app) == (0, "safe: ok\ntoken store: ok\n")
    other = make_app(MCP_SERVERS=SERVERS, MCP_TOKEN_STORE=store, SECRET_KEY="another one")
    code, told = checked(other)
    assert (code, "warning: 1 of the newest records cannot be decrypted" in told) == (0, True)
    for _ in range(2):
        assert other.extensions["mcp_sync"].store.get(key).value == {}
    [warning] = [each.getMessage() for each in caplog.records if "decrypted" in each.getMessage()]
    assert warning.startswith("A record 'grant' of user:ada cannot be decrypted, and counts as not there.")
    kept = make_app(MCP_TOKEN_STORE=store, SECRET_KEY="another one", SECRET_KEY_FALLBACKS=["a secret"])
    assert kept.extensions["mcp_sync"].store.get(key).value == {"a": 1}


@pytest.mark.parametrize(
    "address", ["site.example.com", "ftp://site.example.com", "https://", "https://a/?b"]
)
def test_an_address_of_the_site_that_is_none_is_refused(address: str) -> None:
    code, told = checked(make_app(MCP_SERVERS=SERVERS, MCP_BASE_URL=address))
    assert (code, "MCP_BASE_URL must be an address such as https://site.example.com" in told) == (1, True)


@pytest.mark.parametrize(
    ("config", "address"),
    [
        ({"MCP_BASE_URL": "https://a.example/shop/"}, "https://a.example/shop/mcp/callback/safe"),
        ({"SERVER_NAME": "b.example"}, "http://b.example/mcp/callback/safe"),
        (
            {"SERVER_NAME": "b.example", "PREFERRED_URL_SCHEME": "https", "APPLICATION_ROOT": "/shop"},
            "https://b.example/shop/mcp/callback/safe",
        ),
    ],
)
def test_outside_of_requests_the_configuration_says_where_the_site_is(config: Any, address: str) -> None:
    app = make_app(MCP_SERVERS=SERVERS, **config)
    with app.app_context():
        assert app.extensions["mcp_sync"].external("callback", alias="safe") == address
