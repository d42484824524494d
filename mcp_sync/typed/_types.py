"""From JSON Schema to the types of Python: expressions, and classes of `TypedDict` for objects."""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Mapping
from typing import Any

from ._names import class_name
from ._schema import Reader, properties_of, required_of
from ._text import docstring, literal

_PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
# What annotations in a generated module are made of.
USED_NAMES = frozenset({"t", "te", *_PLAIN.values()})
_LONGEST = 1500
_MANY = 200
_DEEP = 30
_LARGEST = 2**63


class Types:
    """Writes the types of one module.

    Args:
        taken: Names that no class may have.
        flat: Make no classes; an object is a plain dict.
    """

    def __init__(self, taken: Iterable[str] = (), flat: bool = False) -> None:
        self.classes: list[str] = []
        self._taken = set(taken)
        # The last number behind each name.
        self._numbers: dict[str, int] = {}
        self._flat = flat

    def unique(self, name: str) -> str:
        """Return a name of the module that is not taken yet, and take it."""
        number, found = self._numbers.get(name, 1), name
        while found in self._taken:
            number += 1
            found = f"{name}{number}"
        self._numbers[name] = number
        self._taken.add(found)
        return found

    def of(self, schema: Any, root: Any, words: tuple[str, ...], gives: bool) -> str:
        """Return the type of a schema.

        Args:
            schema: The schema.
            root: What its references point into.
            words: What its classes are named after.
            gives: The value is given to the server, not got from it.
        """
        return _Writing(self, root, words, gives, self._flat).type(schema, words)


class _Writing:
    """The types of one schema."""

    def __init__(self, types: Types, root: Any, words: tuple[str, ...], gives: bool, flat: bool) -> None:
        self._types = types
        self._reader = Reader(root)
        self._prefix = words[:1]
        self._gives = gives
        self._flat = flat
        # The types of references; those that are being written are classes, or not known yet.
        self._known: dict[str, str] = {}
        # The references within which the one of now stands.
        self._active: set[str] = set()
        self._depth = 0

    def type(self, schema: Any, words: tuple[str, ...]) -> str:
        """Return the type of a schema as an expression."""
        if not isinstance(schema, Mapping) or self._depth > _DEEP:
            return "t.Any"
        self._depth += 1
        try:
            found = self._referred(schema) if set(schema) <= _BESIDE_REF else self._type(schema, words)
        finally:
            self._depth -= 1
        return found if len(found) < _LONGEST else "t.Any"

    def _referred(self, schema: Mapping[str, Any]) -> str:
        ref = str(schema.get("$ref"))
        if "$ref" not in schema:
            return "t.Any"
        if ref not in self._known:
            self._known[ref] = "t.Any"
            words = (*self._prefix, ref.rsplit("/", 1)[-1])
            plain = self._reader.plain({"$ref": ref})
            if self._is_record(plain):
                self._known[ref] = self._types.unique(class_name(words))
                self._record(plain, words, self._known[ref])
            else:
                self._known[ref] = self._type(plain, words)
        return self._known[ref]

    def _is_record(self, plain: Mapping[str, Any]) -> bool:
        is_object = plain.get("type", "object") == "object"
        is_choice = any(plain.get(key) for key in ("anyOf", "oneOf", "enum")) or "const" in plain
        is_open = self._gives and _more_allowed(plain)
        return is_object and bool(properties_of(plain)) and not (is_choice or is_open or self._flat)

    def _type(self, schema: Mapping[str, Any], words: tuple[str, ...]) -> str:
        plain = self._reader.plain(schema)
        followed = self._reader.followed
        if followed & self._active:
            # It holds itself, each time with something beside it: there is no name for that.
            return "t.Any"
        self._active |= followed
        try:
            found = self._not_null(plain, words)
        finally:
            self._active -= followed
        return union([found, "None"]) if plain.get("nullable") is True else found

    def _not_null(self, plain: Mapping[str, Any], words: tuple[str, ...]) -> str:
        if "const" in plain:
            return _literals([plain["const"]])
        if isinstance(plain.get("enum"), list):
            return _literals(plain["enum"])
        variants = self._reader.variants(plain)
        if variants is not None:
            if len(variants) > _MANY:
                return "t.Any"
            return union([self.type(each, words) for each in variants])
        kinds = plain.get("type")
        if isinstance(kinds, list):
            return union([self._kind(kind, plain, words) for kind in kinds[:_MANY]])
        if kinds is None:
            kinds = "object" if properties_of(plain) else "array" if "items" in plain else None
        return self._kind(kinds, plain, words)

    def _kind(self, kind: Any, plain: Mapping[str, Any], words: tuple[str, ...]) -> str:
        if kind == "array":
            items = plain.get("items")
            if plain.get("prefixItems") or isinstance(items, list):
                return "t.List[t.Any]"
            return f"t.List[{self.type(items, (*words, 'item'))}]"
        if kind == "object":
            return self._object(plain, words)
        return _PLAIN.get(kind, "t.Any") if isinstance(kind, str) else "t.Any"

    def _object(self, plain: Mapping[str, Any], words: tuple[str, ...]) -> str:
        if self._is_record({**plain, "type": "object"}):
            name = self._types.unique(class_name(words))
            self._record(plain, words, name)
            return name
        values = plain.get("additionalProperties")
        if properties_of(plain) or plain.get("patternProperties") or not isinstance(values, Mapping):
            return "t.Dict[str, t.Any]"
        return f"t.Dict[str, {self.type(values, (*words, 'value'))}]"

    def _record(self, plain: Mapping[str, Any], words: tuple[str, ...], name: str) -> None:
        required = set(required_of(plain))
        fields = {}
        for key, schema in properties_of(plain).items():
            found = self.type(schema, (*words, key))
            fields[key] = (found, key in required)
        about = plain.get("description")
        text = docstring(about, "    ") if isinstance(about, str) else ""
        write = _class if all(map(_is_plain_field, fields)) else _call
        self._types.classes.append(write(name, fields, text))


