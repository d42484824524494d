"""The arguments of a tool, as they are typed on a command line.

==============  ============================================================================
``key=value``   a value of the type that the tool's input schema asks for; without one a string
``key:=json``   any JSON value
``key=@path``   the text of a file, typed as ``key=value`` is; ``@-`` is standard input
``key:=@path``  the JSON value in a file
``{...}``       an object of arguments as JSON
``-``           the same from standard input
==============  ============================================================================

Where the schema admits a string, a value stays the string that was typed. A list is typed as JSON, or as
one ``key=value`` for each item. Words with a key win over objects. What does not match the schema is refused.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from .._concurrency.deadline import Deadline
from .._files import read_standard_input, read_text
from .._masking import without_credentials
from .._protocol.form_formats import FALSE, TRUE, typed_number
from ..errors import MethodNotFound, ProtocolError, RemoteError, UsageError
from .check import check_arguments, no_type, none_of, shown_value
from .schemas import (
    MAX_REFS,
    admits_object,
    alternatives,
    choices,
    declared_names,
    guessed,
    kinds,
    schema_of,
    tells_of_others,
)

logger = logging.getLogger("mcp_sync.tools")

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

    def shown(self, schema: Any = None) -> str:
        """Return the text as an error may show it, given what its schema says."""
        return shown_value([self.key], self.text, schema, as_typed=True)


@dataclass(frozen=True)
class GivenArguments:
    """All arguments of a call, not typed yet.

    Attributes:
        base: The objects that were given as a whole.
        words: The others, in order.
    """

    base: Mapping[str, Any]
    words: tuple[Given, ...]

    def for_tool(self, client: Any, name: str, check: bool = True, **options: Any) -> dict[str, Any]:
        """Return the arguments as a tool gets them; asks the server for its schema if that is needed.

        Args:
            client: The client.
            name: The tool.
            check: Whether arguments that do not match the schema are refused.
            options: For ``client.tools``, such as ``timeout``.

        Raises:
            UsageError: As `typed`.
            MCPError: The server does not answer as it should.
        """
        needs_types = any(not word.is_json for word in self.words)
        schema = _input_schema(client, name, needs_types, options) if check or needs_types else None
        return self.typed(schema, check)

    def typed(self, schema: Optional[Mapping[str, Any]], check: bool = True) -> dict[str, Any]:
        """Return the arguments as the tool gets them.

        Args:
            schema: The tool's input schema, ``None`` if it is not known.
            check: Whether they have to match it. Otherwise a text that has no other type is a string.

        Raises:
            UsageError: They do not match, or a key was given twice.
        """
        root = schema or {}
        times = Counter(word.key for word in self.words)
        arguments = dict(self.base)
        seen: set[str] = set()
        for word in self.words:
            value = _json(word) if word.is_json else _value(word, root, check, times[word.key] > 1)
            if word.key not in seen:
                arguments[word.key] = value
            elif isinstance(value, list) and isinstance(arguments[word.key], list):
                arguments[word.key] = arguments[word.key] + value
            else:
                raise UsageError(f"{word.key} is given twice")
            seen.add(word.key)
        if schema is not None and check:
            _refuse_fields(arguments, schema)
            check_arguments(arguments, schema)
            _warn_of_undeclared(arguments, schema)
        return arguments


def read_arguments(words: Sequence[str], timeout: Optional[float] = None) -> GivenArguments:
    """Take the words of a command line apart.

    Args:
        words: What stands behind the tool's name.
        timeout: How many seconds pipes and standard input may take until they end; ``None`` for no bound.

    Raises:
        UsageError: A word has none of the forms, or a file or standard input cannot be read.
    """
    deadline = Deadline(timeout)
    base: dict[str, Any] = {}
    given = []
    for word in words:
        if word == "-":
            base.update(_object("standard input", _standard_input("-", deadline)))
        elif word.lstrip().startswith("{"):
            base.update(_object("an argument that begins with {", word))
        else:
            given.append(_given(word, deadline))
    return GivenArguments(base, tuple(given))


def _input_schema(
    client: Any, name: str, needs_types: bool, options: Mapping[str, Any]
) -> Optional[Mapping[str, Any]]:
    names: list[str] = []
    try:
        for tool in client.tools(**options):
            if tool.name == name:
                found: Mapping[str, Any] = tool.input_schema
                return found
            names.append(tool.name)
        logger.warning("the server lists no tool %s%s", name, guessed(name, names))
    except MethodNotFound:
        pass  # A server may have tools and no list of them.
    except (ProtocolError, RemoteError):
        # A broken list is no reason not to call, where nothing but the check depends on it.
        if needs_types:
            raise
    return None


def _given(word: str, deadline: Deadline) -> Given:
    key, sign, text = word.partition("=")
    is_json = key.endswith(":")
    key = key[:-1] if is_json else key
    if not sign or not key:
        shown = repr(without_credentials(word))
        raise UsageError(f"{shown} is no argument: write key=value, key:=json, key=@file, {{...}} or -")
    if text.startswith("@"):
        return Given(key, _file(key, text[1:], deadline), is_json)
    return Given(key, text, is_json)


def _file(key: str, path: str, deadline: Deadline) -> str:
    if path == "-":
        return _standard_input(f"{key}=@-", deadline)
    try:
        return read_text(Path(path), deadline)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        hint = f"; a text that begins with @ is written {key}:='\"@...\"'"
        raise UsageError(f"{key}: cannot read {path}: {reason}{hint}") from error


def _standard_input(word: str, deadline: Deadline) -> str:
    try:
        text = read_standard_input(deadline)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise UsageError(f"{word} reads standard input: {reason}") from error
    if not text.strip():
        raise UsageError(f"{word} reads standard input, and there is nothing")
    return text


def _object(what: str, text: str) -> dict[str, Any]:
    try:
        value = _loaded(text)
    except ValueError as error:
        raise UsageError(f"{what} is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise UsageError(f"{what} must hold a JSON object, the arguments by their names")
    return value


def _json(word: Given) -> Any:
    try:
        return _loaded(word.text)
    except ValueError as error:
        hint = (
            f"; a text is written {word.key}=..."
            if isinstance(error, json.JSONDecodeError) and word.is_json
            else ""
        )
        raise UsageError(f"{word.key}: {word.shown()} is no JSON: {error}{hint}") from error


def _loaded(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")


# --- by the schema ----------------------------------------------------------------------------------------


def _refuse_fields(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Refuse names with a dot that are meant to be fields of another argument.

    Raises:
        UsageError: There is one.
    """
    declared = declared_names(schema)
    for name in arguments:
        whole, dot, field = name.partition(".")
        is_field = (
            dot and whole in declared and name not in declared and not schema.get("additionalProperties")
        )
        if is_field and admits_object(schema_of(schema, whole), schema):
            hint = f"a field of {whole} is written {whole}:='{{\"{field}\": ...}}'"
            raise UsageError(f"{name}: no such argument; {hint}")


