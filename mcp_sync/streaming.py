"""The progress of one call of a tool as something to iterate over: what ``client.stream_tool`` returns."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from concurrent import futures
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

from ._concurrency.bell import Bell
from ._concurrency.deadline import Deadline
from ._concurrency.fork import no_fork
from ._concurrency.pending import PendingCall
from ._engine.progress import DirectSink
from .errors import CallTimeout
from .futures import CallFuture, submit
from .options import check_seconds

if TYPE_CHECKING:
    from . import types

# How many reports of progress may wait to be consumed.
QUEUE = 1000
# How often a thread that waits for room looks whether its call still goes on, in seconds.
_LOOK = 0.02
_FOREVER = Deadline(None)


class Progress(NamedTuple):
    """A report of progress.

    Attributes:
        progress: How far it is; grows with each report.
        total: How far it has to go, ``None`` if that is not known.
        message: What is being done.
    """

    progress: float
    total: Optional[float] = None
    message: Optional[str] = None

    def _repr_html_(self) -> str:
        """Return a bar for a notebook."""
        with no_fork():
            from .types._html import progress_html
        return progress_html(self.progress, self.total, self.message)


class _Queue(DirectSink):
    """The reports on their way from the thread that reads to the one that consumes."""

    def __init__(self) -> None:
        self.reports: deque[Progress] = deque()
        self.dropped = 0
        self.news = Bell()
        self._room = Bell()
        self._is_wanted = True
        # Guards `dropped` and the adding of reports. Nobody waits under it.
        self._lock = threading.RLock()

    def __call__(self, progress: float, total: Optional[float], message: Optional[str]) -> None:
        """Add a report; where the queue is full, the oldest one makes room."""
        with self._lock:
            if not self._is_wanted:
                return
            if len(self.reports) >= QUEUE:
                self.reports.popleft()
                self.dropped += 1
            self.reports.append(Progress(progress, total, message))
        self.news.ring()

    def wait_for_room(self, call: PendingCall) -> None:
        """Wait until a report can be added, or the call has ended."""
        if self._has_room():
            return
        call.deadline.hold()  # It is not the server that is silent.
        try:
            while not (call.settled or call.deadline.expired):
                if self._room.wait(self._has_room, call.deadline.within(_LOOK)):
                    return
        finally:
            call.deadline.release()

    def _has_room(self) -> bool:
        return len(self.reports) < QUEUE or not self._is_wanted

    def take(self) -> Optional[Progress]:
        """Return what waits longest."""
        try:
            report = self.reports.popleft()
        except IndexError:
            return None
        self._room.ring()
        return report

    def refuse(self) -> None:
        """Take no more reports, and forget those that wait."""
        self._is_wanted = False
        self.reports.clear()
        self._room.ring()

    def ring(self, future: futures.Future[Any]) -> None:
        """Have the consumer see that the call has ended."""
        self.news.ring()


class ToolStream:
    """A running call of a tool: an iterator over its `Progress`, and then its `result`.

    For one consumer. Use it in a ``with``: leaving that early cancels the call, as `close` does, and as it
    happens to a stream that is forgotten.

    Attributes:
        future: The call, as ``client.submit`` returns it.
    """

    def __init__(self, client: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._queue = _Queue()
        self.future: CallFuture[types.CallToolResult] = submit(
            client, client.call_tool, args, {**kwargs, "progress_callback": self._queue}
        )
        self.future.add_done_callback(self._queue.ring)
        self._forgotten = weakref.finalize(self, _abandon, self._queue, self.future)
        self._forgotten.atexit = False

    def __enter__(self) -> ToolStream:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __iter__(self) -> ToolStream:
        return self

    def __next__(self) -> Progress:
        """Return the next report; wait for it.

        Raises:
            StopIteration: The call has ended, one way or another: `result` tells which.
        """
        while True:
            # In this order: all reports are in before the call ends.
            is_over = self.future.done()
            report = self._queue.take()
            if report is not None:
                return report
            if is_over:
                raise StopIteration
            self._queue.news.wait(self._has_news, _FOREVER)

    def _has_news(self) -> bool:
        return bool(self._queue.reports) or self.future.done()

    @property
    def dropped(self) -> int:
        """How many reports were dropped because they were not consumed in time."""
        return self._queue.dropped

    def result(self, timeout: Optional[float] = None) -> types.CallToolResult:
        """Return the result of the call; wait for it. Reports that were not consumed are forgotten.

        Args:
            timeout: Seconds to wait; the call goes on after that. Default: as long as the call may take.

        Raises:
            CallTimeout: It has not ended by then.
            concurrent.futures.CancelledError: The stream was closed before the call had ended.
            MCPError: What ``call_tool`` raises.
        """
        check_seconds("timeout", timeout)
        self._queue.refuse()
        futures.wait([self.future], timeout)
        if not self.future.done():
            raise CallTimeout(f"the tool did not end within {timeout:g} s", timeout=timeout)
        return self.future.result()

    def close(self) -> None:
        """Cancel the call, unless it has ended. Idempotent, from any thread; does not block."""
        # In this order: a signal handler may interrupt it, and then it can be closed again.
        _abandon(self._queue, self.future)
        self._forgotten.detach()


def _abandon(queue: _Queue, future: CallFuture[Any]) -> None:
    queue.refuse()
    future.cancel()
