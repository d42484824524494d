"""The answers to a form as people give them, in text, turned into what the form asks for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Optional

from .form_defaults import fill_defaults
from .form_formats import FALSE, TRUE, typed_number
from .forms import FormField, faults_in, read_fields

_NOT_OF_TYPE = "{!r} is not of type {}"


def read_value(field: FormField, given: Any) -> tuple[Any, Optional[str]]:
    """Return an answer as its field wants it, and what is wrong with it.

    Args:
        field: The field.
        given: Text as it was typed, for several choices a list of texts; or the value itself.
    """
    if field.type == "array":
        value: Any = [given] if isinstance(given, str) else given
        if isinstance(value, (list, tuple)):
            value = [_choice(field, each) for each in value]
        return value, field.fault(value)
    value = _choice(field, given)
    if isinstance(value, str) and field.type not in ("string", "array"):
        value, fault = _typed(field.type, value)
        if fault is not None:
            return value, fault
    return value, field.fault(value)


def _choice(field: FormField, given: Any) -> Any:
    """Return the choice that a text means; anything else as it is."""
    if isinstance(given, str):
        for each in field.choices:
            if not isinstance(each.value, str) and json.dumps(each.value) == given:
                return each.value
    return given


def _typed(kind: str, text: str) -> tuple[Any, Optional[str]]:
    shown = text if len(text) <= 100 else text[:100] + "..."
    short = text.strip()
    value: Any = None
    if kind == "boolean":
        value = short.lower() in TRUE if short.lower() in TRUE + FALSE else None
    elif kind in ("integer", "number"):
        value = typed_number(short, kind == "integer")
    else:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = text  # A field of no known type: the schema tells whether that is right.
    return value, _NOT_OF_TYPE.format(shown, kind) if value is None and kind else None


def read_answer(schema: Any, values: Mapping[str, Any], html: bool) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the content of an answer to a form, and what is wrong with it by the names of the fields.

    Args:
        schema: The schema of the form.
        values: What was filled in; entries for no field of the form are passed over.
        html: Whether it comes from an HTML form, which says nothing of what is not ticked.
    """
    content: dict[str, Any] = {}
    faults: dict[str, str] = {}
    fields = read_fields(schema)
    for field in fields:
        given = _given(field, values, html)
        if _is_blank(given):
            continue
        content[field.name], fault = read_value(field, given)
        if fault is not None:
            faults[field.name] = fault
    content = fill_defaults(schema, content)
    return content, {**faults_in(fields, content), **faults}


def _given(field: FormField, values: Mapping[str, Any], html: bool) -> Any:
    several = getattr(values, "getlist", None)
    if field.type == "array" and callable(several):
        given: Any = list(several(field.name))
        if not given and not html:
            return None
        return given
    given = values.get(field.name)
    if given is None and html:
        return {"boolean": False, "array": []}.get(field.type)
    return given


def _is_blank(given: Any) -> bool:
    return given is None or (isinstance(given, str) and not given.strip())
