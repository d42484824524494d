"""Log messages of threads that must go on."""

from __future__ import annotations

from typing import Any, Callable


def note(log: Callable[..., None], *args: Any) -> None:
    """Write a log message, and go on if that fails: where ``sys.stderr`` is closed, logging raises."""
    try:
        log(*args)
    except Exception:
        pass
