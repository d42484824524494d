"""The peer broke the rules, or what it sent does not fit."""

from __future__ import annotations

from typing import Any, Optional

from ._base import MCPError


class ProtocolError(MCPError):
    """The peer broke the rules of the protocol."""


class InvalidMessage(ProtocolError):
    """What arrived is not a JSON-RPC message.

    Attributes:
        excerpt: The first characters of it.
        request_id: The request that it would have answered, ``None`` where that cannot be told.
    """

    def __init__(self, message: str, *, excerpt: str = "", request_id: Optional[int] = None) -> None:
        super().__init__(message)
        self.excerpt = excerpt
        self.request_id = request_id


class InvalidResult(ProtocolError):
    """The result does not have the shape that the method asks for.

    Attributes:
        result: The result as it came.
    """

    def __init__(self, message: str, *, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


class NegotiationFailed(ProtocolError):
    """Client and server have no protocol revision in common.

    Attributes:
        client_versions: What the client offered.
        server_versions: What the server named.
    """

    def __init__(
        self,
        message: str,
        *,
        client_versions: tuple[str, ...] = (),
        server_versions: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.client_versions = tuple(client_versions)
        self.server_versions = tuple(server_versions)


class InputRoundsExceeded(ProtocolError):
    """The server asked for input again and again (``Limits.input_rounds``)."""


class ToolFailed(MCPError):
    """The tool reported an error, and ``raise_on_error=True`` or a ``result_type`` was asked for.

    Attributes:
        result: The whole `CallToolResult`.
    """

    def __init__(self, message: str, *, result: Any) -> None:
        super().__init__(message)
        self.result = result


class OutputInvalid(MCPError):
    """The structured output does not match the tool's output schema, or the ``result_type``.

    Attributes:
        result: The whole `CallToolResult`, readable as ever.
    """

    def __init__(self, message: str, *, result: Any) -> None:
        super().__init__(message)
        self.result = result
