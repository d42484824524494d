"""The log messages of servers, in the logging of this process.

>>> client = Client(url, name="weather", logging_callback=mcp_sync.logs.to_logging)

They go to the logger ``mcp_sync.server.<name of the client>``, or ``mcp_sync.server`` where `to_logging` is
used without a client. The loggers of this package itself are listed in ``examples/observability.md``.
"""

from __future__ import annotations

import json
import logging
import time
from typing import TYPE_CHECKING, Any

from .errors._printable import printable

if TYPE_CHECKING:
    from . import types

# The most characters of a message; what is longer is cut.
LONGEST = 8192
# The most messages, and characters of them, within so many seconds.
_MOST_MESSAGES = 200
_MOST_CHARACTERS = 100_000
_SPAN = 1.0
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
    characters are shown. Nor can it flood one: of each second, at most 200 messages and 100,000 characters
    are passed on. What comes beyond is left out, and counted: a warning says so when it begins, and the next
    message that is passed on is preceded by the number. Errors, and what is worse, have bounds of their own.

    The record has ``mcp_level`` and ``mcp_logger``, the level and the logger as the
    server named them (``notice`` becomes INFO, ``alert`` and ``emergency`` CRITICAL), and ``mcp_data``, the
    data as it came, or the text that is shown where that had to be cut.

    Args:
        logger: The name of the logger.
    """

    def __init__(self, logger: str = "mcp_sync.server") -> None:
        self._name = logger
        self._logger = logging.getLogger(logger)
        self._bounds = (_Bound(), _Bound())

    def __call__(self, params: types.LoggingMessageNotificationParams) -> None:
        """Pass a message on."""
        level = _LEVELS.get(str(params.level), logging.INFO)
        if not self._logger.isEnabledFor(level):
            return
        bound = self._bounds[level >= logging.ERROR]
        if bound.is_reached():
            if bound.left_out == 1:
                self._warn("More comes than is logged; messages are left out from here on")
            return
        origin = f"[{printable(params.logger, 200)}] " if params.logger else ""
        text, is_cut = _text(params.data)
        left_out = bound.take(len(text))
        if left_out:
            self._warn("%d messages were left out before this one", left_out)
        data = text if is_cut else params.data
        extra = {"mcp_level": params.level, "mcp_logger": params.logger, "mcp_data": data}
        self._logger.log(level, "%s%s", origin, text, extra=extra)

    def _warn(self, text: str, *arguments: Any) -> None:
        # Formats of the user's expect these of every record.
        extra = {"mcp_level": "warning", "mcp_logger": None, "mcp_data": None}
        self._logger.warning(text, *arguments, extra=extra)

    def for_client(self, name: str) -> ToLogging:
        """Return what does the same for one client, under its name."""
        return ToLogging(f"{self._name}.{name}")


class _Bound:
    """How much is passed on. Where several threads use it, a count may be off by as many.

    Attributes:
        left_out: How many messages were left out since the last one that was not.
    """

    def __init__(self) -> None:
        self.left_out = 0
        self._begun = -_SPAN
        self._messages = self._characters = 0

    def is_reached(self) -> bool:
        """Whether nothing more is passed on for now; counts the message that is left out then."""
        now = time.monotonic()
        if now - self._begun >= _SPAN:
            self._begun, self._messages, self._characters = now, 0, 0
        if self._messages < _MOST_MESSAGES and self._characters < _MOST_CHARACTERS:
            return False
        self.left_out += 1
        return True

    def take(self, characters: int) -> int:
        """Count a message that is passed on, and return how many were left out before it."""
        self._messages += 1
        self._characters += characters
        left_out, self.left_out = self.left_out, 0
        return left_out


to_logging = ToLogging()


def _text(data: Any) -> tuple[str, bool]:
    """Return what is shown of data, and whether it is less than all."""
    # JSON is escaped already, but for the length.
    text = data if isinstance(data, str) else json.dumps(data, default=str)
    return printable(text, LONGEST), len(text) > LONGEST
