"""Multi round-trip requests of 2026-07-28: a server that needs input before it can answer.

Source: specification, "Multi Round-Trip Requests".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import InvalidResult
from .brief import excerpt
from .echoed import is_text
from .methods import MethodSpec

INPUT_METHODS = ("elicitation/create", "sampling/createMessage", "roots/list")


def input_requests(spec: MethodSpec, result: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what the server asks for, by its keys.

    Raises:
        InvalidResult: The method may not ask for input, or what it asks for is malformed.
    """
    if not spec.input_rounds:
        raise InvalidResult(f"{spec.method} must not ask for input", result=result)
    requests, state = result.get("inputRequests"), result.get("requestState")
    if state is not None and not is_text(state):
        raise InvalidResult(f"{spec.method}: requestState is no text, and cannot be sent back", result=result)
    if requests is None:
        if state is None:
            raise InvalidResult(f"{spec.method} asks for input without saying which", result=result)
        return {}
    if not isinstance(requests, dict):
        raise InvalidResult(f"{spec.method}: inputRequests is no object", result=result)
    for key, request in requests.items():
        if not is_text(key):
            raise InvalidResult(f"{spec.method}: a key of inputRequests is no text: {key!r}", result=result)
        if not isinstance(request, dict) or request.get("method") not in INPUT_METHODS:
            raise InvalidResult(f"{spec.method}: unknown input request {excerpt(repr(key))}", result=result)
    return requests


def next_params(
    params: Mapping[str, Any], result: Mapping[str, Any], responses: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the params of the retry: the original ones, the answers, and the state exactly as it came."""
    again = original_params(params)
    if responses:
        again["inputResponses"] = dict(responses)
    if result.get("requestState") is not None:
        again["requestState"] = result["requestState"]
    return again


def original_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the params of the call itself, without what a round adds to them."""
    return {key: value for key, value in params.items() if key not in ("inputResponses", "requestState")}
