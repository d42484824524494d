"""From a message of the server to the model of its method."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pydantic import ValidationError

from mcp_sync._concurrency.fork import no_fork
from mcp_sync.types._base import WireModel
from mcp_sync.types._lenient import first_problem
from mcp_sync.types.messages import UnknownNotification, UnknownRequest

if TYPE_CHECKING:
    from mcp_sync.types.unions import ServerNotification, ServerRequest

__all__ = ["parse_notification", "parse_server_request"]

# Method -> submodule and class; a submodule is loaded when its first message comes.
_NOTIFICATIONS = {
    "notifications/cancelled": ("notifications", "CancelledNotification"),
    "notifications/progress": ("notifications", "ProgressNotification"),
    "notifications/message": ("logging", "LoggingMessageNotification"),
    "notifications/tools/list_changed": ("tools", "ToolListChangedNotification"),
    "notifications/prompts/list_changed": ("prompts", "PromptListChangedNotification"),
    "notifications/resources/list_changed": ("resources", "ResourceListChangedNotification"),
    "notifications/resources/updated": ("resources", "ResourceUpdatedNotification"),
    "notifications/elicitation/complete": ("elicitation", "ElicitationCompleteNotification"),
    "notifications/tasks/status": ("tasks", "TaskStatusNotification"),
    "notifications/subscriptions/acknowledged": ("subscriptions", "SubscriptionsAcknowledgedNotification"),
    "notifications/initialized": ("lifecycle", "InitializedNotification"),
    "notifications/roots/list_changed": ("roots", "RootsListChangedNotification"),
}

_REQUESTS = {
    "ping": ("lifecycle", "PingRequest"),
    "sampling/createMessage": ("sampling", "CreateMessageRequest"),
    "elicitation/create": ("elicitation", "ElicitRequest"),
    "roots/list": ("roots", "ListRootsRequest"),
    "tasks/get": ("tasks", "GetTaskRequest"),
    "tasks/result": ("tasks", "GetTaskPayloadRequest"),
    "tasks/list": ("tasks", "ListTasksRequest"),
    "tasks/cancel": ("tasks", "CancelTaskRequest"),
}

U = TypeVar("U", UnknownNotification, UnknownRequest)


def parse_notification(message: dict[str, Any]) -> ServerNotification:
    """Make the model of a notification.

    One whose method is unknown, or whose parameters do not fit, becomes an `UnknownNotification`.

    Args:
        message: The whole message, as decoded from JSON; it has a `method`.

    Raises:
        pydantic.ValidationError: The message has no `method`.
    """
    return cast("ServerNotification", _parse(message, _NOTIFICATIONS, UnknownNotification))


def parse_server_request(message: dict[str, Any]) -> ServerRequest:
    """Make the model of a request that the server sends.

    One whose method is unknown, or whose parameters do not fit, becomes an `UnknownRequest`.

    Args:
        message: The whole message, as decoded from JSON; it has a `method`.

    Raises:
        pydantic.ValidationError: The message has no `method`.
    """
    return cast("ServerRequest", _parse(message, _REQUESTS, UnknownRequest))


def _parse(message: dict[str, Any], table: dict[str, tuple[str, str]], unknown: type[U]) -> WireModel:
    method = message.get("method")
    home = table.get(method) if isinstance(method, str) else None
    if home is None:
        return unknown.model_validate(message)
    try:
        return _load(*home).model_validate(message)
    except ValidationError as error:
        raw = unknown.model_validate(message)
        raw._problem = first_problem(error)
        return raw


@cache
def _load(submodule: str, name: str) -> type[WireModel]:
    with no_fork():
        model: type[WireModel] = getattr(import_module(f"mcp_sync.types.{submodule}"), name)
    return model
