"""A WSGI application as a server: what a client of a real one would see, without a socket."""

from __future__ import annotations

import socket
import threading

import pytest
from wsgi_app import App

from mcp_sync import BearerToken, Client, HTTPStatusError, UsageError
from mcp_sync.testing import FakeServer, ToolContext, WSGITarget

ERAS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]


def add(context: ToolContext, a: int, b: int) -> dict[str, int]:
    """Add."""
    context.progress(1, 2)
    return {"sum": a + b}


def app_of(events: bool = False, versions: str = "all") -> App:
    return App(FakeServer(tools=[add, boom], versions=versions), events)


def boom() -> str:
    raise KeyError("a fault of the tool")


@pytest.fixture(autouse=True)
def no_sockets(monkeypatch):
    def refuse(*args):
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.mark.parametrize("version", ERAS)
@pytest.mark.parametrize("events", [False, True], ids=["json", "events"])
def test_every_revision_works_on_the_thread_of_the_caller(version, events):
    app = app_of(events, version)
    reports: list[float] = []
    with Client(WSGITarget(app.wsgi())) as client:
        assert client.protocol_version == version
        app.threads.clear()
        result = client.call_tool(
            "add", {"a": 1, "b": 2}, progress_callback=lambda progress, *_: reports.append(progress)
        )
    assert result.text == '{"sum": 3}'
    assert reports == [1]
    assert app.threads == {threading.current_thread().name}


def test_a_pinned_revision_opens_on_the_thread_of_the_caller_too():
    app = app_of()
    with Client(WSGITarget(app.wsgi()), mode="2026-07-28") as client:
        client.call_tool("add", {"a": 1, "b": 2})
    assert app.threads == {threading.current_thread().name}


def test_an_event_stream_is_closed_as_soon_as_the_answer_is_there():
    app = app_of(events=True)
    with Client(WSGITarget(app.wsgi())) as client:
        client.call_tool("add", {"a": 1, "b": 2})
        assert app.closed == 2  # server/discover, tools/call


def test_the_application_sees_headers_url_cookies_and_authorization():
    app = app_of()
    target = WSGITarget(
        app.wsgi(), "https://shop.example:8443/mcp?x=1", headers={"X-Shop": "a"}, auth=BearerToken("canary")
    )
    assert "canary" not in repr(target)
    with Client(target) as client:
        client.list_tools()
        client.list_tools()
    last = app.seen[-1]
    assert last["HTTP_HOST"] == "shop.example:8443"
    assert last["SERVER_PORT"] == "8443"
    assert last["wsgi.url_scheme"] == "https"
    assert last["QUERY_STRING"] == "x=1"
    assert last["HTTP_X_SHOP"] == "a"
    assert last["HTTP_AUTHORIZATION"] == "Bearer canary"
    assert last["HTTP_COOKIE"] == "who=canary"
    assert last["CONTENT_TYPE"] == "application/json"


def test_views_for_users_have_credentials_and_cookies_of_their_own():
    app = app_of()
    target = WSGITarget(app.wsgi(), "https://testserver/mcp", auth=BearerToken("ours"))
    with Client(target) as client:
        client.list_tools()
        with client.for_principal("anna", auth=BearerToken("hers")) as view:
            view.list_tools()
    assert app.seen[-1]["HTTP_AUTHORIZATION"] == "Bearer hers"
    assert app.seen[-1].get("HTTP_COOKIE", "who=hers") == "who=hers"


def test_a_refusal_is_the_status_error_of_http():
    app = app_of()
    app.guard = lambda environ: "403 Forbidden"
    with (
        Client(WSGITarget(app.wsgi()), mode="2026-07-28") as client,
        pytest.raises(HTTPStatusError) as caught,
    ):
        client.list_tools()
    assert caught.value.status == 403


def test_what_the_application_raises_is_raised_by_the_call():
    def broken(environ, start_response):
        raise LookupError("the view failed")

    with (
        Client(WSGITarget(broken), mode="2026-07-28") as client,
        pytest.raises(LookupError, match="the view failed"),
    ):
        client.list_tools()


def test_an_application_that_starts_no_response_is_named():
    with (
        Client(WSGITarget(lambda environ, start_response: [b"x"]), mode="2026-07-28") as client,
        pytest.raises(RuntimeError, match="start_response"),
    ):
        client.list_tools()


@pytest.mark.parametrize("arguments", [("no app",), (print, "ftp://testserver/mcp"), (print, 5)])
def test_what_cannot_work_is_refused_at_once(arguments):
    with pytest.raises(UsageError):
        WSGITarget(*arguments)


def test_two_applications_are_two_servers():
    def one(environ, start_response):
        return []

    def two(environ, start_response):
        return []

    assert WSGITarget(one).identity() == WSGITarget(one).identity()
    assert WSGITarget(one).identity() != WSGITarget(two).identity()
