"""What the input schema of a tool says of one argument."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

MAX_REFS = 20
KINDS: dict[str, Any] = {
    "array": list,
    "boolean": bool,
    "integer": int,
    "null": type(None),
    "number": (int, float),
    "object": dict,
    "string": str,
}
"""The types of JSON Schema, and the classes of their values."""
_OTHERS = ("additionalProperties", "patternProperties", "unevaluatedProperties", "$dynamicRef")
_COMBINED = ("anyOf", "oneOf", "allOf")


def schema_of(root: Mapping[str, Any], key: str) -> Any:
    """Return the schema of an argument, ``None`` if there is none."""
    for each in _objects(root):
        properties = each.get("properties")
        if isinstance(properties, Mapping) and key in properties:
            return properties[key]
    return root.get("additionalProperties")


def declared_names(root: Mapping[str, Any]) -> list[str]:
    """Return the names of the arguments that are declared."""
    declared = [each.get("properties") for each in _objects(root)]
    return [name for properties in declared if isinstance(properties, Mapping) for name in properties]


def tells_of_others(root: Mapping[str, Any]) -> bool:
    """Whether it is said what arguments may be that are not declared: anything, something, or nothing."""
    return any(word in each for each in _objects(root) for word in _OTHERS)


def admits_object(schema: Any, root: Mapping[str, Any]) -> bool:
    """Whether an argument may be an object."""
    return any("object" in (kinds(each) or ["object"]) for each in alternatives(schema, root))


def _objects(root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Give the schemas of which properties an object may have, this one first."""
    yield root
    yield from alternatives({word: root[word] for word in ("$ref", *_COMBINED) if word in root}, root)


def alternatives(schema: Any, root: Mapping[str, Any], depth: int = 0) -> list[Mapping[str, Any]]:
    """Return the schemas of which a value has to match one, with local references followed."""
    if not isinstance(schema, Mapping) or depth > MAX_REFS:
        return []
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return alternatives(_resolve(reference, root), root, depth + 1)
    for word in _COMBINED:
        if isinstance(schema.get(word), list) and "type" not in schema:
            return [found for each in schema[word] for found in alternatives(each, root, depth + 1)]
    return [schema]


def _resolve(reference: str, root: Mapping[str, Any]) -> Any:
    found: Any = root
    for part in reference.lstrip("#").strip("/").split("/"):
        part = part.replace("~1", "/").replace("~0", "~")
        found = found.get(part) if isinstance(found, Mapping) else None
    return found if reference.startswith("#/") else None


def choices(schema: Mapping[str, Any]) -> list[Any]:
    """Return the only values that a schema admits, none if it names no values."""
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return values if isinstance(values, list) else []


def kinds(schema: Mapping[str, Any]) -> list[str]:
    """Return the JSON types that a schema admits, none if it names none."""
    kind = schema.get("type")
    named = kind if isinstance(kind, list) else [kind]
    return [each for each in named if isinstance(each, str) and each in KINDS]


def guessed(name: str, known: Iterable[str]) -> str:
    """Return what to add where a name is none of those that there are."""
    near = difflib.get_close_matches(name.lower(), {each.lower(): each for each in known}, 1)
    found = next((each for each in known if near and each.lower() == near[0]), None)
    return "" if found is None else f"; did you mean {found}?"