# A schema with nothing but these is the schema that it refers to.
_BESIDE_REF = frozenset({"$ref", "title", "description", "default", "examples"})

Fields = Mapping[str, "tuple[str, bool]"]


def _more_allowed(plain: Mapping[str, Any]) -> bool:
    more = plain.get("additionalProperties")
    return more is True or isinstance(more, Mapping) or bool(plain.get("patternProperties"))


def _is_plain_field(key: str) -> bool:
    # A field hides a name that the annotations of its class use; all our classes begin with a capital.
    is_word = key.isascii() and key.isidentifier() and not keyword.iskeyword(key)
    return is_word and key[0].islower() and key not in USED_NAMES


def _class(name: str, fields: Fields, text: str) -> str:
    lines = [f"class {name}(te.TypedDict):\n", text, "\n" if text else ""]
    for key, (found, required) in fields.items():
        lines.append(f"    {key}: {found if required else f'te.NotRequired[{found}]'}\n")
    return "".join(lines)


def _call(name: str, fields: Fields, text: str) -> str:
    lines = [f"{name} = te.TypedDict(\n    {literal(name)},\n    {{\n"]
    for key, (found, required) in fields.items():
        # Quoted, because a class may stand further down.
        quoted = literal(found)
        kind = "te.Required" if required else "te.NotRequired"
        lines.append(f"        {literal(key)}: {kind}[{quoted}],\n")
    return "".join([*lines, "    },\n)\n"])


def union(parts: Iterable[str]) -> str:
    """Return the type of what has one of several types."""
    found = list(dict.fromkeys(parts))
    if not found or "t.Any" in found:
        return "t.Any"
    rest = [part for part in found if part != "None"]
    if len(rest) > _MANY:
        return "t.Any"
    joined = rest[0] if len(rest) == 1 else f"t.Union[{', '.join(rest)}]"
    if not rest:
        return "None"
    return joined if len(rest) == len(found) else f"t.Optional[{joined}]"


def _literals(values: list[Any]) -> str:
    if not values or len(values) > _MANY:
        return "t.Any"
    shown = [_literal(value) for value in values]
    if all(text is not None for text in shown):
        texts = [text for text in dict.fromkeys(shown) if text not in (None, "None")]
        parts = [f"t.Literal[{', '.join(map(str, texts))}]"] if texts else []
        return union([*parts, *(["None"] if "None" in shown else [])])
    return union([_NATIVE.get(type(value), "t.Any") for value in values])


_NATIVE = {str: "str", int: "int", float: "float", bool: "bool", type(None): "None"}


def _literal(value: Any) -> Any:
    if isinstance(value, str):
        return literal(value)
    if value is None or isinstance(value, bool) or (isinstance(value, int) and abs(value) < _LARGEST):
        return repr(value)
    return None
