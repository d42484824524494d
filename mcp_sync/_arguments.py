"""What users pass, refused at once and by name where it makes no sense."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Mapping
from typing import Any, Optional, get_args

from . import types
from .errors import UsageError

if sys.version_info >= (3, 14):
    import annotationlib


def as_dict(name: str, value: Optional[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a copy of a mapping, an empty one for ``None``.

    Raises:
        UsageError: It is something else.
    """
    if value is None:
        return {}
    # Asking an abstract class takes as long as the rest of a verb.
    if not isinstance(value, dict) and not isinstance(value, Mapping):
        raise UsageError(f"{name} must be a mapping such as a dict, not {type(value).__name__}")
    return dict(value)


def check_instance(name: str, value: Any, kind: type) -> None:
    """Refuse what is no instance of ``kind``.

    Raises:
        UsageError: It is none.
    """
    if not isinstance(value, kind):
        raise UsageError(f"{name} must be a {kind.__name__}, not {type(value).__name__}")


def check_no_class(name: str, value: Any) -> None:
    """Refuse a class where an object of it belongs: its parentheses were forgotten.

    Raises:
        UsageError: It is one.
    """
    if isinstance(value, type):
        raise UsageError(f"{name} is the class {value.__name__} itself: give {value.__name__}(...)")


def as_uri(value: Any) -> str:
    """Return a URI as a string; URL objects of other libraries are written out as they are.

    Raises:
        UsageError: It is nothing of that kind.
    """
    if not isinstance(value, str) and not hasattr(value, "scheme"):
        raise UsageError(f"a URI must be a string, not {type(value).__name__}")
    return str(value)


def check_callback(name: str, value: Any, count: Optional[int] = None) -> None:
    """Refuse what cannot be called like a plain function; ``None`` is fine.

    Args:
        name: How it is called in the error.
        value: The callback.
        count: How many arguments it will be given, if that shall be checked, too.

    Raises:
        UsageError: It is no callable, or a coroutine function, whose coroutine nobody would run, or it
            does not take so many arguments.
    """
    if value is None:
        return
    if not callable(value):
        raise UsageError(f"{name} must be a function, not {type(value).__name__}")
    if inspect.iscoroutinefunction(value) or inspect.iscoroutinefunction(value.__call__):
        raise UsageError(f"{name} must be a plain function, not one of async def")
    if count is not None and not _takes(value, count):
        raise UsageError(f"{name} is called with {count} argument{'s' * (count > 1)}, which it does not take")


def signature_of(function: Any) -> Optional[inspect.Signature]:
    """Return the signature of a function, ``None`` if it cannot be told.

    What its annotations name need not be there: often it is imported for type checkers only.
    """
    try:
        if sys.version_info >= (3, 14):
            return inspect.signature(function, annotation_format=annotationlib.Format.FORWARDREF)
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None  # Some of those that are written in C do not tell.


def _takes(function: Any, count: int) -> bool:
    """Whether a function takes so many arguments, by position; if it cannot be told, it does."""
    signature = signature_of(function)
    if signature is None:
        return True
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


def check_number(name: str, value: Any) -> None:
    """Refuse what is no number that JSON can hold.

    Raises:
        UsageError: It is none.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise UsageError(f"{name} must be a finite number, not {value!r:.80}")


def page_params(cursor: Any) -> dict[str, Any]:
    """Return the params of a request for a page of a list, the first one for ``None``.

    Raises:
        UsageError: The cursor is no string.
    """
    if cursor is None:
        return {}
    check_instance("cursor", cursor, str)
    return {"cursor": cursor}


def as_reference(ref: Any) -> Any:
    """Return what can be completed as it is sent.

    Raises:
        UsageError: It is no reference.
    """
    if isinstance(ref, Mapping) and isinstance(ref.get("type"), str):
        return dict(ref)
    if isinstance(ref, (types.PromptReference, types.ResourceTemplateReference)):
        return ref.to_wire()
    raise UsageError(
        "ref must be PromptReference(name=...), ResourceTemplateReference(uri=...), or a dict such as "
        f'{{"type": "ref/prompt", "name": ...}}, not {type(ref).__name__}'
    )


def as_completed_argument(argument: Any) -> dict[str, Any]:
    """Return the argument to complete as it is sent.

    Raises:
        UsageError: It has not its two strings.
    """
    given = as_dict("argument", argument)
    if not all(isinstance(given.get(key), str) for key in ("name", "value")):
        raise UsageError('argument must be {"name": ..., "value": ...}, both strings')
    return given


def check_level(level: Any) -> None:
    """Refuse what is no level of log messages.

    Raises:
        UsageError: It is none of those that the protocol has.
    """
    levels = get_args(types.LoggingLevel)
    if level not in levels:
        raise UsageError(f"a log level is one of {', '.join(levels)}, not {level!r}")
