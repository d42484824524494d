"""Django, as `web` measures it: with SQLite, or with the database of ``MCP_SYNC_TEST_DATABASE``."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.contrib.django import site as project

from .web import Site


@contextmanager
def site(url: str) -> Iterator[Site]:
    """Give a site whose user has a grant for the server."""
    database = json.loads(os.environ.get("MCP_SYNC_TEST_DATABASE", "null")) or project.SQLITE
    project.configure(database, {"guarded": {"URL": url, "AUTH": {"KIND": "oauth"}}})

    from django.contrib.auth import get_user_model
    from django.core.management import call_command
    from django.db import connection, transaction
    from django.http import HttpResponse
    from django.test import RequestFactory
    from django.test.utils import CaptureQueriesContext

    from mcp_sync.contrib.django import _connections, mcp, mcp_login_required
    from mcp_sync.contrib.django.middleware import McpSyncMiddleware

    call_command("migrate", verbosity=0)
    user = get_user_model().objects.create_user(f"user-{time.time_ns()}")
    _connect(user, url)

    def view(request: Any) -> HttpResponse:
        mcp["guarded"].for_user(request.user).call_tool("add", {"a": 1, "b": 2})
        return HttpResponse()

    def asked(view: Callable[[Any], Any]) -> Callable[[], object]:
        def respond(request: Any) -> object:
            answer.process_view(request, view, (), {})
            return view(request)

        answer = McpSyncMiddleware(respond)

        def ask() -> object:
            request = RequestFactory().get("/")
            request.user = user
            return answer(request)

        return ask

    def queries(ask: Callable[[], object]) -> int:
        with CaptureQueriesContext(connection) as captured:
            ask()
        return sum("mcp_sync" in each["sql"] for each in captured)

    views = {
        "plain": asked(view),
        "with mcp_login_required": asked(mcp_login_required("guarded")(view)),
        "in a transaction": asked(transaction.atomic(view)),
    }
    try:
        yield Site(views, lambda: mcp["guarded"], queries)
    finally:
        mcp.reset()
        _connections.close()
        user.delete()
        connection.close()


def _connect(user: Any, url: str) -> None:
    from mcp_sync.auth._records import Grant, ServerRecord
    from mcp_sync.contrib.django import mcp

    oauth = mcp["guarded"].oauth_for(user)
    assert oauth is not None
    issuer, resource = "https://auth.example.com", url
    oauth.vault.keep_found(url, ServerRecord(issuer=issuer, resource=resource, metadata={}))
    grant = Grant(issuer=issuer, client_id="site", access_token="a-token", resource=resource)
    assert oauth.vault.keep_grant(url, grant, None)
