"""Asks the user of the command line what a server wants to know (elicitation)."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from typing import Any, Callable

from .._terminal import TerminalPrompt
from ..handlers import CallbackContext
from ._progress import LiveBar


class Asker(TerminalPrompt):
    """Asks the user; as an ``elicitation_callback``, from any thread.

    Use it as a context manager inside the client's: at its end it stops to wait for input.

    Args:
        bar: The progress bar that is to be out of the way meanwhile.
        too_late: Tells when nobody waits for an answer any more.
    """

    def __init__(self, bar: LiveBar, too_late: Callable[[], bool]) -> None:
        super().__init__()
        self._bar = bar
        self._is_over = too_late
        self._stopped = threading.Event()

    def __enter__(self) -> Asker:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stopped.set()

    def room(self) -> AbstractContextManager[Any]:
        """Return what keeps the progress bar away."""
        return self._bar.paused()

    def too_late(self, context: CallbackContext) -> bool:
        """Tell whether the call, or its time, is over."""
        return self._stopped.is_set() or self._is_over()
