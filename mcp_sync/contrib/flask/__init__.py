"""MCP servers in a Flask application: clients by alias, for its users.

::

    from mcp_sync.contrib.flask import MCP

    mcp = MCP()

    def create_app():
        app = Flask(__name__)
        app.config.from_mapping(SECRET_KEY=..., MCP_SERVERS={"github": {"url": "...", "auth": "oauth"}})
        mcp.init_app(app)
        app.register_blueprint(mcp.blueprint, url_prefix="/mcp")
        return app

    @app.get("/issues")
    def issues():
        return mcp["github"].call_tool("list_issues").structured_content

How it is made: ``_extension``: `MCP`; ``_settings``, ``_state``: what an application has; ``_server``: what
``mcp[alias]`` is; ``_clients``: those of its users; ``_stores``, ``_sqlalchemy_store``: where grants are
kept; ``_pending``: questions that wait; ``_views``, ``_pages``, ``_forms``, ``_csrf``, ``_errors``: what a
browser meets; ``_cli``, ``signals``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._concurrency.lazy import lazy

if TYPE_CHECKING:
    from ._extension import MCP
    from ._sqlalchemy_store import SQLAlchemyTokenStore
    from ._state import LoginRequired

__all__ = ["MCP", "LoginRequired", "SQLAlchemyTokenStore"]

_HOMES = {"MCP": "_extension", "LoginRequired": "_state", "SQLAlchemyTokenStore": "_sqlalchemy_store"}

__getattr__, __dir__ = lazy(__name__, _HOMES)
