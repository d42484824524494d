"""Reports of errors, which show the variables of all frames: no token is among them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable

import pytest

from mcp_sync import MCPError
from mcp_sync.auth import MemoryStore
from mcp_sync.testing import FakeAuthorizationServer, FakeServer, HTTPReply

from .site import World, add, close, csrf_of


def shown(error: BaseException | None) -> Iterator[str]:
    """Give what a report may show: of the error and all that led to it, the variables of each frame."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        waiting += [each.__cause__, each.__context__]
        yield f"{each!r} {vars(each)!r}"
        trace = each.__traceback__
        while trace is not None:
            if "mcp_sync" in trace.tb_frame.f_code.co_filename:
                yield repr(trace.tb_frame.f_locals)
            trace = trace.tb_next


def authorization_server_is_down(auth: Any, endpoint: Any) -> None:
    auth.expire_access_tokens()
    auth.close()


def refresh_is_refused(auth: Any, endpoint: Any) -> None:
    auth.expire_access_tokens()
    auth._endpoint.intercept = lambda request: HTTPReply(400, body=b'{"error": "invalid_client"}')


def server_is_down(auth: Any, endpoint: Any) -> None:
    endpoint.close()


@pytest.mark.parametrize("breaks", [authorization_server_is_down, refresh_is_refused, server_is_down])
def test_no_frame_of_an_error_shows_a_token(breaks: Callable[[Any, Any], None]) -> None:
    store = MemoryStore()
    with FakeAuthorizationServer() as auth:
        fake = FakeServer(tools=[add], principal=auth.user_of)
        with fake.serve_http(intercept=auth.guard()) as endpoint:
            site = World(auth, fake, endpoint.url)
            app = site.app(MCP_TOKEN_STORE=store, MCP_ERROR_HANDLERS=False)
            browser = app.test_client()
            browser.get("/login/ada")
            connect = browser.post("/mcp/connect/safe", data={"mcp_csrf": csrf_of(browser)})
            site.come_back(browser, connect.location)
            assert browser.get("/use/safe/add").status_code == 200
            [grant] = [each.value for key, each in store._values.items() if key.kind == "grant"]
            breaks(auth, endpoint)
            with pytest.raises(MCPError) as caught:
                browser.get("/use/safe/add")
            close(app)
    report = "\n".join(shown(caught.value))
    assert len(report) > 1000
    assert grant["access_token"] not in report
    assert grant["refresh_token"] not in report
