"""The form of a question: what the templates show, and the answers that come back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from werkzeug.datastructures import MultiDict
from werkzeug.exceptions import NotImplemented as NotImplementedHere

from ... import types
from ...elicitation import FormField, accept, cancel, check_url, decline, form_fields, validate_answer
from ...errors import AnswerInvalid, InputRequired, UnsafeURL

_INPUT_TYPES = {"email": "email", "uri": "url", "date": "date"}


@dataclass(frozen=True)
class Option:
    """One choice of a field."""

    value: str
    title: str
    chosen: bool


@dataclass(frozen=True)
class Widget:
    """One field, ready to be shown.

    Attributes:
        name: Its name in what is posted.
        kind: ``"select"``, ``"choices"`` (several), ``"checkbox"``, or the type of an ``input``.
        field: What the server says about it.
        value: What is in it.
        options: Its choices.
        fault: What is wrong with it, empty for nothing.
    """

    name: str
    kind: str
    field: FormField
    value: str = ""
    options: tuple[Option, ...] = ()
    fault: str = ""


@dataclass(frozen=True)
class Asked:
    """One question of a server.

    Attributes:
        message: In the server's words.
        widgets: The fields of a form.
        page: A page to visit instead, a `PageURL`.
        unsafe: Why that must not be visited, empty if it may.
    """

    message: str
    widgets: tuple[Widget, ...] = ()
    page: Any = None
    unsafe: str = ""


def read(waiting: InputRequired, posted: Any, faults: Mapping[str, str]) -> list[Asked]:
    """Return what a server asks, with what was filled in so far."""
    asked = enumerate(_requests(waiting).values())
    return [_asked(f"q{number}-", each, posted, faults) for number, each in asked]


def answers(waiting: InputRequired, posted: Any) -> dict[str, types.ElicitResult]:
    """Return the answers that were posted.

    Raises:
        AnswerInvalid: With what is wrong by the names of the fields in what was posted.
    """
    requests, action = _requests(waiting), posted.get("mcp_action", "accept")
    if action in ("decline", "cancel"):
        return {key: decline() if action == "decline" else cancel() for key in requests}
    found, faults = {}, {}
    for number, (key, each) in enumerate(requests.items()):
        if isinstance(each.params, types.ElicitRequestURLParams):
            check_url(each)
            found[key] = accept()
            continue
        try:
            found[key] = accept(validate_answer(each, _posted(posted, f"q{number}-")))
        except AnswerInvalid as error:
            faults.update({f"q{number}-{name}": text for name, text in error.faults.items()})
    if faults:
        raise AnswerInvalid("the form is not filled in as it must be", faults=faults)
    return found


def _posted(posted: Any, prefix: str) -> MultiDict[str, str]:
    """Return what was posted for one of several questions."""
    found = [(name, value) for name, value in posted.items(multi=True) if name.startswith(prefix)]
    return MultiDict((name[len(prefix) :], value) for name, value in found)


def _requests(waiting: InputRequired) -> dict[str, types.ElicitRequest]:
    for each in waiting.requests.values():
        if not isinstance(each, types.ElicitRequest):
            raise NotImplementedHere("The server asks for what no person can answer.")
    return dict(waiting.requests)


def _asked(prefix: str, request: types.ElicitRequest, posted: Any, faults: Mapping[str, str]) -> Asked:
    params = request.params
    if isinstance(params, types.ElicitRequestURLParams):
        try:
            return Asked(params.message, page=check_url(params))
        except UnsafeURL as error:
            return Asked(params.message, unsafe=str(error))
    widgets = tuple(_widget(each, prefix, posted, faults) for each in form_fields(params))
    return Asked(params.message, widgets)


def _widget(each: FormField, prefix: str, posted: Any, faults: Mapping[str, str]) -> Widget:
    name = f"{prefix}{each.name}"
    if posted is not None:
        given = list(posted.getlist(name))
    elif each.default is None:
        given = []
    else:
        given = [_text(value) for value in (each.default if each.type == "array" else [each.default])]
    value, fault = given[0] if given else "", faults.get(name, "")
    options = tuple(
        Option(_text(choice.value), choice.title, _text(choice.value) in given) for choice in each.choices
    )
    return Widget(name, _kind(each), each, value, options, fault)


def _kind(each: FormField) -> str:
    if each.type == "array":
        return "choices"
    if each.choices:
        return "select"
    if each.type == "boolean":
        return "checkbox"
    return "number" if each.type in ("integer", "number") else _INPUT_TYPES.get(each.format, "text")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
