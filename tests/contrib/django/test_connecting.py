"""A user connects to a server, uses it, and disconnects."""

from __future__ import annotations

from mcp_sync.contrib.django.models import Grant

from .conftest import browser_of, connect


def test_a_user_connects_and_a_view_calls_a_tool_as_them(guarded, ada):
    browser = browser_of(ada)
    away = browser.get("/whoami/")
    assert away.status_code == 302
    assert away["Location"] == "/mcp/connect/guarded/?next=%2Fwhoami%2F"
    page = browser.get(away["Location"])
    assert page.status_code == 200
    assert guarded.url in page.content.decode()
    back = connect(browser, guarded.auth, "ada at the server")
    assert (back.status_code, back["Location"]) == (302, "/whoami/")
    assert browser.get("/whoami/").content == b"ada at the server"
    assert Grant.objects.get().user == ada
