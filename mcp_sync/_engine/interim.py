"""A call that has a result of an extension's kind, and goes on until the final one is there."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional

from .._concurrency.deadline import Deadline
from .._protocol.methods import MethodSpec
from ..errors import MCPError, UsageError
from .connection import LAST_WORD, CallOptions

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

    @property
    def session(self) -> ClientSession:
        """The client."""
        session = self._engine.answers.session()
        if session is None:
            raise UsageError("the client is gone")
        return session

    def call(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """See `Interim.call`."""
        options = CallOptions(headers=self._options.headers, cancel=self._options.cancel)
        spec = self._engine.plan.extensions.spec_of(method)
        return self._engine.call_raw(spec, dict(params), options, self._deadline)

    def pause(self, seconds: float) -> None:
        """See `Interim.pause`."""
        connection = self._engine.connection(self._deadline, self._options.cancel)
        connection.pause(self._spec, seconds, self._options.cancel, self._deadline)

    def answer(self, requests: Mapping[str, Any]) -> dict[str, Any]:
        """See `Interim.answer`."""
        return self._engine.answer_inputs(requests, self._spec, self.result, self._deadline)

    def report(self, progress: float, total: Optional[float] = None, message: Optional[str] = None) -> None:
        """See `Interim.report`."""
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


def _report_inline(
    take: ProgressCallback, progress: float, total: Optional[float], message: Optional[str]
) -> None:
    """Run a callback on the thread of the callbacks itself, which cannot run anything else meanwhile."""
    try:
        take(progress, total, message)
    except BaseException:  # As the worker has it: this is its thread.
        logger.exception("A progress callback failed")
