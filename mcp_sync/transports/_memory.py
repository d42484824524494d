"""A server in the same process, called without any connection."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Callable, Optional, Protocol

from .._concurrency.deadline import Deadline
from .._concurrency.pending import PendingCall
from .._concurrency.threads import spawn
from ..errors import CallTimeout, ConnectionLost, UsageError
from ._base import Frame, Inbound, Settings, Wire

logger = logging.getLogger("mcp_sync.transports.memory")

_INTERNAL_ERROR = -32603
_targets = itertools.count(1)


class MemoryServer(Protocol):
    """What `InMemory` needs of a server. `mcp_sync.testing.FakeServer` is one."""

    def handle(
        self, message: dict[str, Any], send: Callable[[dict[str, Any]], None]
    ) -> Optional[dict[str, Any]]:
        """Take one message of the client, on the client's thread; may be called by many threads at once.

        Args:
            message: The decoded message, a fresh value.
            send: Takes notifications and requests of the server. It may be kept and called later,
                from any thread.

        Returns:
            The JSON-RPC response to a request, otherwise ``None``. An exception becomes the JSON-RPC
            error -32603.
        """


@dataclass(frozen=True, eq=False)
class InMemory:
    """A server object in the same process; mostly for tests.

    Its ``handle(message, send)`` is called on the thread that makes the call. Messages pass through JSON
    both ways, so that either side sees what a real connection would carry.

    Neither a timeout nor a cancel token can interrupt that thread: the call ends when ``handle`` returns,
    and raises `CallTimeout` or `CallCancelled` only then. To test slow, silent or cancelled servers, use
    ``FakeServer.serve_http()``. A server that needs an answer of the client (to
    ``elicitation/create``, say) waits for it inside ``handle``; another thread brings it by calling
    ``handle`` with the response.

    Args:
        server: Any object with such a method, for example a `mcp_sync.testing.FakeServer`. It belongs to
            the caller and is never closed.

    Raises:
        UsageError: ``server`` has no method ``handle``.
    """

    server: Any
    _number: int = field(init=False, default_factory=lambda: next(_targets))

    def __post_init__(self) -> None:
        if not callable(getattr(self.server, "handle", None)):
            raise UsageError(
                "InMemory needs an object with a method handle(message, send), "
                f"not {type(self.server).__name__}"
            )

    def __repr__(self) -> str:
        return f"InMemory({type(self.server).__name__})"

    def identity(self) -> Hashable:
        """Return a key of its own for each target: objects come and go, and their addresses with them."""
        return ("memory", self._number)

    def channel(self, settings: Settings) -> MemoryChannel:
        """Make a new channel."""
        return MemoryChannel(self.server)


class MemoryChannel:
    """Calls the server's ``handle`` on the calling thread."""

    peer = "in-memory server"
    is_http = False
    duplex = False
    session_id: Optional[str] = None

    def __init__(self, server: MemoryServer) -> None:
        self._server = server
        self._inbound: Optional[Inbound] = None
        # The requests that are inside `handle`, by their ids. Single operations only, so it needs no lock.
        self._inside: dict[int, str] = {}

    def start(self, inbound: Inbound, deadline: Deadline) -> None:
        """Take note of the engine; there is nothing to connect."""
        self._inbound = inbound

    def configure(self, wire: Wire) -> None:
        """Do nothing: the revision makes no difference here."""

    def request(self, frame: Frame, call: PendingCall) -> None:
        """Have the server answer a request, on this thread."""
        inbound = self._inbound
        if inbound is None:
            raise ConnectionLost(f"{call.method}: the {self.peer} is closed", request_sent=False)
        sender = _Sender(self, call)
        message = json.loads(frame.body)
        call.request_sent = True
        self._inside[call.id] = call.method
        if call.on_notification is not None:
            # The server is asked to end a request that has no end of its own, by a thread that can wait.
            call.attach(lambda: self._cancel_apart(call))
        try:
            reply = self._answer(message, sender)
            if call.deadline.expired and not call.settled:
                raise self._too_late(call)
            if reply is not None:
                inbound.receive(reply, call)
            if not call.settled:
                raise ConnectionLost(f"{call.method}: the {self.peer} gave no answer", request_sent=True)
        finally:
            call.detach()
            del self._inside[call.id]
            sender.call = None

    def _too_late(self, call: PendingCall) -> CallTimeout:
        bound = call.deadline.reached
        text = f"{call.method}: no answer from the {self.peer} within {bound:g} s"
        return CallTimeout(text, timeout=bound, request_sent=True)

    def _answer(self, message: dict[str, Any], sender: _Sender) -> Optional[dict[str, Any]]:
        try:
            reply = self._server.handle(message, sender)
            return None if reply is None else _through_json(reply)
        except Exception as error:
            logger.exception("%s failed in the in-memory server", message.get("method"))
            fault = {"code": _INTERNAL_ERROR, "message": f"{type(error).__name__}: {error}"}
            return {"jsonrpc": "2.0", "id": message.get("id"), "error": fault}

    def send(self, frame: Frame, deadline: Deadline) -> None:
        """Pass a notification or a response to the server, on this thread."""
        if self._inbound is None:
            raise ConnectionLost(f"the {self.peer} is closed", request_sent=False)
        self._tell(json.loads(frame.body))

    def _cancel_apart(self, call: PendingCall) -> None:
        message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": call.id}}
        spawn("memory", "cancel", self._tell, message)

    def _tell(self, message: dict[str, Any]) -> None:
        try:
            self._server.handle(message, _Sender(self, None))
        except Exception:
            # Whoever sends over a real connection does not learn of it either.
            logger.exception("The in-memory server failed at %s", message.get("method", "a response"))

    def try_send(self, frame: Frame) -> bool:
        """Return ``False``: nobody knows how long the server takes."""
        return False

    def close(self, deadline: Deadline) -> None:
        """Part from the server. Requests still inside it are cancelled, as a disconnect would tell it."""
        if self._inbound is None:
            return
        self._inbound = None
        for request_id, method in list(self._inside.items()):
            if method != "initialize":
                params = {"requestId": request_id, "reason": "the client was closed"}
                self._tell({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    def discard(self) -> None:
        """Part from the server without running any of its code."""
        self._inbound = None

    def deliver(self, message: dict[str, Any], call: Optional[PendingCall]) -> None:
        """Pass on what the server sent by itself; nobody is there to take it after `close`."""
        inbound = self._inbound
        if inbound is not None:
            inbound.receive(_through_json(message), call)

    def abandon(self) -> None:
        """Do nothing: a fork copies the server too."""


class _Sender:
    """The ``send`` of one message: delivers for its call while that lasts, later for the connection."""

    def __init__(self, channel: MemoryChannel, call: Optional[PendingCall]) -> None:
        self._channel = channel
        self.call = call

    def __call__(self, message: dict[str, Any]) -> None:
        self._channel.deliver(message, self.call)


def _through_json(message: Any) -> Any:
    return json.loads(json.dumps(message))
