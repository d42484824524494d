"""Debug pages and error mails without what may be secret."""

from __future__ import annotations

from typing import Any

from django.views.debug import SafeExceptionReporterFilter, get_exception_reporter_filter


class ReporterFilter(SafeExceptionReporterFilter):
    """Hides servers of the settings, and all variables of frames of this library, on debug pages as well.

    They may hold tokens, codes and what users typed, under names that tell nothing.

    For errors that leave a view the middleware adds it by itself. For all others::

        DEFAULT_EXCEPTION_REPORTER_FILTER = "mcp_sync.contrib.django.debug.ReporterFilter"
    """

    def cleanse_setting(self, key: Any, value: Any) -> Any:
        """See Django."""
        cleansed = super().cleanse_setting(key, value)
        if key == "MCP_SYNC" and isinstance(cleansed, dict) and "SERVERS" in cleansed:
            # A secret may stand there under any name, and in an address or a command.
            servers = cleansed["SERVERS"] if isinstance(cleansed["SERVERS"], dict) else ()
            return {**cleansed, "SERVERS": dict.fromkeys(servers, self.cleansed_substitute)}
        return cleansed

    def get_traceback_frame_variables(self, request: Any, tb_frame: Any) -> Any:
        """See Django."""
        if str(tb_frame.f_globals.get("__name__", "")).partition(".")[0] != "mcp_sync":
            return super().get_traceback_frame_variables(request, tb_frame)
        return [(name, self.cleansed_substitute) for name in tb_frame.f_locals]


def hide_secrets(request: Any) -> None:
    """Have the report about an error of a request hide them, too."""
    base = type(get_exception_reporter_filter(request))
    if not issubclass(base, ReporterFilter):
        request.exception_reporter_filter = type(base.__name__, (ReporterFilter, base), {})()
