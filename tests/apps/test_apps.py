"""Pages of apps: what they ask to be allowed becomes a policy, and nothing else does."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from mcp_sync import AppRejected, Client, InMemory, UsageError, types
from mcp_sync.apps import MIME_TYPE, App, Apps, app_of, app_tools, app_uri, model_tools, visible_to
from mcp_sync.testing import FakeServer, FakeTool

BOARD = "ui://weather/board"
NOTHING = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "media-src data:; connect-src 'none'; font-src 'none'; frame-src 'none'; base-uri 'none'; "
    "object-src 'none'; form-action 'none'"
)


def forecast() -> str:
    return "sunny"


def refresh() -> str:
    return "fresh"


def plain() -> str:
    return "plain"


@pytest.fixture
def server() -> FakeServer:
    server = FakeServer(tools=[plain])
    server.tool(ui=BOARD)(forecast)
    server.tool(ui={"resourceUri": BOARD, "visibility": ["app"]})(refresh)
    server.add_app(BOARD, "<!DOCTYPE html>ü")
    return server


@pytest.fixture
def client(server: FakeServer) -> Iterator[Client]:
    with Client(InMemory(server), extensions=[Apps()]) as client:
        yield client


def page(**ui: Any) -> App:
    server = FakeServer()
    server.add_app(BOARD, "<!DOCTYPE html>", **ui)
    with Client(InMemory(server)) as client:
        return client.app(BOARD)


def policy(**csp: Any) -> dict[str, str]:
    parts = page(csp=csp).csp.split("; ")
    return dict(part.split(" ", 1) for part in parts)  # type: ignore[misc]


# --- tools -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["2024-11-05", "2025-11-25", "2026-07-28"])
def test_servers_of_every_revision_are_told_that_pages_can_be_shown(version: str) -> None:
    server = FakeServer(versions=[version])
    server.tool(ui=BOARD)(forecast)
    server.add_app(BOARD, "<p>")
    with Client(InMemory(server), extensions=[Apps()]) as client:
        [tool] = client.tools()
        assert app_uri(tool) == BOARD
        app = app_of(client, tool)
        assert app is not None
        assert app.html == "<p>"
    with Client(InMemory(server)) as client:
        assert [app_uri(tool) for tool in client.tools()] == [None]


def test_tools_are_told_apart_by_who_may_use_them(client: Client) -> None:
    tools = list(client.tools())
    assert {tool.name: sorted(visible_to(tool)) for tool in tools} == {
        "plain": ["app", "model"],
        "forecast": ["app", "model"],
        "refresh": ["app"],
    }
    assert [tool.name for tool in model_tools(tools)] == ["plain", "forecast"]
    assert [tool.name for tool in app_tools(tools)] == ["plain", "forecast", "refresh"]
    assert app_of(client, tools[0]) is None


def tool_with(meta: Any) -> types.Tool:
    return types.Tool.model_validate({"name": "t", "inputSchema": {"type": "object"}, "_meta": meta})


@pytest.mark.parametrize(
    ("meta", "uri"),
    [
        ({"ui": {"resourceUri": "ui://a"}, "ui/resourceUri": "ui://b"}, "ui://a"),
        ({"ui/resourceUri": "ui://b"}, "ui://b"),
        ({"ui": {"resourceUri": "https://evil.example"}}, None),
        ({"ui": {"resourceUri": 7}}, None),
        ({"ui": "ui://a"}, None),
        (None, None),
    ],
)
def test_the_page_of_a_tool_is_found_under_both_names(meta: Any, uri: Any) -> None:
    assert app_uri(tool_with(meta)) == uri


@pytest.mark.parametrize(
    ("visibility", "who"),
    [(["model"], {"model"}), ("app", {"app"}), ([], set()), (None, set()), ([{}, "x"], set()), ({}, set())],
)
def test_nonsense_about_who_may_use_a_tool_lets_nobody(visibility: Any, who: set[str]) -> None:
    assert visible_to(tool_with({"ui": {"visibility": visibility}})) == who


# --- pages -------------------------------------------------------------------------------------------------


def test_a_page_that_asks_for_nothing_is_allowed_nothing() -> None:
    app = page()
    assert app == App(BOARD, "<!DOCTYPE html>", MIME_TYPE, NOTHING)
    assert app.iframe() == {"sandbox": "allow-scripts allow-forms", "referrerpolicy": "no-referrer"}
    assert app.headers() == {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": f"{NOTHING}; frame-ancestors 'self'; sandbox allow-scripts allow-forms",
        "Permissions-Policy": "camera=(), clipboard-write=(), geolocation=(), microphone=()",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }


def test_a_page_may_use_the_origins_that_it_names_for_what_it_names_them() -> None:
    cdn, api = "https://*.cdn.example:8443", "wss://API.example/"
    allowed = policy(
        connectDomains=[api, api, "http://localhost:3000"],
        resourceDomains=[cdn],
        frameDomains=["https://video.example"],
        baseUriDomains=["https://base.example"],
    )
    assert allowed["connect-src"] == "wss://api.example http://localhost:3000"
    assert allowed["script-src"] == allowed["style-src"] == f"'unsafe-inline' {cdn}"
    assert allowed["img-src"] == allowed["media-src"] == f"data: {cdn}"
    assert allowed["font-src"] == cdn
    assert allowed["frame-src"] == "https://video.example"
    assert allowed["base-uri"] == "https://base.example"
    assert allowed["default-src"] == allowed["object-src"] == allowed["form-action"] == "'none'"


@pytest.mark.parametrize(
    "source",
    [
        "https://a.example; script-src *",
        "https://a.example, default-src *",
        "https://a.example *",
        "https://a.example\nSet-Cookie: x=y",
        "https://a.example\r\n",
        "https://a.example\n",
        " https://a.example",
        "https://a.example\t",
        "https://a.example\x00",
        "'unsafe-eval'",
        "'self'",
        "*",
        "https:",
        "https://*",
        "https://*.",
        "https://*.com",
        "https://a.*.example",
        "https://a.example/path",
        "https://a.example?x",
        "https://user@a.example",
        "https://a_b.example",
        "https://-a.example",
        "https://a..example",
        "https://" + "a" * 64,
        "https://" + "a." * 200 + "example",
        "https://a.example:port",
        "https://a.example:123456",
        "https://[::1]",
        "https://\u212aelvin.example",
        "https://m\u00fcnchen.example",
        'https://a.example"',
        "data:",
        "blob:",
        "javascript:alert(1)",
        "file:///etc/passwd",
        "ftp://a.example",
        "a.example",
        "",
        7,
        None,
        ["https://a.example"],
    ],
)
@pytest.mark.parametrize("name", ["connectDomains", "baseUriDomains"])
def test_what_is_no_origin_is_refused(source: Any, name: str) -> None:
    with pytest.raises(AppRejected, match="no origin") as caught:
        page(csp={name: ["https://good.example", source]})
    assert (caught.value.reason, caught.value.uri) == ("policy", BOARD)


@pytest.mark.parametrize(
    "csp",
    [
        "default-src *",
        ["https://a.example"],
        {"connectDomains": "https://a.example"},
        {"frameDomains": {"a": 1}},
    ],
)
def test_a_policy_of_another_shape_is_refused(csp: Any) -> None:
    with pytest.raises(AppRejected) as caught:
        page(csp=csp)
    assert caught.value.reason == "policy"


def test_a_policy_cannot_be_made_as_long_as_one_likes() -> None:
    with pytest.raises(AppRejected, match="more than 64"):
        page(csp={"connectDomains": [f"https://a{number}.example" for number in range(65)]})


def test_directives_of_the_servers_own_are_left_out() -> None:
    assert page(csp={"scriptDomains": ["*"], "default-src": "*", "connectDomains": []}).csp == NOTHING


def test_permissions_are_given_only_where_both_sides_agree() -> None:
    asked = {"camera": {}, "clipboardWrite": {}, "geolocation": None, "usb": {}, "camera; usb": {}}
    app = page(permissions=asked)
    assert app.permissions == ("camera", "clipboard-write")
    assert "allow" not in app.iframe()
    assert "allow" not in app.iframe(grant=["microphone", "usb"])
    assert app.iframe(grant=["clipboard-write", "camera", "microphone"])["allow"] == "camera; clipboard-write"
    assert app.headers(grant=["camera"])["Permissions-Policy"] == (
        "clipboard-write=(), geolocation=(), microphone=()"
    )
    with pytest.raises(UsageError):
        app.iframe(grant="camera")
    assert page(permissions=["camera"]).permissions == ()


@pytest.mark.parametrize(
    "embedder", ["https://a.example; sandbox", "*", "", "https://a.example\n", "a.example", None, 5]
)
def test_only_an_origin_may_embed_a_page(embedder: Any) -> None:
    with pytest.raises(UsageError, match="embedder"):
        page().headers(embedder)
    assert (
        "frame-ancestors https://a.example;" in page().headers("https://a.example")["Content-Security-Policy"]
    )


def test_what_a_page_would_like_is_shown() -> None:
    app = page(prefersBorder=True, domain="a1.apps.example", csp={"connectDomains": ["https://a.example"]})
    assert (app.prefers_border, app.domain) == (True, "a1.apps.example")
    assert app.domains == (("connectDomains", ("https://a.example",)),)
    assert page(prefersBorder="yes").prefers_border is None
    for domain in ("a.example/x", "a.example\n", "", 7, "\u212aelvin.example"):
        with pytest.raises(AppRejected, match="no name of a host"):
            page(domain=domain)


def test_a_page_is_a_value(client: Client) -> None:
    app = client.app(BOARD)
    assert pickle.loads(pickle.dumps(app)) == app
    assert len({app, client.app(BOARD)}) == 1


@pytest.mark.parametrize("app", ["https://a.example", "UI://a", "", "tool"])
def test_what_is_no_app_is_a_usage_error(client: Client, server: FakeServer, app: str) -> None:
    with pytest.raises(UsageError, match="no URI of an app"):
        client.app(tool_with(None) if app == "tool" else app)
    assert server.count("resources/read") == 0


def answered(*contents: Any) -> FakeServer:
    server = FakeServer()
    server.add_app(BOARD, "")
    server.on("resources/read", lambda message: {"contents": list(contents)})
    return server


def test_what_is_no_tool_is_a_usage_error(client: Client) -> None:
    no_tool: Any = 5
    for attempt in (client.app, app_uri, visible_to):
        with pytest.raises(UsageError, match="not int"):
            attempt(no_tool)


@pytest.mark.parametrize("kind", [MIME_TYPE, "text/html; profile=mcp-app", 'Text/HTML;profile="mcp-app"'])
def test_pages_come_as_text_or_as_bytes(kind: str) -> None:
    blob = base64.b64encode("ü".encode()).decode()
    for content in ({"text": "ü"}, {"blob": blob}):
        with Client(InMemory(answered({"uri": BOARD, "mimeType": kind, **content}))) as client:
            assert client.app(BOARD).html == "ü"


@pytest.mark.parametrize(
    "contents",
    [
        [],
        [{"uri": BOARD, "mimeType": MIME_TYPE, "text": "x"}] * 2,
        [{"uri": BOARD, "mimeType": "text/html", "text": "x"}],
        [{"uri": BOARD, "text": "x"}],
        [{"uri": BOARD, "mimeType": MIME_TYPE}],
        [{"uri": BOARD, "mimeType": MIME_TYPE, "blob": "no base64!"}],
        [{"uri": BOARD, "mimeType": MIME_TYPE, "blob": "/w=="}],
    ],
)
def test_what_is_not_one_page_is_refused(contents: list[Any]) -> None:
    with Client(InMemory(answered(*contents))) as client, pytest.raises(AppRejected) as caught:
        client.app(BOARD)
    assert caught.value.reason == "content"


def test_a_tool_of_the_fake_server_can_be_given_straight(client: Client, server: FakeServer) -> None:
    server.add_tool(FakeTool(forecast, ui=BOARD), "again")
    tool = next(tool for tool in client.tools() if tool.name == "again")
    assert client.app(tool).html == "<!DOCTYPE html>ü"
