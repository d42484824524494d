"""The base of every model: names on the wire and exact writing."""

from __future__ import annotations

import os
import threading
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import to_jsonable_python

from mcp_sync._concurrency.fork import no_fork
from mcp_sync.types._lenient import BUILT_BY_HAND, in_plain_words

__all__ = ["WireModel", "wire_name"]

_SPECIAL_NAMES = {"meta": "_meta"}

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
        with no_fork(), _build_lock:
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
            try:
                self.__pydantic_validator__.validate_python(data, self_instance=self, context=BUILT_BY_HAND)
            except ValidationError as error:
                raise in_plain_words(error) from None
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
