"""The fields of an elicitation form: what each asks for, and what is wrong with an answer.

Source: specification, "Elicitation", section "Requested Schema". Beside what that admits, references within
the schema and fields that may be null are understood, which servers send that derive forms from classes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

from .._concurrency.fork import no_fork
from .form_formats import FORMATS, is_number

KINDS = ("string", "number", "integer", "boolean", "array")
_MOST_REFERENCES = 20
_MOST_SHOWN = 20

# What `FormField` checks by itself; with any other keyword in it, a schema is checked as a whole, too.
_KNOWN = {
    *("title", "description", "type", "default", "examples", "enum", "enumNames", "oneOf", "anyOf", "items"),
    *("format", "minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems"),
}


@dataclass(frozen=True)
class Choice:
    """One of the values that a field may have.

    Attributes:
        value: What is sent.
        title: What to show.
    """

    value: Any
    title: str


@dataclass(frozen=True)
class FormField:
    """One field of a form.

    Attributes:
        name: Its key in the answer.
        title: What to show as its name; the name itself if the server gave none.
        description: What else the server says about it, empty if nothing.
        type: ``"string"``, ``"number"``, ``"integer"``, ``"boolean"``, ``"array"`` (several of `choices`),
            or empty for what no form should have.
        required: Whether there must be an answer.
        default: The answer where none is given; ``None`` if there is none.
        choices: The values that are admitted, empty if any is.
        minimum: The smallest number, or ``None``.
        maximum: The largest number, or ``None``.
        min_length: The fewest characters, or ``None``.
        max_length: The most characters, or ``None``.
        min_items: The fewest choices, or ``None``.
        max_items: The most choices, or ``None``.
        pattern: A regular expression for a string, empty if there is none.
        format: ``"email"``, ``"uri"``, ``"date"``, ``"date-time"``, another word of the server's, or empty.
        nullable: Whether null is an answer.
        schema: The field's JSON Schema, with its references followed.
    """

    name: str
    title: str
    description: str = ""
    type: str = ""
    required: bool = False
    default: Any = None
    choices: tuple[Choice, ...] = ()
    minimum: Optional[float] = None
    maximum: Optional[float] = None
    min_length: Optional[float] = None
    max_length: Optional[float] = None
    min_items: Optional[float] = None
    max_items: Optional[float] = None
    pattern: str = ""
    format: str = ""
    nullable: bool = False
    schema: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def fault(self, value: Any) -> Optional[str]:
        """Say in a few words what is wrong with a value, ``None`` if nothing is."""
        if value is None:
            return None if self.nullable else "an answer is needed"
        return self._kind_fault(value) or self._range_fault(value) or self._rest_fault(value)

    def _kind_fault(self, value: Any) -> Optional[str]:
        if self.type == "array":
            if not isinstance(value, (list, tuple)):
                return "must be a list"
            return self._choice_fault(value)
        fault = _TYPE_FAULTS.get(self.type)
        if fault is not None and not _is_a(self.type, value):
            return fault
        return self._choice_fault([value])

    def _choice_fault(self, values: Sequence[Any]) -> Optional[str]:
        admitted = [each.value for each in self.choices]
        if not admitted or all(any(_same(each, value) for each in admitted) for value in values):
            return None
        shown = ", ".join(str(each.value) for each in self.choices[:_MOST_SHOWN])
        return f"choose from {shown}" + (", ..." if len(self.choices) > _MOST_SHOWN else "")

    def _range_fault(self, value: Any) -> Optional[str]:
        least: Optional[float]
        most: Optional[float]
        if isinstance(value, bool):
            return None
        if isinstance(value, str):
            size, least, most, unit = float(len(value)), self.min_length, self.max_length, " characters"
        elif isinstance(value, (list, tuple)):
            size, least, most, unit = float(len(value)), self.min_items, self.max_items, ""
        elif is_number(value):
            size, least, most, unit = value, self.minimum, self.maximum, ""
        else:
            return None
        if least is not None and size < least:
            return f"at least {least:g}{unit}"
        if most is not None and size > most:
            return f"at most {most:g}{unit}"
        return None

    def _rest_fault(self, value: Any) -> Optional[str]:
        check = FORMATS.get(self.format)
        if check is not None and isinstance(value, str) and not check[0](value):
            return check[1]
        if self.schema.keys() <= _KNOWN:
            return None
        with no_fork():
            from .schemas import Schema
        # A schema that cannot be used is the server's fault, and nothing that a person could mend.
        plain = list(value) if isinstance(value, tuple) else value
        return Schema(dict(self.schema)).certain_fault(plain)


_TYPE_FAULTS = {
    "string": "must be a text",
    "number": "must be a number",
    "integer": "must be a whole number",
    "boolean": "must be true or false",
}


def _is_a(kind: str, value: Any) -> bool:
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "string":
        return isinstance(value, str)
    return is_number(value) and (kind == "number" or isinstance(value, int) or value.is_integer())


def _same(one: Any, other: Any) -> bool:
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def read_fields(schema: Any) -> tuple[FormField, ...]:
    """Return the fields of a form, in the server's order; what is malformed counts as not being there."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return ()
    required = schema.get("required")
    needed = required if isinstance(required, list) else []
    return tuple(_field(name, each, schema, name in needed) for name, each in properties.items())


