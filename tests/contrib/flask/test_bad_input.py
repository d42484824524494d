"""What goes wrong around the example: a page with the right status, a log that says why, and nothing told."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask

from mcp_sync.contrib.flask import SQLAlchemyTokenStore
from mcp_sync.contrib.flask._errors import log
from mcp_sync.errors import ConnectFailed

from .site import EXAMPLE, csrf_of

SECRET = "hunter2-in-the-configuration"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    import app

    yield app
    for name in ("app", "backend"):
        sys.modules.pop(name)


@pytest.fixture
def url(example: Any) -> Iterator[str]:
    with sys.modules["backend"].running() as url:
        yield url


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[sa.Engine]:
    made = sa.create_engine(f"sqlite:///{tmp_path}/site.sqlite", poolclass=sa.pool.NullPool)
    yield made
    made.dispose()


@pytest.fixture
def make_app(example: Any) -> Iterator[Callable[..., Any]]:
    """Make the application of the example, and close it after the test."""
    made = []

    def make(url: str = "nowhere", **config: Any) -> Any:
        made.append(example.create_app(url, {"SECRET_KEY": "secret", **config}))
        return made[-1]

    yield make
    for app in made:
        example.mcp.registry(app).close()


@pytest.fixture
def store(engine: sa.Engine) -> SQLAlchemyTokenStore:
    kept = SQLAlchemyTokenStore(engine)
    kept.create_table()
    return kept


def connect(browser: Any) -> None:
    """Connect: the authorization server of the example agrees to everything, and sends the browser back."""
    import requests

    away = browser.post("/mcp/connect/kitchen", data={"mcp_csrf": csrf_of(browser, "/")})
    back = requests.get(away.location, allow_redirects=False, timeout=20).headers["location"]
    assert browser.get(back.partition("localhost")[2]).status_code == 303
    assert "You are connected" in browser.get("/").text


def rename(engine: sa.Engine, old: str, new: str) -> None:
    with engine.begin() as connection:
        connection.execute(sa.text(f"ALTER TABLE {old} RENAME TO {new}"))


PAGES = [
    ("get", "/", {}),
    ("get", "/add?a=12&b=5", {}),
    ("get", "/book", {}),
    ("post", "/cook", {"form": "f"}),
    ("post", "/mcp/connect/kitchen", {"mcp_csrf": "t"}),
    ("get", "/mcp/callback/kitchen?state=x&code=y", {}),
    ("post", "/mcp/disconnect/kitchen", {"mcp_csrf": "t"}),
    ("get", "/mcp/input/x", {}),
]


def test_a_database_that_goes_away_makes_each_page_503_and_loses_nothing(
    make_app: Any, url: str, engine: sa.Engine, store: SQLAlchemyTokenStore
) -> None:
    browser = make_app(url, MCP_TOKEN_STORE=store).test_client()
    connect(browser)
    with browser.session_transaction() as session:
        session.update(form="f", mcp_sync_csrf="t")
    rename(engine, "mcp_sync_records", "gone")
    for method, path, data in PAGES:
        answer = getattr(browser, method)(path, data=data or None)
        assert (answer.status_code, answer.headers.get("Retry-After")) == (503, "5"), path
        assert not re.search("sqlite|records|Traceback", answer.text)
    rename(engine, "gone", "mcp_sync_records")
    assert "You are connected" in browser.get("/").text
    assert "17 euros" in browser.get("/add?a=12&b=5").text
    # Where a token is at hand that is valid, it is no worse because the store cannot be read just now.
    rename(engine, "mcp_sync_records", "gone")
    assert "17 euros" in browser.get("/add?a=12&b=5").text


def test_a_grant_that_was_deleted_sends_the_user_to_connect_again(
    make_app: Any, url: str, engine: sa.Engine, store: SQLAlchemyTokenStore
) -> None:
    browser = make_app(url, MCP_TOKEN_STORE=store).test_client()
    connect(browser)
    assert browser.get("/add?a=12&b=5").status_code == 200
    with engine.begin() as connection:
        connection.execute(store.table.delete().where(store.table.c.kind == "grant"))
    assert "You are not connected" in browser.get("/").text
    assert browser.get("/add?a=12&b=5").status_code == 303
    connect(browser)
    assert "17 euros" in browser.get("/add?a=12&b=5").text


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"MCP_SERVERS": {"kitchen": {"ulr": "http://127.0.0.1:9"}}}, "there is neither a command nor a URL"),
        ({"MCP_SERVERS": {"kitchen": {"url": "${MISSING_ONE}", "auth": "oauth"}}}, "MISSING_ONE is not set"),
        (
            {"MCP_SERVERS": {"kitchen": {"url": "http://127.0.0.1:9", "auth": {"type": "oath"}}}},
            "must be oauth",
        ),
        ({"MCP_SERVERS": "nowhere.json"}, "No such file"),
        ({"MCP_DEADLINE": "soon"}, "MCP_DEADLINE must be a number of seconds"),
        ({"MCP_TOKEN_STORE": "session"}, "tokens do not go into the session"),
        ({"MCP_SERVERS": {"chicken": {"url": "http://127.0.0.1:9", "auth": "oauth"}}}, "Known: chicken"),
    ],
)
def test_a_configuration_that_cannot_be_is_500_and_the_log_and_the_command_say_why(
    config: Any, says: str, example: Any, caplog: pytest.LogCaptureFixture
) -> None:
    servers = {"kitchen": {"url": "http://127.0.0.1:9/mcp", "auth": "oauth", "headers": {"X": SECRET}}}
    app = example.create_app("x", {"SECRET_KEY": SECRET, "MCP_SERVERS": servers, **config})
    answer = app.test_client().get("/add?a=1&b=2")
    assert answer.status_code == 500
    logged = "".join(str(record.exc_info) + record.getMessage() for record in caplog.records)
    assert says in logged
    assert says not in answer.text
    assert SECRET not in logged + answer.text
    if "Known" not in says:  # Which aliases views use, no command can know.
        check = app.test_cli_runner().invoke(args=["mcp", "check"])
        assert (check.exit_code, says in check.output, SECRET in check.output) == (1, True, False)


def test_a_page_of_a_server_that_cannot_be_used_tells_only_the_log(make_app: Any, caplog: Any) -> None:
    servers = {"kitchen": {"url": "${MISSING_ONE}", "auth": "oauth"}}
    answer = make_app(MCP_SERVERS=servers).test_client().get("/mcp/connect/kitchen")
    assert (answer.status_code, "not set up for that: see its log" in answer.text) == (500, True)
    assert ("MISSING_ONE" in caplog.text, "MISSING_ONE" in answer.text) == (True, False)


def test_a_path_that_is_logged_stays_on_its_line(caplog: Any) -> None:
    with Flask("site").test_request_context("/a%0aWARNING all is lost"):
        log(ConnectFailed("it is away"))
    assert "/a\\nWARNING all is lost: it is away" in caplog.text


def test_a_server_that_is_down_is_502_and_wrong_paths_are_404_or_400(make_app: Any) -> None:
    servers = {"kitchen": {"url": "http://127.0.0.1:9/mcp", "auth": "oauth"}}
    browser = make_app(MCP_SERVERS=servers).test_client()
    assert browser.get("/add?a=1&b=2").status_code == 502
    for path, status in (
        ("/mcp/connect/nowhere", 404),
        ("/mcp/callback/nowhere?state=x", 404),
        ("/mcp/input/nothing", 404),
        ("/cook/nothing", 404),
        ("/add", 400),
        ("/add?a=1&b=x", 400),
    ):
        assert browser.get(path).status_code == status, path
    assert browser.post("/cook", data={"form": "x"}).status_code == 400
