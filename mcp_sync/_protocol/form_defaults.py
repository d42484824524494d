"""The defaults of an elicitation form, for the fields that an answer leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional


def fill_defaults(requested_schema: Any, content: Optional[Mapping[str, Any]]) -> dict[str, Any]:
    """Complete the answer to a form with the defaults that its schema names.

    A field that the answer holds is kept, ``None`` included. A field without a default is not
    invented, and a default that its own field does not admit by type or choice is ignored.

    Args:
        requested_schema: The schema of the request; whatever is malformed in it is passed over.
        content: The answer; it is not changed.
    """
    filled = dict(content or {})
    properties = requested_schema.get("properties") if isinstance(requested_schema, dict) else None
    if isinstance(properties, dict):
        for name, field in properties.items():
            if name not in filled and isinstance(field, dict) and "default" in field:
                default = field["default"]
                if _admits(field, default):
                    filled[name] = list(default) if isinstance(default, list) else default
    return filled


def _admits(field: dict[str, Any], value: Any) -> bool:
    kind = field.get("type")
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "number":
        return _is_number(value)
    if kind == "integer":
        return _is_number(value) and (isinstance(value, int) or value.is_integer())
    if kind == "array":
        return isinstance(value, list) and all(_is_choice(field.get("items"), item) for item in value)
    if kind == "string":
        return _is_choice(field, value)
    return False


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_choice(field: Any, value: Any) -> bool:
    """Tell whether a string is among the choices of a field, if that has choices."""
    if not isinstance(value, str):
        return False
    if not isinstance(field, dict):
        return True
    plain = field.get("enum")
    if isinstance(plain, list):
        return value in plain
    for keyword in ("oneOf", "anyOf"):
        titled = field.get(keyword)
        if isinstance(titled, list):
            return any(isinstance(choice, dict) and choice.get("const") == value for choice in titled)
    return True
