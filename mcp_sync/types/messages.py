"""What all requests, notifications and results have in common."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Optional

from pydantic import PrivateAttr

from mcp_sync.types._base import WireModel
from mcp_sync.types._lenient import Lenient
from mcp_sync.types.scalars import Cursor, Number, RequestId

__all__ = [
    "CacheableResult",
    "EmptyResult",
    "Notification",
    "NotificationParams",
    "PaginatedResult",
    "Request",
    "RequestParams",
    "Result",
    "TaskAugmentedRequestParams",
    "TaskMetadata",
    "UnknownNotification",
    "UnknownRequest",
]


class RequestParams(WireModel):
    """Parameters that any request may have.

    Attributes:
        meta: Metadata of the request, on the wire `_meta`.
    """

    meta: Lenient[dict[str, Any]] = None


class NotificationParams(WireModel):
    """Parameters that any notification may have."""

    meta: Lenient[dict[str, Any]] = None


class Request(WireModel):
    """A message that expects an answer (basic).

    Attributes:
        id: Identifier of the request on its connection. Requests that travel inside a result
            (`InputRequiredResult`) have none.
    """

    jsonrpc: str = "2.0"
    id: Optional[RequestId] = None
    method: str
    params: Any = None


class Notification(WireModel):
    """A message that expects no answer (basic)."""

    jsonrpc: str = "2.0"
    method: str
    params: Any = None


class UnknownRequest(Request):
    """A request whose method is unknown here, or whose parameters do not fit its method."""

    _always_sent: ClassVar[frozenset[str]] = frozenset({"method"})

    _problem: Optional[str] = PrivateAttr(default=None)

    @property
    def problem(self) -> str | None:
        """What is wrong with the parameters; `None` when it is the method that is unknown."""
        return self._problem


class UnknownNotification(Notification):
    """A notification whose method is unknown here, or whose parameters do not fit its method."""

    _always_sent: ClassVar[frozenset[str]] = frozenset({"method"})

    _problem: Optional[str] = PrivateAttr(default=None)

    @property
    def problem(self) -> str | None:
        """What is wrong with the parameters; `None` when it is the method that is unknown."""
        return self._problem


class Result(WireModel):
    """What a request is answered with.

    Attributes:
        meta: Metadata of the result, on the wire `_meta`.
        result_type: Kind of the result since 2026-07-28; `None` (older servers) means `complete`.
    """

    meta: Lenient[dict[str, Any]] = None
    result_type: Lenient[str] = None


class EmptyResult(Result):
    """A result that only says that the request succeeded."""


class CacheableResult(Result):
    """A result that says how long it may be kept (since 2026-07-28).

    Attributes:
        ttl_ms: How long the result stays fresh, in milliseconds from its arrival; 0 means not at all.
        cache_scope: `public` results are the same for everybody, `private` ones belong to one identity.
    """

    ttl_ms: Lenient[Number] = None
    cache_scope: Lenient[Literal["public", "private"]] = None


class PaginatedResult(Result):
    """One page of a list.

    Attributes:
        next_cursor: Cursor of the next page; `None` on the last one.
    """

    next_cursor: Lenient[Cursor] = None


class TaskMetadata(WireModel):
    """Asks for a request to run as a task (2025-11-25).

    Attributes:
        ttl: How long the server should keep the task, in milliseconds from its creation.
    """

    ttl: Lenient[Number] = None


class TaskAugmentedRequestParams(RequestParams):
    """Parameters of a request that may run as a task (2025-11-25)."""

    task: Lenient[TaskMetadata] = None
