"""Channels whose other end is the test itself.

`DuplexTarget` makes channels with one stream and a reader thread, like stdio; `PostTarget` makes channels
on which each call reads its own response, like Streamable HTTP. In both, methods that have a script are
answered by it, and everything else waits for the test.
"""

from __future__ import annotations

import itertools
import json
import queue
import threading
from collections.abc import Hashable, Mapping
from typing import Any, Callable, Optional

from mcp_sync._concurrency.deadline import Deadline
from mcp_sync._concurrency.pending import PendingCall
from mcp_sync._protocol.frames import Frame, Wire
from mcp_sync.errors import CallTimeout, ConnectionLost, MCPError
from mcp_sync.testing import RpcError
from mcp_sync.transports._base import Inbound, Settings

PATIENCE = 10.0  # seconds after which a test that waits for a message has failed

Message = dict[str, Any]
Script = Callable[[Message], Any]
"""Takes a request and returns its result, an `RpcError` to answer with, an `MCPError` that ends the
connection (of a POST: the request), or ``None``: no answer. Of a POST also a list, which begins with
messages to deliver, and functions to call in between."""

MODERN = "2026-07-28"
LEGACY = "2025-11-25"


def modern(**more: Script) -> dict[str, Script]:
    """Script a server without a handshake; further methods by name, with ``_`` for ``/``."""
    result = {"supportedVersions": [MODERN], "capabilities": {}}
    return {"server/discover": lambda request: result, **_by_method(more)}


def in_turn(*outcomes: Any) -> dict[str, Script]:
    """Script a server without a handshake whose tools have these outcomes, one call after the other."""
    left = iter(outcomes)
    return modern(tools_call=lambda request: next(left))


def needs(state: Optional[str] = None, **requests: Any) -> Message:
    """Return a result that asks for input."""
    result: Message = {"resultType": "input_required"}
    if requests:
        result["inputRequests"] = requests
    if state is not None:
        result["requestState"] = state
    return result


def legacy(version: str = LEGACY, **more: Script) -> dict[str, Script]:
    """Script a server with a handshake; further methods by name, with ``_`` for ``/``."""
    info = {"name": "scripted", "version": "1"}
    result = {"protocolVersion": version, "capabilities": {"logging": {}}, "serverInfo": info}
    return {
        "server/discover": lambda request: refusal(-32601, "Method not found"),
        "initialize": lambda request: result,
        **_by_method(more),
    }


def _by_method(scripts: Mapping[str, Script]) -> dict[str, Script]:
    return {name.replace("_", "/"): script for name, script in scripts.items()}


def text(words: str, **more: Any) -> Message:
    """Build the result of a tool."""
    return {"content": [{"type": "text", "text": words}], **more}


def refusal(code: int, message: str = "refused", data: Any = None) -> RpcError:
    """Build an error for a script to answer with."""
    return RpcError(code, message, data)


def reply_to(request: Message, outcome: Any) -> Message:
    """Build the response to a request."""
    if isinstance(outcome, RpcError):
        fault = {"code": outcome.code, "message": outcome.message, "data": outcome.data}
        return {"jsonrpc": "2.0", "id": request["id"], "error": fault}
    return {"jsonrpc": "2.0", "id": request["id"], "result": outcome}


