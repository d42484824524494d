"""One connection of the fake server, and one request on it."""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

from .._concurrency.deadline import Deadline
from .._concurrency.pending import PendingCall
from . import _dispatch, _rounds
from ._context import Abandoned, ClientError, NeedsInput
from ._rpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    META_CAPABILITIES,
    META_VERSION,
    Message,
    RpcError,
    Send,
    error_response,
    meta_of,
    params_of,
    request_message,
)
from ._striking import altered

if TYPE_CHECKING:
    from ._faults import Fault
    from ._server import FakeServer

logger = logging.getLogger("mcp_sync.testing")

# One count for all servers: an answer can never be taken for that of another connection.
_request_numbers = itertools.count(1)


class Exchange:
    """One request of the client, from its arrival to its answer.

    Attributes:
        modern: Whether the request belongs to a revision without a handshake.
        cancelled: Set when the client gave it up.
        fault: What is to go wrong with the answer.
        headers: Those of the HTTP request that brought it, in lower case; empty elsewhere.
    """

    fault: Optional[Fault] = None
    headers: Mapping[str, str] = {}

    def __init__(self, connection: Connection, message: Message, send: Send) -> None:
        self.connection = connection
        self.message = message
        self.method = message["method"]
        self.params = params_of(message)
        self.meta = meta_of(message)
        self.modern = _dispatch.is_modern(self)
        self.cancelled = threading.Event()
        self._send = send
        self._on_cancel: list[Callable[[], None]] = []
        # Guards `_on_cancel` against the moment of cancelling; the callbacks run outside of it.
        self._lock = threading.Lock()

    @property
    def version(self) -> str:
        """The revision that the request names, or that the handshake agreed on."""
        return str(self.meta.get(META_VERSION, "")) if self.modern else self.connection.version

    @property
    def principal(self) -> Optional[str]:
        """Who makes the request, ``None`` if the server does not tell its clients apart."""
        tell = self.connection.server.principal
        return None if tell is None else tell(self.headers)

    @property
    def capabilities(self) -> Message:
        """What the client declared, with this request or in the handshake."""
        declared = self.meta.get(META_CAPABILITIES) if self.modern else self.connection.capabilities
        return declared if isinstance(declared, dict) else {}

    @property
    def answers(self) -> dict[str, Message]:
        """The client's answers of all input rounds so far.

        Raises:
            RpcError: The state that came with them is not what this server gave out for this request.
        """
        return _rounds.answers(self)

    def send(self, message: Message) -> None:
        """Send something that belongs to this request; nothing once it is cancelled."""
        if not self.cancelled.is_set():
            self._send(message)

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Have ``callback`` called when the request is cancelled, at once if it is already."""
        with self._lock:
            if not self.cancelled.is_set():
                self._on_cancel.append(callback)
                return
        callback()

    def cancel(self) -> None:
        """Note that nobody waits for the answer any more."""
        with self._lock:
            self.cancelled.set()
            callbacks, self._on_cancel = self._on_cancel, []
        for callback in callbacks:
            callback()

    def ask(self, method: str, params: Message) -> Message:
        """Send a request to the client and wait for the answer.

        Raises:
            ClientError: The client answered with an error, or not in time.
            Abandoned: The client cancelled the request that this one belongs to.
        """
        number = next(_request_numbers)
        pending = PendingCall(number, method, Deadline(self.connection.server.answer_timeout))
        self.on_cancel(lambda: _abandon(pending))
        with self.connection.awaiting(pending):
            self.send(request_message(number, method, params))
            if not pending.wait():
                raise ClientError(INTERNAL_ERROR, f"The client did not answer {method} in time")
        reply = pending.result()
        error = reply.get("error")
        if isinstance(error, dict):
            raise ClientError(error.get("code", INTERNAL_ERROR), str(error.get("message")), error.get("data"))
        result = reply.get("result")
        return result if isinstance(result, dict) else {}

    def run(self) -> Optional[Message]:
        """Answer the request.

        Returns:
            The response; ``None`` if there is to be none.
        """
        try:
            result = _dispatch.answer(self)
        except RpcError as error:
            reply: Optional[Message] = self._error(error.code, error.message, error.data)
        except NeedsInput as need:
            needed = _rounds.input_required(self, need)
            reply = self._result(_dispatch.completed(self, needed))
        except Abandoned:
            reply = None
        except Exception as error:
            logger.exception("%s failed", self.method)
            reply = self._error(INTERNAL_ERROR, f"{type(error).__name__}: {error}")
        else:
            reply = None if result is None else self._result(result)
        finally:
            self.connection.forget(self)
        if reply is None or self.cancelled.is_set():
            return None
        return altered(reply, self.fault, self.send)

    def _result(self, result: Message) -> Message:
        return {"jsonrpc": "2.0", "id": self.message["id"], "result": result}

    def _error(self, code: int, message: str, data: Any = None) -> Message:
        return error_response(self.message["id"], code, message, data)


class Connection:
    """What a server remembers of one connection.

    Attributes:
        version: What the handshake agreed on, empty before it.
        capabilities: What the client declared in the handshake.
        log_level: The least level of log messages that it wants.
        subscribed: The URIs whose updates it wants.
        elicitations: The ids of the pages that it was asked to visit.
        send: Where messages go that belong to no request, ``None`` if there is no such way.
    """

    def __init__(self, server: FakeServer) -> None:
        self.server = server
        self.version = ""
        self.capabilities: Message = {}
        self.log_level = "debug"
        self.subscribed: set[str] = set()
        self.elicitations: set[str] = set()
        self.send: Optional[Send] = None
        # Guards the two tables; nothing runs and nothing waits under it.
        self._lock = threading.Lock()
        self._exchanges: set[Exchange] = set()
        self._asked: dict[int, PendingCall] = {}

    def handle(self, message: Any, send: Send) -> Optional[Message]:
        """Take one message of the client and return the response, if one is due."""
        exchange = self.accept(message, send)
        if isinstance(exchange, Exchange):
            return exchange.run()
        return exchange

    def accept(self, message: Any, send: Send) -> Union[Exchange, Message, None]:
        """Take one message without running what it asks for.

        Returns:
            For a request the `Exchange` to run; a response if the message is refused; otherwise ``None``.
        """
        self.server.record(message)
        if not isinstance(message, dict):
            return error_response(None, INVALID_REQUEST, "A message must be a JSON object")
        if "method" not in message:
            self._take_answer(message)
            return None
        if not isinstance(message["method"], str):
            return error_response(message.get("id"), INVALID_REQUEST, "The method must be a string")
        if "id" not in message:
            self._take_notification(message)
            return None
        exchange = Exchange(self, message, send)
        with self._lock:
            self._exchanges.add(exchange)
        return exchange

    def _take_answer(self, message: Message) -> None:
        number = message.get("id")
        with self._lock:
            pending = self._asked.get(number) if isinstance(number, int) else None
        if pending is not None:
            pending.settle(message)

    def _take_notification(self, message: Message) -> None:
        if message["method"] == "notifications/cancelled":
            self.cancel(params_of(message).get("requestId"))
        override = self.server.overrides.get(message["method"])
        if override is not None:
            override.function(message)

    def begin(self, capabilities: Any) -> None:
        """Forget what an earlier handshake left; ``capabilities`` are what the client declares now."""
        self.capabilities = capabilities if isinstance(capabilities, dict) else {}
        self.log_level = "debug"
        self.subscribed = set()

    @contextlib.contextmanager
    def awaiting(self, pending: PendingCall) -> Iterator[None]:
        """Within it, the client's answer finds its way to ``pending``."""
        with self._lock:
            self._asked[pending.id] = pending
        try:
            yield
        finally:
            with self._lock:
                del self._asked[pending.id]

    def tell(self, message: Message) -> None:
        """Send a message that belongs to no request, if there is a way."""
        send = self.send
        if send is not None:
            send(message)

    def forget(self, exchange: Exchange) -> None:
        """Note that a request has been answered."""
        with self._lock:
            self._exchanges.discard(exchange)

    def cancel(self, request_id: Any) -> None:
        """Cancel the request with this id, if it is in flight."""
        with self._lock:
            found = [exchange for exchange in self._exchanges if exchange.message["id"] == request_id]
        for exchange in found:
            exchange.cancel()

    def close(self) -> None:
        """Cancel all that is in flight: the client is gone."""
        with self._lock:
            found = list(self._exchanges)
        self.send = None
        for exchange in found:
            exchange.cancel()


def _abandon(pending: PendingCall) -> None:
    pending.fail(Abandoned())
