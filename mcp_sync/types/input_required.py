"""Results that wait for input of the client (basic, since 2026-07-28)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Optional, Union

from mcp_sync.types._lenient import KnownOr, Lenient
from mcp_sync.types.elicitation import ElicitRequest, ElicitResult
from mcp_sync.types.messages import Result, UnknownRequest
from mcp_sync.types.roots import ListRootsRequest, ListRootsResult
from mcp_sync.types.sampling import CreateMessageRequest, CreateMessageResult

__all__ = ["InputRequest", "InputRequests", "InputRequiredResult", "InputResponse", "InputResponses"]


InputRequest = Annotated[
    Union[CreateMessageRequest, ElicitRequest, ListRootsRequest, UnknownRequest],
    KnownOr("method"),
]
"""What a server asks for before it goes on; a request that is not known here is an `UnknownRequest`."""

InputRequests = dict[str, InputRequest]
"""Requests under the keys that the server gave them."""

InputResponse = Union[CreateMessageResult, ElicitResult, ListRootsResult]
"""The answer to one input request."""

InputResponses = dict[str, InputResponse]
"""Answers under the keys of their requests."""


class InputRequiredResult(Result):
    """The request is not done: answer these and send it again.

    Attributes:
        input_requests: What the server asks, under its keys.
        request_state: The server's state, to be given back as it is.
    """

    _always_sent: ClassVar[frozenset[str]] = frozenset({"result_type"})

    result_type: Literal["input_required"] = "input_required"
    input_requests: Optional[InputRequests] = None
    request_state: Lenient[str] = None
