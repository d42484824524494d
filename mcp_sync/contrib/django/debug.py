"""Debug pages and error mails without what may be secret."""

from __future__ import annotations

from typing import Any

from django.views.debug import SafeExceptionReporterFilter, get_exception_reporter_filter


class HidesFrames(SafeExceptionReporterFilter):
    """Hides all variables of frames of this library, on the debug page as well.

    They may hold tokens, codes and what users typed, under names that tell nothing.
    """

    def get_traceback_frame_variables(self, request: Any, tb_frame: Any) -> Any:
        """See Django."""
        if str(tb_frame.f_globals.get("__name__", "")).partition(".")[0] != "mcp_sync":
            return super().get_traceback_frame_variables(request, tb_frame)
        return [(name, self.cleansed_substitute) for name in tb_frame.f_locals]


def hide_frames(request: Any) -> None:
    """Have the report about an error of a request hide the frames of this library, too."""
    base = type(get_exception_reporter_filter(request))
    if not issubclass(base, HidesFrames):
        request.exception_reporter_filter = type(base.__name__, (HidesFrames, base), {})()
