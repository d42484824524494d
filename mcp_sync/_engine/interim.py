"""A call that has a result of an extension's kind, and goes on until the final one is there."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional

from .._concurrency.deadline import Deadline
from .._concurrency.fork import no_fork
from .._concurrency.pending import PendingCall
from .._protocol.methods import MethodSpec
from ..errors import ClientClosed, MCPError, UsageError
from .call_options import CallOptions
from .outbox import LAST_WORD
from .waits import settled_in_time

if TYPE_CHECKING:
    from ..handlers import ProgressCallback
    from ..session import ClientSession
    from .engine import Engine

logger = logging.getLogger("mcp_sync.callbacks")


class InterimCall:
    """See `mcp_sync.extensions.Interim`."""

    def __init__(
        self,
        engine: Engine,
        spec: MethodSpec,
        params: Mapping[str, Any],
        options: CallOptions,
        deadline: Deadline,
        result: Mapping[str, Any],
    ) -> None:
        self._engine = engine
        self._spec = spec
        self._options = options
        self._deadline = deadline
        self.method = spec.method
        self.params = params
        self.result = result
        self._reported = False
        # Set and read in single steps: whoever sets one looks at the other afterwards, so no wake is missed.
        self._woken = False
        self._waiter: Optional[PendingCall] = None

    @property
    def session(self) -> ClientSession:
        """The client."""
        session = self._engine.answers.session()
        if session is None:
            raise UsageError("the client is gone")
        return session

    def call(self, method: str, params: Mapping[str, Any], silence: Optional[float] = None) -> dict[str, Any]:
        """See `Interim.call`."""
        given = self._options
        options = CallOptions(headers=given.headers, cancel=given.cancel, capabilities=given.capabilities)
        spec = self._engine.plan.extensions.spec_of(method)
        deadline = self._deadline
        if silence is not None:
            deadline = deadline.with_silence(min(silence, deadline.silence or silence))
        return self._engine.call_raw(spec, dict(params), options, deadline)

    @property
    def left(self) -> Optional[float]:
        """The seconds that the call has left, ``None`` for no bound."""
        return self._deadline.remaining()

    @property
    def handshake(self) -> bool:
        """Whether the server speaks a revision with a handshake; opens a connection if there is none."""
        return self._engine.connection(self._deadline, self._options.cancel).era.handshake

    @property
    def can_reopen(self) -> bool:
        """Whether there may be a connection again, where the last one is lost."""
        engine = self._engine
        return not engine.is_lost or (engine.plan.reopen and not engine.takes_up)

    def pause(self, seconds: float) -> None:
        """See `Interim.pause`. Needs no connection: the server may be away meanwhile."""
        cancel, deadline = self._options.cancel, self._deadline
        waiter = PendingCall(0, self.method, deadline.within(seconds))
        pause = _Pause(waiter)
        self._engine.accompany(pause)
        try:
            self._waiter = waiter
            if self._woken:
                waiter.settle({})
            settled_in_time(waiter, cancel)
        finally:
            self._waiter = None
            self._woken = False
            self._engine.part(pause)
        deadline.touch()
        if deadline.expired:
            connection = self._engine.latest(deadline, cancel)
            raise connection.timeout_error(PendingCall(0, self.method, deadline))

    def wake(self) -> None:
        """See `Interim.wake`."""
        self._woken = True
        waiter = self._waiter
        if waiter is not None:
            waiter.settle({})

    def answer(self, requests: Mapping[str, Any]) -> dict[str, Any]:
        """See `Interim.answer`."""
        if self._options.pause and requests:
            with no_fork():
                from .pausing import paused
            version = self._engine.connection(self._deadline, self._options.cancel).era.version
            asked = {"inputRequests": dict(requests)}
            raise paused(self._engine.plan, version, self._spec, self.params, self._options.meta, asked)
        return self._engine.answer_inputs(requests, self._spec, self.result, self._deadline)

    def report(self, progress: float, total: Optional[float] = None, message: Optional[str] = None) -> None:
        """See `Interim.report`."""
        self._deadline.touch()
        take = self._options.progress
        if take is None:
            return
        worker = self._engine.router.worker
        if worker.is_worker():
            _report_inline(take, progress, total, message)
        else:
            self._reported = worker.submit(take, progress, total, message, urgent=True) or self._reported

    def drain(self) -> None:
        """Wait until the ``progress_callback`` has seen all reports, within the time of the call."""
        if self._reported:
            patience = self._engine.plan.settings.timeouts.close
            self._engine.router.worker.drain(self._deadline, patience)

    def tell(self, method: str, params: Mapping[str, Any]) -> None:
        """See `Interim.tell`."""
        told = threading.Event()
        if self._engine.router.sender.submit(self._tell, method, params, told):
            told.wait(LAST_WORD)

    def _tell(self, method: str, params: Mapping[str, Any], told: threading.Event) -> None:
        options = CallOptions(headers=self._options.headers)
        spec = self._engine.plan.extensions.spec_of(method)
        deadline = Deadline(self._engine.plan.settings.timeouts.close)
        try:
            self._engine.call_raw(spec, dict(params), options, deadline)
        except MCPError:
            pass  # It was worth a try.
        finally:
            told.set()


class _Pause:
    """Ends the pause of a call when its client is closed. See `lifecycle.Companion`."""

    def __init__(self, waiter: PendingCall) -> None:
        self._waiter = waiter
        self.threads: list[threading.Thread] = []

    def stop(self) -> None:
        """Wake who waits."""
        self._waiter.fail(ClientClosed("the client was closed"))

    def after_fork_in_child(self) -> None:
        """Do nothing: the thread that waits is one of the parent."""


def _report_inline(
    take: ProgressCallback, progress: float, total: Optional[float], message: Optional[str]
) -> None:
    """Run a callback on the thread of the callbacks itself, which cannot run anything else meanwhile."""
    try:
        take(progress, total, message)
    except BaseException:  # As the worker has it: this is its thread.
        logger.exception("A progress callback failed")
