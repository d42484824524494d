"""Arguments against the input schema of their tool: what is wrong is told in one line, without secrets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .._concurrency.fork import no_fork
from .._masking import hides, without_credentials
from .._protocol.brief import excerpt
from .._protocol.visible import clean
from ..errors import UsageError
from .schemas import KINDS, alternatives, guessed, kinds

_LONGEST = 60
_LONGEST_RULE = 120


def check_arguments(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """Refuse arguments that do not match. A schema that cannot be used, or costs too much, refuses nothing.

    Args:
        arguments: Decoded JSON.
        schema: The input schema of the tool.

    Raises:
        UsageError: They do not. It names the field, and what the schema wants there.
    """
    with no_fork():
        from .._protocol.schemas import Schema
    error = Schema(dict(schema)).certain_error(arguments)
    if error is not None:
        raise UsageError(clean(_told(error, schema)).replace("\n", " "))


def _told(error: Any, root: Mapping[str, Any]) -> str:
    path, rule, wanted = list(error.absolute_path), error.validator, error.validator_value
    if rule == "required" and isinstance(wanted, list):
        return f"{_before(path)}{_missing(wanted, error.instance, error.schema)}"
    if rule == "additionalProperties" and wanted is False and "patternProperties" not in error.schema:
        known = error.schema.get("properties", {})
        name = next(each for each in error.instance if each not in known)
        return f"{place([*path, name])}: {no_such(name, known)}"
    if rule is None:
        # The schema is ``false``; jsonschema does not tell of which argument.
        return f"{_before(path)}a value is not wanted there"
    shown = shown_value(path, error.instance, error.schema)
    return f"{place(path) or 'the arguments'}: {shown} {_fault(rule, wanted, error.instance, root)}"


def _missing(wanted: Sequence[str], value: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    missing = [name for name in wanted if name not in value]
    others = [name for name in value if name not in schema.get("properties", {})]
    misspelt = next((f"; did you mean it by {each}?" for each in others if guessed(each, missing)), "")
    return f"missing: {', '.join(missing)}{misspelt}"


def _before(path: Sequence[Any]) -> str:
    return f"{place(path)}: " if path else ""


def _fault(rule: str, wanted: Any, value: Any, root: Mapping[str, Any]) -> str:
    if rule == "enum" and isinstance(wanted, list):
        return none_of(wanted)
    if rule == "const":
        return none_of([wanted])
    if rule == "type":
        return no_type([wanted] if isinstance(wanted, str) else [str(each) for each in wanted])
    if rule in ("anyOf", "oneOf"):
        each = [kinds(found) for found in alternatives({rule: wanted}, root)]
        admitted = [kind for found in each for kind in found]
        if all(each) and not _is_one_of(value, admitted):
            return no_type(admitted)
    return f"does not match {rule} {_cut(_json(wanted), _LONGEST_RULE)}"


def _is_one_of(value: Any, admitted: Iterable[str]) -> bool:
    if isinstance(value, bool):
        return "boolean" in admitted
    return any(isinstance(value, KINDS[kind]) for kind in admitted)


def no_type(admitted: Iterable[str]) -> str:
    """Return what is wrong with a value that has none of these types."""
    return f"is not of type {' or '.join(sorted(set(admitted)))}"


def none_of(values: Iterable[Any]) -> str:
    """Return what is wrong with a value that is none of these."""
    return f"is none of {excerpt(', '.join(map(_json, values)))}"


def no_such(name: str, known: Iterable[str]) -> str:
    """Return what is wrong with a name that there is not."""
    names = list(known)
    there_are = excerpt(", ".join(names)) or "none"
    return f"no such argument{guessed(name, names) or f'; there are: {there_are}'}"


def place(path: Sequence[Any]) -> str:
    """Return how a place in the arguments is written: ``address.lines[0]``."""
    steps = [f"[{step}]" if isinstance(step, int) else f".{_cut(str(step), _LONGEST)}" for step in path]
    return "".join(steps).lstrip(".")


def shown_value(path: Sequence[Any], value: Any, schema: Any = None, *, as_typed: bool = False) -> str:
    """Return a value as an error may show it: short, and nothing of it where it may be a secret.

    Args:
        path: Where it stands.
        value: The value.
        schema: What the schema says of it.
        as_typed: Whether it is the text that was typed, and not the JSON that was made of it.
    """
    is_secret = any(hides(str(step), value) for step in path) or _is_password(schema)
    if is_secret or (isinstance(value, str) and without_credentials(value) != value):
        return "the value"
    if isinstance(value, (dict, list)):
        return "the object" if isinstance(value, dict) else "the list"
    text = repr(value) if as_typed else _json(value)
    if len(text) <= _LONGEST:
        return text
    return f"a text of {len(value)} characters" if isinstance(value, str) else "the number"


def _is_password(schema: Any) -> bool:
    says = schema if isinstance(schema, Mapping) else {}
    return says.get("writeOnly") is True or says.get("format") == "password"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."
