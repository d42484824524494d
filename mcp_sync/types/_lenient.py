"""Lenient reading: what a peer sent is kept as far as possible, what is built in Python is checked.

All of this runs only for values that do not fit. A value that fits never leaves pydantic's compiled code.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Annotated, Any, NamedTuple, Optional, TypeVar, get_args

from pydantic import GetCoreSchemaHandler, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError, core_schema

__all__ = [
    "BUILT_BY_HAND",
    "Entries",
    "Kept",
    "KnownOr",
    "Lenient",
    "OrElse",
    "first_problem",
    "in_plain_words",
    "is_built_by_hand",
    "or_default",
    "refuse",
]

_log = logging.getLogger("mcp_sync.types")

T = TypeVar("T")

BUILT_BY_HAND: Any = {"mcp_sync": "built by hand"}
"""The validation context of models that are built in Python."""

# How the two branches of a lenient field appear in the location of an error.
_AS_DECLARED = "as declared"
_AS_RECEIVED = "as received"

_REFUSED = "refused"

# A list with more entries of no use is no list of what it should be.
_MOST_DROPPED = 10_000
_MOST_NAMED = 3
_LONGEST_REASON = 200
# pydantic 2.7 does not know it, and lists what is wrong with each of a million entries.
_FAIL_FAST: Any = {"fail_fast": True} if "fail_fast" in core_schema.ListSchema.__annotations__ else {}


def is_built_by_hand(info: core_schema.ValidationInfo) -> bool:
    """Tell whether the model is being built in Python, so that nothing may be bent into shape."""
    return info.context is BUILT_BY_HAND


def refuse() -> PydanticCustomError:
    """Make the error of a fallback that does not apply; it is never shown beside the real one."""
    return PydanticCustomError(_REFUSED, "The value does not have the type of this field")


def _either(declared: core_schema.CoreSchema, received: core_schema.CoreSchema) -> core_schema.CoreSchema:
    return core_schema.union_schema(
        [(declared, _AS_DECLARED), (received, _AS_RECEIVED)], mode="left_to_right"
    )


class OrElse:
    """Field annotation: hand a value that does not fit to `otherwise(value, info)`."""

    def __init__(self, otherwise: Callable[[Any, core_schema.ValidationInfo], Any]) -> None:
        self._otherwise = otherwise

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        otherwise = core_schema.with_info_before_validator_function(self._otherwise, core_schema.any_schema())
        return _either(handler(source), otherwise)


def _keep(value: Any, info: core_schema.ValidationInfo) -> Any:
    if is_built_by_hand(info):
        raise refuse()
    return value


_KEEP = OrElse(_keep)

Kept = Annotated[T, _KEEP]
"""A descriptive field: a received value of another type stays as it is instead of failing the model."""

Lenient = Annotated[Optional[T], _KEEP]
"""The same for an optional field."""


def or_default(factory: Callable[[], Any]) -> OrElse:
    """Field annotation: a peer may leave out this field, a model built by hand must have it.

    Goes with `Field(default=None, validate_default=True)`, which makes the missing field come here.
    """

    def default(value: Any, info: core_schema.ValidationInfo) -> Any:
        if not is_built_by_hand(info):
            return factory() if value is None else value
        if value is None:
            raise PydanticCustomError("missing", "Field required")
        raise refuse()

    return OrElse(default)


class KnownOr:
    """Annotation of a union: known kinds, told apart by a constant field, and last a raw kind for the rest.

    Args:
        field: The constant field. Built by hand, a dict that names a known kind has to fit it.
    """

    def __init__(self, field: str) -> None:
        self._field = field

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        *known, raw = get_args(source)
        kinds = {kind.model_fields[self._field].default: handler.generate_schema(kind) for kind in known}

        def received_only(value: Any, info: core_schema.ValidationInfo) -> Any:
            if is_built_by_hand(info) and isinstance(value, dict) and value.get(self._field) in kinds:
                raise refuse()
            return value

        rest = core_schema.with_info_before_validator_function(received_only, handler.generate_schema(raw))
        return _either(core_schema.tagged_union_schema(kinds, self._field), rest)


class Entries:
    """Field annotation of a list: drop the entries that cannot be used, with one warning for all of them.

    A list with more than 10,000 of them does not fit.

    Args:
        noun: What an entry is, for the warning.
    """

    def __init__(self, noun: str) -> None:
        self._noun = noun

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        entries: Any = handler(source)
        usable = core_schema.with_info_wrap_validator_function(self._drop_unusable, entries)
        return _either({**entries, **_FAIL_FAST}, usable)

    def _drop_unusable(
        self,
        value: Any,
        handler: core_schema.ValidatorFunctionWrapHandler,
        info: core_schema.ValidationInfo,
    ) -> Any:
        if is_built_by_hand(info) or not isinstance(value, list):
            return handler(value)
        usable: list[Any] = []
        dropped = 0
        named: list[str] = []
        for index, entry in enumerate(value):
            try:
                usable += handler([entry])
            except ValidationError as error:
                dropped += 1
                if dropped > _MOST_DROPPED:
                    raise refuse() from None
                if len(named) < _MOST_NAMED:
                    named.append(f"{index}{_label(entry)}: {_reason(error)}")
        self._warn(dropped, len(value), named)
        return usable

    def _warn(self, dropped: int, count: int, named: list[str]) -> None:
        if dropped == 1:
            _log.warning("dropped %s %s", self._noun, named[0])
        elif dropped:
            more = "; ..." if dropped > len(named) else ""
            _log.warning("dropped %d of %d %ss: %s%s", dropped, count, self._noun, "; ".join(named), more)


def _reason(error: ValidationError) -> str:
    problem = _problems(error)[0]
    return _sentence(problem.path[1:], problem.message)[:_LONGEST_REASON]


def _label(entry: Any) -> str:
    if isinstance(entry, dict):
        for key in ("name", "title", "uri", "uriTemplate", "type", "description"):
            text = entry.get(key)
            if isinstance(text, str) and text:
                return f" ({key} {text[:80]!r})"
    return ""


class _Problem(NamedTuple):
    path: tuple[int | str, ...]
    message: str
    kind: str
    given: Any


def _problems(error: ValidationError) -> list[_Problem]:
    """List what is wrong, without the branches and doubles that lenient reading brings about."""
    problems: dict[tuple[Any, ...], _Problem] = {}
    overruled: set[tuple[int | str, ...]] = set()
    for detail in error.errors(include_url=False, include_context=False):
        path = tuple(part for part in detail["loc"] if part not in (_AS_DECLARED, _AS_RECEIVED))
        if detail["type"] == _REFUSED:
            continue
        if detail["type"] == "missing" and detail["loc"][-1] == _AS_RECEIVED:
            overruled.add(path)
        problem = _Problem(path, detail["msg"], detail["type"], detail["input"])
        problems.setdefault((path, problem.kind), problem)
    return [p for p in problems.values() if p.path not in overruled or p.kind == "missing"]


def _sentence(path: Iterable[int | str], message: str) -> str:
    where = ".".join(map(str, path))
    return f"{where}: {message}" if where else message


def first_problem(error: ValidationError) -> str:
    """Say in one line what is wrong first, and where."""
    problem = _problems(error)[0]
    return _sentence(problem.path, problem.message)


def in_plain_words(error: ValidationError) -> ValidationError:
    """Return the error without the fallbacks of lenient reading, which mean nothing to a user."""
    lines = [
        InitErrorDetails(type=PydanticCustomError(p.kind, p.message), loc=p.path, input=p.given)
        for p in _problems(error)
    ]
    return ValidationError.from_exception_data(error.title, lines)
