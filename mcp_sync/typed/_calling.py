"""What generated modules are built on."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, Optional, TypeVar, Union, overload

from ..errors import UsageError

if TYPE_CHECKING:
    from .. import types
    from ..session import ClientSession

T = TypeVar("T")


class Omitted(enum.Enum):
    """The type of `OMITTED`."""

    OMITTED = "OMITTED"

    def __repr__(self) -> str:
        return "OMITTED"


OMITTED = Omitted.OMITTED
"""An argument that is not sent: the server uses its own default."""


class Returns(Generic[T]):
    """What a tool returns.

    Args:
        kind: A type, whatever pydantic can check.
    """

    def __init__(self, kind: Any) -> None:
        self.kind = kind


class ToolCalls:
    """The base of the classes that ``mcp-sync stubs`` writes.

    Args:
        client: The client, or a `ClientGroup`.
        options: Options of `Client.call_tool` for every call, such as ``timeout``.

    Raises:
        UsageError: ``result_type`` among the options: the module says what tools return.
    """

    def __init__(self, client: Union[ClientSession, Any], **options: Any) -> None:
        if "result_type" in options:
            raise UsageError("result_type cannot be an option here: the module says what its tools return")
        self._client = client
        self._options = options

    @overload
    def _call(self, name: str, arguments: Mapping[str, Any]) -> types.CallToolResult: ...

    @overload
    def _call(self, name: str, arguments: Mapping[str, Any], returns: Returns[T]) -> T: ...

    def _call(self, name: str, arguments: Mapping[str, Any], returns: Optional[Returns[Any]] = None) -> Any:
        given = {key: value for key, value in arguments.items() if value is not OMITTED}
        options = self._options
        if returns is not None:
            # A tool may return null: a type of None is one, too.
            options = {**options, "result_type": type(None) if returns.kind is None else returns.kind}
        return self._client.call_tool(name, given, **options)
