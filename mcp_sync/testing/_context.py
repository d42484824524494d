"""What a tool of the fake server can do while it runs."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Callable, Optional

from ._rpc import (
    LOG_LEVELS,
    META_LOG_LEVEL,
    MISSING_CAPABILITY,
    URL_ELICITATION_REQUIRED,
    Message,
    RpcError,
    notification,
)

if TYPE_CHECKING:
    from ._exchange import Exchange
    from ._tasks import FakeTask

# What the client must have declared to be asked with a method.
_CAPABILITIES = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}


class NeedsInput(BaseException):
    """Unwinds a tool that has to wait for an input round; not an error that a tool might catch."""

    def __init__(self, requests: Mapping[str, Message], passed: Sequence[str] = ()) -> None:
        super().__init__()
        self.requests = requests
        self.passed = passed


class Abandoned(BaseException):
    """Unwinds a tool that waits for the client's answer when its request is cancelled."""


class ClientError(RpcError):
    """The client answered a question of the server with an error, or not in time."""


class ToolContext:
    """The request that a tool, prompt or resource function works for.

    On revisions with a handshake `elicit`, `sample` and `list_roots` send a request to the client and wait
    for the response. On the others they end the function; the client is told what is needed, comes again
    with the answers, and the function runs once more from its beginning, with the answers at hand. So
    what such a function does before it asks is done more than once.

    Attributes:
        message: The whole request.
        meta: Its ``_meta``, empty if it had none.
        version: The protocol revision of the request.
        cancelled: Set when the client no longer wants an answer. A slow tool does well to wait with
            ``context.cancelled.wait(seconds)``.
        headers: Those of the HTTP request, in lower case; empty elsewhere.
        task: The task that the function runs as, ``None`` where it runs within a request.
    """

    task: Optional[FakeTask] = None

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._asked = 0
        self.message = exchange.message
        self.meta = exchange.meta
        self.version = exchange.version
        self.headers = exchange.headers
        self.cancelled: threading.Event = exchange.cancelled

    def progress(self, progress: float, total: Optional[float] = None, message: Optional[str] = None) -> None:
        """Report progress, if the client asked for it."""
        token = self.meta.get("progressToken")
        if token is None:
            return
        params: Message = {"progressToken": token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        self.notify("notifications/progress", params)

    def log(self, level: str, data: Any, logger: Optional[str] = None) -> None:
        """Send a log message, if the client wants messages of this level."""
        least = (
            self.meta.get(META_LOG_LEVEL) if self._exchange.modern else self._exchange.connection.log_level
        )
        if least not in LOG_LEVELS or LOG_LEVELS.index(level) < LOG_LEVELS.index(least):
            return
        params: Message = {"level": level, "data": data}
        if logger is not None:
            params["logger"] = logger
        self.notify("notifications/message", params)

    def status(self, message: str) -> None:
        """Say how the task is getting on; does nothing where the function does not run as a task."""

    def start_task(self, function: Callable[[ToolContext], Any]) -> Message:
        """Begin a task in the middle of a call, for example after the client has been asked something.

        The tool has to return what this returns. The server has to offer tasks: by a tool with ``task=True``,
        or by ``extensions={"io.modelcontextprotocol/tasks": {}}``. On revisions with a handshake the function
        runs at once, and its result is that of the call.

        Args:
            function: What the task does; called with a context of its own, it returns what a tool returns.

        Raises:
            RpcError: The client has not declared that it knows tasks.
        """
        from ._task_methods import start_inside

        return start_inside(self, self._exchange, function)

    def notify(self, method: str, params: Optional[Message] = None) -> None:
        """Send any notification that belongs to this request."""
        self._exchange.send(notification(method, params))

    def elicit(self, message: str, requested_schema: Optional[Message] = None) -> Message:
        """Ask the user to fill in a form.

        Returns:
            The client's result: ``action`` and, when that is ``accept``, ``content``.
        """
        schema = requested_schema or {"type": "object", "properties": {}}
        return self.ask("elicitation/create", {"message": message, "requestedSchema": schema})

    def elicit_url(self, message: str, url: str, elicitation_id: Optional[str] = None) -> Message:
        """Ask the user to visit a page."""
        return self.ask("elicitation/create", self._visit(message, url, elicitation_id))

    def require_url(self, message: str, url: str, elicitation_id: str = "elicitation-1") -> Message:
        """Have the user visit a page before the call can go on.

        On revisions with a handshake the call fails with error -32042, until the test says by
        `FakeServer.complete_elicitation` that the page has been visited. On the others it is `elicit_url`.

        Raises:
            RpcError: The page is still to be visited, or the client never declared that it can be asked.
        """
        server = self._exchange.connection.server
        if self._exchange.modern:
            return self.elicit_url(message, url)
        if elicitation_id in server.completed_elicitations:
            return {"action": "accept"}
        visit = self._visit(message, url, elicitation_id)
        self._check_capability({"method": "elicitation/create", "params": visit})
        raise RpcError(
            URL_ELICITATION_REQUIRED, "This request requires more information", {"elicitations": [visit]}
        )

    def _visit(self, message: str, url: str, elicitation_id: Optional[str]) -> Message:
        visit: Message = {"mode": "url", "message": message, "url": url}
        if not self._exchange.modern:
            visit["elicitationId"] = elicitation_id or "elicitation-1"
            self._exchange.connection.elicitations.add(visit["elicitationId"])
        return visit

    def come_again(self) -> None:
        """End this round without a question: the client comes again at once, with the state.

        Does nothing where the revision has no input rounds, and in a task.
        """
        self._asked += 1
        key = f"round-{self._asked}"
        if self._exchange.modern and self.task is None and key not in self._exchange.answers:
            raise NeedsInput({}, [key])

    def sample(self, params: Message) -> Message:
        """Have the client's model write a message.

        Args:
            params: Those of ``sampling/createMessage``: ``messages``, ``maxTokens``, ...
        """
        return self.ask("sampling/createMessage", params)

    def list_roots(self) -> list[Message]:
        """Return the client's roots."""
        roots = self.ask("roots/list", {}).get("roots")
        return roots if isinstance(roots, list) else []

    def ask(self, method: str, params: Message) -> Message:
        """Put one request to the client and return its result.

        Raises:
            ClientError: The client answered with an error, or not in time.
            RpcError: The client never declared that it can be asked.
        """
        self._asked += 1
        key = f"input-{self._asked}"
        return self.ask_all({key: {"method": method, "params": params}})[key]

    def ask_all(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        """Put several requests to the client, in one input round where the revision has such.

        Args:
            requests: ``{"method": ..., "params": ...}`` by keys of your choice.

        Returns:
            The client's results by the same keys.

        Raises:
            ClientError, RpcError: As `ask`.
        """
        for request in requests.values():
            self._check_capability(request)
        return self._answers_to(requests)

    def _answers_to(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        if self._exchange.modern:
            answers = self._exchange.answers
            missing = {key: request for key, request in requests.items() if key not in answers}
            if missing:
                raise NeedsInput(missing)
            return {key: answers[key] for key in requests}
        return {key: self._exchange.ask(**request) for key, request in requests.items()}

    def _check_capability(self, request: Message) -> None:
        name = _CAPABILITIES.get(request["method"])
        declared = self._exchange.capabilities
        if name is None or _is_declared(declared.get(name), request["params"].get("mode", "form")):
            return
        needed: Message = {"url": {}} if request["params"].get("mode") == "url" else {}
        raise RpcError(
            MISSING_CAPABILITY if self._exchange.modern else -32600,
            f"The client did not declare the capability {name}{'.url' if needed else ''}",
            {"requiredCapabilities": {name: needed}},
        )


def _is_declared(settings: Any, mode: str) -> bool:
    """Whether a capability is declared; one that names no mode stands for forms."""
    if not isinstance(settings, dict):
        return False
    return mode in settings or (mode == "form" and "url" not in settings)
