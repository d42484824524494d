"""The site against parts of other makes: see `contrib.foreign`."""

from __future__ import annotations

from typing import Any

import pytest
from django.http import HttpResponse
from django.test import override_settings
from django.urls import include, path

from contrib.foreign import PAIRS, Site, parts, walk
from mcp_sync.contrib.django import mcp

from .conftest import browser_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(150)]


def echo(request: Any, text: str) -> HttpResponse:
    return HttpResponse(mcp["guarded"].for_user(request.user).call_tool("echo", {"text": text}).text)


urlpatterns = [path("mcp/", include("mcp_sync.contrib.django.urls")), path("echo/<text>/", echo)]


class Visitor(Site):
    """See `contrib.foreign.Site`."""

    def __init__(self, user: Any, url: str) -> None:
        self._user = user
        self.url = url
        self._browser = browser_of(user)

    def page(self, text: str) -> tuple[int, str]:
        answer = self._browser.get(f"/echo/{text}/")
        return answer.status_code, answer.content.decode()

    def connect(self) -> str:
        return str(self._browser.post("/mcp/connect/guarded/")["Location"])

    def come_back(self, url: str) -> int:
        return int(self._browser.get(url).status_code)

    def disconnect(self) -> int:
        return int(self._browser.post("/mcp/disconnect/guarded/").status_code)

    def vault(self) -> Any:
        return mcp["guarded"].oauth_for(self._user).vault


@pytest.mark.parametrize(("maker", "authorization"), PAIRS)
def test_a_user_connects_calls_refreshes_and_disconnects(maker: str, authorization: str, ada: Any) -> None:
    with parts(maker, authorization) as found:
        servers = {"guarded": {"URL": found.server.url, "AUTH": {"KIND": "oauth"}}}
        with override_settings(MCP_SYNC={"SERVERS": servers}, ROOT_URLCONF=__name__):
            walk(Visitor(ada, found.server.url), found)
