"""The time that ``--timeout`` gives to a whole command."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Optional

from ..errors import CallTimeout

if TYPE_CHECKING:
    from ..client import Client

# How far from its end a budget counts as spent: steps are given whole milliseconds.
_MARGIN = 0.05
# What the end of a server may take when nothing is left: it is asked to end before it is killed.
_GRACE = 0.75
# From here on the bound of the library for that is the tighter one.
_AMPLE = 5.0
_WITHIN = re.compile(r" within [\d.e+-]+ s\b")


class Budget:
    """The time that is left for a whole command. Use it as a context manager.

    Args:
        seconds: All of it, ``None`` for the bounds of the library.
    """

    def __init__(self, seconds: Optional[float]) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + (seconds or 0)

    def __enter__(self) -> Budget:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        # A bound of the library may be reached before that of the command; it speaks for itself then.
        if isinstance(error, CallTimeout) and self._seconds is not None and self._left() < _MARGIN:
            # The error itself names what was left for the last step: a second number that would confuse.
            what = _WITHIN.sub("", str(error), count=1)
            text = f"not done within {self._seconds:g} s: {what}"
            raise CallTimeout(text, timeout=self._seconds, request_sent=error.request_sent) from error

    @contextmanager
    def closing(self, client: Client) -> Iterator[Client]:
        """Close a client at the end, within what is left then, or within a moment where nothing is."""
        try:
            yield client
        finally:
            if self._seconds is None or self._left() > _AMPLE:
                client.close()
            else:
                client.close(timeout=max(self._left(), _GRACE))

    def spent(self) -> bool:
        """Whether nothing is left."""
        return self._seconds is not None and self._left() <= 0

    def left(self) -> dict[str, Any]:
        """Return the ``timeout`` for the next call, as keyword arguments."""
        if self._seconds is None:
            return {}
        return {"timeout": round(max(0.0, self._left()), 3)}

    def _left(self) -> float:
        return self._end - time.monotonic()
