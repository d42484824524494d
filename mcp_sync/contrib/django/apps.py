"""The application, as Django knows it."""

from __future__ import annotations

from django.apps import AppConfig


class McpSyncConfig(AppConfig):
    """Registers checks and listens to changed settings; nothing else happens at start."""

    name = "mcp_sync.contrib.django"
    label = "mcp_sync"
    verbose_name = "MCP servers"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register what Django calls later."""
        from django.core.signals import setting_changed

        from . import _connections, checks
        from .servers import mcp

        checks.register()
        _connections.watch_threads()
        setting_changed.connect(mcp.setting_changed, dispatch_uid="mcp_sync")
