"""Errors that results keep whole, whatever results are serialised with.

In JSON, Celery keeps of an exception its class and its positional arguments, and whoever reads the result
gets ``class(*arguments)``: attributes would be lost (``retry_after``, ``request_sent``, ``data``, ...). So
below each class of `mcp_sync.errors` there is one of the same name here, whose arguments tell all of them::

    try:
        build.delay("June").get()
    except mcp_sync.HTTPStatusError as error:
        print(error.retry_after)

`MCPTask` raises them by itself, a task without that base raises ``keep(error)``. A process that reads results
has to import `mcp_sync.contrib.celery`, else Celery makes up a class for what it finds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional, TypeVar

from ... import errors as _plain

E = TypeVar("E", bound=BaseException)

_TAG = "$"  # a value that is none of JSON: {"$": what it is, "is": the rest}
_arguments: Any = BaseException.args


def keep(error: E) -> E:
    """Return an error as one that results keep whole: the same object, of a class of this module.

    What is no error of this library is returned as it is, and so is `InputRequired`, which is none to report.
    """
    kind = type(error)
    if kind is _named(kind.__name__):
        error.__class__ = _kept(kind)
    return error


def __getattr__(name: str) -> Any:
    kind = _named(name)
    if kind is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _kept(kind)


def _named(name: str) -> Optional[type[Any]]:
    """Return the class of this library that results may name so."""
    if name == "ConfigError":
        from ...config import ConfigError

        return ConfigError
    found = getattr(_plain, name) if name in _plain.__all__ else None
    return found if isinstance(found, type) and found is not _plain.InputRequired else None


def _kept(kind: type[Any]) -> Any:
    found = globals().get(kind.__name__)
    if found is None:
        about = {"__module__": __name__, "__doc__": kind.__doc__}
        found = globals().setdefault(kind.__name__, type(kind.__name__, (_Kept, kind), about))
    return found


class _Kept(_plain.MCPError):
    """What the classes of this module have in common.

    Args:
        args: The arguments of the error, and last a mapping of its attributes.
    """

    def __init__(self, *args: Any) -> None:
        *own, attributes = args
        _arguments.__set__(self, tuple(own))
        self.__dict__.update({name: _read(value) for name, value in attributes.items()})

    @property
    def args(self) -> Any:  # type: ignore[override]
        """What Celery keeps."""
        shown = {name: _written(value) for name, value in self.__dict__.items() if not name.startswith("_")}
        return (*_arguments.__get__(self), shown)

    def __reduce__(self) -> tuple[Any, ...]:
        rebuild, (kind, _, attributes) = super().__reduce__()
        # Pickles keep everything of the error by themselves.
        return rebuild, (kind.__bases__[1], _arguments.__get__(self), attributes)


def _written(value: Any) -> Any:
    """Return a value of which JSON keeps everything; ``None`` for what cannot be kept."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        items = [_written(each) for each in value]
        return items if isinstance(value, list) else {_TAG: "tuple", "is": items}
    if isinstance(value, Mapping):
        found = {str(name): _written(each) for name, each in value.items()}
        return {_TAG: "dict", "is": found} if _TAG in found else found
    to_wire = getattr(value, "to_wire", None)
    return None if to_wire is None else {_TAG: type(value).__name__, "is": to_wire()}


def _read(value: Any) -> Any:
    if isinstance(value, list):
        return [_read(each) for each in value]
    if not isinstance(value, dict):
        return value
    kind = value.get(_TAG, "dict")
    inner = value["is"] if _TAG in value else value
    if kind == "tuple":
        return tuple(_read(each) for each in inner)
    if kind == "dict":
        return {name: _read(each) for name, each in inner.items()}
    return _model(kind, inner)


def _model(name: str, wire: Any) -> Any:
    """Return a model of `mcp_sync.types`; results can name no other class."""
    from ... import types

    model = getattr(types, name) if name in types.__all__ else None
    validate = getattr(model, "model_validate", None)
    return wire if validate is None else validate(wire)
