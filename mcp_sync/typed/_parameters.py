"""The parameters of a tool, from its input schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Optional

from ._names import identifiers
from ._schema import Reader, properties_of, required_of
from ._text import literal
from ._types import Types

_NOTHING = object()


class Parameter(NamedTuple):
    """One argument of a tool.

    Attributes:
        key: What the server calls it.
        name: What it is called in Python.
        type: Its type, as an expression.
        required: Whether it must be given.
        default: What it is otherwise, as an expression; ``None`` if that is the server's affair.
        description: What the server says about it.
    """

    key: str
    name: str
    type: str
    required: bool
    default: Optional[str]
    description: str


def parameters_of(schema: Any, types: Types, words: tuple[str, ...]) -> tuple[list[Parameter], bool]:
    """Return the parameters of a tool, those that must be given first; and whether it takes others, too.

    Args:
        schema: The tool's input schema.
        types: Where classes for objects go.
        words: What they are named after.
    """
    reader = Reader(schema)
    plain = reader.plain(schema)
    properties, required = arguments_of(reader, plain)
    names = identifiers(properties, "arg")
    found = []
    for key, each in properties.items():
        is_needed = key in required
        kind = types.of(each, schema, (*words, key), gives=True)
        default = None if is_needed else _default(reader.plain(each), kind)
        about = each.get("description") if isinstance(each, Mapping) else None
        found.append(
            Parameter(key, names[key], kind, is_needed, default, about if isinstance(about, str) else "")
        )
    found.sort(key=lambda one: not one.required)
    more = plain.get("additionalProperties")
    is_open = not properties or more is True or isinstance(more, Mapping) or "patternProperties" in plain
    return found, is_open and more is not False


def arguments_of(reader: Reader, plain: Mapping[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """Return all properties of all alternatives, and those names that each of them requires."""
    variants = reader.variants(plain)
    if variants is None:
        return properties_of(plain), set(required_of(plain))
    properties: dict[str, Any] = {}
    required: Optional[set[str]] = None
    for variant in map(reader.plain, variants):
        for key, value in properties_of(variant).items():
            same = properties.setdefault(key, value)
            if same != value:
                properties[key] = {"anyOf": [same, value]}
        needed = set(required_of(variant))
        required = needed if required is None else required & needed
    return properties, required or set()


def _default(plain: Mapping[str, Any], kind: str) -> Optional[str]:
    """Return the default as an expression, if it is of the type."""
    value = plain.get("default", _NOTHING)
    if value is None:
        return "None" if kind == "None" or kind.startswith("t.Optional[") else None
    text = _scalar(value)
    inner = kind[len("t.Optional[") : -1] if kind.startswith("t.Optional[") else kind
    if inner.startswith("t.Literal["):
        # Split as it was joined; a text with a comma and a space in it may be missed, which does no harm.
        return text if text in inner[len("t.Literal[") : -1].split(", ") else None
    return text if inner in _FITS.get(type(value), ()) else None


_FITS = {str: ("str",), int: ("int", "float"), float: ("float",), bool: ("bool",)}


def _scalar(value: Any) -> Optional[str]:
    if isinstance(value, str):
        return literal(value) if len(value) <= 200 else None
    if isinstance(value, bool):
        return repr(value)
    if isinstance(value, int):
        return repr(value) if abs(value) < 2**63 else None
    is_number = isinstance(value, float) and value == value and abs(value) != float("inf")
    return repr(value) if is_number else None
