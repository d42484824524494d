"""The way to the server failed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Optional

from ._base import MCPError


class TransportError(MCPError):
    """A message could not be carried.

    Attributes:
        request_sent: ``False`` when the server certainly did not get the request, ``True`` when it
            may have acted on it, ``None`` where that cannot be told or no request was concerned.
    """

    def __init__(self, message: str, *, request_sent: Optional[bool] = None) -> None:
        super().__init__(message)
        self.request_sent = request_sent


class ConnectFailed(TransportError):
    """No connection: the command could not be started, or DNS, TCP or TLS failed.

    Attributes:
        returncode: Exit code of a server process that ended while it started, else ``None``.
        stderr_tail: The last lines that it wrote to standard error.
    """

    def __init__(
        self,
        message: str,
        *,
        request_sent: Optional[bool] = False,
        returncode: Optional[int] = None,
        stderr_tail: str = "",
    ) -> None:
        super().__init__(message, request_sent=request_sent)
        self.returncode = returncode
        self.stderr_tail = stderr_tail


class ConnectionLost(TransportError):
    """The connection ended before the answer came.

    Attributes:
        returncode: Exit code of the server process (negative: signal), ``None`` if it is not one.
        stderr_tail: The last lines that it wrote to standard error.
        close_code: The code with which a WebSocket server closed (RFC 6455, section 7.4), ``None`` if
            it named none or there was none.
    """

    def __init__(
        self,
        message: str,
        *,
        request_sent: Optional[bool] = None,
        returncode: Optional[int] = None,
        stderr_tail: str = "",
        close_code: Optional[int] = None,
    ) -> None:
        super().__init__(message, request_sent=request_sent)
        self.returncode = returncode
        self.stderr_tail = stderr_tail
        self.close_code = close_code


class HTTPStatusError(TransportError):
    """The server answered with an HTTP status that is no success and brought no JSON-RPC error.

    Attributes:
        status: The HTTP status code.
        headers: The response headers, names in lower case, without cookies.
        body_excerpt: The first characters of the body.
        retry_after: Seconds to wait, from ``Retry-After``, or ``None``.
        url: The URL that answered, without credentials and query.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        headers: Optional[Mapping[str, str]] = None,
        body_excerpt: str = "",
        retry_after: Optional[float] = None,
        url: str = "",
        request_sent: Optional[bool] = None,
    ) -> None:
        super().__init__(message, request_sent=request_sent)
        self.status = status
        self.headers = dict(headers or {})
        self.body_excerpt = body_excerpt
        self.retry_after = retry_after
        self.url = url


class SessionExpired(TransportError):
    """The server no longer knows the session (HTTP 404 to a request with a session id)."""


class MessageTooLarge(TransportError):
    """A message was larger than ``Limits`` admits.

    Attributes:
        limit: The limit in bytes.
    """

    def __init__(self, message: str, *, limit: int, request_sent: Optional[bool] = None) -> None:
        super().__init__(message, request_sent=request_sent)
        self.limit = limit
