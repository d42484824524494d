"""Schemas for Gemini: the part of OpenAPI 3.0 that its functions take.

Source: the page "Schema" of the Gemini API's reference ("Caching"/"Schema", v1beta).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..typed._schema import Reader, properties_of, required_of

JSON = dict[str, Any]

_KEPT = frozenset(
    {
        "title",
        "description",
        "minItems",
        "maxItems",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "pattern",
    }
)
_FORMATS = {
    "string": ("date-time", "enum"),
    "number": ("float", "double"),
    "integer": ("int32", "int64"),
}
_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object"})
_NATIVE = {str: "string", bool: "boolean", int: "integer", float: "number"}
_ANYTHING = [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]
_DEEP = 30


def gemini_schema(schema: Any) -> JSON:
    """Return a schema as Gemini accepts it."""
    return _Writer(schema).write(schema, 0)


class _Writer:
    """Writes one schema."""

    def __init__(self, root: Any) -> None:
        self._reader = Reader(root)
        self._active: set[str] = set()

    def write(self, schema: Any, depth: int) -> JSON:
        """Return one schema; one that holds itself ends as an object."""
        plain = self._reader.plain(schema)
        followed = self._reader.followed
        if depth > _DEEP or followed & self._active:
            return {"type": "object"}
        self._active |= followed
        try:
            return self._write(plain, depth)
        finally:
            self._active -= followed

    def _write(self, plain: JSON, depth: int) -> JSON:
        made = {key: value for key, value in plain.items() if key in _KEPT and value is not None}
        for key in ("title", "description"):
            if not isinstance(made.get(key, ""), str):
                del made[key]
        if plain.get("nullable") is True:
            made["nullable"] = True
        values = [plain["const"]] if "const" in plain else plain.get("enum")
        variants = self._reader.variants(plain)
        kinds = plain.get("type")
        if isinstance(values, list) and values:
            return _enum(made, values)
        if variants is not None:
            return self._any_of(made, variants, depth)
        if isinstance(kinds, list):
            return self._any_of(made, [{**plain, "type": kind} for kind in kinds], depth)
        return self._typed(made, plain, kinds, depth)

    def _any_of(self, made: JSON, variants: list[Any], depth: int) -> JSON:
        rest = [each for each in variants if self._reader.plain(each).get("type") != "null"]
        if len(rest) < len(variants):
            made["nullable"] = True
        words: JSON = {key: made[key] for key in ("title", "description", "nullable") if key in made}
        written = [self.write(each, depth + 1) for each in rest]
        if len(written) == 1:
            return {**written[0], **words}
        return {**words, "anyOf": written or _ANYTHING}

    def _typed(self, made: JSON, plain: JSON, kind: Any, depth: int) -> JSON:
        if kind is None:
            kind = "object" if properties_of(plain) else "array" if "items" in plain else None
        if kind == "null":
            return {**made, "type": "string", "nullable": True}
        if not isinstance(kind, str) or kind not in _TYPES:
            return {**made, "anyOf": _ANYTHING}
        made["type"] = kind
        form = plain.get("format")
        if isinstance(form, str) and form in _FORMATS.get(kind, ()):
            made["format"] = form
        if kind == "array":
            items = plain.get("items")
            made["items"] = self.write(items if isinstance(items, Mapping) else {}, depth + 1)
        if kind == "object":
            properties = properties_of(plain)
            if properties:
                made["properties"] = {key: self.write(each, depth + 1) for key, each in properties.items()}
            required = [key for key in required_of(plain) if key in properties]
            if required:
                made["required"] = required
        return made


def _enum(made: JSON, values: list[Any]) -> JSON:
    """Only texts can be enumerated; other values are told in words."""
    rest = [value for value in values if value is not None]
    if len(rest) < len(values):
        made["nullable"] = True
    if all(isinstance(value, str) and value for value in rest):
        return {**made, "type": "string", **({"enum": rest} if rest else {})}
    told = f"One of: {', '.join(json.dumps(value) for value in rest[:50])}"
    made["description"] = "\n".join(filter(None, [made.get("description"), told]))
    kinds = {_NATIVE.get(type(value), "object") for value in rest}
    return {**made, "type": kinds.pop()} if len(kinds) == 1 else {**made, "anyOf": _ANYTHING}
