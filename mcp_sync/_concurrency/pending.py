"""One request in flight, and the thread that waits for it."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Optional

from .deadline import Deadline
from .locks import patience, take


class PendingCall:
    """A one-shot future: the first outcome wins, later ones are dropped.

    Who passes an answer on to the engine thereby settles its call: the reading thread of a channel that all
    calls share, or the thread of the call itself where that reads (HTTP), which then needs no waking.
    ``settle`` and ``fail`` may be called from any thread and say whether they won. The thread that
    made the call waits in `wait`; a thread that reads on its behalf registers with `attach` how it
    is woken when the outcome comes from elsewhere (cancelled, closed).

    Attributes:
        id: The JSON-RPC id of the request.
        method: The method of the request, for messages of errors.
        deadline: When the call has to end.
        began: When it was made, by the clock of ``time.monotonic``.
        request_sent: ``False`` until a byte of the request may have left, then ``True``.
        progress: Takes the params of a progress notification, and this call if it came on the call's own
            stream; ``None`` if nobody asked.
        resumes: Whether it goes on with an earlier call, whose id is not known: any response is its own.
        on_event_id: Takes the id of each event on its own stream; ``None`` if nobody asked.
        on_notification: Takes each notification that comes for it, on the thread that reads; ``None`` if
            nobody asked.
    """

    __slots__ = (
        "__weakref__",
        "_abort",
        "_answered",
        "_latch",
        "_outcomes",
        "began",
        "deadline",
        "id",
        "method",
        "on_event_id",
        "on_notification",
        "progress",
        "request_sent",
        "resumes",
    )

    def __init__(self, id: int, method: str, deadline: Deadline) -> None:
        self.id = id
        self.method = method
        self.deadline = deadline
        self.began = time.monotonic()
        self.request_sent = False
        self.progress: Optional[Callable[[dict[str, Any], Optional[PendingCall]], None]] = None
        self.resumes = False
        self.on_event_id: Optional[Callable[[str], None]] = None
        self.on_notification: Optional[Callable[[dict[str, Any]], None]] = None
        # The first one counts. Appending is a single step, so a signal handler may interrupt it, or settle
        # the call itself, at any moment.
        self._outcomes: list[tuple[Optional[dict[str, Any]], Optional[BaseException]]] = []
        self._abort: Optional[Callable[[], None]] = None
        self._answered: Optional[Callable[[], None]] = None
        # Free once there is an outcome.
        self._latch = threading.Lock()
        self._latch.acquire()

    @property
    def settled(self) -> bool:
        """Whether there is an outcome."""
        return bool(self._outcomes)

    def settle(self, reply: dict[str, Any]) -> bool:
        """Bring the answer, the whole JSON-RPC response; return whether it counts."""
        return self._finish(reply, None)

    def fail(self, error: BaseException) -> bool:
        """Bring an error instead of an answer; return whether it counts."""
        return self._finish(None, error)

    def _finish(self, reply: Optional[dict[str, Any]], error: Optional[BaseException]) -> bool:
        won = False
        if not self._outcomes:
            outcome = (reply, error)
            try:
                self._outcomes.append(outcome)
            finally:
                # Whatever a signal handler raises meanwhile, nobody may wait for ever.
                won = bool(self._outcomes) and self._outcomes[0] is outcome
                if won:
                    self._latch.release()
        if error is not None and self._outcomes[0][1] is not None:
            # Also the second time: a signal handler may have interrupted the first.
            abort = self._abort
            if abort is not None:
                abort()
        answered = self._answered
        if won and error is None and answered is not None:
            answered()
        return won

    def attach(self, abort: Callable[[], None], answered: Optional[Callable[[], None]] = None) -> bool:
        """Set how a thread that reads for this call is woken; return ``False`` if it is too late.

        Args:
            abort: Called at an error. It must neither block nor raise, and may run after the reader is gone.
            answered: The same at an answer, which another thread may bring. It must not raise.
        """
        # In this order: whoever settles looks for them after the outcome is in, so one sees the other.
        self._answered = answered
        self._abort = abort
        if self._outcomes:
            self.detach()
            return False
        return True

    def detach(self) -> None:
        """Forget what `attach` set."""
        self._abort = self._answered = None

    def wait(self, deadline: Optional[Deadline] = None) -> bool:
        """Block until there is an outcome or ``deadline`` (default: the call's own) has passed.

        Returns:
            Whether there is an outcome.
        """
        deadline = deadline or self.deadline
        latch = self._latch
        while not self.settled:
            left = deadline.remaining()
            if left == 0.0:
                return self.settled
            got: list[bool] = []
            try:
                take(latch, patience(left), got)
            finally:
                if got and got[0]:
                    latch.release()
        return True

    def result(self) -> dict[str, Any]:
        """Return the answer, or raise the error, of a call that has its outcome."""
        if self._outcomes[0][1] is not None:
            raise self._outcomes[0][1]  # No name for it: a frame that knows its own error is a circle.
        assert self._outcomes[0][0] is not None
        return self._outcomes[0][0]

    def forget_outcome(self) -> None:
        """Break the circle of an error, its frames and the call, so that nothing waits for the collector."""
        self._outcomes[:] = [(None, None)]
