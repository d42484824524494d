"""What is done for a request before it can go on: whose time it takes, and who may end it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Optional

from .._concurrency.deadline import Deadline
from ..errors import CallTimeout, ConnectionLost

_SLICE = 0.05  # seconds between two looks at whether anybody still waits
_here = threading.local()


class Errand:
    """The time and the cancelling of what has to be done for a request.

    Args:
        exchange: The exchange of the request, which has a ``deadline`` and says when it was ``aborted``;
            ``None`` where there is none.
        options: How the request itself is sent (``verify``, ``proxies``, ``cert``), as far as that is known:
            what else is asked of the same server is sent likewise.
        deadline: How long it may take, where there is no exchange.

    Attributes:
        exchange: The same.
        deadline: When the request has to be done.
        options: The same.
    """

    def __init__(
        self,
        exchange: Any = None,
        options: Optional[Mapping[str, Any]] = None,
        deadline: Optional[Deadline] = None,
    ) -> None:
        self.exchange = exchange
        self.options = options or {}
        self.deadline: Deadline = exchange.deadline if exchange is not None else deadline or Deadline(None)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Hold the clock of the request: that it is silent meanwhile is not the server's fault."""
        self.deadline.hold()
        try:
            yield
        finally:
            self.deadline.release()

    @contextmanager
    def here(self) -> Iterator[None]:
        """Have it count for all that this thread waits for in the block: see `errand_here`."""
        before = getattr(_here, "errand", None)
        _here.errand = self
        try:
            yield
        finally:
            _here.errand = before

    def part(self, seconds: float) -> Errand:
        """Return an errand for the same request that may take less time: at most ``seconds`` from now."""
        part = Errand(self.exchange, self.options, self.deadline)
        part.deadline = self.deadline.beside(seconds)
        return part

    def within(self, seconds: float) -> Deadline:
        """Return the deadline of one thing that is to be done: at most ``seconds`` from now."""
        return self.deadline.beside(seconds)

    def check(self, deadline: Deadline, doing: str) -> None:
        """Raise if it makes no sense to go on.

        Raises:
            CallTimeout: The time is over.
            ConnectionLost: The request was cancelled, or the client closed.
        """
        if self.exchange is not None and self.exchange.aborted:
            raise ConnectionLost(f"{doing}: given up on this side", request_sent=False)
        for bound in (self.deadline, deadline):
            if bound.expired:
                text = f"{doing}: not within {bound.reached or 0:g} s"
                raise CallTimeout(text, timeout=bound.reached, request_sent=False)

    def see_through(self) -> None:
        """Say that from here on it has to be done to its end, whoever gives up; counts for `_work.Work`."""

    def pause(self, seconds: float, deadline: Deadline, doing: str) -> None:
        """Wait.

        Raises:
            CallTimeout, ConnectionLost: See `check`.
        """
        end = Deadline(seconds)
        while True:
            self.check(deadline, doing)
            left = end.remaining() or 0.0
            if left == 0.0:
                return
            bound = deadline.remaining()
            time.sleep(min(left, _SLICE if bound is None else min(_SLICE, bound)))


def errand_here() -> Errand:
    """Return the errand that this thread is on; one without bounds, if nobody has said.

    The methods of a store know no deadline. So the stores of this package ask how long they may wait.
    """
    return getattr(_here, "errand", None) or Errand()
