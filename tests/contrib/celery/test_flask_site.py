"""Tasks that use the servers, and the grants of users, of a Flask application."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from contrib.flask.site import close, world
from mcp_sync.auth import SQLiteStore
from mcp_sync.contrib.celery import LoginNeeded, MCPTask, use_servers

from .test_tasks import Worked


def test_a_task_acts_with_the_grant_of_a_user_of_the_site_or_says_where_to_log_in(tmp_path: Path) -> None:
    app = Celery("unit", broker="memory://", backend="cache+memory://", set_as_current=False)

    @app.task(base=MCPTask, bind=True, mcp_server="safe")
    def work(self: Any, user: str) -> Any:
        return self.mcp_for(user).call_tool("whoami").text

    with world() as place:
        store = SQLiteStore(tmp_path / "grants.sqlite")
        site = place.app(MCP_TOKEN_STORE=store, MCP_BASE_URL="http://localhost")
        browser = site.test_client()
        browser.get("/login/ada")
        place.come_back(browser, browser.get("/use/safe/add").location)
        use_servers(app, site.extensions["the_mcp"].client_for, context=site.app_context)
        with Worked(work) as task:
            assert task.run("ada") == "ada"
            with pytest.raises(LoginNeeded) as found:
                task.run("bob")
        assert found.value.server == "safe"
        assert found.value.url.startswith(place.auth.issuer)
        close(site)
    app.close()
