"""How a kept record is read: whoever wrote it, what comes out has the types that it promises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from ._records import Record

R = TypeVar("R", bound=Record)

# The types of the fields of each kind of record, as far as they have been needed.
_known: dict[type[Record], dict[str, Any]] = {}


def read_record(kind: type[R], value: Mapping[str, Any]) -> R:
    """Make a record of what a store held. What is not known is left out, and null is the same as nothing.

    Raises:
        TypeError: Something is missing or of another type. It names what, and shows no value.
    """
    needed = {each.name: each.default is MISSING and each.default_factory is MISSING for each in fields(kind)}
    values = {name: value.get(name) for name in needed if needed[name] or value.get(name) is not None}
    hints = _known.get(kind) or _known.setdefault(kind, get_type_hints(kind))
    wrong = [name for name, item in values.items() if not _fits(item, hints[name])]
    if wrong:
        raise TypeError(f"missing or of a wrong type: {', '.join(wrong)}")
    return kind.from_json(values)


def _fits(value: Any, hint: Any) -> bool:
    origin = get_origin(hint)
    if origin is Union:
        return any(_fits(value, each) for each in get_args(hint))
    if origin is tuple:
        return isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value)
    if hint is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, origin or hint)
