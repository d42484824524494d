"""Subscriptions to changes on a server (basic/utilities/subscriptions, since 2026-07-28)."""

from __future__ import annotations

from typing import Literal

from mcp_sync.types._base import WireModel
from mcp_sync.types._lenient import Lenient
from mcp_sync.types.messages import Notification, NotificationParams, Result

__all__ = [
    "SubscriptionFilter",
    "SubscriptionsAcknowledgedNotification",
    "SubscriptionsAcknowledgedNotificationParams",
    "SubscriptionsListenResult",
]


class SubscriptionFilter(WireModel):
    """The kinds of notifications that a client wants, or that a server agreed to send.

    Attributes:
        tools_list_changed: Changes of the list of tools.
        prompts_list_changed: Changes of the list of prompts.
        resources_list_changed: Changes of the list of resources.
        resource_subscriptions: Changes of the resources at these addresses.
    """

    tools_list_changed: Lenient[bool] = None
    prompts_list_changed: Lenient[bool] = None
    resources_list_changed: Lenient[bool] = None
    resource_subscriptions: Lenient[list[str]] = None


class SubscriptionsAcknowledgedNotificationParams(NotificationParams):
    """Parameters of `notifications/subscriptions/acknowledged`.

    Attributes:
        notifications: What the server agreed to send; may be less than was asked for.
    """

    notifications: SubscriptionFilter


class SubscriptionsAcknowledgedNotification(Notification):
    """The subscription stands; the first message of its stream."""

    method: Literal["notifications/subscriptions/acknowledged"] = "notifications/subscriptions/acknowledged"
    params: SubscriptionsAcknowledgedNotificationParams


class SubscriptionsListenResult(Result):
    """The server has ended the subscription in good order."""
