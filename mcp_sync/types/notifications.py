"""Progress and cancellation (basic/utilities/progress, basic/utilities/cancellation)."""

from __future__ import annotations

from typing import Literal, Optional

from mcp_sync.types._lenient import Lenient
from mcp_sync.types.messages import Notification, NotificationParams
from mcp_sync.types.scalars import Number, ProgressToken, RequestId

__all__ = [
    "CancelledNotification",
    "CancelledNotificationParams",
    "ProgressNotification",
    "ProgressNotificationParams",
]


class ProgressNotificationParams(NotificationParams):
    """Parameters of `notifications/progress`.

    Attributes:
        progress_token: The token that came with the request.
        progress: How far the work is; grows from one report to the next.
        total: How far it has to go, if known.
        message: What is being done.
    """

    progress_token: ProgressToken
    progress: Number
    total: Lenient[Number] = None
    message: Lenient[str] = None


class ProgressNotification(Notification):
    """A request that is under way has come further."""

    method: Literal["notifications/progress"] = "notifications/progress"
    params: ProgressNotificationParams


class CancelledNotificationParams(NotificationParams):
    """Parameters of `notifications/cancelled`.

    Attributes:
        request_id: The request; optional in 2025-11-25, where tasks are cancelled in another way.
        reason: Why, for a log.
    """

    request_id: Optional[RequestId] = None
    reason: Lenient[str] = None


class CancelledNotification(Notification):
    """The sender has given up a request of its own, or a server ends a subscription."""

    method: Literal["notifications/cancelled"] = "notifications/cancelled"
    params: CancelledNotificationParams