def _warn_of_undeclared(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Tell what may be misspelt, where the schema leaves open which arguments there are."""
    declared = declared_names(schema)
    if not declared or tells_of_others(schema):
        return
    for name in arguments:
        if name not in declared:
            logger.warning("%s: the tool declares no such argument%s", name, guessed(name, declared))


def _value(word: Given, root: Mapping[str, Any], check: bool, is_repeated: bool) -> Any:
    try:
        return _typed(word, schema_of(root, word.key), root, is_repeated=is_repeated)
    except UsageError:
        if check:
            raise
        return word.text


def _typed(
    word: Given, schema: Any, root: Mapping[str, Any], depth: int = 0, *, is_repeated: bool = False
) -> Any:
    """Turn a text into a value that the schema admits.

    Args:
        word: The text.
        schema: What it has to match.
        root: The schema that this one is a part of.
        depth: How many lists are around it.
        is_repeated: Whether it is one of several for one key: an item of a list, if that is admitted.
    """
    admitted = alternatives(schema, root)
    only = [value for each in admitted for value in choices(each)]
    chosen = _choice(word.text, only)
    if chosen:
        return chosen[0]
    names = {kind for each in admitted if not choices(each) for kind in kinds(each)}
    if is_repeated and "array" in names:
        names = {"array"}
    elif "string" in names or not (names or only):
        return word.text
    for kind in filter(names.__contains__, _ORDER):
        items = next((each.get("items") for each in admitted if "array" in kinds(each)), None)
        value = _parsed(word, kind, items, root, depth)
        if value is not _NO:
            return value
    fault = " and ".join(([none_of(only)] if only else []) + ([no_type(names)] if names else []))
    hint = f"; a list is written as JSON, or as one {word.key}=... for each item" if depth else ""
    raise UsageError(f"{word.key}: {word.shown(schema)} {fault}{hint}")


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
    if kind == "array" and not text:
        return []
    # A list may hold lists of its own kind, for ever.
    is_item = kind == "array" and depth < MAX_REFS
    return [_typed(word, items, root, depth + 1)] if is_item else _NO


def _number(text: str, whole: bool) -> Any:
    value = typed_number(text, whole)
    return _NO if value is None else value
