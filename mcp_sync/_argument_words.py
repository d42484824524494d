"""The arguments of a tool, as they are typed on a command line.

==============  ============================================================================
``key=value``   a value of the type that the tool's input schema asks for; without one a string
``key:=json``   any JSON value
``key=@path``   the text of a file, typed as ``key=value`` is
``key:=@path``  the JSON value in a file
``-``           an object of arguments as JSON from standard input
==============  ============================================================================

Where the schema admits a string, a value stays the string that was typed. A list is typed as JSON, or as
one ``key=value`` for each item. Other words win over what standard input says.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from ._protocol.form_formats import FALSE, TRUE, typed_number
from .errors import MethodNotFound, UsageError

_MAX_REFS = 20
# In which order the types of a schema are tried: an array would take any text as its only item.
_ORDER = ("null", "integer", "number", "boolean", "object", "array")


@dataclass(frozen=True)
class Given:
    """One argument as it was typed.

    Attributes:
        key: Its name.
        text: What stands behind the sign, or in the file.
        is_json: Whether that is JSON, whatever the schema says.
    """

    key: str
    text: str
    is_json: bool = False


@dataclass(frozen=True)
class GivenArguments:
    """All arguments of a call, not typed yet.

    Attributes:
        base: The object from standard input.
        words: The others, in order.
    """

    base: Mapping[str, Any]
    words: tuple[Given, ...]

    @property
    def needs_schema(self) -> bool:
        """Whether the schema of the tool makes a difference."""
        return any(not word.is_json for word in self.words)

    def for_tool(self, client: Any, name: str, **options: Any) -> dict[str, Any]:
        """Return the arguments as a tool gets them; asks the server for its schema if that is needed.

        Args:
            client: The client.
            name: The tool.
            options: For ``client.tools``, such as ``timeout``.

        Raises:
            UsageError: As `typed`.
            MCPError: The server does not answer as it should.
        """
        return self.typed(_input_schema(client, name, options) if self.needs_schema else None)

    def typed(self, schema: Optional[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the arguments as the tool gets them.

        Args:
            schema: The tool's input schema, ``None`` if it is not known.

        Raises:
            UsageError: A text cannot be what the schema asks for, or a key was given twice.
        """
        root = schema or {}
        arguments = dict(self.base)
        seen: set[str] = set()
        for word in self.words:
            value = _json(word) if word.is_json else _typed(word, _property(root, word.key), root)
            if word.key not in seen:
                arguments[word.key] = value
            elif isinstance(value, list) and isinstance(arguments[word.key], list):
                arguments[word.key] = arguments[word.key] + value
            else:
                raise UsageError(f"{word.key} is given twice")
            seen.add(word.key)
        if schema is not None:
            _check_names(arguments, schema)
        return arguments


def read_arguments(words: Sequence[str]) -> GivenArguments:
    """Take the words of a command line apart.

    Args:
        words: What stands behind the tool's name.

    Raises:
        UsageError: A word has none of the forms, or a file or standard input cannot be read.
    """
    base: Mapping[str, Any] = {}
    given = []
    for word in words:
        if word == "-":
            base = _standard_input()
        else:
            given.append(_given(word))
    return GivenArguments(base, tuple(given))


def _input_schema(client: Any, name: str, options: Mapping[str, Any]) -> Optional[Mapping[str, Any]]:
    try:
        for tool in client.tools(**options):
            if tool.name == name:
                found: Mapping[str, Any] = tool.input_schema
                return found
    except MethodNotFound:
        pass  # A server may have tools and no list of them.
    return None


def _given(word: str) -> Given:
    key, sign, text = word.partition("=")
    is_json = key.endswith(":")
    key = key[:-1] if is_json else key
    if not sign or not key:
        raise UsageError(f"{word!r} is no argument: write key=value, key:=json, key=@file or -")
    if text.startswith("@"):
        return Given(key, _file(key, text[1:]), is_json)
    return Given(key, text, is_json)


