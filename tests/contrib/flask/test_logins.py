"""Users who connect, come back, and disconnect; and what does not belong to them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import sqlalchemy as sa

from mcp_sync import CallTimeout
from mcp_sync.auth import Deadline, Key, SQLiteStore
from mcp_sync.contrib.flask import SQLAlchemyTokenStore, _stores, signals
from mcp_sync.contrib.flask._stores import HookStore

from .site import World, close, csrf_of, make_app, world


@pytest.fixture
def site() -> Iterator[World]:
    with world() as made:
        yield made


@pytest.fixture
def app(site: World, tmp_path: Path) -> Iterator[Any]:
    made = site.app(MCP_TOKEN_STORE=SQLiteStore(tmp_path / "grants.sqlite"))
    yield made
    close(made)


def logged_in(app: Any, name: str = "ada") -> Any:
    browser = app.test_client()
    browser.get(f"/login/{name}")
    return browser


def test_a_user_without_a_grant_is_sent_away_comes_back_and_sees_the_page(site: World, app: Any) -> None:
    browser = logged_in(app)
    away = browser.get("/use/safe/add?x=1")
    assert away.status_code == 303
    back = site.come_back(browser, away.location)
    assert (back.status_code, back.location) == (303, "/use/safe/add?x=1")
    assert browser.get(back.location).json == {"text": '{"sum": 3}'}


def test_the_page_to_connect_on_shows_no_secret_of_the_address() -> None:
    server = {"url": "https://site:s3same@example.com/mcp?api_key=s3same", "auth": "oauth"}
    app = make_app(MCP_SERVERS={"safe": server})
    page = app.test_client().get("/mcp/connect/safe").text
    close(app)
    assert "https://example.com/mcp" in page
    assert "s3same" not in page


def test_connect_asks_first_and_only_a_form_of_the_site_begins_a_login(site: World, app: Any) -> None:
    browser = logged_in(app)
    asked = browser.get("/mcp/connect/safe?next=/there").text
    assert "<h1>Connect to safe</h1>" in asked
    assert f"{site.url}</strong> on your behalf." in asked
    assert browser.post("/mcp/connect/safe").status_code == 400
    assert browser.post("/mcp/connect/safe", data={"mcp_csrf": "wrong"}).status_code == 400
    told = []
    with signals.grant_created.connected_to(lambda app, **values: told.append(values)):
        away = browser.post("/mcp/connect/safe", data={"mcp_csrf": csrf_of(browser), "next": "/there"})
        assert site.come_back(browser, away.location).location == "/there"
    assert told == [{"server": "safe", "principal": "user:ada"}]


@pytest.mark.parametrize("path", ["//evil.example", "https://evil.example", "/\\evil.example", "/\n/x", "x"])
def test_nobody_is_sent_elsewhere_after_a_login(path: str, site: World, app: Any) -> None:
    browser = logged_in(app)
    away = browser.post("/mcp/connect/safe", data={"mcp_csrf": csrf_of(browser), "next": path})
    assert site.come_back(browser, away.location).location == "/"


def test_the_callback_counts_once_and_for_the_user_who_began(site: World, app: Any) -> None:
    ada, bob = logged_in(app), logged_in(app, "bob")
    away = ada.get("/use/safe/add").location
    back = urlsplit(site.auth.consent(away, "ada"))
    answer = f"{back.path}?{back.query}"

    assert bob.get(answer).status_code == 403
    forged = ada.get(answer.replace(parse_qs(back.query)["state"][0], "forged"))
    assert forged.status_code == 400
    assert "Connect to safe again" in forged.text
    assert ada.get("/mcp/callback/safe").status_code == 400
    assert ada.get(answer).status_code == 303
    again = ada.get(answer)
    assert (again.status_code, "This answer was used already." in again.text) == (409, True)
    assert ada.get("/use/safe/add").status_code == 200
    assert bob.get("/use/safe/add").status_code == 303


def test_two_users_have_grants_of_their_own(site: World, app: Any) -> None:
    browsers = {name: logged_in(app, name) for name in ("ada", "bob")}
    for name, browser in browsers.items():
        site.come_back(browser, browser.get("/use/safe/whoami").location, name)
    for name, browser in browsers.items():
        assert browser.get("/use/safe/whoami").json == {"text": name}


def test_after_disconnecting_the_grant_is_gone(site: World, app: Any) -> None:
    browser = logged_in(app)
    site.come_back(browser, browser.get("/use/safe/add").location)
    assert browser.get("/use/safe/add").status_code == 200
    assert browser.post("/mcp/disconnect/safe").status_code == 400
    assert browser.get("/mcp/disconnect/safe").status_code == 405
    gone = browser.post("/mcp/disconnect/safe", data={"mcp_csrf": csrf_of(browser), "next": "/x"})
    assert (gone.status_code, gone.location) == (303, "/x")
    assert site.auth.asked["/revoke"]
    assert browser.get("/use/safe/add").status_code == 303


def test_a_grant_that_the_server_has_forgotten_sends_the_user_away_again(site: World, app: Any) -> None:
    browser = logged_in(app)
    site.come_back(browser, browser.get("/use/safe/add").location)
    site.auth.forget_grants()
    assert browser.get("/use/safe/add").status_code == 303


def test_a_user_who_refuses_sees_a_page_and_may_try_again(site: World, app: Any) -> None:
    browser = logged_in(app)
    site.auth.denies = True
    refused = site.come_back(browser, browser.get("/use/safe/add").location)
    assert refused.status_code == 403
    assert "Access was not granted, so nothing has changed." in refused.text
    assert '<a href="/mcp/connect/safe?next=/use/safe/add">Connect to safe again</a>' in refused.text
    assert '<a href="/use/safe/add">Back to where you were</a>' in refused.text
    away = browser.post("/mcp/connect/safe", data={"mcp_csrf": csrf_of(browser), "next": "//evil.example"})
    refused = site.come_back(browser, away.location)
    assert "evil" not in refused.text
    assert '<a href="/">Back to the start</a>' in refused.text


def test_programs_get_json_and_htmx_a_header(site: World, app: Any) -> None:
    browser = logged_in(app)
    told = browser.get("/use/safe/add", headers={"Accept": "application/json"})
    assert (told.status_code, told.json["error"]) == (401, "authorization_required")
    assert told.json["url"].startswith(site.auth.issuer)
    told = browser.get("/use/safe/add", headers={"HX-Request": "true"})
    assert (told.status_code, told.headers["HX-Redirect"][:10]) == (401, site.auth.issuer[:10])


def test_nobody_logged_in_is_401_and_an_unknown_server_404(app: Any) -> None:
    assert app.test_client().get("/use/safe/add").status_code == 401
    browser = logged_in(app)
    unknown = browser.get("/mcp/connect/nowhere")
    assert unknown.status_code == 404
    assert "There is no such server." in unknown.text
    assert app.test_client().get("/mcp/callback/safe").status_code == 401


def test_without_a_getter_each_browser_is_a_user(site: World, app: Any) -> None:
    app.extensions["the_mcp"]._principal = None
    one, other = app.test_client(), app.test_client()
    site.come_back(one, one.get("/use/safe/add").location)
    assert one.get("/use/safe/add").status_code == 200
    assert other.get("/use/safe/add").status_code == 303


def test_no_token_is_readable_in_the_store_or_in_the_cookie(site: World, app: Any, tmp_path: Path) -> None:
    browser = logged_in(app)
    site.come_back(browser, browser.get("/use/safe/add").location)
    tokens = [*site.auth._grants.access, *site.auth._grants.refresh]
    assert tokens
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    cookie = browser.get_cookie("session").value
    kept += repr(app.session_interface.get_signing_serializer(app).loads(cookie)).encode()
    assert not [token for token in tokens if token.encode() in kept]


def test_grants_in_sqlalchemy_are_found_by_another_process_and_keys_are_replaced(
    site: World, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/site.sqlite"
    engines = [sa.create_engine(url, poolclass=sa.pool.NullPool) for _ in range(2)]
    first = site.app(MCP_TOKEN_STORE=SQLAlchemyTokenStore(engines[0]), MCP_ENCRYPTION_KEYS=["old"])
    first.test_cli_runner().invoke(args=["mcp", "create-table"], catch_exceptions=False)
    browser = logged_in(first)
    site.come_back(browser, browser.get("/use/safe/add").location)
    site.auth.expire_access_tokens()
    for keys, status in ((["new", "old"], 200), (["other"], 303)):
        second = site.app(MCP_TOKEN_STORE=SQLAlchemyTokenStore(engines[1]), MCP_ENCRYPTION_KEYS=keys)
        assert logged_in(second).get("/use/safe/add").status_code == status
        close(second)
    close(first)


@pytest.mark.parametrize(
    ("path", "says"), [("missing/site.sqlite", "unable to open"), ("site.sqlite", "no such table: mcp_sync")]
)
def test_a_store_that_is_down_is_503_and_tells_the_log_alone(
    path: str, says: str, site: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path}/{path}", poolclass=sa.pool.NullPool)
    app = site.app(MCP_TOKEN_STORE=SQLAlchemyTokenStore(engine))
    down = logged_in(app).get("/use/safe/add?code=hidden")
    assert (down.status_code, down.headers["Retry-After"]) == (503, "5")
    assert "sqlite" not in down.text
    (logged,) = [each.getMessage() for each in caplog.records if each.name == "mcp_sync.flask"]
    assert logged.startswith("GET /use/safe/add: ")
    assert says in logged
    assert "hidden" not in logged
    close(app)


def test_hooks_keep_encrypted_texts_and_a_lost_race_is_noticed(site: World) -> None:
    app = site.app()
    rows: dict[str, str] = {}
    mcp = app.extensions["the_mcp"]
    mcp.token_loader(rows.get)

    @mcp.token_saver
    def save(key: str, text: Any, old: Any) -> bool:
        if rows.get(key) != old:
            return False
        rows.pop(key, None) if text is None else rows.update({key: text})
        return True

    browser = logged_in(app)
    site.come_back(browser, browser.get("/use/safe/add").location)
    assert browser.get("/use/safe/add").status_code == 200
    assert rows
    assert not [token for token in site.auth._grants.access if token in str(rows)]
    close(app)


def test_of_processes_with_hooks_one_renews_a_grant_and_the_other_sees_it(site: World) -> None:
    rows: dict[str, str] = {}
    guard = threading.Lock()

    def save(key: str, text: Any, old: Any) -> bool:
        with guard:
            if rows.get(key) != old:
                return False
            rows.pop(key, None) if text is None else rows.update({key: text})
            return True

    apps = [site.app() for _ in range(2)]  # Two processes, as far as their hooks can tell.
    for app in apps:
        app.extensions["the_mcp"].token_loader(rows.get)
        app.extensions["the_mcp"].token_saver(save)
    browsers = [logged_in(app) for app in apps]
    site.come_back(browsers[0], browsers[0].get("/use/safe/add").location)
    kept = set(rows)
    for _ in range(10):
        assert [browser.get("/use/safe/add").status_code for browser in browsers] == [200, 200]
        site.auth._grants.access.clear()
        start, seen = threading.Barrier(2), []

        def use(browser: Any, start: Any = start, seen: Any = seen) -> None:
            start.wait(20)
            seen.append(browser.get("/use/safe/add").status_code)

        threads = [threading.Thread(target=use, args=(browser,)) for browser in browsers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert seen == [200, 200]
    assert set(rows) == kept  # No lock is left.
    for app in apps:
        close(app)


def test_a_lock_of_a_process_that_died_ends_by_itself(monkeypatch: Any) -> None:
    rows: dict[str, Any] = {}
    key, now = Key("grant", principal="user:ada"), [1000.0]
    monkeypatch.setattr(_stores, "_now", lambda: now[0])

    def store(saver: Any) -> HookStore:
        return HookStore(rows.get, saver)

    def save(name: str, text: Any, old: Any) -> None:
        rows[name] = text

    def fail(name: str, text: Any, old: Any) -> None:
        if text is None:
            raise OSError
        rows[name] = text

    with store(fail).lock(key, Deadline(5)), pytest.raises(CallTimeout), store(save).lock(key, Deadline(0.1)):
        pass
    with pytest.raises(CallTimeout), store(save).lock(key, Deadline(0.1)):
        pass
    now[0] += 61
    for _ in range(2):
        with store(save).lock(key, Deadline(5)):
            pass


def test_the_metadata_document_is_there_where_it_is_wanted(site: World, app: Any) -> None:
    assert app.test_client().get("/mcp/client-metadata.json").status_code == 404
    app.config.update(MCP_CLIENT_METADATA=True, MCP_BASE_URL="https://app.example.com/")
    document = app.test_client().get("/mcp/client-metadata.json").json
    assert document["client_id"] == "https://app.example.com/mcp/client-metadata.json"
    assert document["redirect_uris"] == ["https://app.example.com/mcp/callback/safe"]


def test_a_page_asks_the_store_once_and_sees_what_another_process_has_done(
    site: World, tmp_path: Path
) -> None:
    engines = [sa.create_engine(f"sqlite:///{tmp_path}/site.sqlite") for _ in range(2)]
    first, second = (site.app(MCP_TOKEN_STORE=SQLAlchemyTokenStore(engine)) for engine in engines)
    first.test_cli_runner().invoke(args=["mcp", "create-table"], catch_exceptions=False)
    browsers = [logged_in(app) for app in (first, second)]
    site.come_back(browsers[0], browsers[0].get("/use/safe/add").location)
    assert [browser.get("/use/safe/add").status_code for browser in (*browsers, browsers[0])] == [200] * 3
    asked: list[str] = []

    def note(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        asked.append(statement)

    sa.event.listen(engines[0], "before_cursor_execute", note)
    assert browsers[0].get("/use/safe/add").status_code == 200
    assert len(asked) == 1
    browsers[1].post("/mcp/disconnect/safe", data={"mcp_csrf": csrf_of(browsers[1])})
    assert browsers[0].get("/use/safe/add").status_code == 303
    for app, engine in zip((first, second), engines):
        close(app)
        engine.dispose()


def test_a_user_has_one_session_at_an_older_server_however_many_pages_they_see(tmp_path: Path) -> None:
    with world(versions="2025-06-18") as site:
        app = site.app(MCP_TOKEN_STORE=SQLiteStore(tmp_path / "grants.sqlite"))
        for name in ("ada", "bob"):
            browser = logged_in(app, name)
            site.come_back(browser, browser.get("/use/safe/whoami").location, name)
            seen = [browser.get("/use/safe/whoami").json for _ in range(3)]
            assert seen == [{"text": name}] * 3
        assert (site.fake.count("initialize"), site.fake.count("tools/call")) == (2, 6)
        close(app)


def test_a_login_that_took_too_long_or_is_for_another_server_counts_for_nothing(
    site: World, app: Any, monkeypatch: Any
) -> None:
    browser = logged_in(app)
    away = urlsplit(site.auth.consent(browser.get("/use/safe/add").location, "ada"))
    answer = f"{away.path}?{away.query}"
    with monkeypatch.context() as later:
        later.setattr("mcp_sync.auth._vault.PENDING_LIFE", -1.0)
        over = browser.get(answer)
        assert (over.status_code, "belongs to no login" in over.text) == (400, True)
    assert browser.get("/use/safe/add").status_code == 303
    assert browser.get(answer.replace("/callback/safe", "/callback/other")).status_code == 404
    assert browser.get(answer).status_code == 303
    assert browser.get("/use/safe/add").status_code == 200


def test_an_answer_counts_for_the_server_alone_that_the_login_was_for(site: World) -> None:
    guarded = {"url": site.url, "auth": "oauth"}
    app = make_app(MCP_SERVERS={"safe": guarded, "a twin": guarded})
    browser, told = logged_in(app), []
    away = urlsplit(site.auth.consent(browser.get("/use/safe/add").location, "ada"))
    answer = f"{away.path}?{away.query}"
    with signals.grant_created.connected_to(lambda app, **values: told.append(values)):
        other = browser.get(answer.replace("/callback/safe", "/callback/a%20twin"))
        assert (other.status_code, "belongs to no login" in other.text) == (400, True)
        assert browser.get(answer).status_code == 303
        begun = browser.post("/mcp/connect/a twin", data={"mcp_csrf": csrf_of(browser)})
        assert site.come_back(browser, begun.location).status_code == 303
    assert [each["server"] for each in told] == ["safe", "a twin"]
    close(app)


def test_a_user_logs_in_and_out_by_the_terminal(site: World, app: Any) -> None:
    app.config["MCP_BASE_URL"] = "http://localhost"
    runner, told = app.test_cli_runner(), []

    def run(*words: str, typed: str = "") -> Any:
        return runner.invoke(args=["mcp", *words], input=typed)

    with app.test_request_context("/"):
        flow = app.extensions["mcp_sync"].oauth("safe", "user:ada").begin(site.url)
    wrong = run("login", "safe", "--user", "ada", typed="http://localhost/mcp/callback/safe?state=x&code=y\n")
    assert (wrong.exit_code, "Error: " in wrong.output) == (1, True)
    assert run("status", "safe").output.splitlines()[1].split() == ["safe", "for", "users", "-", "-"]
    assert "login needed" in run("status", "--user", "ada").output
    with signals.grant_created.connected_to(lambda app, **values: told.append(values)):
        done = run("login", "safe", "--user", "ada", typed=f"{site.auth.consent(flow.url, 'ada')}\n")
    assert (done.exit_code, done.output.splitlines()[-1]) == (0, "connected to safe"), done.output
    assert told == [{"server": "safe", "principal": "user:ada"}]
    assert logged_in(app).get("/use/safe/whoami").json == {"text": "ada"}
    row = run("status", "--user", "ada").output.splitlines()[1].split()
    assert row[:3] == ["safe", "open", "2026-07-28"]
    assert run("call", "safe", "whoami", "--user", "ada").output == "ada\n"

    assert run("logout", "safe", "--user", "ada").output == "disconnected from safe\n"
    assert logged_in(app).get("/use/safe/whoami").status_code == 303
    assert "nowhere" in run("login", "nowhere", "--user", "ada").output


def test_status_says_why_a_server_cannot_be_opened() -> None:
    servers = {"gone": {"url": "http://127.0.0.1:9/mcp"}, "odd": {"url": "${MISSING_ONE}"}}
    app = make_app(MCP_SERVERS=servers)
    found = app.test_cli_runner().invoke(args=["mcp", "status"])
    assert found.exit_code == 1
    _, gone, odd = found.output.splitlines()
    assert gone.split()[:2] == ["gone", "failed"]
    assert "refused" in gone
    assert "MISSING_ONE is not set" in odd
    close(app)


@pytest.mark.parametrize("versions", ["2025-06-18", "2026-07-28"])
@pytest.mark.parametrize("has_left", [False, True])
def test_a_user_who_connects_as_another_account_in_another_process_has_a_new_session(
    has_left: bool, versions: str, tmp_path: Path
) -> None:
    with world(versions=versions) as site:
        apps = [site.app(MCP_TOKEN_STORE=SQLiteStore(tmp_path / "grants.sqlite")) for _ in range(2)]
        first, second = (logged_in(app) for app in apps)
        site.come_back(first, first.get("/use/safe/whoami").location, "account-1")
        for browser in (first, second, second):
            assert browser.get("/use/safe/whoami").json == {"text": "account-1"}
        sessions = site.fake.count("initialize")
        if has_left:
            first.post("/mcp/disconnect/safe", data={"mcp_csrf": csrf_of(first)})
            assert second.get("/use/safe/whoami").status_code == 303
        away = first.post("/mcp/connect/safe", data={"mcp_csrf": csrf_of(first)})
        site.come_back(first, away.location, "account-2")
        for browser in (second, second, first):
            assert browser.get("/use/safe/whoami").json == {"text": "account-2"}
        assert site.fake.count("initialize") == sessions + (0 if versions == "2026-07-28" else 2)
        site.auth.expire_access_tokens()
        # A token that another process has refreshed is no login: the session goes on.
        for browser in (first, second):
            assert browser.get("/use/safe/whoami").json == {"text": "account-2"}
        assert site.fake.count("initialize") == sessions + (0 if versions == "2026-07-28" else 2)
        for app in apps:
            close(app)
