"""Log messages of a server (server/utilities/logging; deprecated since 2026-07-28)."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from mcp_sync.types._lenient import Kept, Lenient
from mcp_sync.types.messages import Notification, NotificationParams
from mcp_sync.types.scalars import LoggingLevel

__all__ = ["LoggingMessageNotification", "LoggingMessageNotificationParams"]


class LoggingMessageNotificationParams(NotificationParams):
    """Parameters of `notifications/message`: what a logging callback receives.

    Attributes:
        level: Severity; a level that the specification does not know stays as the server sent it.
        logger: Name of the server's logger.
        data: The message: a string or any other JSON value.
    """

    _null_is_a_value: ClassVar[frozenset[str]] = frozenset({"data"})

    level: Kept[LoggingLevel]
    logger: Lenient[str] = None
    data: Any = None


class LoggingMessageNotification(Notification):
    """The server logs something."""

    method: Literal["notifications/message"] = "notifications/message"
    params: LoggingMessageNotificationParams
