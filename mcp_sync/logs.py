"""The log messages of servers, in the logging of this process.

>>> client = Client(url, name="weather", logging_callback=mcp_sync.logs.to_logging)

They go to the logger ``mcp_sync.server.<name of the client>``, or ``mcp_sync.server`` where `to_logging` is
used without a client. The loggers of this package itself are listed in the README.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import types

# The most characters of a message; what is longer is cut.
LONGEST = 8192
_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "notice": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "alert": logging.CRITICAL,
    "emergency": logging.CRITICAL,
}


class ToLogging:
    """A ``logging_callback`` that passes the messages of a server on to `logging`.

    What a server says cannot forge lines of a log: control characters are escaped, and at most 8192
    characters are shown. The record has ``mcp_level`` and ``mcp_logger``, the level and the logger as the
    server named them (``notice`` becomes INFO, ``alert`` and ``emergency`` CRITICAL), and ``mcp_data``, the
    data as it came.

    Args:
        logger: The name of the logger.
    """

    def __init__(self, logger: str = "mcp_sync.server") -> None:
        self._name = logger
        self._logger = logging.getLogger(logger)

    def __call__(self, params: types.LoggingMessageNotificationParams) -> None:
        """Pass a message on."""
        level = _LEVELS.get(str(params.level), logging.INFO)
        if not self._logger.isEnabledFor(level):
            return
        origin = f"[{printable(params.logger, 200)}] " if params.logger else ""
        extra = {"mcp_level": params.level, "mcp_logger": params.logger, "mcp_data": params.data}
        self._logger.log(level, "%s%s", origin, _text(params.data), extra=extra)

    def for_client(self, name: str) -> ToLogging:
        """Return what does the same for one client, under its name."""
        return ToLogging(f"{self._name}.{name}")


to_logging = ToLogging()


def _text(data: Any) -> str:
    if isinstance(data, str):
        return printable(data, LONGEST)
    # Escaped already, but for the length.
    return printable(json.dumps(data, default=str), LONGEST)


def printable(text: str, longest: int) -> str:
    """Return a text on one line, without control characters, and not too long."""
    cut = text[:longest]
    shown = cut if cut.isprintable() else "".join(map(_shown, cut))
    return shown if len(text) <= longest else f"{shown}... ({len(text)} characters)"


def _shown(letter: str) -> str:
    return letter if letter.isprintable() else letter.encode("unicode_escape").decode()
