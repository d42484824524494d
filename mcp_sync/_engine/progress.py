"""The progress of one call, on its way to the user's callback."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Mapping
from typing import Any, Optional

from .._concurrency.deadline import Deadline
from .._concurrency.pending import PendingCall
from ..handlers import ProgressCallback
from .router import Router

logger = logging.getLogger("mcp_sync.session")


class DirectSink:
    """A progress callback of our own, which runs on the thread that reads. It must not block there."""

    def __call__(self, progress: float, total: Optional[float], message: Optional[str]) -> None:
        """Take a report."""
        raise NotImplementedError

    def wait_for_room(self, call: PendingCall) -> None:
        """Have a caller that reads its own response alone wait until this can take a report."""
        raise NotImplementedError


class ProgressSink:
    """Takes the progress of one call to the user's callback.

    Attributes:
        inline: What waits for delivery by the caller itself, where the caller is the callback worker
            (which cannot run anything else meanwhile); ``None`` otherwise.
    """

    def __init__(self, callback: ProgressCallback, call: PendingCall, router: Router) -> None:
        self._callback = callback
        self._method = call.method
        self._worker = router.worker
        self._caller = threading.get_ident()
        self._queued = False
        self.inline: Optional[deque[tuple[Any, ...]]] = deque() if self._worker.is_worker() else None

    def __call__(self, params: Mapping[str, Any], own: Optional[PendingCall]) -> None:
        amount, text = number_of(params.get("progress")), params.get("message")
        if amount is None:
            logger.debug("Ignored progress without a number")
            return
        values = (amount, number_of(params.get("total")), text if isinstance(text, str) else None)
        # A caller that reads its own response alone is free to run callbacks and to wait for room.
        by_caller = own is not None and threading.get_ident() == self._caller
        if isinstance(self._callback, DirectSink):
            if own is not None and by_caller:
                self._callback.wait_for_room(own)
            self._callback(*values)
            return
        if self.inline is None:
            self._queued = True
            self._worker.submit(self._callback, *values, wait=own if by_caller else None, urgent=True)
            return
        self.inline.append(values)
        if by_caller:
            self.deliver_inline()

    def deliver_inline(self) -> None:
        """Run the callback for what has come, on the calling thread."""
        while self.inline:
            try:
                self._callback(*self.inline.popleft())
            except BaseException:  # As the worker has it: this is its thread.
                logger.exception("A progress callback failed")

    def drain(self, deadline: Deadline, patience: Optional[float]) -> None:
        """Wait until the callback has seen everything, within the call's deadline."""
        if self._queued and not self._worker.drain(deadline, patience):
            logger.warning("%s returns although progress callbacks still run", self._method)


def number_of(value: Any) -> Optional[float]:
    """Return an amount of progress, ``None`` if it is none."""
    # As JSON has it: a boolean is no number.
    if type(value) not in (int, float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None