def faults_in(fields: Sequence[FormField], content: Mapping[str, Any]) -> dict[str, str]:
    """Return what is wrong with the content of an answer, by the names of the fields."""
    faults = {}
    for each in fields:
        if each.name in content:
            fault = each.fault(content[each.name])
        else:
            fault = "an answer is needed" if each.required else None
        if fault is not None:
            faults[each.name] = fault
    known = {each.name for each in fields}
    return {**faults, **{name: "the form has no such field" for name in content if name not in known}}


def _field(name: str, given: Any, root: Mapping[str, Any], required: bool) -> FormField:
    schema, nullable = _plain(given if isinstance(given, Mapping) else {}, root)
    kind, choices = schema.get("type"), _choices(schema)
    if kind is None and choices and all(isinstance(each.value, str) for each in choices):
        kind = "string"
    return FormField(
        name=name,
        title=_text(schema, "title") or name,
        description=_text(schema, "description"),
        type=kind if isinstance(kind, str) and kind in KINDS else "",
        required=required,
        default=schema.get("default"),
        choices=choices,
        minimum=_number(schema, "minimum"),
        maximum=_number(schema, "maximum"),
        min_length=_number(schema, "minLength"),
        max_length=_number(schema, "maxLength"),
        min_items=_number(schema, "minItems"),
        max_items=_number(schema, "maxItems"),
        pattern=_text(schema, "pattern"),
        format=_text(schema, "format"),
        nullable=nullable,
        schema=schema,
    )


def _text(schema: Mapping[str, Any], word: str) -> str:
    value = schema.get(word)
    return value if isinstance(value, str) else ""


def _number(schema: Mapping[str, Any], word: str) -> Optional[float]:
    value = schema.get(word)
    # Beyond that no bound means anything, and it could not be shown.
    return value if value is not None and is_number(value) and abs(value) < 1e300 else None


def _choices(schema: Mapping[str, Any]) -> tuple[Choice, ...]:
    inside = schema.get("items")
    source = inside if isinstance(inside, Mapping) else schema
    for word in ("oneOf", "anyOf"):
        titled = source.get(word)
        if isinstance(titled, list):
            options = [each for each in titled if isinstance(each, Mapping) and "const" in each]
            return tuple(Choice(each["const"], str(each.get("title", each["const"]))) for each in options)
    values = source.get("enum")
    if not isinstance(values, list):
        return ()
    names = source.get("enumNames")
    titles = names if isinstance(names, list) and len(names) == len(values) else values
    return tuple(Choice(value, str(title)) for value, title in zip(values, titles))


def _plain(schema: Mapping[str, Any], root: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Follow references, and take out that null is admitted; tell whether it is."""
    nullable = False
    plain = dict(schema)
    for _ in range(_MOST_REFERENCES):
        if isinstance(plain.get("$ref"), str):
            target = _resolve(plain.pop("$ref"), root)
            plain = {**(target if isinstance(target, Mapping) else {}), **plain}
            continue
        word = next((word for word in ("anyOf", "oneOf", "allOf") if _is_wrapper(plain.get(word))), None)
        if word is None:
            break
        alternatives = plain.pop(word)
        kept = [each for each in alternatives if each.get("type") != "null"]
        nullable = nullable or len(kept) < len(alternatives)
        plain = {**kept[0], **plain}
    kinds = plain.get("type")
    if isinstance(kinds, list):
        nullable = nullable or "null" in kinds
        rest = [kind for kind in kinds if kind != "null"]
        plain["type"] = rest[0] if len(rest) == 1 else ""
    return plain, nullable


def _is_wrapper(alternatives: Any) -> bool:
    """Whether there is only one alternative but null, and that no choice."""
    if not isinstance(alternatives, list) or not all(isinstance(each, Mapping) for each in alternatives):
        return False
    kept = [each for each in alternatives if each.get("type") != "null"]
    return len(kept) == 1 and "const" not in kept[0]


def _resolve(reference: str, root: Mapping[str, Any]) -> Any:
    found: Any = root if reference.startswith("#/") else None
    for part in reference[2:].split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def shown_default(default: Any) -> str:
    """Return a default as a person may read it."""
    return json.dumps(default, ensure_ascii=False)
