"""The site of the tests as servers of applications load it; see `server`."""

from __future__ import annotations

import json
import os

from tests.contrib.django import site

_database, _servers = (json.loads(os.environ[f"MCP_SYNC_TEST_{name}"]) for name in ("DATABASE", "SERVERS"))
site.configure(_database, _servers)

from django.core.asgi import get_asgi_application  # noqa: E402  (Django wants its settings first)
from django.core.wsgi import get_wsgi_application  # noqa: E402

application = get_wsgi_application()
asgi = get_asgi_application()

if "MCP_SYNC_TEST_WARM" in os.environ:
    # What no application should do, and some do: workers are forked from a process with open clients.
    from django.contrib.auth import get_user_model
    from django.db import connections

    from mcp_sync.contrib.django import mcp

    for user in get_user_model().objects.all():
        mcp["guarded"].for_user(user).call_tool("whoami")
    connections.close_all()
