"""Roots: the places that a server may work in (client/roots; deprecated since 2026-07-28)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar, Literal, Optional

from mcp_sync.types._base import WireModel
from mcp_sync.types._lenient import Lenient
from mcp_sync.types.messages import Notification, NotificationParams, Request, RequestParams, Result

__all__ = [
    "ListRootsRequest",
    "ListRootsResult",
    "Root",
    "RootsListChangedNotification",
]


class Root(WireModel):
    """A place that a server may work in.

    Attributes:
        uri: Its address; for now it begins with `file://`.
        name: A name for people.
    """

    uri: str
    name: Lenient[str] = None
    meta: Lenient[dict[str, Any]] = None

    @classmethod
    def from_path(cls, path: str | os.PathLike[str], name: str | None = None) -> Root:
        """Make a root of a directory or file; a relative path counts from the working directory."""
        return cls(uri=Path(path).absolute().as_uri(), name=name)


class ListRootsRequest(Request):
    """The server asks for the roots."""

    _always_sent: ClassVar[frozenset[str]] = frozenset({"method"})

    method: Literal["roots/list"] = "roots/list"
    params: Optional[RequestParams] = None


class ListRootsResult(Result):
    """What a roots callback returns."""

    roots: list[Root]


class RootsListChangedNotification(Notification):
    """The client's roots have changed."""

    method: Literal["notifications/roots/list_changed"] = "notifications/roots/list_changed"
    params: Optional[NotificationParams] = None
