"""One answer that is kept: as an object in memory, as JSON in any other store."""

from __future__ import annotations

from typing import Any, Optional, TypeVar

from pydantic import BaseModel, ValidationError

from .._protocol import codec
from ..errors import MCPError

M = TypeVar("M", bound=BaseModel)

_VERSION = 1


class Entry:
    """An answer.

    Attributes:
        arrived: When it came, in seconds of the wall clock.
        fresh_until: When it stops being fresh.
        marks: The marks that it was fetched under: where one of them is another one now, it counts no more.
        result: The result. Nobody may change it: `owned` gives a client what is its own.
    """

    __slots__ = ("__weakref__", "arrived", "fresh_until", "marks", "result")

    def __init__(self, arrived: float, fresh_until: float, marks: tuple[str, ...], result: BaseModel) -> None:
        self.arrived = arrived
        self.fresh_until = fresh_until
        self.marks = marks
        self.result = result

    def encode(self, result: dict[str, Any]) -> bytes:
        """Return it as JSON, with the result as it came."""
        return codec.encode(
            {
                "version": _VERSION,
                "arrived": self.arrived,
                "fresh_until": self.fresh_until,
                "marks": list(self.marks),
                "result": result,
            }
        )


def entry_of(value: Any, model: type[BaseModel]) -> Optional[Entry]:
    """Return the entry that a store gave, ``None`` if it is none."""
    if isinstance(value, Entry):
        return value
    if not isinstance(value, (bytes, str)):
        return None
    try:
        kept = codec.decode(value)
        if kept["version"] != _VERSION or not all(isinstance(mark, str) for mark in kept["marks"]):
            return None
        result = model.model_validate(kept["result"])
        return Entry(float(kept["arrived"]), float(kept["fresh_until"]), tuple(kept["marks"]), result)
    except (MCPError, ValidationError, LookupError, TypeError, ValueError, OverflowError, RecursionError):
        return None


def copied(result: M) -> M:
    """Return a copy with lists and mappings of its own, but the same things in them."""
    twin = result.model_copy()
    values = twin.__dict__
    for name, value in values.items():
        kind = type(value)
        if kind is list or kind is dict:
            values[name] = value.copy()
    return twin


def owned(value: Any) -> Any:
    """Return a copy of a result that has nothing in common with it that can be changed."""
    if isinstance(value, BaseModel):
        twin = value.model_copy()
        for values in (twin.__dict__, twin.__pydantic_extra__ or {}):
            values.update({name: owned(item) for name, item in values.items() if type(item) is not str})
        return twin
    # Most of what they hold is text.
    kind = type(value)
    if kind is list:
        return [item if type(item) is str else owned(item) for item in value]
    if kind is dict:
        return {name: item if type(item) is str else owned(item) for name, item in value.items()}
    return value
