"""Views of Django REST framework: what a program is told."""

from __future__ import annotations

import threading

import pytest
from django.db import connections
from django.test import override_settings

from mcp_sync.contrib.django.test import fake_server
from mcp_sync.testing import FakeServer

from .conftest import browser_of, connect
from .test_questions import GOOD, greet

pytest.importorskip("rest_framework")

HANDLER = "mcp_sync.contrib.django.drf.exception_handler"
RENDERER = "rest_framework.renderers.JSONRenderer"


@pytest.fixture(autouse=True)
def _api():
    rest = {"EXCEPTION_HANDLER": HANDLER, "DEFAULT_RENDERER_CLASSES": [RENDERER]}
    with override_settings(ROOT_URLCONF="tests.contrib.django.api_site", REST_FRAMEWORK=rest):
        yield


@pytest.fixture
def atomic_requests(monkeypatch):
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)


def test_a_user_who_has_to_connect_is_told_where(guarded, ada):
    browser = browser_of(ada)
    answer = browser.get("/api/guarded/whoami/")
    assert answer.status_code == 401
    place = "http://localhost/mcp/connect/guarded/?next=%2Fapi%2Fguarded%2Fwhoami%2F"
    assert answer.json() == {"error": "authorization_required", "server": "guarded", "url": place}
    connect(browser, guarded.auth, "ada at the server")
    assert browser.get("/api/guarded/whoami/").json() == {"text": "ada at the server"}


def test_a_token_that_is_refused_in_a_transaction_is_refreshed(guarded, ada, atomic_requests):
    browser = browser_of(ada)
    connect(browser, guarded.auth, "ada at the server")
    guarded.auth.expire_access_tokens()
    assert browser.get("/api/guarded/whoami/", follow=True).json() == {"text": "ada at the server"}
    assert guarded.auth.asked["refresh_token"] == 1


@pytest.mark.parametrize("is_atomic", [False, True])
def test_a_question_has_a_page_and_its_answer_goes_to_the_program(ada, is_atomic, monkeypatch):
    monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", is_atomic)
    with fake_server("desk", tools={"greet": greet}):
        browser = browser_of(ada)
        asked = browser.get("/api/desk/greet/")
        assert (asked.status_code, asked.json()["error"]) == (409, "input_required")
        browser.post(asked.json()["url"], GOOD)
        back = f"/api/desk/greet/?mcp_input={asked.json()['url'].split('/')[-2]}"
        assert "Ada" in browser.get(back).json()["text"]


def test_what_a_server_does_wrong_is_no_error_of_the_site_and_is_rolled_back(ada, atomic_requests):
    go_on = threading.Event()

    def slow():
        go_on.wait(10)

    with FakeServer(tools=[slow]).serve_http() as endpoint:
        servers = {"desk": {"URL": endpoint.url}, "gone": {"URL": "http://127.0.0.1:1/mcp?key=hunter2"}}
        with override_settings(MCP_SYNC={"SERVERS": servers}):
            browser = browser_of(ada)
            late, failed = browser.get("/api/desk/slow/"), browser.get("/api/gone/x/")
            go_on.set()
    assert (late.status_code, late.json()["error"]) == (504, "server_timeout")
    assert (failed.status_code, failed.json()["error"]) == (502, "server_failed")
    assert "127.0.0.1" not in failed.content.decode()
    ada.refresh_from_db()
    assert ada.first_name == ""


def test_other_errors_are_those_of_the_framework_and_of_the_site(ada):
    browser = browser_of(ada)
    browser.raise_request_exception = False
    with fake_server("desk", tools={"greet": greet}):
        assert browser.get("/api/desk/forbidden/").status_code == 403
        assert browser.get("/api/nobody/x/").status_code == 500
