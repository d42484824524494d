"""Questions of servers: a form, in any process, for the user who caused it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_sync.auth import SQLiteStore
from mcp_sync.contrib.flask import _pending, signals
from mcp_sync.testing import FakeServer, ToolContext

from .site import close, csrf_of, greet, make_app, world


def other() -> str:
    return "other"


@pytest.fixture
def fake() -> FakeServer:
    return FakeServer(tools=[greet, other])


@pytest.fixture
def apps(fake: FakeServer, tmp_path: Any) -> Iterator[tuple[Any, Any]]:
    """Make two processes of one site, as far as the store is concerned."""
    with fake.serve_http() as endpoint:
        made = tuple(
            make_app(
                MCP_SERVERS={"greeter": {"url": endpoint.url}, "second": {"url": endpoint.url}},
                MCP_TOKEN_STORE=SQLiteStore(tmp_path / "store.sqlite"),
            )
            for _ in range(2)
        )
        yield made
        for each in made:
            close(each)


def logged_in(app: Any, name: str = "ada") -> Any:
    browser = app.test_client()
    browser.get(f"/login/{name}")
    return browser


def test_a_question_becomes_a_form_and_the_page_goes_on_with_the_answer(apps: Any, fake: FakeServer) -> None:
    browser, elsewhere = logged_in(apps[0]), logged_in(apps[1])
    form = browser.get("/use/greeter/greet?x=1")
    assert form.status_code == 303
    shown = elsewhere.get(form.location)
    assert "What is your name?" in shown.text
    assert '<label for="q0-name">Your name (required)</label>' in shown.text
    assert 'type="number"' in shown.text

    bad = elsewhere.post(form.location, data={"mcp_csrf": csrf_of(elsewhere), "q0-name": "A", "q0-age": "x"})
    assert bad.status_code == 422
    assert (bad.text.count('aria-invalid="true"'), bad.text.count(" autofocus")) == (2, 1)
    assert "<title>Not sent: greeter has a question</title>" in bad.text
    assert "<h1>greeter has a question</h1>" in bad.text
    assert "It is about <strong>greet</strong>. Your answer goes to greeter; give no passwords." in bad.text
    assert 'value="A"' in bad.text
    told = []
    with signals.input_answered.connected_to(lambda app, **values: told.append(values["server"])):
        good = elsewhere.post(form.location, data={"mcp_csrf": csrf_of(elsewhere), "q0-name": "Ada"})
    assert told == ["greeter"]
    assert good.status_code == 303
    assert good.location.startswith("/use/greeter/greet?x=1&mcp_input=")
    assert browser.get(good.location).json == {"text": "Hello, Ada!"}
    calls = fake.count("tools/call")
    assert browser.get(good.location).json == {"text": "Hello, Ada!"}  # Loaded anew, it calls nothing.
    assert fake.count("tools/call") == calls
    assert browser.get(form.location).status_code == 303


def test_another_call_or_another_user_does_not_get_the_answer(apps: Any, fake: FakeServer) -> None:
    ada, bob = logged_in(apps[0]), logged_in(apps[0], "bob")
    form = ada.get("/use/greeter/greet").location
    assert bob.get(form).status_code == 404
    assert bob.post(form, data={"mcp_csrf": csrf_of(bob), "q0-name": "Bob"}).status_code == 404
    good = ada.post(form, data={"mcp_csrf": csrf_of(ada), "q0-name": "Ada"})
    assert bob.get(good.location).status_code == 303  # Bob is asked himself.
    assert ada.get(good.location.replace("/greeter/", "/second/")).status_code == 303
    assert ada.get(good.location.replace("/greet?", "/other?")).json == {"text": "other"}
    assert ada.get(good.location).json == {"text": "Hello, Ada!"}


def test_the_answer_to_a_call_for_one_user_is_not_that_to_a_call_for_another(apps: Any) -> None:
    """A page may call a server for several users: each call that asked has an answer of its own."""
    browser = logged_in(apps[0])
    form = browser.get("/for/carl/greeter/greet").location
    good = browser.post(form, data={"mcp_csrf": csrf_of(browser), "q0-name": "Carl"})
    assert browser.get(good.location).text == "Hello, Carl!"
    assert browser.get(good.location.replace("/for/carl", "/for/dora")).status_code == 303


def test_a_call_of_a_post_shows_its_result_on_a_page(apps: Any) -> None:
    browser = logged_in(apps[0])
    form = browser.post("/post/greeter/greet", headers={"Referer": "http://localhost/desk?x=1"}).location
    answer = {"mcp_csrf": csrf_of(browser), "mcp_action": "decline"}
    shown = browser.post(form, data=answer)
    assert shown.status_code == 200
    assert "<strong>greet</strong> says:" in shown.text
    assert "Hello, stranger!" in shown.text
    assert '<a href="/desk?x=1">Go on</a>' in shown.text


def test_a_form_without_the_token_of_the_session_does_nothing(apps: Any, fake: FakeServer) -> None:
    browser = logged_in(apps[0])
    form = browser.get("/use/greeter/greet").location
    calls = fake.count("tools/call")
    assert browser.post(form, data={"q0-name": "Ada"}).status_code == 400
    assert fake.count("tools/call") == calls


def test_a_question_to_nobody_is_401_and_without_the_store_503(apps: Any, tmp_path: Path) -> None:
    assert apps[0].test_client().get("/use/greeter/greet").status_code == 401
    browser = logged_in(apps[1])
    apps[1].config["MCP_TOKEN_STORE"] = SQLiteStore(tmp_path)  # A folder is no database.
    assert browser.get("/use/greeter/greet").status_code == 503


def test_programs_are_told_where_the_form_is(apps: Any) -> None:
    told = logged_in(apps[0]).get("/use/greeter/greet", headers={"Accept": "application/json"})
    assert (told.status_code, told.json["error"]) == (409, "input_required")
    assert told.json["url"].endswith(told.json["id"])


def test_what_is_out_of_date_is_gone_and_what_is_unknown_is_404(apps: Any) -> None:
    browser = logged_in(apps[0])
    form = browser.get("/use/greeter/greet").location
    apps[0].config["MCP_INPUT_LIFE"] = 1e-9
    assert browser.get(form).status_code == 410
    assert browser.get(form).status_code == 404
    assert browser.get("/mcp/input/nothing").status_code == 404


def test_only_one_of_two_windows_goes_on(apps: Any, fake: FakeServer, monkeypatch: Any) -> None:
    browser = logged_in(apps[0])
    form = browser.get("/use/greeter/greet").location
    answer = {"mcp_csrf": csrf_of(browser), "q0-name": "Ada"}
    seen = []
    resume = _pending.Pending.resume

    def slow(self: Any, client: Any, answers: Any) -> Any:
        seen.append(logged_in(apps[1]).get(form).status_code)
        return resume(self, client, answers)

    monkeypatch.setattr(_pending.Pending, "resume", slow)
    assert browser.post(form, data=answer).status_code == 303
    assert seen == [409]


def test_of_two_answers_at_once_one_is_refused(apps: Any, fake: FakeServer, monkeypatch: Any) -> None:
    browser = logged_in(apps[0])
    form = browser.get("/use/greeter/greet").location
    answer = {"mcp_csrf": csrf_of(browser), "q0-name": "Ada"}
    load = _pending.load

    def overtaken(*args: Any) -> Any:
        mine = load(*args)
        assert load(*args).change(status=_pending.RESUMING)
        return mine

    calls = fake.count("tools/call")
    monkeypatch.setattr(_pending, "load", overtaken)
    assert browser.post(form, data=answer).status_code == 409
    assert fake.count("tools/call") == calls


def test_a_worker_that_died_while_it_went_on_leaves_a_question_that_can_be_answered(
    apps: Any, monkeypatch: Any
) -> None:
    browser = logged_in(apps[0])
    form = browser.get("/use/greeter/greet").location
    answer = {"mcp_csrf": csrf_of(browser), "q0-name": "Ada"}

    class Killed(BaseException):
        pass

    def die(*args: Any) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(_pending.Pending, "resume", die)
        with pytest.raises(Killed):
            browser.post(form, data=answer)
    other = logged_in(apps[1])
    assert other.get(form).status_code == 409
    monkeypatch.setattr(_pending, "_now", lambda: time.time() + 60)
    assert "may have got through" in other.get(form).text
    assert other.post(form, data={**answer, "mcp_csrf": csrf_of(other)}).status_code == 303


def test_an_answer_that_cannot_be_sent_can_be_given_again(tmp_path: Path) -> None:
    fake = FakeServer(tools=[greet])
    store = SQLiteStore(tmp_path / "store.sqlite")
    with fake.serve_http() as endpoint:
        app = make_app(MCP_SERVERS={"greeter": {"url": endpoint.url}}, MCP_TOKEN_STORE=store)
        browser = logged_in(app)
        form = browser.get("/use/greeter/greet").location
        close(app)
    # Another process, which has no connection yet.
    down = make_app(MCP_SERVERS={"greeter": {"url": endpoint.url}}, MCP_TOKEN_STORE=store)
    browser = logged_in(down)
    answer = browser.post(form, data={"mcp_csrf": csrf_of(browser), "q0-name": "Ada"})
    assert (answer.status_code, "your answer was not sent" in answer.text) == (502, True)
    assert f'<a href="{form}">Answer once more</a>' in answer.text
    assert browser.get(form).status_code == 200
    close(down)


def test_whoever_has_to_log_in_anew_to_answer_comes_back_to_the_question() -> None:
    with world() as site:
        app = site.app()
        browser = logged_in(app)
        form = site.come_back(browser, browser.get("/use/safe/greet").location)
        form = browser.get(form.location).location
        site.auth.forget_grants()
        answer = {"mcp_csrf": csrf_of(browser), "q0-name": "Ada"}
        away = browser.post(form, data=answer)
        assert (away.status_code, away.location.startswith(site.auth.issuer)) == (303, True)
        back = site.come_back(browser, away.location)
        assert (back.location, browser.get(form).status_code) == (form, 200)
        done = browser.post(form, data=answer)
        assert browser.get(done.location).json == {"text": "Hello, Ada!"}
        close(app)


def test_a_server_that_asks_twice_is_answered_twice(apps: Any, fake: FakeServer) -> None:
    def twice(context: ToolContext) -> str:
        first = context.elicit("One?", {"type": "object", "properties": {"a": {"type": "boolean"}}})
        second = context.elicit("Two?", {"type": "object", "properties": {"b": {"type": "string"}}})
        return f"{first['content']['a']} {second['content']['b']}"

    fake.add_tool(twice)
    browser = logged_in(apps[0])
    form = browser.get("/use/greeter/twice").location
    again = browser.post(form, data={"mcp_csrf": csrf_of(browser), "q0-a": "true"})
    assert (again.status_code, again.location) == (303, form)
    assert "Two?" in browser.get(form).text
    done = browser.post(form, data={"mcp_csrf": csrf_of(browser), "q0-b": "yes"})
    assert browser.get(done.location).json == {"text": "True yes"}


def test_a_page_to_visit_is_shown_with_its_host(apps: Any, fake: FakeServer) -> None:
    def pay(context: ToolContext) -> str:
        return str(context.elicit_url("Pay first", "https://pay.example/x?y=1&z=2")["action"])

    def trap(context: ToolContext) -> str:
        return str(context.elicit_url("Pay first", "javascript:alert(1)")["action"])

    fake.add_tool(pay)
    fake.add_tool(trap)
    browser = logged_in(apps[0])
    form = browser.get("/use/greeter/pay").location
    shown = browser.get(form).text
    assert "<strong>pay.example</strong>" in shown
    assert 'href="https://pay.example/x?y=1&amp;z=2"' in shown
    assert ("Choose Continue when" in shown, 'value="accept">Continue</button>' in shown) == (True, True)
    done = browser.post(form, data={"mcp_csrf": csrf_of(browser)})
    assert browser.get(done.location).json == {"text": "accept"}
    shown = browser.get(browser.get("/use/greeter/trap").location).text
    assert 'href="javascript' not in shown


def test_a_page_that_must_not_be_visited_is_no_link_and_cannot_be_agreed_to() -> None:
    fake = FakeServer(tools=[greet])
    params = {"mode": "url", "message": "<b>Look</b>", "url": "javascript:alert(1)", "elicitationId": "1"}
    asked = {"k": {"method": "elicitation/create", "params": params}}
    answer = {"resultType": "input_required", "inputRequests": asked, "requestState": "s"}
    fake.on("tools/call", lambda message: answer)
    app = make_app(MCP_SERVERS={})
    with app.extensions["the_mcp"].use_fake({"greeter": fake}, app):
        browser = logged_in(app)
        form = browser.get("/use/greeter/greet").location
        agreed = browser.post(form, data={"mcp_csrf": csrf_of(browser)})
        assert agreed.status_code == 422
        for page in (browser.get(form).text, agreed.text):
            assert "must not be visited" in page
            assert "javascript:" not in page
            assert "<b>" not in page
        assert fake.count("tools/call") == 1
        assert (
            browser.post(form, data={"mcp_csrf": csrf_of(browser), "mcp_action": "decline"}).location == form
        )
    close(app)
