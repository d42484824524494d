"""Results that wait for input of the client (basic, since 2026-07-28)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Optional, Union

from pydantic import ValidationError

from mcp_sync.types._lenient import KnownOr, Lenient
from mcp_sync.types.elicitation import ElicitRequest, ElicitRequestURLParams, ElicitResult
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


def parse_input_requests(requests: Mapping[str, Any]) -> Optional[dict[str, Any]]:
    """Return what a server asks as models, ``None`` if one of its requests is malformed."""
    try:
        result = InputRequiredResult.model_validate(
            {"inputRequests": {key: _with_mode(request) for key, request in requests.items()}}
        )
    except ValidationError:
        return None
    found = result.input_requests or {}
    return None if any(isinstance(each, UnknownRequest) for each in found.values()) else dict(found)


def _with_mode(request: Any) -> Any:
    """Say of an elicitation without a mode that it is a form, as the specification has it."""
    params = request.get("params") if isinstance(request, dict) else None
    if isinstance(params, dict) and request.get("method") == "elicitation/create" and "mode" not in params:
        return {**request, "params": {**params, "mode": "form"}}
    return request


def pages_to_visit(data: Any) -> list[ElicitRequestURLParams]:
    """Return the pages that the error ``-32042`` names; malformed ones are left out."""
    listed = data.get("elicitations") if isinstance(data, dict) else None
    pages = []
    for each in listed if isinstance(listed, list) else []:
        try:
            pages.append(ElicitRequestURLParams.model_validate(each))
        except ValidationError:
            continue
    return pages
