"""The answers to input requests, checked before they are sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from . import types
from ._protocol.brief import excerpt
from ._protocol.form_defaults import fill_defaults
from ._protocol.forms import faults_in, read_fields
from .errors import AnswerInvalid, UsageError
from .types._lenient import first_problem

_ANSWERS: dict[str, Any] = {
    "elicitation/create": types.ElicitResult,
    "sampling/createMessage": types.CreateMessageResult,
    "roots/list": types.ListRootsResult,
}


def answer_to_wire(key: str, request: Any, answer: Any) -> dict[str, Any]:
    """Return an answer as it is sent.

    Args:
        key: The key of the request.
        request: The request, a model.
        answer: What the user gave for it.

    Raises:
        AnswerInvalid: It does not match the form.
        UsageError: It is no answer to such a request.
    """
    wire = _of_kind(key, _ANSWERS[request.method], answer)
    if not isinstance(request, types.ElicitRequest):
        return wire
    if wire["action"] != "accept" or isinstance(request.params, types.ElicitRequestURLParams):
        # What was typed in before the user declined is none of the server's business, nor is what a URL got.
        wire.pop("content", None)
        return wire
    return {**wire, "content": _completed(key, request.params.requested_schema, wire.get("content"))}


def _of_kind(key: str, model: Any, answer: Any) -> dict[str, Any]:
    if isinstance(answer, BaseModel):
        if not isinstance(answer, model):
            wanted = f"answer it with a {model.__name__}, not {type(answer).__name__}"
            raise UsageError(f"the answer to {excerpt(repr(key))} is of another kind: {wanted}")
        wire: dict[str, Any] = answer.to_wire()
        return wire
    if not isinstance(answer, Mapping):
        wanted = f"a {model.__name__} or a dict, not {type(answer).__name__}"
        raise UsageError(f"the answer to {excerpt(repr(key))} must be {wanted}")
    try:
        wire = model(**answer).to_wire()
    except (ValidationError, TypeError) as error:
        what = first_problem(error) if isinstance(error, ValidationError) else str(error)
        raise UsageError(f"the answer to {excerpt(repr(key))} is no {model.__name__}: {what}") from error
    return wire


def _completed(key: str, schema: Mapping[str, Any], content: Any) -> dict[str, Any]:
    filled = fill_defaults(schema, content)
    faults = faults_in(read_fields(schema), filled)
    if faults:
        text = f"the answer to {excerpt(repr(key))} does not match the form: {listed(faults)}"
        raise AnswerInvalid(text, key=key, faults=faults)
    return filled


def listed(faults: Mapping[str, str]) -> str:
    """Return what is wrong in one line."""
    return "; ".join(f"{name}: {fault}" for name, fault in faults.items())
