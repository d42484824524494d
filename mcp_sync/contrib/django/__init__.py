"""MCP servers in a Django project: clients by alias, for its users.

Put ``"mcp_sync.contrib.django"`` into ``INSTALLED_APPS``, name servers in ``MCP_SYNC``, and use them::

    from mcp_sync.contrib.django import mcp, mcp_login_required

    @mcp_login_required("github")
    def issues(request):
        github = mcp["github"].for_user(request.user)
        return JsonResponse(github.call_tool("list_issues", {"state": "open"}).structured_content)

At import and at start nothing is read and nothing opens. How it is made:

- ``conf``: the settings; ``servers``: ``mcp`` itself; ``server``: one of its servers; ``authorization``: how
  users log in there; ``checks``: what may be wrong with the settings;
- ``models``, ``crypto``: what is kept, encrypted; ``stores``: grants in models, with
  ``_connections``, ``_database_lock`` and ``_unwritten`` (SQLite); ``cache``: answers in Django's cache;
- ``pending``, ``tasks``: questions that wait, and long tasks;
- ``views``, ``input_views``, ``forms``, ``urls``, ``middleware``, ``decorators``: what a browser meets;
- ``signals``, ``admin``, ``management``, ``test``; ``drf`` for Django REST framework.

Names load when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._concurrency.lazy import lazy

if TYPE_CHECKING:
    from .decorators import mcp_login_required
    from .pending import answered
    from .server import Server
    from .servers import Servers, mcp

__all__ = ["Server", "Servers", "answered", "mcp", "mcp_login_required"]

_HOMES = {
    "Server": "server",
    "Servers": "servers",
    "answered": "pending",
    "mcp": "servers",
    "mcp_login_required": "decorators",
}

__getattr__, __dir__ = lazy(__name__, _HOMES)
