"""Calls on threads of their own."""

from __future__ import annotations

import gc
import threading
import time
from typing import Any, Callable, Optional

PATIENCE = 10.0


class Background:
    """Runs a function on a thread and keeps what came of it."""

    def __init__(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        self._value: Any = None
        self._error: Optional[BaseException] = None
        self._thread = threading.Thread(target=self._run, args=(function, args, kwargs), daemon=True)
        self._thread.start()

    def _run(self, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
        try:
            self._value = function(*args, **kwargs)
        except BaseException as error:
            self._error = error

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._thread.is_alive()

    def result(self, timeout: float = PATIENCE) -> Any:
        """Return what the function returned, or raise what it raised."""
        self.join(timeout)
        if self._error is not None:
            raise self._error
        return self._value

    def error(self, timeout: float = PATIENCE) -> Optional[BaseException]:
        """Return what the function raised."""
        self.join(timeout)
        return self._error

    def join(self, timeout: float = PATIENCE) -> None:
        """Wait for the end."""
        self._thread.join(timeout)
        assert not self._thread.is_alive(), "still running"


def wait_until(condition: Callable[[], Any], timeout: float = PATIENCE) -> None:
    """Wait for what nobody signals."""
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.002)


def collected(reference: Callable[[], Any], timeout: float = PATIENCE) -> bool:
    """Whether what a weak reference refers to goes away."""
    end = time.monotonic() + timeout
    while reference() is not None and time.monotonic() < end:
        gc.collect()
        time.sleep(0.005)
    return reference() is None
