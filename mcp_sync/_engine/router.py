"""Where messages go that are no answers: to the callbacks, and to the handlers of requests."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable, Optional, Union

from .. import types
from .._concurrency.deadline import Deadline
from .._concurrency.pending import PendingCall
from .._concurrency.workers import Workers
from .._protocol.eras import RELATED_TASK_KEY
from ..errors import RemoteError, UsageError
from ..extensions import Extension
from ..handlers import Callbacks
from ..options import Limits
from ..stats import Counters
from .answers import Answers
from .extensions import Extensions

callback_logger = logging.getLogger("mcp_sync.callbacks")

Respond = Callable[[dict[str, Any]], None]
Notified = Callable[[dict[str, Any]], None]

_NOBODY = Callbacks()


@dataclass(frozen=True)
class Crew:
    """The threads that a router has, all of them lazy.

    Attributes:
        worker: Takes notifications to the callbacks, strictly one after the other.
        handlers: Answer requests of the server: a person may think for minutes.
        sender: Makes small sends that must not hold a reader or a caller up.
    """

    worker: Workers
    handlers: Workers
    sender: Workers

    @classmethod
    def of(cls, name: str, limits: Limits) -> Crew:
        """Return that of a new client."""
        length = limits.queue_length
        return cls(
            Workers(name, "callbacks", 1, length),
            Workers(name, "handler", limits.handler_threads, length),
            Workers(name, "sender", 1, length),
        )


class Router:
    """Passes notifications and server requests on. Nothing here runs the user's code on a reader thread.

    Refers weakly to the callbacks: they mostly refer to the client, and what ends a forgotten client, which
    knows this router, must not be what keeps it alive.

    Args:
        answers: Holds the callbacks; belongs to the engine.
        crew: Its threads.
        extensions: Know further notifications.

    Attributes:
        crew, extensions: See above.
        worker, sender: Two of the crew.
        counters: Those of the client.
    """

    def __init__(self, answers: Answers, crew: Crew, extensions: Extensions) -> None:
        self._answers = weakref.ref(answers)
        self.crew = crew
        self.worker = crew.worker
        self.sender = crew.sender
        self.extensions = extensions
        self._watching: tuple[Notified, ...] = ()
        self.counters = Counters()
        # Guards the replacement of `_watching`; whoever reads it takes the tuple as it is.
        self._lock = threading.RLock()

    @property
    def callback_workers(self) -> tuple[Workers, ...]:
        """Whose threads run what the user gave: for notifications, and for requests of the server."""
        return self.worker, self.crew.handlers

    def watch(self, notified: Notified) -> None:
        """Have a function of ours see every notification, on the thread that reads it; it must not block."""
        with self._lock:
            self._watching = (*self._watching, notified)

    def unwatch(self, notified: Notified) -> None:
        """End what `watch` began."""
        with self._lock:
            self._watching = tuple(each for each in self._watching if each != notified)

    def notification(self, message: dict[str, Any], call: Optional[PendingCall]) -> None:
        """Show a notification to those that watch, and queue it for the callbacks that want it."""
        self.counters.notification()
        for notified in self._watching:
            notified(message)
        callbacks = self._callbacks()
        handler, log = callbacks.message, callbacks.logging
        extension = self.extensions.of_notification(message.get("method")) if self.extensions else None
        # The default does nothing, and needs neither a model nor a thread.
        if extension is not None and type(extension).notified is not Extension.notified:
            self._queue(lambda: self._notify_extension(extension, message), call)
        if handler is not None:
            self._queue(lambda: handler(self.extensions.parse(message)), call)
        if log is not None and message.get("method") == "notifications/message":
            self._queue(lambda: log(_log_params(message)), call)

    def _notify_extension(self, extension: Extension, message: dict[str, Any]) -> None:
        answers = self._answers()
        session = answers.session() if answers is not None else None
        if session is not None:
            extension.notified(session, self.extensions.parse(message))

    def report(self, error: Exception) -> None:
        """Queue a fault for the message handler."""
        handler = self._callbacks().message
        if handler is not None:
            self._queue(lambda: handler(error), None)

    def _callbacks(self) -> Callbacks:
        answers = self._answers()
        return answers.callbacks if answers is not None else _NOBODY

    def _queue(self, job: Callable[[], Any], call: Optional[PendingCall]) -> None:
        # Only a caller that reads its own response may wait for room; a shared reader must go on.
        self.worker.submit(job, wait=call, droppable=True)

    def request(self, message: Mapping[str, Any], calls: list[PendingCall], respond: Respond) -> bool:
        """Answer a request of the server: a refusal at once, the rest on a handler thread.

        Args:
            message: The request.
            calls: The calls in flight whose clocks stand still meanwhile.
            respond: Sends an answer; may block.

        Returns:
            Whether there will be an answer: too many may wait to be sent.
        """
        handler = self._callbacks().message
        if handler is not None:
            self._queue(lambda: handler(types.parse_server_request(dict(message))), None)
        answers = self._answers()
        if answers is None or not answers.has(str(message.get("method"))):
            return self.sender.submit(respond, error_response(message["id"], -32601, "Method not found"))
        for call in calls:
            call.deadline.hold()
        if self.crew.handlers.submit(self._handle, message, calls, respond):
            return True
        _release(calls)
        return self.sender.submit(respond, error_response(message["id"], -32603, "Too many requests"))

    def _handle(self, message: Mapping[str, Any], calls: list[PendingCall], respond: Respond) -> None:
        request_id: Union[str, int] = message["id"]
        try:
            answers = self._answers()
            if answers is None:
                raise UsageError("the client is gone")
            result = _related(message, answers.answer(message, request_id))
            response = {"jsonrpc": "2.0", "id": request_id, "result": result}
        except RemoteError as refusal:
            response = error_response(request_id, refusal.code, refusal.message, refusal.data)
        except BaseException:  # SystemExit too: the server waits, and this thread has more to do.
            callback_logger.exception("The callback for %s failed", message.get("method"))
            response = error_response(request_id, -32603, "Internal error")
        finally:
            _release(calls)
        respond(response)

    def close(self, deadline: Deadline) -> None:
        """Stop all threads. Notifications that have come are still delivered; all else is dropped."""
        self.worker.close(deadline, finish=True)
        self.crew.handlers.close(deadline)
        self.sender.close(deadline)

    def after_fork_in_child(self) -> None:
        """Forget the parent's threads."""
        self._lock = threading.RLock()
        self._watching = ()
        self.counters.after_fork_in_child()
        for workers in (self.worker, self.crew.handlers, self.sender):
            workers.after_fork_in_child()


def _related(request: Mapping[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """Say of an answer which task it is for, where the request says so ("Tasks", 2025-11-25)."""
    params = request.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    task = meta.get(RELATED_TASK_KEY) if isinstance(meta, dict) else None
    if not isinstance(task, dict):
        return result
    return {**result, "_meta": {**(result.get("_meta") or {}), RELATED_TASK_KEY: task}}


def _release(calls: list[PendingCall]) -> None:
    for call in calls:
        call.deadline.release()


def _log_params(message: dict[str, Any]) -> Any:
    return types.LoggingMessageNotificationParams.model_validate(message.get("params") or {})


def error_response(request_id: Union[str, int], code: int, message: str, data: Any = None) -> dict[str, Any]:
    """Build the JSON-RPC error that answers a request."""
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return {"jsonrpc": "2.0", "id": request_id, "error": error}
