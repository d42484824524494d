"""Logins at servers that answer late, or never: the page comes in time, and says whose fault it is."""

from __future__ import annotations

import socket
import threading
from typing import Any

from mcp_sync.testing import FakeServer

from .site import close, csrf_of, make_app, world

DEADLINE = 0.3


def connect(app: Any) -> Any:
    """Begin to connect; return the browser and its page."""
    browser = app.test_client()
    browser.get("/login/ada")
    return browser, browser.post("/mcp/connect/safe", data={"mcp_csrf": csrf_of(browser)})


def test_who_connects_to_a_server_that_never_answers_waits_for_the_deadline() -> None:
    answers = threading.Event()
    with FakeServer().serve_http(intercept=lambda request: answers.wait(60) and None) as endpoint:
        app = make_app(MCP_SERVERS={"safe": {"url": endpoint.url, "auth": "oauth"}}, MCP_DEADLINE=DEADLINE)
        page = connect(app)[1]
        answers.set()
        close(app)
    assert (page.status_code, "did not answer in time" in page.text) == (504, True)


def test_who_comes_back_while_the_authorization_server_is_slow_waits_for_the_deadline() -> None:
    answers = threading.Event()
    with world() as site:
        app = site.app()
        browser, away = connect(app)
        app.config["MCP_DEADLINE"] = DEADLINE
        usual = site.auth._endpoint.intercept
        site.auth._endpoint.intercept = lambda request: (
            answers.wait(60) and usual(request) if request.path == "/token" else usual(request)
        )
        page = site.come_back(browser, away.location)
        answers.set()
        close(app)
    assert (page.status_code, "did not answer in time" in page.text) == (504, True)


def test_who_connects_to_a_server_that_is_not_there_is_told_of_no_database() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    app = make_app(MCP_SERVERS={"safe": {"url": url, "auth": "oauth"}})
    page = connect(app)[1]
    assert (page.status_code, "The connection did not come about." in page.text) == (503, True)
    close(app)
