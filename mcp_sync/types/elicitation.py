"""Elicitation: a server asks the user (client/elicitation)."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Optional, Union

from pydantic import Field

from mcp_sync.types._lenient import Lenient
from mcp_sync.types.messages import (
    Notification,
    NotificationParams,
    Request,
    Result,
    TaskAugmentedRequestParams,
)

__all__ = [
    "ElicitCompleteNotification",
    "ElicitCompleteNotificationParams",
    "ElicitRequest",
    "ElicitRequestFormParams",
    "ElicitRequestParams",
    "ElicitRequestURLParams",
    "ElicitRequestedSchema",
    "ElicitResult",
    "ElicitationCompleteNotification",
    "ElicitationCompleteNotificationParams",
]

ElicitRequestedSchema = dict[str, Any]
"""JSON Schema of a form: an object whose properties are strings, numbers, booleans and choices."""

_FieldValue = Union[str, int, float, bool, list[str], None]


class ElicitRequestFormParams(TaskAugmentedRequestParams):
    """What an elicitation callback receives when the server wants a form filled in.

    Attributes:
        message: What to tell the user.
        requested_schema: JSON Schema of the answer, as the server sent it.
    """

    mode: Literal["form"] = "form"
    message: str
    requested_schema: ElicitRequestedSchema


class ElicitRequestURLParams(TaskAugmentedRequestParams):
    """What an elicitation callback receives when the server wants the user to visit a page.

    Attributes:
        message: Why the visit is needed.
        url: The page. Untrusted: show it to the user and ask before opening it.
        elicitation_id: Name of this elicitation (2025-11-25 only).
    """

    _always_sent: ClassVar[frozenset[str]] = frozenset({"mode"})

    mode: Literal["url"] = "url"
    message: str
    url: str
    elicitation_id: Lenient[str] = None


ElicitRequestParams = Annotated[
    Union[ElicitRequestURLParams, ElicitRequestFormParams],
    Field(union_mode="left_to_right"),
]


class ElicitRequest(Request):
    """The server asks the user."""

    _always_sent: ClassVar[frozenset[str]] = frozenset({"method"})

    method: Literal["elicitation/create"] = "elicitation/create"
    params: ElicitRequestParams


class ElicitResult(Result):
    """What an elicitation callback returns.

    Attributes:
        action: `accept`: the user agreed; `decline`: the user said no; `cancel`: the user made no choice.
        content: What was filled in, for an accepted form.
    """

    action: Literal["accept", "decline", "cancel"]
    content: Optional[dict[str, _FieldValue]] = None

    @classmethod
    def accept(cls, content: dict[str, Any] | None = None) -> ElicitResult:
        """Make the answer of a user who agreed."""
        return cls(action="accept", content=content)

    @classmethod
    def decline(cls) -> ElicitResult:
        """Make the answer of a user who said no."""
        return cls(action="decline")

    @classmethod
    def cancel(cls) -> ElicitResult:
        """Make the answer of a user who made no choice."""
        return cls(action="cancel")


class ElicitationCompleteNotificationParams(NotificationParams):
    """Parameters of `notifications/elicitation/complete`."""

    elicitation_id: str


class ElicitationCompleteNotification(Notification):
    """The visit to a page that the server asked for is over (2025-11-25)."""

    method: Literal["notifications/elicitation/complete"] = "notifications/elicitation/complete"
    params: ElicitationCompleteNotificationParams


ElicitCompleteNotification = ElicitationCompleteNotification
ElicitCompleteNotificationParams = ElicitationCompleteNotificationParams
