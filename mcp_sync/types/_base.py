"""The base of every model: names on the wire, lenient reading, exact writing."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, Optional, TypeVar

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, ValidationError
from pydantic_core import PydanticCustomError, core_schema, to_jsonable_python

__all__ = [
    "Entries",
    "Kept",
    "Lenient",
    "OrElse",
    "WireModel",
    "is_built_by_hand",
    "or_default",
    "wire_name",
]

_log = logging.getLogger("mcp_sync.types")

T = TypeVar("T")

_SPECIAL_NAMES = {"meta": "_meta"}

# The validation context of models that are built in Python. What a peer sent is
# validated without it, and only then is the lenient reading below allowed.
_BUILT_BY_HAND: Any = {"mcp_sync": "built by hand"}

# Guards the first, deferred build of a model's validator: pydantic 2.11 fails when two threads
# build at once. Nothing but pydantic runs under it.
_build_lock = threading.RLock()


def _renew_build_lock() -> None:
    global _build_lock
    _build_lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    # The thread that held the lock does not exist in the child.
    os.register_at_fork(after_in_child=_renew_build_lock)


def wire_name(name: str) -> str:
    """Return the name that a field has in JSON: `ttl_ms` is `ttlMs`, `meta` is `_meta`."""
    special = _SPECIAL_NAMES.get(name)
    if special is not None:
        return special
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


class _Shape(NamedTuple):
    """How one class maps to JSON, worked out once."""

    fields: tuple[tuple[str, str, bool], ...]  # attribute, wire name, always sent
    by_wire_name: dict[str, str]  # only the names that differ
    constants: frozenset[str]


@cache
def _shape_of(cls: type[WireModel]) -> _Shape:
    fields = []
    for name, field in cls.model_fields.items():
        # The alias generator fills in `alias` only when the validator is built.
        wire = field.serialization_alias or field.alias or wire_name(name)
        always = name in cls._always_sent and isinstance(field.default, (str, int))
        fields.append((name, wire, always))
    return _Shape(
        tuple(fields),
        {wire: name for name, wire, _ in fields if wire != name},
        frozenset(name for name, _, always in fields if always),
    )


class WireModel(BaseModel):
    """Base of all models of the protocol.

    Attributes have snake_case names; JSON has camelCase names. A model can be built with either, and
    reading or setting an attribute by its camelCase name works too. Unknown fields are kept: they are
    readable as attributes and are written again under the name they came with.

    Models that a peer sent are read leniently, models that are built in Python are checked in full.
    Reading from several threads is safe; changing a model is not.
    """

    model_config = ConfigDict(
        alias_generator=wire_name,
        populate_by_name=True,
        extra="allow",
        defer_build=True,
        protected_namespaces=(),
    )

    _always_sent: ClassVar[frozenset[str]] = frozenset({"type", "method", "jsonrpc", "role", "code"})
    _null_is_a_value: ClassVar[frozenset[str]] = frozenset()

    def to_wire(self) -> dict[str, Any]:
        """Return this model as a dict that is ready for `json.dumps`.

        Holds what was set or received, under the names of the wire, unknown fields included, and the
        constants that JSON needs (`type`, `method`, ...). Optional fields that were never set are left
        out, also when `None` was given for them in Python; a `null` that a peer sent is kept.
        """
        values = self.__dict__
        present = self.__pydantic_fields_set__
        wire = {
            key: _to_json(values[name])
            for name, key, always in _shape_of(type(self)).fields
            if (always or name in present) and name in values
        }
        if self.__pydantic_extra__:
            for key, value in self.__pydantic_extra__.items():
                wire[key] = _to_json(value)
        return wire

    @classmethod
    def model_rebuild(
        cls,
        *,
        force: bool = False,
        raise_errors: bool = True,
        _parent_namespace_depth: int = 2,
        _types_namespace: Any = None,
    ) -> bool | None:
        """Build the validator, one thread at a time; pydantic calls this on first use."""
        with _build_lock:
            if cls.__pydantic_complete__ and not force:
                return None
            return super().model_rebuild(
                force=force,
                raise_errors=raise_errors,
                _parent_namespace_depth=_parent_namespace_depth + 1,
                _types_namespace=_types_namespace,
            )

    if not TYPE_CHECKING:
        # Hidden from type checkers, which would otherwise accept any attribute and any argument.

        def __init__(self, /, **data: Any) -> None:
            __tracebackhide__ = True
            self.__pydantic_validator__.validate_python(data, self_instance=self, context=_BUILT_BY_HAND)
            present = self.__pydantic_fields_set__
            present |= _shape_of(type(self)).constants
            # `title=None` in Python says "no title". On the wire a null is something else, and
            # strict peers refuse it.
            unset = [name for name in present if self.__dict__.get(name, self) is None]
            present.difference_update(name for name in unset if name not in self._null_is_a_value)

        # Without this mark pydantic would call __init__ for received models too, which
        # costs time and would treat them as built by hand.
        __init__.__pydantic_base_init__ = True

        def __getattr__(self, name: str) -> Any:
            field = _shape_of(type(self)).by_wire_name.get(name)
            return super().__getattr__(name) if field is None else getattr(self, field)

        def __setattr__(self, name: str, value: Any) -> None:
            name = _shape_of(type(self)).by_wire_name.get(name, name)
            super().__setattr__(name, value)
            if value is None and name not in self._null_is_a_value:
                self.__pydantic_fields_set__.discard(name)


_SCALARS = frozenset({str, int, float, bool, type(None)})


def _to_json(value: Any) -> Any:
    if type(value) in _SCALARS:
        return value
    if isinstance(value, WireModel):
        return value.to_wire()
    if isinstance(value, dict):
        return {key if type(key) is str else to_jsonable_python(key): _to_json(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_json(item) for item in value]
    return to_jsonable_python(value)


def is_built_by_hand(info: core_schema.ValidationInfo) -> bool:
    """Tell whether the model is being built in Python, so that nothing may be bent into shape."""
    return info.context is _BUILT_BY_HAND


class OrElse:
    """Field annotation: hand a value that does not fit to `otherwise(value, info)`.

    A value that fits never leaves pydantic's compiled code, so that leniency costs nothing where it is
    not needed.
    """

    def __init__(self, otherwise: Callable[[Any, core_schema.ValidationInfo], Any]) -> None:
        self._otherwise = otherwise

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        fallback = core_schema.with_info_before_validator_function(self._otherwise, core_schema.any_schema())
        return core_schema.union_schema([handler(source), fallback], mode="left_to_right")


def _keep(value: Any, info: core_schema.ValidationInfo) -> Any:
    if is_built_by_hand(info):
        raise PydanticCustomError("wrong_type", "The value does not have the type of this field")
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
        return _keep(value, info)

    return OrElse(default)


class Entries:
    """Field annotation of a list: drop the entries that cannot be used, each with a warning.

    Args:
        noun: What an entry is, for the warning.
    """

    def __init__(self, noun: str) -> None:
        self._noun = noun

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        entries = handler(source)
        usable = core_schema.with_info_wrap_validator_function(self._drop_unusable, entries)
        return core_schema.union_schema([entries, usable], mode="left_to_right")

    def _drop_unusable(
        self,
        value: Any,
        handler: core_schema.ValidatorFunctionWrapHandler,
        info: core_schema.ValidationInfo,
    ) -> Any:
        try:
            return handler(value)
        except ValidationError as error:
            if is_built_by_hand(info) or not isinstance(value, list):
                raise
            reasons = _reasons_by_index(error)
        for index, reason in reasons.items():
            _log.warning("dropped %s %d%s: %s", self._noun, index, _label(value[index]), reason)
        return handler([entry for index, entry in enumerate(value) if index not in reasons])


def _reasons_by_index(error: ValidationError) -> dict[int, str]:
    reasons: dict[int, str] = {}
    for detail in error.errors(include_url=False, include_context=False, include_input=False):
        index, *path = detail["loc"]
        where = ".".join(map(str, path))
        reasons.setdefault(int(index), f"{where}: {detail['msg']}" if where else detail["msg"])
    return reasons


def _label(entry: Any) -> str:
    if isinstance(entry, dict):
        for key in ("name", "title", "uri", "uriTemplate", "type", "description"):
            text = entry.get(key)
            if isinstance(text, str) and text:
                return f" ({key} {text[:80]!r})"
    return ""