def _file(key: str, path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise UsageError(f"{key}: cannot read {path}: {reason}") from error


def _standard_input() -> Mapping[str, Any]:
    text = "" if sys.stdin is None else sys.stdin.read()
    if not text.strip():
        raise UsageError("- reads arguments as JSON from standard input, and there is nothing")
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UsageError(f"standard input is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise UsageError("standard input must hold a JSON object, the arguments by their names")
    return value


def _json(word: Given) -> Any:
    try:
        return json.loads(word.text, parse_constant=_no_constant)
    except ValueError as error:
        raise UsageError(f"{word.key}: {word.text!r} is no JSON: {error}") from error


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")


# --- by the schema ----------------------------------------------------------------------------------------


def _property(root: Mapping[str, Any], key: str) -> Any:
    properties = root.get("properties")
    if isinstance(properties, Mapping) and key in properties:
        return properties[key]
    return root.get("additionalProperties")


def _typed(word: Given, schema: Any, root: Mapping[str, Any], depth: int = 0) -> Any:
    """Turn a text into a value that the schema admits; ``depth`` is that of the lists around it."""
    alternatives = _alternatives(schema, root)
    enums = [_enum(each) for each in alternatives]
    for values in filter(None, enums):
        chosen = _choice(word.text, values)
        if chosen:
            return chosen[0]
    if enums and all(enums):
        wanted = ", ".join(json.dumps(value, ensure_ascii=False) for values in enums for value in values)
        raise UsageError(f"{word.key}: {word.text!r} is none of {wanted}")
    kinds = {kind for each in alternatives for kind in _kinds(each)}
    if not kinds or "string" in kinds:
        return word.text
    for kind in filter(kinds.__contains__, _ORDER):
        items = next((each.get("items") for each in alternatives if "array" in _kinds(each)), None)
        value = _parsed(word, kind, items, root, depth)
        if value is not _NO:
            return value
    raise UsageError(f"{word.key}: {word.text!r} is not of type {' or '.join(sorted(kinds))}")


def _alternatives(schema: Any, root: Mapping[str, Any], depth: int = 0) -> list[Mapping[str, Any]]:
    """Return the schemas of which a value has to match one, with local references followed."""
    if not isinstance(schema, Mapping) or depth > _MAX_REFS:
        return []
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return _alternatives(_resolve(reference, root), root, depth + 1)
    for word in ("anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(word), list) and "type" not in schema:
            return [found for each in schema[word] for found in _alternatives(each, root, depth + 1)]
    return [schema]


def _resolve(reference: str, root: Mapping[str, Any]) -> Any:
    found: Any = root
    for part in reference.lstrip("#").strip("/").split("/"):
        part = part.replace("~1", "/").replace("~0", "~")
        found = found.get(part) if isinstance(found, Mapping) else None
    return found if reference.startswith("#/") else None


def _enum(schema: Mapping[str, Any]) -> list[Any]:
    """Return the only values that a schema admits, none if it names no values."""
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return values if isinstance(values, list) else []


def _check_names(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """See that nothing is missing, and that nothing is there that the tool does not take.

    Raises:
        UsageError: It is so.
    """
    properties, required = schema.get("properties"), schema.get("required")
    known = list(properties) if isinstance(properties, Mapping) else []
    unknown = [name for name in arguments if name not in known]
    if unknown and schema.get("additionalProperties") is False and not schema.get("patternProperties"):
        raise UsageError(f"{unknown[0]}: no such argument; there are: {', '.join(known) or 'none'}")
    needed = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    missing = [name for name in needed if name not in arguments]
    if missing:
        raise UsageError(f"missing: {', '.join(missing)}")


def _kinds(schema: Mapping[str, Any]) -> list[str]:
    kind = schema.get("type")
    if isinstance(kind, str):
        return [kind]
    if isinstance(kind, list):
        return [each for each in kind if isinstance(each, str)]
    return []


def _choice(text: str, values: Sequence[Any]) -> list[Any]:
    """Return, in a list, the value of an ``enum`` that was typed; nothing if it is none of them."""
    return [value for value in values if value == text or _as_typed(value) == text][:1]


def _as_typed(value: Any) -> Optional[str]:
    return None if isinstance(value, str) else json.dumps(value)


_NO = object()


def _parsed(word: Given, kind: str, items: Any, root: Mapping[str, Any], depth: int) -> Any:
    """Return the text as a value of one JSON type, `_NO` if it is none."""
    text = word.text.strip()
    if kind == "boolean":
        lower = text.lower()
        return lower in TRUE if lower in TRUE + FALSE else _NO
    if kind == "null":
        return None if text in ("null", "") else _NO
    if kind in ("integer", "number"):
        return _number(text, kind == "integer")
    if text.startswith("{" if kind == "object" else "["):
        return _json(word)
    # A list may hold lists of its own kind, for ever.
    is_item = kind == "array" and depth < _MAX_REFS
    return [_typed(word, items, root, depth + 1)] if is_item else _NO


def _number(text: str, whole: bool) -> Any:
    value = typed_number(text, whole)
    return _NO if value is None else value
