"""Input schemas as vendors accept them, and arguments as the server wants them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from ..typed._parameters import arguments_of
from ..typed._schema import Reader, properties_of, required_of

JSON = dict[str, Any]

_CHOICES = ("anyOf", "oneOf", "allOf", "$ref", "enum", "const", "not", "if")
_DEEP = 40


def flat(schema: Any) -> JSON:
    """Return the schema of an object without alternatives at its top."""
    root: JSON = dict(schema) if isinstance(schema, Mapping) else {}
    if root.get("type") == "object" and not any(key in root for key in _CHOICES):
        made = {**root, "properties": properties_of(root)}
        if "required" in root:
            made["required"] = required_of(root)
        return made
    reader = Reader(root)
    plain = reader.plain(root)
    properties, required = arguments_of(reader, plain)
    kept: JSON = {key: root[key] for key in ("$defs", "definitions", "description") if key in root}
    found: JSON = {**kept, "type": "object", "properties": properties}
    if required:
        found["required"] = [key for key in properties if key in required]
    if "additionalProperties" in plain:
        found["additionalProperties"] = plain["additionalProperties"]
    return found


class _Loose(Exception):
    """A schema that cannot be strict."""


# Structured outputs of OpenAI: what they do not have, and what is left out because it only narrows.
_IMPOSSIBLE = (
    *("oneOf", "allOf", "not", "if", "then", "else", "patternProperties"),
    *("dependentRequired", "dependentSchemas", "prefixItems", "unevaluatedProperties"),
)
_KEPT = frozenset(
    {"type", "description", "title", "enum", "const", "$ref", "pattern", "multipleOf", "minimum", "maximum"}
    | {"exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems"}
)
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})


def strict_schema(schema: JSON) -> Optional[JSON]:
    """Return a schema that OpenAI can keep to, ``None`` if it cannot be one."""
    try:
        return _strict(Reader(schema), schema, 0)
    except _Loose:
        return None


def _strict(root: Reader, schema: Any, depth: int) -> JSON:
    if not isinstance(schema, Mapping) or depth > _DEEP or any(key in schema for key in _IMPOSSIBLE):
        raise _Loose
    made = {key: value for key, value in schema.items() if key in _KEPT}
    form = schema.get("format")
    if isinstance(form, str) and form in _FORMATS:
        made["format"] = form
    for key in ("$defs", "definitions"):
        if isinstance(schema.get(key), Mapping):
            made[key] = {name: _strict(root, each, depth + 1) for name, each in schema[key].items()}
    if isinstance(schema.get("anyOf"), list):
        made["anyOf"] = [_strict(root, each, depth + 1) for each in schema["anyOf"]]
    kind = schema.get("type")
    if kind is None and not any(key in made for key in ("anyOf", "$ref", "enum", "const")):
        raise _Loose
    kinds = kind if isinstance(kind, list) else [kind]
    if "array" in kinds:
        made["items"] = _strict(root, schema.get("items"), depth + 1)
    if "object" in kinds:
        made.update(_strict_object(root, schema, depth))
    return made


def _strict_object(root: Reader, schema: Mapping[str, Any], depth: int) -> JSON:
    properties, required = properties_of(schema), set(required_of(schema))
    # What says nothing of more properties is taken to want none, if it has some.
    if schema.get("additionalProperties", depth > 0 and not properties) is not False:
        raise _Loose
    made = {}
    for key, each in properties.items():
        found = _strict(root, each, depth + 1)
        made[key] = found if key in required or admits_null(root, each) else _nullable(found)
    return {"properties": made, "required": list(made), "additionalProperties": False}


def _nullable(schema: JSON) -> JSON:
    return {"anyOf": [schema, {"type": "null"}]}


def admits_null(reader: Reader, schema: Any, depth: int = 0) -> bool:
    """Whether null is a value of a schema, as far as types go."""
    plain = reader.plain(schema)
    if schema is False or depth > _DEEP:
        return False
    if "const" in plain:
        return plain["const"] is None
    if isinstance(plain.get("enum"), list):
        return None in plain["enum"]
    if plain.get("nullable") is True:
        return True
    variants = reader.variants(plain)
    if variants is not None:
        return any(admits_null(reader, each, depth + 1) for each in variants)
    kind = plain.get("type")
    if kind is None:
        # Without a type, what is said of objects and arrays is meant for them.
        return not ("properties" in plain or "items" in plain)
    return kind == "null" or (isinstance(kind, list) and "null" in kind)


def without_nulls(arguments: Any, schema: Any) -> Any:
    """Return arguments without nulls that stand for "not given": optional ones that cannot be null."""
    return _without(Reader(schema), arguments, schema, 0)


def _without(reader: Reader, value: Any, schema: Any, depth: int) -> Any:
    plain = reader.plain(schema)
    if depth > _DEEP:
        return value
    if isinstance(value, list):
        return [_without(reader, each, plain.get("items"), depth + 1) for each in value]
    if not isinstance(value, dict):
        return value
    properties, required = arguments_of(reader, plain)
    return {
        key: _without(reader, each, properties.get(key), depth + 1)
        for key, each in value.items()
        if each is not None
        or key in required
        or key not in properties
        or admits_null(reader, properties[key])
    }
