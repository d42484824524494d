"""The root of all errors, wrong use, and calls that were given up."""

from __future__ import annotations

import copy
from typing import Any, Optional, TypeVar

E = TypeVar("E", bound=BaseException)


def _rebuild(cls: type[MCPError], args: tuple[Any, ...], state: dict[str, Any]) -> MCPError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class MCPError(Exception):
    """Root of all errors of this library.

    Attributes:
        task_id: The task that the call had become, where it failed after that: ``client.task(task_id)`` takes
            it up. ``None`` where there is no task.
    """

    task_id: Optional[str] = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__.copy())


def another(error: E) -> E:
    """Return a copy of an error with the same cause, so that each of several callers raises its own.

    An error of another library that cannot be copied is returned itself.
    """
    try:
        twin = copy.copy(error)
    except Exception:
        return error
    twin.__cause__ = error.__cause__
    return twin


def unsent(error: E) -> E:
    """Return a copy of an error for a call whose own request was not sent because of it."""
    twin = another(error)
    if hasattr(twin, "request_sent"):
        twin.request_sent = False
    return twin


class UsageError(MCPError):
    """The library was used wrongly: a target, an argument or an order of calls that cannot work."""


class ClientClosed(UsageError):
    """The client was closed, before the call or while it waited."""


class NotSupported(UsageError):
    """The protocol revision in use has no such method.

    Attributes:
        method: The method that was asked for.
        version: The protocol revision of the connection.
    """

    def __init__(self, message: str, *, method: str = "", version: str = "") -> None:
        super().__init__(message)
        self.method = method
        self.version = version


class Forked(UsageError):
    """The session was opened in another process, before a fork."""


class CallTimeout(MCPError, TimeoutError):
    """The call did not end in time. The request was cancelled; the server may have acted on it.

    Attributes:
        timeout: The bound that was reached, in seconds.
        request_sent: As in `TransportError`.
    """

    def __init__(
        self, message: str, *, timeout: Optional[float] = None, request_sent: Optional[bool] = None
    ) -> None:
        super().__init__(message)
        self.timeout = timeout
        self.request_sent = request_sent


class CallCancelled(MCPError):
    """The call was cancelled by its token.

    Attributes:
        reason: What was passed to ``CancelToken.cancel``.
        request_sent: As in `TransportError`.
    """

    def __init__(
        self, message: str, *, reason: Optional[str] = None, request_sent: Optional[bool] = None
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.request_sent = request_sent
