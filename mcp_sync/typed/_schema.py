"""Schemas of tools, read for the types in them: references followed, ``allOf`` merged, all within bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional
from urllib.parse import unquote

# How much of a schema is looked at. The rest counts as "anything": a server must not keep us busy.
_STEPS = 5_000
_DEEP = 40

Schema = Mapping[str, Any]


class Reader:
    """Reads one schema.

    Args:
        root: The whole schema, which references point into. They lead nowhere else.
    """

    def __init__(self, root: Any) -> None:
        self._root = root if isinstance(root, Mapping) else {}
        self._steps = 0
        # The references that the last call of `plain` from outside followed.
        self.followed: set[str] = set()

    def plain(self, schema: Any, seen: tuple[str, ...] = ()) -> dict[str, Any]:
        """Return a schema without ``$ref`` and ``allOf`` at its top; what cannot be read is left out."""
        self._steps += 1
        if not seen:
            self.followed = set()
        if not isinstance(schema, Mapping) or self._steps > _STEPS or len(seen) > _DEEP:
            return {}
        own = {key: value for key, value in schema.items() if key not in ("$ref", "allOf")}
        merged: dict[str, Any] = {}
        ref = schema.get("$ref")
        if isinstance(ref, str) and ref not in seen:
            merged = self.plain(self.target(ref), (*seen, ref))
            self.followed.add(ref)
        parts = schema.get("allOf")
        for part in parts[:50] if isinstance(parts, list) else ():
            # The mark lets a chain of parts within parts count as deep.
            merged = merge(merged, self.plain(part, (*seen, "")))
        return merge(merged, own)

    def target(self, ref: str) -> Any:
        """Return what a reference within the schema points to, else ``None``."""
        if not ref.startswith("#"):
            return None
        found: Any = self._root
        for step in unquote(ref[1:]).split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, Mapping):
                found = found.get(key)
            elif isinstance(found, list) and key.isascii() and key.isdigit() and len(key) < 6:
                found = found[int(key)] if int(key) < len(found) else None
            else:
                return None
        return found

    def variants(self, plain: Schema) -> Optional[list[dict[str, Any]]]:
        """Return the alternatives of a schema, each complete in itself; ``None`` if it has none.

        Args:
            plain: What `plain` returned.
        """
        for key in ("anyOf", "oneOf"):
            parts = plain.get(key)
            if isinstance(parts, list) and parts:
                base = {name: value for name, value in plain.items() if name != key}
                # Titles and descriptions of the whole say nothing about a part.
                return [_with_base(base, part) for part in parts]
        return None


def _with_base(base: dict[str, Any], part: Any) -> dict[str, Any]:
    rules = {key: value for key, value in base.items() if key not in _WORDS}
    if not rules:
        return dict(part) if isinstance(part, Mapping) else {}
    return {"allOf": [rules, part]}


# What says nothing about the values that a schema admits.
_WORDS = frozenset({"title", "description", "default", "examples", "$schema", "$defs", "definitions", "$id"})


def merge(one: Schema, other: Schema) -> dict[str, Any]:
    """Return a schema for what both admit, as far as types go."""
    merged = {**one, **other}
    properties = [each["properties"] for each in (one, other) if isinstance(each.get("properties"), Mapping)]
    if len(properties) == 2:
        merged["properties"] = {**properties[0], **properties[1]}
        for name in properties[0].keys() & properties[1].keys():
            if properties[0][name] != properties[1][name]:
                merged["properties"][name] = {"allOf": [properties[0][name], properties[1][name]]}
    required = [name for each in (one, other) for name in required_of(each)]
    if required:
        merged["required"] = list(dict.fromkeys(required))
    for key in ("anyOf", "oneOf"):
        if key in one and key in other and one[key] != other[key]:
            # Both hold; one of them says enough about the types.
            merged[key] = one[key]
    return merged


def required_of(schema: Schema) -> list[str]:
    """Return the names of the properties that must be there."""
    names = schema.get("required")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def properties_of(schema: Schema) -> dict[str, Any]:
    """Return the properties of an object; empty if it has none."""
    found = schema.get("properties")
    return {str(name): value for name, value in found.items()} if isinstance(found, Mapping) else {}


def wrapped(plain: Schema) -> Optional[Any]:
    """Return the schema of a value that the server wraps as ``{"result": value}``, else ``None``.

    The official SDK does so, and fastmcp, with tools that return no object: structured content had to be one.
    """
    properties = properties_of(plain)
    if set(properties) != {"result"}:
        return None
    title = plain.get("title")
    is_marked = plain.get("x-fastmcp-wrap-result") is True
    is_titled = isinstance(title, str) and title.endswith("Output") and required_of(plain) == ["result"]
    return properties["result"] if is_marked or is_titled else None
