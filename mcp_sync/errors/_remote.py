"""The server answered with an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from .._concurrency.fork import no_fork
from ._base import MCPError

if TYPE_CHECKING:
    from .. import types


class RemoteError(MCPError):
    """The server answered with a JSON-RPC error.

    Attributes:
        code: The error code.
        message: The server's words.
        data: What came with it, ``None`` if nothing.
        status: The HTTP status that carried it, ``None`` elsewhere.
        method: The method of the request that it answers, ``""`` where it was not built for one.
        peer: How the server is named, without secrets; ``""`` likewise.
    """

    def __init__(
        self,
        code: int,
        message: str,
        data: Any = None,
        *,
        status: Optional[int] = None,
        method: str = "",
        peer: str = "",
    ) -> None:
        super().__init__(code, message, data)
        self.code = code
        self.message = message
        self.data = data
        self.status = status
        self.method = method
        self.peer = peer

    def __str__(self) -> str:
        words = f"{self.message} ({self.code})"
        return f"{self.method}: {self.peer} answered: {words}" if self.method else words


class ParseError(RemoteError):
    """-32700: the server could not read the message as JSON."""


class InvalidRequest(RemoteError):
    """-32600: the server takes the message for no valid request."""


class MethodNotFound(RemoteError):
    """-32601: the server has no such method."""


class InvalidParams(RemoteError):
    """-32602: unknown tool, prompt, resource or cursor, or wrong arguments."""


class InternalError(RemoteError):
    """-32603: the server failed."""


class HeaderMismatch(RemoteError):
    """-32020: HTTP headers and body of the request differ."""


class MissingClientCapability(RemoteError):
    """-32021: the server needs a capability that this client did not declare."""


class UnsupportedProtocolVersion(RemoteError):
    """-32022: the server does not speak the revision of the request."""


class ResourceNotFound(RemoteError):
    """-32002: no such resource (revisions up to 2025-11-25)."""


class UrlElicitationRequired(RemoteError):
    """-32042: the user has to visit a URL first (revision 2025-11-25).

    The server has not done what it was asked: once the visits of `elicitations` are over, the same call
    can be made again, from anywhere.
    """

    @property
    def elicitations(self) -> list[types.ElicitRequestURLParams]:
        """The pages to visit, each with ``url``, ``message`` and ``elicitation_id``; malformed ones left out.

        Untrusted: see `mcp_sync.elicitation.check_url`.
        """
        with no_fork():
            from ..types.input_required import pages_to_visit
        return pages_to_visit(self.data)


_BY_CODE: dict[int, type[RemoteError]] = {
    -32700: ParseError,
    -32600: InvalidRequest,
    -32601: MethodNotFound,
    -32602: InvalidParams,
    -32603: InternalError,
    -32020: HeaderMismatch,
    -32021: MissingClientCapability,
    -32022: UnsupportedProtocolVersion,
    -32002: ResourceNotFound,
    -32042: UrlElicitationRequired,
}


def remote_error(
    code: int,
    message: str,
    data: Any = None,
    *,
    status: Optional[int] = None,
    method: str = "",
    peer: str = "",
) -> RemoteError:
    """Build the `RemoteError` class that belongs to a JSON-RPC error code."""
    return _BY_CODE.get(code, RemoteError)(code, message, data, status=status, method=method, peer=peer)
