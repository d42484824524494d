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
