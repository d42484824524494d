"""JSON values whose ``repr`` stays short, however large they are.

jsonschema puts the ``repr`` of what does not match into the message of each error. For a value of some
megabytes that takes a while each time, and most of these messages are never read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable

LONGEST = 400
# What is shorter takes no time worth mentioning.
_LONG_TEXT = 8_192
_STEPS_TO_SHOW = 20

Spend = Callable[[int], None]


def brief(value: Any, spend: Spend) -> Any:
    """Return a value that is equal, has the same type or one derived from it, and shows the start of itself.

    What is in it is made brief when it is taken out.

    Args:
        value: Decoded JSON.
        spend: Told the steps that this takes, here and later; what it raises ends them.
    """
    kind = type(value)
    if kind is dict or kind is list:
        spend(1 + (len(value) >> 5))
        return (_Object if kind is dict else _Array)(value, spend)
    if kind is str and len(value) > _LONG_TEXT:
        spend(len(value) >> 12)
        return _Text(value)
    return value


class _Object(dict[str, Any]):
    def __init__(self, plain: dict[str, Any], spend: Spend) -> None:
        super().__init__(plain)
        self._spend = spend

    def __getitem__(self, name: str) -> Any:
        return brief(super().__getitem__(name), self._spend)

    def get(self, name: str, default: Any = None) -> Any:
        return brief(super().get(name, default), self._spend)

    def items(self) -> Any:
        return ((name, brief(value, self._spend)) for name, value in super().items())

    def values(self) -> Any:
        return (brief(value, self._spend) for value in super().values())

    def __repr__(self) -> str:
        self._spend(_STEPS_TO_SHOW)
        return excerpt("".join(_start(self)))


class _Array(list[Any]):
    def __init__(self, plain: list[Any], spend: Spend) -> None:
        super().__init__(plain)
        self._spend = spend

    def __getitem__(self, index: Any) -> Any:
        return brief(super().__getitem__(index), self._spend)

    def __iter__(self) -> Iterator[Any]:
        return (brief(value, self._spend) for value in super().__iter__())

    def __repr__(self) -> str:
        self._spend(_STEPS_TO_SHOW)
        return excerpt("".join(_start(self)))


class _Text(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return excerpt(_shown(self))


def excerpt(text: str) -> str:
    """Cut what is too long to be shown."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def _start(value: Any) -> Iterator[str]:
    """Give the ``repr`` of a value in pieces, and stop when there is more than is shown."""
    length = 0
    for piece in _pieces(value):
        yield piece
        length += len(piece)
        if length > LONGEST:
            return


def _pieces(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield "{"
        for number, (name, each) in enumerate(dict.items(value)):
            yield f"{', ' if number else ''}{_shown(name)}: "
            yield from _pieces(each)
        yield "}"
    elif isinstance(value, list):
        yield "["
        for number, each in enumerate(list.__iter__(value)):
            yield ", " if number else ""
            yield from _pieces(each)
        yield "]"
    else:
        yield _shown(value)


def _shown(value: Any) -> str:
    return repr(value[: LONGEST + 1] if isinstance(value, str) else value)