class Channel:
    """What both kinds have in common: a record of what the client sent."""

    peer = "scripted server"
    is_http = False
    duplex = False
    session_id: Optional[str] = None

    def __init__(self, scripts: Mapping[str, Script]) -> None:
        self.scripts = dict(scripts)
        self.sent: list[Message] = []
        self.frames: list[Frame] = []
        self.wires: list[Wire] = []
        self.inbound: Optional[Inbound] = None
        self.closed = threading.Event()
        self.abandoned = False
        self._arrived = threading.Condition()
        self._taken = 0

    def start(self, inbound: Inbound, deadline: Deadline) -> None:
        self.inbound = inbound

    def configure(self, wire: Wire) -> None:
        self.wires.append(wire)

    def record(self, frame: Frame) -> Message:
        message: Message = json.loads(frame.body)
        with self._arrived:
            self.sent.append(message)
            self.frames.append(frame)
            self._arrived.notify_all()
        return message

    def send(self, frame: Frame, deadline: Deadline) -> None:
        if self.closed.is_set():
            raise ConnectionLost("closed", request_sent=False)
        self.record(frame)

    def try_send(self, frame: Frame) -> bool:
        self.record(frame)
        return True

    def discard(self) -> None:
        self.close(Deadline(0.0))

    def close(self, deadline: Deadline) -> None:
        self.closed.set()

    def abandon(self) -> None:
        self.abandoned = True

    # --- for the test ------------------------------------------------------------------------------------

    def expect(self, method: Optional[str] = None, count: int = 1) -> Any:
        """Wait for messages of a method (``None``: responses) and return the last one, or all if several."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: len(self.received(method)) >= count, PATIENCE):
                raise AssertionError(f"no {method or 'response'} came, only {self.sent}")
            found = self.received(method)
        return found[count - 1] if count == 1 else found

    def received(self, method: Optional[str] = None) -> list[Message]:
        """Return what has come so far of a method (``None``: responses)."""
        return [message for message in list(self.sent) if message.get("method") == method]


class DuplexChannel(Channel):
    """One stream for all calls, read by a thread that the test feeds."""

    duplex = True

    def __init__(self, scripts: Mapping[str, Script]) -> None:
        super().__init__(scripts)
        self._inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, name="scripted-reader", daemon=True)

    def start(self, inbound: Inbound, deadline: Deadline) -> None:
        super().start(inbound, deadline)
        self._reader.start()

    def request(self, frame: Frame, call: PendingCall) -> None:
        if self.closed.is_set():
            raise ConnectionLost("closed", request_sent=False)
        call.request_sent = True
        message = self.record(frame)
        script = self.scripts.get(message["method"])
        outcome = script(message) if script is not None else None
        if isinstance(outcome, MCPError):
            self.lose(outcome)
        elif outcome is not None:
            self.say(reply_to(message, outcome))

    def _read(self) -> None:
        for item in iter(self._inbox.get, None):
            item()

    def close(self, deadline: Deadline) -> None:
        self.closed.set()
        self._inbox.put(None)
        if self._reader.is_alive() and self._reader is not threading.current_thread():
            self._reader.join(deadline.remaining())

    # --- for the test ------------------------------------------------------------------------------------

    def say(self, *messages: Any) -> None:
        """Have the reader thread deliver messages."""
        assert self.inbound is not None
        for message in messages:
            self._inbox.put(lambda message=message: self.inbound.receive(message))  # type: ignore[misc, union-attr]

    def notify(self, method: str, **params: Any) -> None:
        """Say a notification."""
        self.say({"jsonrpc": "2.0", "method": method, "params": params})

    def answer(self, request: Message, outcome: Any) -> None:
        """Say the response to a request."""
        self.say(reply_to(request, outcome))

    def lose(self, reason: MCPError) -> None:
        """Have the reader thread declare the connection lost."""
        self._inbox.put(lambda: self.inbound.lost(reason))  # type: ignore[union-attr]

    def sync(self) -> None:
        """Wait until the reader has handled everything that was said so far."""
        reached = threading.Event()
        self._inbox.put(reached.set)
        assert reached.wait(PATIENCE)


class PostChannel(Channel):
    """Each call reads its own response, on its own thread."""

    is_http = True

    def request(self, frame: Frame, call: PendingCall) -> None:
        call.request_sent = True
        message = self.record(frame)
        script = self.scripts.get(message["method"])
        outcome = script(message) if script is not None else None
        if isinstance(outcome, MCPError):
            raise outcome
        if isinstance(outcome, list):
            for part in outcome[:-1]:
                if call.deadline.expired:
                    raise CallTimeout("nothing came in time", request_sent=True)
                if callable(part):
                    part()
                else:
                    self.deliver(part, call)
            outcome = outcome[-1]
        if outcome is None:
            self._linger(call)
        else:
            self.deliver(reply_to(message, outcome), call)

    def deliver(self, message: Any, call: PendingCall) -> None:
        assert self.inbound is not None
        self.inbound.receive(message, call)

    def _linger(self, call: PendingCall) -> None:
        woken = threading.Event()
        if call.attach(woken.set) and not woken.wait(call.deadline.remaining()):
            raise CallTimeout("nothing came", request_sent=True)

    def try_send(self, frame: Frame) -> bool:
        return False


_numbers = itertools.count(1)


class Target:
    """What a client is given; keeps the channels that it made."""

    kind: type[Any] = DuplexChannel

    def __init__(self, scripts: Optional[Mapping[str, Script]] = None) -> None:
        self.scripts = modern() if scripts is None else scripts
        self.channels: list[Any] = []
        self._number = next(_numbers)

    def identity(self) -> Hashable:
        return ("scripted", self._number)

    def channel(self, settings: Settings) -> Any:
        made = self.kind(self.scripts)
        self.channels.append(made)
        return made

    @property
    def now(self) -> Any:
        """The newest channel."""
        return self.channels[-1]


class DuplexTarget(Target):
    """Makes `DuplexChannel`."""


class PostTarget(Target):
    """Makes `PostChannel`."""

    kind = PostChannel
