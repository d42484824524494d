"""The application against parts of other makes: see `contrib.foreign`."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from contrib.foreign import PAIRS, Site, parts, walk
from mcp_sync.auth import SQLiteStore

from .site import close, csrf_of, make_app

pytestmark = [pytest.mark.slow, pytest.mark.timeout(150)]


class Visitor(Site):
    """See `contrib.foreign.Site`."""

    def __init__(self, app: Any, url: str) -> None:
        self._app = app
        self.url = url
        self._browser = app.test_client()
        self._browser.get("/login/ada")

    def page(self, text: str) -> tuple[int, str]:
        answer = self._browser.get(f"/echo/{text}")
        return answer.status_code, answer.text

    def connect(self) -> str:
        return str(self._browser.post("/mcp/connect/guarded", data=self._token()).location)

    def come_back(self, url: str) -> int:
        back = urlsplit(url)
        base = f"{back.scheme}://{back.netloc}"
        return int(self._browser.get(f"{back.path}?{back.query}", base_url=base).status_code)

    def disconnect(self) -> int:
        return int(self._browser.post("/mcp/disconnect/guarded", data=self._token()).status_code)

    def _token(self) -> dict[str, str]:
        return {"mcp_csrf": csrf_of(self._browser)}

    def vault(self) -> Any:
        with self._app.test_request_context("/"):
            return self._app.extensions["mcp_sync"].oauth("guarded", "user:ada").vault


@pytest.mark.parametrize(("maker", "authorization"), PAIRS)
def test_a_user_connects_calls_refreshes_and_disconnects(
    maker: str, authorization: str, tmp_path: Path
) -> None:
    with parts(maker, authorization) as found:
        store = SQLiteStore(tmp_path / "grants.sqlite")
        servers = {"guarded": {"url": found.server.url, "auth": "oauth"}}
        app = make_app(MCP_SERVERS=servers, MCP_TOKEN_STORE=store)
        mcp = app.extensions["the_mcp"]

        @app.get("/echo/<text>")
        def echo(text: str) -> str:
            return str(mcp["guarded"].call_tool("echo", {"text": text}).text)

        try:
            walk(Visitor(app, found.server.url), found)
        finally:
            close(app)
