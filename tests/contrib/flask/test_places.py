"""Where users go back to: pages of the site, as they were asked for, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest
from flask import session

from mcp_sync.contrib.flask._pages import here, is_local, remember_next, take_next
from mcp_sync.testing import FakeServer, ToolContext

from .site import close, csrf_of, greet, make_app

COOKIE = 4093  # bytes of a cookie, its name and all; what is longer browsers drop


@pytest.fixture
def app() -> Any:
    return make_app(MCP_SERVERS={"greeter": {"url": "http://127.0.0.1:9/mcp"}})


@pytest.mark.parametrize(
    "place",
    [
        "/a%20b",
        "/a%3Fb?c=%26d",
        "/%C3%A9?q=%C3%A9",
        "/50%25?",
        "/x?next=http://evil.example",
        "/%5Cevil",
        "/",
    ],
)
def test_a_page_is_gone_back_to_as_it_was_asked_for(app: Any, place: str) -> None:
    with app.test_request_context(place):
        assert here() == place.rstrip("?")


@pytest.mark.parametrize(
    "place",
    ["//evil.example", "/\\evil.example", "/\tevil.example", "/a\nb", "https://evil.example", "evil", ""],
)
def test_no_other_site_is_gone_to(app: Any, place: str) -> None:
    assert not is_local(place)
    with app.test_request_context("/"):
        remember_next("state", place)
        assert take_next("state") == "/"


def test_under_a_path_of_its_own_the_application_begins_there(app: Any) -> None:
    under: dict[str, Any] = {"base_url": "http://localhost/shop"}
    with app.test_request_context("/x", **under):
        remember_next("state", "//evil.example")
        assert take_next("state") == take_next("unknown") == "/shop/"
    with app.test_request_context("/x", method="POST", **under):
        assert here() == "/shop/"
    with app.test_request_context("/x", method="POST", environ_overrides={"SCRIPT_NAME": "//evil.example"}):
        assert here() == "/"
    gone = app.test_client().get("/mcp/input/unknown", **under)
    assert (gone.status_code, '<a href="/shop/">Back to the start</a>' in gone.text) == (401, True)


def test_a_page_with_a_space_in_its_address_gets_the_result_of_its_question() -> None:
    app = make_app(MCP_SERVERS={})
    mcp = app.extensions["the_mcp"]

    @app.get("/desk/<room>")
    def desk(room: str) -> str:
        return f"{room}: {mcp['greeter'].call_tool('greet').text}"

    with mcp.use_fake({"greeter": FakeServer(tools=[greet])}, app):
        browser = app.test_client()
        browser.get("/login/ada")
        form = browser.get("/desk/large%20room").location
        back = browser.post(form, data={"mcp_csrf": csrf_of(browser), "q0-name": "Ada"})
        assert back.location.startswith("/desk/large%20room?mcp_input=")
        assert browser.get(back.location).text == "large room: Hello, Ada!"
    close(app)


def test_a_page_with_several_questions_gets_the_answers_to_all_of_them() -> None:
    app = make_app(MCP_SERVERS={})
    mcp = app.extensions["the_mcp"]

    def greet_formally(context: ToolContext) -> str:
        return greet(context).replace("Hello", "How do you do")

    @app.get("/both")
    def both() -> str:
        return " ".join(mcp["greeter"].call_tool(name).text for name in ("greet", "greet_formally"))

    with mcp.use_fake({"greeter": FakeServer(tools=[greet, greet_formally])}, app):
        browser, place = app.test_client(), "/both"
        browser.get("/login/ada")
        for name in ("Ada", "Lovelace"):
            form = browser.get(place).location
            place = browser.post(form, data={"mcp_csrf": csrf_of(browser), "q0-name": name}).location
        assert browser.get(place).text == "Hello, Ada! How do you do, Lovelace!"
    close(app)


@pytest.mark.parametrize("length", [10, 1400, 6000])
def test_the_cookie_of_the_session_stays_short_enough_for_browsers(app: Any, length: int) -> None:
    import random

    letters = random.Random(1)
    with app.test_request_context("/"):
        for number in range(9):
            query = "".join(letters.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=length))
            remember_next(f"{number}", f"/page?{query}")
        text = app.session_interface.get_signing_serializer(app).dumps(dict(session))
        last = take_next("8")
    assert len(text) < COOKIE / 2
    assert last == (f"/page?{query}" if length < 1500 else "/page")


def test_odd_host_names_keep_nobody_out_and_do_not_fill_the_memory() -> None:
    app = make_app(MCP_SERVERS={"safe": {"url": "https://safe.example/mcp", "auth": "oauth"}})
    state = app.extensions["mcp_sync"]
    for number in range(200):
        with app.test_request_context("/", base_url=f"https://odd{number}.example"):
            state.oauth("safe", "user:mallory")
    with app.test_request_context("/", base_url="https://site.example"):
        first, second = (state.oauth("safe", "user:ada") for _ in range(2))
    assert len(state._oauths) == 64
    assert first.identity is second.identity
    close(app)
