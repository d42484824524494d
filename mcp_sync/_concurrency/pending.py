"""One request in flight, and the thread that waits for it."""

from __future__ import annotations

import threading
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
        request_sent: ``True`` once a byte of the request may have left, unless it turns out that none has.
        progress: Takes the params of a progress notification, and this call if it came on the call's own
            stream; ``None`` if nobody asked.
        resumes: Whether it goes on with an earlier call, whose id is not known: any response is its own.
        on_event_id: Takes the id of each event on its own stream; ``None`` if nobody asked.
        on_notification: Takes each notification that comes for it, on the thread that reads; ``None`` if
            nobody asked.
        outcomes: The answer, or the error, once there is one; the first one counts. For whoever looks at each
            call: `settled` is the same in words.
    """

    # Of the class until they are set: most calls never set them.
    request_sent = False
    progress: Optional[Callable[[dict[str, Any], Optional[PendingCall]], None]] = None
    resumes = False
    on_event_id: Optional[Callable[[str], None]] = None
    on_notification: Optional[Callable[[dict[str, Any]], None]] = None
    _abort: Optional[Callable[[], None]] = None
    _answered: Optional[Callable[[], None]] = None
    # Made by whoever has to wait; free once there is an outcome.
    _latch: Optional[threading.Lock] = None

    def __init__(self, id: int, method: str, deadline: Deadline) -> None:
        self.id = id
        self.method = method
        self.deadline = deadline
        # Appending is a single step, so a signal handler may interrupt it, or settle the call itself, at any
        # moment.
        self.outcomes: list[tuple[Optional[dict[str, Any]], Optional[BaseException]]] = []

    @property
    def settled(self) -> bool:
        """Whether there is an outcome."""
        return bool(self.outcomes)

    def fail(self, error: BaseException) -> bool:
        """Bring an error instead of an answer; return whether it counts."""
        return self.settle(None, error)

    def settle(self, reply: Optional[dict[str, Any]], error: Optional[BaseException] = None) -> bool:
        """Bring the answer, the whole JSON-RPC response, or an error; return whether it counts."""
        outcome, outcomes, won = (reply, error), self.outcomes, False
        if not outcomes:
            try:
                outcomes.append(outcome)
            finally:
                # Whatever a signal handler raises meanwhile, nobody may wait for ever.
                if outcomes and outcomes[0] is outcome:
                    won = True
                    # Looked for after the outcome is in, as `wait` looks for that after it has made it.
                    latch = self._latch
                    if latch is not None:
                        latch.release()
        if error is None:
            answered = self._answered
            if won and answered is not None:
                answered()
        elif outcomes[0][1] is not None:
            # Also the second time: a signal handler may have interrupted the first.
            abort = self._abort
            if abort is not None:
                abort()
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
        if self.outcomes:
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
        latch = self._latch or self._closed_latch()
        while not self.outcomes:
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

    def _closed_latch(self) -> threading.Lock:
        new = threading.Lock()
        new.acquire()
        latch: threading.Lock = self.__dict__.setdefault("_latch", new)
        return latch

    def result(self) -> dict[str, Any]:
        """Return the answer, or raise the error, of a call that has its outcome."""
        reply = self.outcomes[0][0]
        if reply is None:
            assert self.outcomes[0][1] is not None
            raise self.outcomes[0][1]  # No name for it: a frame that knows its own error is a circle.
        return reply

    def forget_outcome(self) -> None:
        """Break the circle of an error, its frames and the call, so that nothing waits for the collector."""
        self.outcomes[:] = [(None, None)]
