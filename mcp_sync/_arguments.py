"""What users pass, refused at once and by name where it makes no sense."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Optional, get_args

from .errors import UsageError
from .types import LoggingLevel


def as_dict(name: str, value: Optional[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a copy of a mapping, an empty one for ``None``.

    Raises:
        UsageError: It is something else.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
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


def check_callback(name: str, value: Any) -> None:
    """Refuse what cannot be called like a plain function; ``None`` is fine.

    Raises:
        UsageError: It is no callable, or a coroutine function, whose coroutine nobody would run.
    """
    if value is None:
        return
    if not callable(value):
        raise UsageError(f"{name} must be a function, not {type(value).__name__}")
    if inspect.iscoroutinefunction(value) or inspect.iscoroutinefunction(value.__call__):
        raise UsageError(f"{name} must be a plain function, not one of async def")


def check_level(level: Any) -> None:
    """Refuse what is no level of log messages.

    Raises:
        UsageError: It is none of those that the protocol has.
    """
    levels = get_args(LoggingLevel)
    if level not in levels:
        raise UsageError(f"a log level is one of {', '.join(levels)}, not {level!r}")
